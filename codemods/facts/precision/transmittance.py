"""Cumulative products of ``1 - x``, as of what is left of a ray of light, of which 16 bits keep too few digits.

The factors are near 1, where bf16 has no number between 0.996 and 1, and each error stays in all products after it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import last_name, walk
from codemods.dataflow.values import library_names
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.facts.reaching import reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow

_PRODUCT = "cumprod"


def products_of_rests(flow: Flow, code: ast.AST) -> Iterator[ast.Call]:
    """The cumulative products of ``1 - x`` in the code, be it that a function of the project computes them."""
    for call in own(code, ast.Call):
        if not _multiplies(flow, call):
            continue
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        if any(_is_rest(flow, each) for each in (*arguments_of(call), *owner)):
            yield call


def _multiplies(flow: Flow, call: ast.Call) -> bool:
    """Whether it is ``torch.cumprod`` or ``x.cumprod``, or a function of the project that calls that."""
    called = flow.called(call)
    if called:
        return any(_computes(flow, each) for function in called for each in own(function, ast.Call))
    return _computes(flow, call)


def _computes(flow: Flow, call: ast.Call) -> bool:
    names = library_names(flow.values(call.func))
    return last_name(call.func) == _PRODUCT and names <= {f"torch.{_PRODUCT}"}


def _is_rest(flow: Flow, node: ast.expr) -> bool:
    """Whether ``1 - x`` is part of it, or of what gave the name its value."""
    if isinstance(node, ast.Name):
        module = module_of(flow, node)
        given = reaching(module.function(node) or module.tree).given(node) or ()
        return any(map(_has_rest, given))
    return _has_rest(node)


def _has_rest(node: ast.expr) -> bool:
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and isinstance(each.left, ast.Constant)
        and each.left.value == 1
        and not isinstance(each.right, ast.Constant)
        for each in walk(node)
    )
