"""Where does a script ask which names have a value: ``"loader" in globals()``, ``except NameError:``?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_OF_FUNCTION = frozenset(f"builtins.{name}" for name in ("locals", "vars", "dir"))
"""What lists the names of where it is called, given nothing."""
_OF_MODULE = "builtins.globals"
_MISSING = frozenset({"builtins.NameError", "builtins.UnboundLocalError"})
_ANY = frozenset({"builtins.Exception", "builtins.BaseException"})


def asked(
    script: Script, module: Module, loop: ast.stmt, names: Collection[str], *, may_be_skipped: bool
) -> Iterator[ast.AST]:
    """Where somebody would see that names have a value before the loop that gives them one.

    Args:
        script: The script.
        module: Where the loop stands.
        loop: The loop.
        names: The names that it gives a value.
        may_be_skipped: Whether the loop may have no pass, so that they have none after it.
    """
    function, inside = module.function(loop), set(walk(loop))
    for call in listed(script, module, loop, names):
        if may_be_skipped or call in inside or module.function(call) is not function:
            yield call
    if may_be_skipped:
        yield from _caught_missing(script, module, inside, names)


def listed(script: Script, module: Module, place: ast.AST, names: Collection[str]) -> Iterator[ast.Call]:
    """The calls in the module that list the names of the code around a place, unless for one that is none of these."""
    function = module.function(place)
    listing = _OF_FUNCTION if function is not None else _OF_FUNCTION | {_OF_MODULE}
    for call in module.nodes(ast.Call):
        called = {each.name for each in script.flow.values(call.func)} if not call.args else set()
        may_see = module.function(call) is function or (function is None and _OF_MODULE in called)
        if called & listing and may_see and not _is_for_another(module, call, names):
            yield call


def _is_for_another(module: Module, call: ast.Call, names: Collection[str]) -> bool:
    """Whether what lists names is asked for one that is written out, and is none of these: ``globals()["Net"]``."""
    match module.parent(call):
        case ast.Subscript(_, ast.Constant(key)) | ast.Compare(ast.Constant(key), [ast.In() | ast.NotIn()]):
            return key not in names
    return False


def _caught_missing(
    script: Script, module: Module, inside: Collection[ast.AST], names: Collection[str]
) -> Iterator[ast.ExceptHandler]:
    """What catches the error of a name without a value, where one of the names is read outside of the loop."""
    reading = {
        each
        for each in module.nodes(ast.Name)
        if each.id in names and isinstance(each.ctx, ast.Load) and each not in inside
    }
    for handler in module.nodes(ast.ExceptHandler) if reading else ():
        tried, caught = module.parent(handler), _caught(script, handler)
        is_around = isinstance(tried, ast.Try) and any(each in reading for part in tried.body for each in walk(part))
        if caught & _MISSING or (is_around and caught & _ANY):
            yield handler


def _caught(script: Script, handler: ast.ExceptHandler) -> set[str]:
    """The qualified names of the exceptions that it catches."""
    if handler.type is None:
        return {"builtins.BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {value.name for each in types for value in script.flow.values(each)}
