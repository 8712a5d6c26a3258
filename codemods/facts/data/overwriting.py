"""Is all that a tensor holds written after it was made, so that it was only made to have a size?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import last_name
from codemods.dataflow.values import External, Made, library_names
from codemods.facts.reaching import is_seen_elsewhere, reaching

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_HANDED_ON = frozenset(
    {"to", "cuda", "cpu", "view", "reshape", "flatten", "squeeze", "unsqueeze", "float", "double", "long", "t"}
)
"""Methods that hand on what a tensor holds."""
_PARAMETER = "torch.nn.Parameter"
_EMBEDDINGS = frozenset({"torch.nn.Embedding", "torch.nn.functional.embedding"})


def is_read_as_made(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether what a tensor holds is what it was made of where it is returned, or where its name is read.

    ``x = torch.FloatTensor(n)`` has whatever was in its memory where ``n`` is a size, and ``x.normal_()`` below, or
    ``x[i] = y``, writes to it then.
    """
    node = _handed_on(module, call)
    if node is None:
        return False
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


def is_looked_up(flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether an embedding is asked for what a tensor of indices holds: ``embed(torch.LongTensor(a).to(device))``.

    What is in the memory of a tensor that is made of a size is no index.
    """
    node = _handed_on(module, call)
    above = module.parent(node) if node is not None else None
    if isinstance(above, ast.Assign) and is_read_as_made(flow, module, call):
        scope = module.function(call) or module.tree
        return any(_is_index(flow, module, each) for each in reaching(scope).readers(above.value))
    return node is not None and _is_index(flow, module, node)


def _is_index(flow: Flow, module: Module, node: ast.expr) -> bool:
    above = module.parent(node)
    if not isinstance(above, ast.Call) or above.args[:1] != [node]:
        return False
    layers = flow.values(above.func)
    return bool(layers) and all(isinstance(each, (Made, External)) and each.name in _EMBEDDINGS for each in layers)


def _handed_on(module: Module, call: ast.Call) -> ast.Call | None:
    """The last of the methods that are called on the tensor one after another; None where one does not hand it on."""
    node = call
    while True:
        method = module.parent(node)
        following = module.parent(method) if isinstance(method, ast.Attribute) else None
        if not isinstance(method, ast.Attribute) or not isinstance(following, ast.Call) or following.func is not method:
            return node
        if method.attr not in _HANDED_ON:
            return None
        node = following


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
