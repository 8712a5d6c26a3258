"""Where are images sampled at coordinates that the script computes, and are matrices multiplied for them?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import Batch, library_names, without_none
from codemods.facts.precision.gram import products
from codemods.facts.reach import own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow

_SAMPLES = frozenset({"torch.nn.functional.grid_sample", "torch.grid_sampler"})
_MULTIPLIES = frozenset({"torch.nn.functional.affine_grid", "torch.affine_grid_generator", "torch.einsum"})


def sampled(flow: Flow, codes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """Where the codes sample images at coordinates that are computed, if some of them also multiplies matrices.

    A camera's projection of points is such a product, and an affine grid. In a row of 640 pixels each has a number of
    ten bits: bf16 keeps eight. What a loader gives, or an attribute keeps, was computed elsewhere.
    """
    codes = list(codes)
    calls = [call for each in codes for call in own(each, ast.Call) if _samples(flow, call)]
    if calls and any(_multiplies(flow, each) for each in codes):
        yield from calls


def _samples(flow: Flow, call: ast.Call) -> bool:
    grid = argument_of(call, "grid", 1)
    if grid is None or not _SAMPLES & library_names(flow.values(call.func)):
        return False
    values = without_none(flow.values(grid))
    is_kept = isinstance(grid, ast.Attribute) and isinstance(grid.value, ast.Name)  # `self.grid`
    return not is_kept and not (values and all(isinstance(each, Batch) for each in values))


def _multiplies(flow: Flow, code: ast.AST) -> bool:
    is_product = any(True for _ in products(code))
    return is_product or any(_MULTIPLIES & library_names(flow.values(each.func)) for each in own(code, ast.Call))
