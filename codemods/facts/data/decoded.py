"""Which data sets are the items of another one, read once?

Those are ``TensorDataset(*default_collate(list(data)))``, and images that were transformed by one call. The tensors may
be moved to a device on the way: ``*(each.to(device) for each in default_collate(list(data)))``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import Made
from codemods.facts.data.tall_images import cut_from, unmoved

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value, Values

_CHAIN = ("torch.utils.data.TensorDataset", "torch.utils.data.default_collate", "builtins.list")


def decoded(flow: Flow, value: Value) -> Values | None:
    """The data set whose items are the rows of the tensors; None where they are not made so."""
    if not isinstance(value, Made) or value.name != _CHAIN[0] or not isinstance(value.site, ast.Call):
        return None
    node = innermost(flow, value.site)
    return flow.values(node) if node is not None else cut_from(flow, value)


def innermost(flow: Flow, node: ast.expr | None) -> ast.expr | None:
    """``data`` in an expression of that form; None where it has another one."""
    for name in _CHAIN:
        if not isinstance(node, ast.Call) or {each.name for each in flow.values(node.func)} != {name}:
            return None
        node = node.args[0] if len(node.args) == 1 and not node.keywords else None
        node = _inside(flow, node.value) if isinstance(node, ast.Starred) else node
    return node


def _inside(flow: Flow, node: ast.expr) -> ast.expr:
    """``tensors`` in ``(each.to(device) for each in tensors)``; else the expression itself."""
    if not isinstance(node, ast.GeneratorExp) or len(node.generators) != 1:
        return node
    (part,) = node.generators
    each = unmoved(flow, node.elt)
    is_plain = each is not node.elt and ast.unparse(each) == ast.unparse(part.target) and not part.ifs
    return part.iter if is_plain else node
