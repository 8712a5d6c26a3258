"""Which tensors does a loop copy to the host in each pass although nothing reads the copy?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, lists_object
from codemods.dataflow.source import FUNCTIONS, LOOPS, walk
from codemods.dataflow.values import MovedTensor, SomeTensor, Unknown, without_none
from codemods.facts.devices.readings import is_copy_to_host
from codemods.facts.loops import repeats
from codemods.facts.reaching import is_seen_elsewhere, reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_ON_THE_WAY = frozenset({"numpy", "detach", "tolist", "copy", "squeeze", "flatten"})
"""Methods of what is copied, or of the copy; a number is spoken of elsewhere."""
_PERHAPS_THERE = (SomeTensor, MovedTensor, Unknown)
_LOOK_AT_ALL = frozenset({"locals", "globals", "vars", "eval", "exec", "dir"})


def unread_copies(flow: Flow, module: Module) -> Iterator[tuple[ast.Name, ast.Call]]:
    """The names that passes of loops give copies, ``out = out.cpu().numpy()``, which nothing reads; and the copies."""
    for copy in module.nodes(ast.Call):
        if not is_copy_to_host(flow, copy) or copy.keywords or not isinstance(copy.func, ast.Attribute):
            continue
        statement = module.statement(copy)
        match statement:
            case ast.Assign([ast.Name() as name], value) if _is_made_of(value, copy) and _is_repeated(module, copy):
                there = without_none(flow.values(_tensor(copy.func.value)))
                if (
                    there
                    and all(isinstance(each, _PERHAPS_THERE) for each in there)
                    and _is_unread(module, name, value)
                ):
                    yield name, copy


def _is_made_of(value: ast.expr, copy: ast.Call) -> bool:
    """Whether it is the copy, or what methods of that make of it and nothing else: ``x.cpu().numpy()``."""
    while value is not copy:
        match value:
            case ast.Call(ast.Attribute(inner, name), [], []) if name in _ON_THE_WAY:
                value = inner
            case _:
                return False
    return True


def _tensor(node: ast.expr) -> ast.expr:
    """``x`` of ``x.detach()``."""
    match node:
        case ast.Call(ast.Attribute(inner, name), [], []) if name in _ON_THE_WAY:
            return _tensor(inner)
        case ast.Attribute(inner, "data"):
            return _tensor(inner)
    return node


def _is_repeated(module: Module, node: ast.AST) -> bool:
    """Whether each pass of a loop comes to a node: not under a condition, nor where an exception is handled."""
    below = node
    for above in module.ancestors(node):
        if isinstance(above, LOOPS):
            return isinstance(above, (ast.For, ast.While)) and repeats(above, below)
        if isinstance(above, (*FUNCTIONS, ast.ClassDef, ast.If, ast.IfExp, ast.ExceptHandler)):
            return False
        below = above
    return False


def _is_unread(module: Module, name: ast.Name, value: ast.expr) -> bool:
    scope = module.function(value) or module.tree
    if is_seen_elsewhere(module, name) or (scope is module.tree and module.notebook):
        return False
    named = (each for each in walk(scope) if isinstance(each, ast.Name) and each.id in _LOOK_AT_ALL)
    looked = (each for each in named if not _is_of_object(module, each, name.id))
    return not any(looked) and not reaching(scope).readers(value) and name.id in bound_names(scope)


def _is_of_object(module: Module, looking: ast.Name, name: str) -> bool:
    """``vars(args)``."""
    call = module.parent(looking)
    return isinstance(call, ast.Call) and call.func is looking and lists_object(module, call, {name})
