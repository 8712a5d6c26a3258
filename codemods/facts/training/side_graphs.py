"""Functions that compute on what models returned, and hand on nothing that could be differentiated.

The assignment of targets in detection: it compares predictions with labels, and returns indices.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import scope_of
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import External, library_names
from codemods.facts.autograd.uses import needs_gradients
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason
from codemods.facts.training.evaluation_region import EvaluationRegion
from codemods.facts.training.graph_uses import escape
from codemods.facts.training.iterations import called_functions, own
from codemods.facts.training.modes import functions_of, is_no_evaluation
from codemods.facts.training.seen_tensors import changed_by
from codemods.library.operators import Memory, Operator, operator
from codemods.library.operators import function as torch_function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.training.graph_obstacles import GraphObstacles
    from codemods.facts.training.graph_uses import GraphUses

_SEVERAL = 3
"""Fewer tensors with a graph, each under a name, are not worth a line."""


class SideGraphs:
    """Finds functions that are given graphs, compute with them and use nothing of it."""

    def __init__(self, flow: Flow, uses: GraphUses, obstacles: GraphObstacles) -> None:
        self._flow = flow
        self._uses = uses
        self._obstacles = obstacles
        self._found: set[Callee] = set()

    def find(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The functions of a module, without those that evaluate as a whole."""
        for function in functions_of(self._flow, module):
            if function in whole or is_no_evaluation(self._flow, module, function) or not self._is_one(function):
                continue
            self._found.add(function)
            why_not = self._why_changes(function) or self._obstacles.of_function(function, None)
            if why_not is not None and why_not.code == "shared-autocast":
                why_not = None  # no weights are cast in it
            yield EvaluationRegion(self._flow, module, function, (), (), (), why_not)

    def _is_one(self, function: FunctionNode) -> bool:
        # What is quickly asked comes first: who is given graphs is known once all models are followed.
        scope = scope_of(function)
        is_small = len(scope.bound | scope.local | scope.outer_bound) <= _SEVERAL
        if is_small or function in self._uses.iterations.training_functions:
            return False
        if any(map(self._uses.computes, own(function, ast.Call))) or needs_gradients(self._flow, function) is not None:
            return False
        given = self._uses.given_graphs.get(function)
        if not given or self._is_without(function):
            return False
        course = self._uses.strict.function(function, given)
        # What comes from elsewhere may have a graph as well: a function that reads a list of axes computes nothing.
        computed = self._uses.strictly_outside.function(function, given).ever - given
        is_enough = len(computed) >= _SEVERAL
        return escape(course) is None and is_enough and not self._gives_to_numpy(function, course.ever)

    def _gives_to_numpy(self, function: FunctionNode, carrying: frozenset[str]) -> bool:
        """Whether what may have a graph goes to NumPy, which takes nothing that has one."""
        return any(
            isinstance(value, External) and value.name.startswith("numpy.")
            for call in own(function, ast.Call)
            if any(isinstance(each, ast.Name) and each.id in carrying for given in call.args for each in walk(given))
            for value in self._flow.values(call.func)
        )

    def _is_without(self, function: FunctionNode) -> bool:
        """Whether it runs without gradients already, or will after the change of all that call it."""
        modes, calls = self._uses.modes, self._flow.callers(function)
        homes = [(module_of(self._flow, each), each) for each in calls]
        return modes.is_decorated(function) or any(
            modes.without_gradients(module, call) or module.function(call) in self._found for module, call in homes
        )

    # Changes in place, of which backward would not know without gradients.

    def _why_changes(self, function: FunctionNode) -> Reason | None:
        """Why it is left where it may change in place what it is given, itself or by what it calls."""
        for each in self._with_callees(function):
            carrying = self._uses.strict.entered.get(each, frozenset())
            changes = self._changes(each, self._uses.strict.function(each, carrying).ever)
            if changes is not None:
                text = f"a tensor with a graph may be changed in place ({HERE})"
                return Reason("needs-gradients", text, (self._obstacles.place(function, changes),))
        return None

    def _with_callees(self, function: FunctionNode) -> list[Callee]:
        found: list[Callee] = [function]
        for here in found:
            for call in own(here, ast.Call):
                called = called_functions(self._flow, call)
                found += [each for each in called if isinstance(each, ast.FunctionDef) and each not in found]
        return found

    def _changes(self, function: Callee, carrying: frozenset[str]) -> ast.AST | None:
        """Where it may change a tensor in place that has a graph and was not made in it."""
        for node in walk(function):
            changed = changed_by(node)
            root = None if changed is None else _reached_from(changed)
            if changed is None or (isinstance(root, ast.Name) and root.id not in carrying):
                continue
            if not self._is_fresh(function, changed):
                return node
        return None

    def _is_fresh(self, function: Callee, node: ast.expr, followed: frozenset[str] = frozenset()) -> bool:
        """Whether the memory of what the expression is was made in the function."""
        match node:
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Constant() | ast.List() | ast.ListComp():
                return True
            case ast.IfExp(_, body, orelse):
                return self._is_fresh(function, body, followed) and self._is_fresh(function, orelse, followed)
            case ast.Call(ast.Attribute(value, method)):
                externals = library_names(self._flow.values(node.func))
                if externals:
                    return all(map(_makes_memory, externals))
                row = operator(method)
                return _is_new(row) or (row is not None and self._is_fresh(function, value, followed))
            case ast.Attribute(value) | ast.Subscript(value):
                return self._is_fresh(function, value, followed)
            case ast.Name(name):
                return name in followed or self._is_made(function, name, followed | {name})
        return False

    def _is_made(self, function: Callee, name: str, followed: frozenset[str]) -> bool:
        """Whether everything that the name is given in the function was made there."""
        given = [
            each.value
            for each in walk(function)
            if isinstance(each, ast.Assign) and any(is_name(target, name) for target in each.targets)
        ]
        updated = [each for each in walk(function) if isinstance(each, ast.AugAssign) and is_name(each.target, name)]
        bound = [each for each in walk(function) if is_name(each, name)]
        stores = [each for each in bound if isinstance(each.ctx, ast.Store)]
        is_followed = len(stores) == len(given) + len(updated)
        return bool(given) and is_followed and all(self._is_fresh(function, each, followed) for each in given)


def _is_new(row: Operator | None) -> bool:
    return row is not None and row.memory in {Memory.NEW, Memory.NONE}


def _makes_memory(name: str) -> bool:
    """Whether a library's function returns new memory; what NumPy takes has no graph."""
    return name.startswith("numpy.") or _is_new(torch_function(name))


def _reached_from(node: ast.expr) -> ast.expr:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node
