"""Which models are given one observation of an environment at a time, and never a batch?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import lasting
from codemods.dataflow.values import Batch, class_of, library_names
from codemods.facts.cost.spaces import Spaces
from codemods.facts.reaching import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value

_MOST_NAMES = 5
"""How many names are followed from one to the next."""


@lasting  # each rule asks that weighs what a model computes
def sees_one_at_a_time(flow: Flow, model: Value) -> bool:
    """Whether each call of the model has ``state.unsqueeze(0)`` as input, in a script with environments of gym."""
    if not Spaces(flow).are_used:
        return False
    calls = [(module, call) for module in flow.modules for call in module.nodes(ast.Call)]
    if any(_calls_other_method(flow, call, model) for _, call in calls):
        return False
    own = [(module, call) for module, call in calls if model in flow.values(call.func)]
    return bool(own) and all(_is_one(flow, module, _first(call)) for module, call in own)


def _calls_other_method(flow: Flow, call: ast.Call, model: Value) -> bool:
    """Whether it calls a method of the model's class, which may be given a batch: ``model.evaluate(states)``."""
    class_, function = class_of(model), call.func
    if class_ is None or not isinstance(function, ast.Attribute) or model not in flow.values(function.value):
        return False
    return flow.method(class_, function.attr) is not None


def _first(call: ast.Call) -> ast.expr | None:
    """The first thing that the model is given, be it in a tuple with its states: ``model((state, (hx, cx)))``."""
    node = call.args[0] if call.args else None
    while isinstance(node, (ast.Tuple, ast.List)) and node.elts:
        node = node.elts[0]
    return node


def _is_one(flow: Flow, module: Module, node: ast.expr | None) -> bool:
    """Whether a first dimension of one is added to what comes from no loader."""
    found = [] if node is None else list(_spelled(module, node, _MOST_NAMES))
    inner = [_unsqueezed(flow, each) for each in found]
    return bool(inner) and all(each is not None and _is_no_batch(flow, each) for each in inner)


def _spelled(module: Module, node: ast.expr, names: int) -> Iterator[ast.expr]:
    """The expressions that a name may stand for; anything else by itself, without what casts and moves it."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"to", "cuda", "float"}
    ):
        node = node.func.value
    given: Sequence[ast.expr] | None = None
    if isinstance(node, ast.Name) and names:
        given = reaching(module.function(node) or module.tree).given(node)
    if given:
        for each in given:
            yield from _spelled(module, each, names - 1)
    else:
        yield node


def _unsqueezed(flow: Flow, node: ast.expr) -> ast.expr | None:
    """What ``x.unsqueeze(0)``, ``torch.unsqueeze(x, 0)`` or ``x[None]`` adds a first dimension to."""
    match node:
        case ast.Call(function, [tensor, *_]) if "torch.unsqueeze" in library_names(flow.values(function)):
            return tensor if _is_zero(argument_of(node, "dim", 1)) else None
        case ast.Call(ast.Attribute(tensor, "unsqueeze")):
            return tensor if _is_zero(argument_of(node, "dim", 0)) else None
        case ast.Subscript(tensor, ast.Constant(None)):
            return tensor
    return None


def _is_zero(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _is_no_batch(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and not any(isinstance(each, Batch) for each in values)
