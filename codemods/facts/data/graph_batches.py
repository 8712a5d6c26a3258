"""What batches of graphs tell of themselves, as PyTorch Geometric makes them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.source import lasting

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_PACKAGE = "torch_geometric"
_COUNTS = frozenset({"num_graphs"})
"""Attributes of ``torch_geometric.data.Batch`` that are integers of Python's, wherever the batch lies."""


def is_count(flow: Flow, node: ast.expr) -> bool:
    """Whether an expression is a number of Python's that a batch of graphs tells: ``batch.num_graphs``."""
    return isinstance(node, ast.Attribute) and node.attr in _COUNTS and _is_of_the_library(flow, node.attr)


@lasting
def _is_of_the_library(flow: Flow, name: str) -> bool:
    """Whether the project uses the library, and gives nothing an attribute of that name itself."""
    imports = [each for module in flow.modules for each in module.nodes(ast.Import, ast.ImportFrom)]
    names = [alias.name for each in imports if isinstance(each, ast.Import) for alias in each.names]
    names += [each.module or "" for each in imports if isinstance(each, ast.ImportFrom) and not each.level]
    is_used = any(each.partition(".")[0] == _PACKAGE for each in names)
    return is_used and not any(_binds(module, name) for module in flow.modules)


def _binds(module: Module, name: str) -> bool:
    """Whether the module may give something an attribute of that name: by an assignment, ``setattr`` or a class."""
    attributes = (each for each in module.nodes(ast.Attribute) if each.attr == name)
    return (
        any(isinstance(each.ctx, ast.Store) for each in attributes)
        or any(each.value == name for each in module.nodes(ast.Constant))
        or any(name in bound_names(each) for each in module.nodes(ast.ClassDef))
    )
