"""What batches of graphs tell of themselves, as PyTorch Geometric makes them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.imports import imported_packages
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
    is_used = any(_PACKAGE in imported_packages(each) for each in flow.modules)
    return is_used and not any(_binds(module, name) for module in flow.modules)


def _binds(module: Module, name: str) -> bool:
    """Whether the module may give something an attribute of that name: by an assignment, ``setattr`` or a class."""
    return (
        name in module.attribute_stores
        or any(each.value == name for each in module.nodes(ast.Constant))
        or any(name in bound_names(each) for each in module.nodes(ast.ClassDef))
    )
