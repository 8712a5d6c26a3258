"""``torch.LongTensor(range(n))``, ``x[np.arange(n)]``: what ``torch.arange(n)`` counts, in the same number format."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import Literal, Tensor, Unknown, library_names, without_none

if TYPE_CHECKING:
    from codemods.facts.script import Script

_RANGE, _LIST, _ARANGE = "builtins.range", "builtins.list", "numpy.arange"
_TAKES = "torch.LongTensor"
"""The constructor whose number format is the one that ``torch.arange`` counts integers in."""
_START_AND_END = 2
_SIZES = frozenset({"size", "dim", "numel", "nelement"})


def range_of(script: Script, name: str, maker: ast.Call) -> ast.Call | None:
    """The ``range(n)`` or ``range(m, n)`` that is all a tensor of integers is made of; None for other tensors."""
    match maker:
        case ast.Call(args=[ast.Call() as given], keywords=[]) if name == _TAKES:
            values = script.flow.values(given.func)
            is_range = library_names(values) == {_RANGE} and len(values) == 1
            is_plain = not given.keywords and not any(isinstance(each, ast.Starred) for each in given.args)
            return given if is_range and is_plain and 1 <= len(given.args) <= _START_AND_END else None
    return None


def counted_in_index(script: Script, index: ast.expr) -> ast.Call | None:
    """The call that counts an index from 0, or from a number: ``range(n)``, ``list(range(n))``, ``np.arange(n)``."""
    if not isinstance(index, ast.Call) or index.keywords or any(isinstance(each, ast.Starred) for each in index.args):
        return None
    names, values = library_names(script.flow.values(index.func)), script.flow.values(index.func)
    if len(values) != 1 or not index.args:
        return None
    if names == {_LIST}:
        inner = index.args[0]
        is_range = isinstance(inner, ast.Call) and library_names(script.flow.values(inner.func)) == {_RANGE}
        return counted_in_index(script, inner) if is_range else None
    # Whatever counts an index counts integers.
    return index if len(index.args) <= _START_AND_END and names and names <= {_RANGE, _ARANGE} else None


def may_go_backwards(script: Script, counted: ast.Call) -> bool:
    """Whether the range may end before it starts: it is empty then, and ``torch.arange`` of the same fails.

    That ``range`` takes them says that they are integers.
    """
    *before, end = counted.args
    start = _literal(script, before[0]) if before else 0
    if start is None:
        return True
    last = _literal(script, end)
    return last < start if last is not None else start > 0 or not _is_amount(script, end)


def _literal(script: Script, node: ast.expr) -> int | None:
    """The one number that it is."""
    values = script.flow.values(node)
    only = next(iter(values)) if len(values) == 1 else None
    return only.value if isinstance(only, Literal) and type(only.value) is int else None


def _is_amount(script: Script, node: ast.expr) -> bool:
    """Whether it is a length or a size, a product or sum of such: none of these is below zero."""
    match node:
        case ast.Constant(value):
            return type(value) is int and value >= 0
        case ast.BinOp(left, ast.Add() | ast.Mult() | ast.FloorDiv(), right):
            return _is_amount(script, left) and _is_amount(script, right)
        case ast.Call(ast.Attribute(owner, method)) if method in _SIZES:
            return _may_be_tensor(script, owner)
        case ast.Subscript(ast.Attribute(owner, "shape")):
            return _may_be_tensor(script, owner)
        case ast.Call():
            return library_names(script.flow.values(node.func)) == {"builtins.len"}
    values = script.flow.values(node)
    return bool(values) and all(
        isinstance(each, Literal) and type(each.value) is int and each.value >= 0 for each in values
    )


def _may_be_tensor(script: Script, node: ast.expr) -> bool:
    """Whether it is a tensor, or nothing else that is known."""
    values = without_none(script.flow.values(node))
    return all(isinstance(each, (Tensor, Unknown)) for each in values)
