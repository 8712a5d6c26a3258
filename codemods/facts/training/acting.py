"""Functions of recurrent agents that act: NumPy gets the action, and the hidden state comes back with its graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeGuard

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.facts.autograd.uses import needs_gradients
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason
from codemods.facts.training.evaluation_region import EvaluationRegion
from codemods.facts.training.iterations import own
from codemods.facts.training.modes import functions_of, is_unit_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, FunctionNode, Module
    from codemods.facts.training.graph_obstacles import GraphObstacles
    from codemods.facts.training.graph_uses import GraphUses

_TO_NUMBERS = frozenset({"numpy", "item", "tolist"})


class Acting:
    """Finds functions that hand out an action for NumPy, and beside it a tensor that they are given again."""

    def __init__(self, flow: Flow, uses: GraphUses, obstacles: GraphObstacles) -> None:
        self._flow = flow
        self._uses = uses
        self._obstacles = obstacles

    def find(self, module: Module, whole: set[Callee]) -> Iterator[EvaluationRegion]:
        """The functions of a module, without those that evaluate as a whole; each is left, for the state's sake."""
        for function in functions_of(self._flow, module):
            if function in whole or is_unit_test(module, function) or not _hands_out_numbers(function):
                continue
            call = self._fed_back(function) if self._computes_only(module, function) else None
            if call is None:
                continue
            text = f"it is given again what it returns with a graph, which may be trained on ({HERE})"
            remedy = "put @torch.no_grad() above it where nothing is trained on that"
            because = Reason("graph-escapes", text, (self._obstacles.place(function, call),), remedy)
            region = EvaluationRegion(self._flow, module, function, (), (), (), because)
            if self._obstacles.reaching_backward(region) is None:
                yield region

    def _computes_only(self, module: Module, function: FunctionNode) -> bool:
        """Whether models compute in it with gradients on, and nothing in it trains or keeps what they do."""
        uses, modes = self._uses, self._uses.modes
        if function in uses.iterations.training_functions or modes.is_decorated(function):
            return False
        calls = [each for each in own(function, ast.Call) if uses.computes(each)]
        if not calls or any(modes.without_gradients(module, each) for each in calls):
            return False
        course = uses.inside.function(function)
        return course.trained is None and course.kept is None and needs_gradients(self._flow, function) is None

    def _fed_back(self, function: FunctionNode) -> ast.Call | None:
        """A call that takes apart what the function returns, and gives it a part that carries a graph."""
        parts = self._uses.inside.function(function).parts
        for call in self._flow.callers(function):
            module = module_of(self._flow, call)
            statement = module.statement(call)
            if not isinstance(statement, ast.Assign) or statement.value is not call:
                continue
            target = statement.targets[0]
            names = target.elts if isinstance(target, ast.Tuple) else []
            carrying = [each.id for at, each in enumerate(names) if (len(names), at) in parts and _is_name(each)]
            held = set(closure(carrying, _renaming(module, call)))
            if any(_is_name(each) and each.id in held for each in arguments_of(call)):
                return call
        return None


def _is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _renaming(module: Module, call: ast.Call) -> Callable[[str], list[str]]:
    """Which other names the function around a call gives to what a name holds: ``hidden_in = hidden_out``."""
    function = module.function(call)
    found: dict[str, list[str]] = {}
    for statement in module.nodes(ast.Assign):
        if _is_name(statement.value) and module.function(statement) is function:
            found.setdefault(statement.value.id, []).extend(each.id for each in statement.targets if _is_name(each))
    return lambda name: found.get(name, [])


def _hands_out_numbers(function: FunctionNode) -> bool:
    """Whether it returns a tuple of which one part is ``action.cpu().numpy()``, by name or written out, or the like."""
    returned = [
        part for end in own(function, ast.Return) if isinstance(end.value, ast.Tuple) for part in end.value.elts
    ]
    names = {each.id for each in map(_whole, returned) if _is_name(each)}
    assigned = own(function, ast.Assign)
    given = (each.value for each in assigned if any(_is_name(target) and target.id in names for target in each.targets))
    return any(_makes_numbers(each) for each in (*returned, *given))


def _whole(node: ast.expr) -> ast.expr:
    """``action`` of ``action[0][0]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _makes_numbers(node: ast.expr) -> bool:
    """``action.detach().cpu().numpy()[0]``."""
    node = _whole(node)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TO_NUMBERS
