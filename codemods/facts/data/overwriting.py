"""Is all that a tensor holds written after it was made, so that it was only made to have a size?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import last_name
from codemods.dataflow.values import library_names
from codemods.facts.reaching import is_seen_elsewhere, reaching

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_HANDED_ON = frozenset(
    {"to", "cuda", "cpu", "view", "reshape", "flatten", "squeeze", "unsqueeze", "float", "double", "long", "t"}
)
"""Methods that hand on what a tensor holds."""
_PARAMETER = "torch.nn.Parameter"


def is_read_as_made(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether what a tensor holds is what it was made of where it is returned, or where its name is read.

    ``x = torch.FloatTensor(n)`` has whatever was in its memory where ``n`` is a size, and ``x.normal_()`` below, or
    ``x[i] = y``, writes to it then.
    """
    node: ast.AST = call
    while True:
        method = module.parent(node)
        following = module.parent(method) if isinstance(method, ast.Attribute) else None
        if not isinstance(method, ast.Attribute) or not isinstance(following, ast.Call) or following.func is not method:
            break
        if method.attr not in _HANDED_ON:
            return False
        node = following
    above = module.parent(node)
    while isinstance(above, (ast.Tuple, ast.List, ast.Dict)):
        above = module.parent(above)
    match above:
        case ast.Return() | ast.Yield():
            return True
        case ast.Assign([ast.Name() as target], value) if value is node:
            scope = module.function(call) or module.tree
            reads = reaching(scope).readers(value)
            return not is_seen_elsewhere(module, target) and not any(_is_written(flow, module, each) for each in reads)
    return False


def _is_written(flow: Flow, module: Module, read: ast.Name) -> bool:
    """``x[i] = y``, ``x.normal_()``, ``init.normal_(x)``, ``nn.Parameter(x)``, ``out=x``."""
    above = module.parent(read)
    match above:
        case ast.Subscript(_, _, ast.Store() | ast.Del()) | ast.keyword("out" | None):
            return True
        case ast.Attribute(_, method):
            return method.endswith("_") or method == "data"
        case ast.Call(func):
            return (last_name(func) or "").endswith("_") or _PARAMETER in library_names(flow.values(func))
    return False
