"""Which arrays surely have an axis: what the code takes parts of, and the batches of a loader?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.data.aliasing import stacks_items
from codemods.facts.devices.shapes_asked import has_axis
from codemods.facts.reaching import reaching, targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader

_ALIKE = frozenset({"cpu", "detach", "numpy"})
"""What hands on a tensor with the axes that it has."""


def has_axis_of_its_own(loaders: Sequence[Loader], module: Module, data: ast.expr) -> bool:
    """Whether an array is no single number: parts of it are taken, or it is what a loader stacked.

    ``points = batch.numpy()`` of ``for batch, labels in loader``: one row for each item, however many there are.
    """
    if isinstance(data, ast.Name) and has_axis(module, data):
        return True
    given = reaching(_scope(module, data)).given(data) if isinstance(data, ast.Name) else [data]
    return bool(given) and all(_is_batch(loaders, module, each) for each in given or ())


def _scope(module: Module, node: ast.AST) -> ast.AST:
    return module.function(node) or module.tree


def _is_batch(loaders: Sequence[Loader], module: Module, node: ast.expr) -> bool:
    """Whether it is ``x.data.numpy()`` of what a loop over a loader that stacks the items of batches calls ``x``."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Call(ast.Attribute(value, method), [], []) if method in _ALIKE:
                node = value
            case ast.Attribute(value, "data"):
                node = value
            case _:
                return False
    bound = targets(_scope(module, node)).of(node)
    return bool(bound) and all(_is_of_loop(loaders, module, each) for each in bound or ())


def _is_of_loop(loaders: Sequence[Loader], module: Module, target: ast.Name) -> bool:
    """Whether a loop over loaders binds it, each of which stacks the items of its batches."""
    loop = next((each for each in module.ancestors(target) if not isinstance(each, (ast.Tuple, ast.List))), None)
    if not isinstance(loop, ast.For):
        return False
    reading = [each for each in loaders if any(reading.node is loop for reading in each.passes)]
    return bool(reading) and all(map(stacks_items, reading))
