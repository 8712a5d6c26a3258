"""Gram matrices: products of a tensor, laid out as a matrix, with its own transpose.

The sums run over all positions of an image, and are divided by their number only afterwards: in 16 bits they are
infinite (fp16), or lose what tells them apart (bf16).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codemods.dataflow.values import Sort

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_LAID_OUT = frozenset({"view", "reshape", "flatten"})
_TURNED = frozenset({"t", "transpose", "permute", "swapaxes", "swapdims", "T", "mT", "adjoint"})
_KEPT = frozenset({"contiguous", "clone", "unsqueeze", "squeeze", "float"})


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a tensor is a layout of."""

    name: str = ""
    """The name, or attribute, that holds it."""
    is_laid_out: bool = False
    """Whether positions were put into one dimension on the way."""
    is_turned: bool = False


def is_gram(flow: Flow, module: Module, left: ast.expr, right: ast.expr) -> bool:
    """Whether it is the product of a tensor with itself, over positions that were put into one dimension."""
    one, other = _origin(flow, module, left, frozenset()), _origin(flow, module, right, frozenset())
    is_of_itself = bool(one.name) and one.name == other.name and one.is_turned is not other.is_turned
    return is_of_itself and (one.is_laid_out or other.is_laid_out)


def _origin(flow: Flow, module: Module, node: ast.expr, seen: frozenset[str]) -> _Origin:
    if isinstance(node, ast.Name):
        return _of_name(flow, module, node, seen)
    attribute = node.func if isinstance(node, ast.Call) else node
    if not isinstance(attribute, ast.Attribute) or attribute.attr not in _LAID_OUT | _TURNED | _KEPT:
        return _Origin(ast.unparse(node) if isinstance(node, ast.Attribute) else "")
    inner: ast.expr = attribute.value
    if isinstance(node, ast.Call) and any(each.sort is Sort.EXTERNAL for each in flow.values(attribute)):
        if not node.args:
            return _Origin()
        inner = node.args[0]  # torch.transpose(x, 1, 2)
    found = _origin(flow, module, inner, seen)
    return replace(
        found,
        is_laid_out=found.is_laid_out or attribute.attr in _LAID_OUT,
        is_turned=found.is_turned is not (attribute.attr in _TURNED),
    )


def _of_name(flow: Flow, module: Module, node: ast.Name, seen: frozenset[str]) -> _Origin:
    """What the name's function assigns to it: a layout of itself, or the one layout of another."""
    if node.id in seen:
        return _Origin(node.id)
    function = module.function(node)
    assigned = [
        _origin(flow, module, each.value, seen | {node.id})
        for each in module.nodes(ast.Assign)
        if module.function(each) is function and [ast.unparse(target) for target in each.targets] == [node.id]
    ]
    of_itself = [each for each in assigned if each.name == node.id]
    others = [each for each in assigned if each.name and each.name != node.id]
    if len(others) == 1 and len(assigned) == 1:
        return others[0]
    return _Origin(node.id, is_laid_out=any(each.is_laid_out for each in of_itself))
