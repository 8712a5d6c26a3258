"""Who may see that a tensor has no graph: what asks it for one, changes it in place, or keeps it for others."""

from __future__ import annotations

import ast
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names, declared_outer, words
from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.source import FUNCTIONS, children, walk
from codemods.facts.loops import module_of
from codemods.facts.models.layers import Model
from codemods.facts.reason import HERE, Reason
from codemods.facts.training.iterations import is_backward, own
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.training.graph_obstacles import GraphObstacles
    from codemods.facts.training.graph_uses import GraphUses

_SEES_GRAPH = words("grad grad_fn is_leaf register_hook requires_grad requires_grad_ retain_grad")


class _Scope(NamedTuple):
    """Code that meets the tensor, or what is computed from it."""

    code: ast.AST
    carrying: frozenset[str]
    """The names of what is computed from it."""
    held: frozenset[str]
    """The names of the tensor itself, or of a list of such."""


class SeenTensors:
    """Follows what calls return, through functions and models that are given it.

    Args:
        flow: The values of the project.
        uses: Where graphs go.
        obstacles: What names places in reasons.
    """

    def __init__(self, flow: Flow, uses: GraphUses, obstacles: GraphObstacles) -> None:
        self._flow = flow
        self._uses = uses
        self._obstacles = obstacles

    def why_seen(self, module: Module, statement: ast.stmt, calls: Sequence[ast.Call]) -> Reason | None:
        """Why something may see that what calls in a statement compute has no graph, or fail as it is a view of that.

        A view that is made without gradients cannot be changed in place by what has them.
        """
        kept, own_code = self._kept(module, statement), {*walk(statement)}
        todo: list[tuple[Module, ast.stmt, ast.Call]] = [] if kept else [(module, statement, call) for call in calls]
        done: set[ast.Call] = set()
        while todo:
            where, here, call = todo.pop()
            if call in done:
                continue
            done.add(call)
            graphs = self._uses.of(partial(is_, call), outside=False)
            course = graphs.statements(where, [here])
            after = graphs.after(where, here, course)
            scopes = [_Scope(where.function(here) or where.tree, course.ever | after.ever, _bound(here))]
            scopes += [_Scope(each, names, names) for each, names in graphs.entered.items()]
            reasons = (self._why_seen_in(each, own_code) for each in self._with_forwards(scopes))
            found = next(filter(None, reasons), None)
            if found is not None:
                return found
            function, returned = where.function(here), course.returned or after.returned
            if function is None or returned is None or self._is_differentiated(function, returned):
                continue
            callers = self._flow.callers(function)
            if not callers or self._flow.escapes(function):
                return self._obstacles.of_result(function)
            homes = [(module_of(self._flow, each), each) for each in callers]
            todo += [(home, home.statement(each), each) for home, each in homes]
        return kept

    def _kept(self, module: Module, statement: ast.stmt) -> Reason | None:
        """Why other code may see what a statement binds: it is a global name, or an attribute that is used so."""
        function = module.function(statement)
        shared = declared_outer(function) if function is not None else frozenset()
        if not shared.isdisjoint(_bound(statement)):
            return self._keeps(statement, statement)
        for target in getattr(statement, "targets", ()):
            for each in walk(target):
                if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
                    seen = self._seen_as(each.attr)
                    if seen is not None:
                        return self._keeps(statement, seen)
        return None

    def _seen_as(self, attribute: str) -> ast.AST | None:
        """Where an attribute of that name is changed in place, or asked for its graph."""
        for module in self._flow.modules:
            for node in module.nodes(ast.Attribute):
                if node.attr != attribute:
                    continue
                around = [node, *_without_calls(module, node)]
                for each in around:
                    above = module.parent(each)
                    is_asked = isinstance(above, ast.Attribute) and above.attr in _SEES_GRAPH
                    call = module.parent(above) if isinstance(above, ast.Attribute) else above
                    if is_asked or any(changed_by(one) is each for one in (above, call, each) if one is not None):
                        return each
        return None

    def _keeps(self, home: ast.AST, node: ast.AST) -> Reason:
        place = self._obstacles.place(home, node)
        return Reason("graph-escapes", f"it keeps a tensor for later ({HERE})", (place,))

    def _is_differentiated(self, function: Callee, returned: ast.Return) -> bool:
        """Whether what is returned is the loss that the function has differentiated, as a closure does."""
        name = returned.value.id if isinstance(returned.value, ast.Name) else None
        calls = (each for each in own(function, ast.Call) if is_backward(self._flow, each))
        return any(isinstance(each.func, ast.Attribute) and root_of(each.func.value) == name for each in calls)

    def _with_forwards(self, scopes: Sequence[_Scope]) -> Iterator[_Scope]:
        """The code, each with all its names for the tensor, and the forwards of models that are given it there."""
        todo, done = [*scopes], set[ast.AST]()
        while todo:
            scope = todo.pop(0)
            scope = scope._replace(held=aliases_of(scope.code, scope.held))
            yield scope
            for call, hidden in nodes_in(scope.code):
                given = arguments_of(call) if isinstance(call, ast.Call) else []
                if not isinstance(call, ast.Call) or not any(root_of(each) in scope.held - hidden for each in given):
                    continue
                models = (each for each in self._flow.values(call.func) if kind(self._flow, each) is Kind.MODEL)
                for forward in (one for each in models for one in Model(self._flow, each).forwards):
                    names = frozenset(signature(forward).names) - {"self"}
                    todo += [] if forward in done else [_Scope(forward, names, names)]
                    done.add(forward)

    def _why_seen_in(self, scope: _Scope, skipped: Collection[ast.AST]) -> Reason | None:
        home = scope.code.body[0] if isinstance(scope.code, ast.Module) else scope.code
        for node, hidden in nodes_in(scope.code):
            held, carrying = scope.held - hidden, scope.carrying - hidden
            changed = None if node in skipped else changed_by(node)
            if changed is not None and root_of(changed) in held:
                text = f"no optimizer steps the model, but what it computes may be changed in place ({HERE})"
                return Reason("graph-escapes", text, (self._obstacles.place(home, node),))
            if isinstance(node, ast.Attribute) and node.attr in _SEES_GRAPH and carrying & names_read(node.value):
                return self._obstacles.needs(home, node)
            if (
                isinstance(node, ast.Assign)
                and root_of(node.value) in scope.held
                and not isinstance(node.value, ast.Call)
            ):
                kept = next((each for each in node.targets if isinstance(each, (ast.Attribute, ast.Subscript))), None)
                if kept is not None:
                    return self._keeps(home, kept)
        return None


