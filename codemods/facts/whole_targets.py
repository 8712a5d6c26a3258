"""Which targets of a binary cross entropy are integers, so that it fails: ``torch.full((n,), 1)`` since torch 1.7?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import External, Literal, Made, library_names, without_none
from codemods.facts.loops import module_of
from codemods.facts.reaching import reaching
from codemods.library.losses import takes_floats_alone

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow

_FULL = "torch.full"


def whole_target(flow: Flow, call: ast.Call) -> ast.Call | None:
    """What fills the target of a binary cross entropy with an integer on every way that leads there; None of others."""
    callees = without_none(flow.values(call.func))
    is_loss = bool(callees) and all(
        isinstance(each, (Made, External)) and takes_floats_alone(each.name) for each in callees
    )
    target = argument_of(call, "target", 1) if is_loss else None
    if target is None:
        return None
    given = [target]
    if isinstance(target, ast.Name):
        scope = module_of(flow, target).function(target) or module_of(flow, target).tree
        given = list(reaching(scope).given(target) or ())
    fills = [each for each in map(_on_host, given) if isinstance(each, ast.Call) and _fills_whole(flow, each)]
    return fills[0] if fills and len(fills) == len(given) else None


def _on_host(node: ast.expr) -> ast.expr:
    """What ``cuda()`` takes to the device as it is."""
    match node:
        case ast.Call(ast.Attribute(made, "cuda"), [], []):
            return made
    return node


def _fills_whole(flow: Flow, call: ast.Call) -> bool:
    """Whether it is ``torch.full(size, 1)``, whose number format nothing says."""
    values = flow.values(call.func)
    names = library_names(values)
    value = argument_of(call, "fill_value", 1)
    is_said = any(each.arg in {"dtype", "out", None} for each in call.keywords)
    if names != {_FULL} or len(values) != 1 or value is None or is_said:
        return False
    numbers = flow.values(value)
    return bool(numbers) and all(isinstance(each, Literal) and type(each.value) is int for each in numbers)
