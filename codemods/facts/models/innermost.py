"""Whether the last dimension of a tensor is the innermost in memory, as fused kernels of attention need it.

By ``check_last_dim_stride_equals_1_dense`` of ATen's sdp_utils, torch computes all scores of other tensors, on CUDA as
on CPUs, which takes as long as the script's own code does, or longer.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.models.applied import applied, whole_number
from codemods.facts.models.local_shapes import Shapes
from codemods.library.attention import TURNING

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.models.applied import Applied
    from codemods.facts.models.attention_scores import Operand

_KEPT = frozenset(
    {"view", "reshape", "flatten", "unflatten", "chunk", "split", "unsqueeze", "squeeze", "detach", "clone"}
)
"""Operators behind which the last dimension is as far apart in memory as before, or innermost."""


def needs_copy(flow: Flow, module: Module, operand: Operand) -> bool:
    """Whether the code is seen to put another dimension last than the innermost."""
    return (operand.depth != -1) != is_last_moved(flow, module, operand.node)


def is_last_moved(flow: Flow, module: Module, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether the code puts another dimension of a tensor last; False where that is not seen."""
    if node in seen:
        return False
    seen |= {node}
    match node:
        case ast.Name():
            given = Shapes(flow).given(module, node)
            return given is not None and is_last_moved(flow, module, given, seen)
        case ast.Attribute(inner, "mT" | "T"):
            return not is_last_moved(flow, module, inner, seen)
        case ast.BinOp(inner, ast.Mult() | ast.Div(), _):
            return is_last_moved(flow, module, inner, seen)
    call = applied(flow, node)
    if call is None:
        return False
    before = is_last_moved(flow, module, call.tensor, seen)
    if call.name in _KEPT:
        return before
    return _moves_last(flow, module, call) != before if call.name in TURNING | {"permute"} else False


def _moves_last(flow: Flow, module: Module, call: Applied) -> bool:
    places = [whole_number(each) for each in call.others]
    if call.name == "permute":
        return bool(places) and places[-1] is not None and places[-1] not in {-1, len(places) - 1}
    shape = Shapes(flow).of(module, call.tensor)
    return -1 in places or (shape is not None and len(shape) - 1 in places)