def _bound(statement: ast.stmt) -> frozenset[str]:
    """The names that a statement binds, or puts something into: ``goals["later"] = …``."""
    targets = [each for each in own(statement, ast.Subscript) if isinstance(each.ctx, ast.Store)]
    names = {each.id for each in own(statement, ast.Name) if isinstance(each.ctx, ast.Store)}
    return frozenset(names | {root_of(each) for each in targets}) - {""}


def aliases_of(scope: ast.AST, names: frozenset[str]) -> frozenset[str]:
    """The names, and those of what they hold, or of a part or view of it."""
    found = set(names)
    is_growing = bool(found)
    while is_growing:
        before = len(found)
        for node, hidden in nodes_in(scope):
            match node:
                case ast.Assign(targets, value) if root_of(value) in found - hidden:
                    found |= {name for target in targets for name in names_read(target)}
                case ast.For(target, iterated) | ast.comprehension(target, iterated):
                    if names_read(iterated) & (found - hidden):
                        found |= names_read(target)
        is_growing = len(found) > before
    return frozenset(found)


def nodes_in(scope: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """The nodes of some code, each with the names that functions around it have for something of their own."""
    for child in children(scope):
        inner = hidden | bound_names(child) if isinstance(child, FUNCTIONS) else hidden
        yield child, inner
        yield from nodes_in(child, inner)


def names_read(node: ast.AST) -> set[str]:
    """All names in some code."""
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _without_calls(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """The items and attributes that are taken of a node: ``self.goal["later"].data``."""
    above = module.parent(node)
    while isinstance(above, (ast.Subscript, ast.Attribute)):
        yield above
        above = module.parent(above)


def changed_by(node: ast.AST) -> ast.expr | None:
    """What the node changes in place, if it does."""
    match node:
        case ast.AugAssign(target):
            return target
        case ast.Subscript(ctx=ast.Store()):
            return node
        case ast.Call(ast.Attribute(value, method)) if method.endswith("_") and not method.endswith("__"):
            return value
    return None


def root_of(node: ast.expr) -> str:
    """The name that an expression takes a part or a view of; empty where it does something else."""
    while True:
        match node:
            case ast.Subscript(value) | ast.Attribute(value) | ast.Call(ast.Attribute(value)):
                node = value
            case ast.Name(name):
                return name
            case _:
                return ""
