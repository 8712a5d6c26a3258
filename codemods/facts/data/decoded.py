"""Which data sets are the items of another one, read once: ``TensorDataset(*default_collate(list(data)))``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import Sort

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value, Values

_CHAIN = ("torch.utils.data.TensorDataset", "torch.utils.data.default_collate", "builtins.list")


def decoded(flow: Flow, value: Value) -> Values | None:
    """The data set whose items are the rows of the tensors; None where they are not made so."""
    node = innermost(flow, value.site) if value.sort is Sort.MADE and isinstance(value.site, ast.Call) else None
    return flow.values(node) if node is not None else None


def innermost(flow: Flow, node: ast.expr | None) -> ast.expr | None:
    """``data`` in an expression of that form; None where it has another one."""
    for name in _CHAIN:
        if not isinstance(node, ast.Call) or {each.name for each in flow.values(node.func)} != {name}:
            return None
        node = node.args[0] if len(node.args) == 1 and not node.keywords else None
        node = node.value if isinstance(node, ast.Starred) else node
    return node
