"""Are the images and labels of a data set only looked at, or may somebody write to them?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import is_name, walk
from codemods.library.operators import Memory, operator

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_METADATA = words("shape dtype ndim device nbytes itemsize")
_CASTS = words("long int short char byte bool float double half")
"""Methods that return the tensor itself where it has that format already."""
_SHARING = words("numpy __iter__ __getitem__ data_ptr")
"""Methods whose result is no tensor, and may be in the same memory."""
_OF_LISTS = words("count index copy tolist astype")
"""Methods of lists and arrays that make a number or a new one."""
_PACKAGES = words("matplotlib seaborn plotly")
"""Packages that draw what they are given, and write to none of it."""
_COMPUTING = words(
    """
    builtins.len builtins.print builtins.set builtins.list builtins.sorted builtins.max builtins.min builtins.sum
    builtins.range builtins.str builtins.repr builtins.isinstance builtins.type collections.Counter
    numpy.array numpy.unique numpy.bincount numpy.mean numpy.std numpy.max numpy.min numpy.sum numpy.where numpy.shape
    """
)
_HANDING_ON = words("builtins.enumerate builtins.zip builtins.reversed builtins.iter tqdm.tqdm tqdm.auto.tqdm")
"""Functions that hand on the same numbers one by one."""


def is_only_looked_at(script: Script, module: Module, node: ast.expr) -> bool:
    """Whether nothing that stands around the numbers, or gets them under a name, may write to them."""
    todo, seen = [node], set[ast.expr]()
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        more = _handed_on(script, module, each)
        if more is None:
            return False
        todo.extend(more)
    return True


def _handed_on(script: Script, module: Module, node: ast.expr) -> list[ast.expr] | None:
    """The expressions that may be in the same memory as this one; None where it may be written to, or is kept."""
    above = module.parent(node)
    above = module.parent(above) if isinstance(above, ast.keyword) else above
    match above:
        case ast.Compare() | ast.BinOp() | ast.UnaryOp() | ast.FormattedValue() | ast.Expr():
            return []
        case ast.Subscript(ctx=ast.Load()):
            return [above] if above.value is node else []
        case ast.Attribute(ctx=ast.Load()):
            return _of_attribute(module, above)
        case ast.Call() if above.func is not node:
            return _of_call(script, above)
        case ast.Assign(targets=[target]) | ast.For(target=target) | ast.comprehension(target=target):
            return _of_names(script, module, target)
    return None


def _of_attribute(module: Module, node: ast.Attribute) -> list[ast.expr] | None:
    call = module.parent(node)
    if not isinstance(call, ast.Call) or call.func is not node:
        return [] if node.attr in _METADATA else None
    row = operator(node.attr)
    if node.attr in _OF_LISTS:
        return []
    if row is None or node.attr in _SHARING or row.memory is Memory.SELF:
        return None
    return [call] if row.memory in {Memory.VIEW, Memory.EITHER} or node.attr in _CASTS else []


def _of_call(script: Script, call: ast.Call) -> list[ast.expr] | None:
    names = {each.name for each in script.flow.values(call.func)}
    if not names or any(each.arg == "out" for each in call.keywords):
        return None
    if names <= _HANDING_ON:
        return [call]
    return [] if all(_only_computes(each) for each in names) else None


def _only_computes(name: str) -> bool:
    package, _, last = name.rpartition(".")
    row = operator(last) if package == "torch" else None
    return name in _COMPUTING or name.partition(".")[0] in _PACKAGES or (row is not None and row.memory is Memory.NEW)


def _of_names(script: Script, module: Module, target: ast.expr) -> list[ast.expr] | None:
    """All that may read the variables; None where they are no variables, are added to in place, or read elsewhere."""
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    others = [each for each in script.modules if each is not module]
    found: list[ast.expr] = []
    for each in targets:
        if not isinstance(each, ast.Name) or any(_names(other, each.id) for other in others):
            return None
        uses = [use for use in walk(module.tree) if is_name(use, each.id)]
        if any(isinstance(module.parent(use), ast.AugAssign) and isinstance(use.ctx, ast.Store) for use in uses):
            return None
        found.extend(use for use in uses if isinstance(use.ctx, ast.Load))
    return found


def _names(module: Module, name: str) -> bool:
    """Whether the module names something so, which may be another module's variable."""
    return any(each.attr == name for each in module.nodes(ast.Attribute)) or any(
        name in {each.name, "*"} for each in module.nodes(ast.alias)
    )
