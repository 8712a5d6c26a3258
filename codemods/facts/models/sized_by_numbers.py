"""Which tensors of a model's code are as large as numbers say: what a mask selects, where a tensor is not zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import last_name
from codemods.dataflow.values import Tensor, library_names
from codemods.facts.loops import module_of
from codemods.library.operations import operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow

_OPERATORS = words("nonzero argwhere masked_select bincount")
"""Operators at which TorchDynamo ends the graph: ``unique`` is none of them (torch 2.14)."""
_SUPPRESSING = frozenset(f"torchvision.ops.{name}" for name in ("nms", "batched_nms", "boxes.nms", "boxes.batched_nms"))
_WHERE = "torch.where"
_BOOLEAN = words(
    "bool eq ne gt ge lt le greater less isnan isinf isfinite logical_not logical_and logical_or logical_xor"
)
"""Functions and methods that make masks."""
_NO_MASKS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)


def sized_by_numbers(flow: Flow, node: ast.AST) -> str | None:
    """What the node computes whose size depends on numbers of tensors, in the user's words; None where it does not."""
    match node:
        case ast.Call():
            name = last_name(node.func)
            names = library_names(flow.values(node.func))
            is_operator = name in _OPERATORS and operation(flow, node) is not None
            if is_operator or names & _SUPPRESSING or (_WHERE in names and len(node.args) == 1 and not node.keywords):
                return f"{name}()"
        case ast.Subscript(_, index, ast.Load()):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            if any(_is_mask(flow, each, ()) for each in parts):
                return "what a mask selects"
    return None


def _is_mask(flow: Flow, node: ast.expr, seen: Sequence[str]) -> bool:
    """Whether it is a tensor of booleans: ``x > 0``, ``~mask``, ``mask.bool()``, or a name for one."""
    match node:
        case ast.UnaryOp(ast.Invert(), inner):
            return _is_mask(flow, inner, seen)
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() | ast.BitXor(), right):
            return _is_mask(flow, left, seen) or _is_mask(flow, right, seen)
        case ast.Name(name):
            if name in seen:  # `mask = ~mask`
                return True
            given = [each.value for each in module_of(flow, node).assignments(node)]
            return bool(given) and all(_is_mask(flow, each, (*seen, name)) for each in given)
        case ast.Compare(ops=operators):
            makes_one = not any(isinstance(each, _NO_MASKS) for each in operators)
        case ast.Call(function):
            makes_one = last_name(function) in _BOOLEAN
        case _:
            return False
    values = flow.values(node)
    return makes_one and bool(values) and all(isinstance(each, Tensor) for each in values)
