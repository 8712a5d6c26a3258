"""Which dictionaries are given to loaders alone, so that an option of all of them may stand there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import last_name
from codemods.dataflow.values import Container

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_TAKING = frozenset({"copy", "items", "pop", "popitem", "clear"})
"""Methods that give what is in a dictionary to somebody else, or take it out of it."""
_COPYING = frozenset({"dict", "copy", "deepcopy", "ChainMap", "OrderedDict"})


def users_of(script: Script, loader: Loader) -> list[Loader]:
    """The loaders that are given one of the loader's dictionaries with ``**``, itself among them."""
    return [each for each in script.loaders if set(loader.dictionaries) & set(each.dictionaries)]


def own_sites(script: Script, loader: Loader) -> list[ast.AST]:
    """Where the loader's dictionaries are written out; nothing where one is not, or is given to more than loaders."""
    given = set(loader.dictionaries)
    sites = [each.site for each in loader.dictionaries if each.site is not None and _is_literal(loader.module, each)]
    users = users_of(script, loader)
    is_all_theirs = _is_only_given(script, given, {each.call for each in users})
    is_all_theirs = is_all_theirs and taken_at(script, {each.site for each in given}) is None
    return sites if len(sites) == len(given) and is_all_theirs else []


def merged(script: Script, loader: Loader) -> Iterator[tuple[ast.AST, list[Loader]]]:
    """The dictionaries that ``.update(…)`` merges into all those of the loader.

    Yields:
        Where each is written out, and the loaders whose dictionaries it is merged into: no others are given it.
    """
    updates: dict[Value, list[ast.Call]] = {}
    for call in loader.module.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "update" and call.args:
            for value in script.flow.values(call.args[0]):
                updates.setdefault(value, []).append(call)
    for value, calls in updates.items():
        into = {each for call in calls for each in script.flow.values(call.func.value)}  # type: ignore[attr-defined]
        given = [each for each in script.loaders if into & set(each.dictionaries)]
        known = {dictionary for each in given for dictionary in each.dictionaries}
        is_theirs = set(loader.dictionaries) <= into <= known
        is_theirs = is_theirs and _is_only_given(script, {value}, set(calls)) and taken_at(script, {value.site}) is None
        if is_theirs and _is_literal(loader.module, value):
            assert value.site is not None  # noqa: S101 - for mypy: it is written out
            yield value.site, given


def _is_literal(module: Module, dictionary: Value) -> bool:
    """Whether the dictionary is written out in the module: ``{…}`` or ``dict(…)``."""
    return isinstance(dictionary.site, (ast.Dict, ast.Call)) and module.holds(dictionary.site)


def _is_only_given(script: Script, dictionaries: set[Value], calls: set[ast.Call]) -> bool:
    """Whether no other calls than these are given one of the dictionaries."""
    return not any(
        dictionaries & script.flow.values(given)
        for module in script.modules
        for call in module.nodes(ast.Call)
        if call not in calls
        for given in arguments_of(call)
    )


def taken_at(script: Script, sites: Collection[ast.AST | None]) -> tuple[Module, ast.expr] | None:
    """Where what is in one of these dictionaries is copied, or taken out of it: ``{**kwargs, "num_workers": 0}``.

    Such a copy has what is written into the dictionary as well, and may have no workers. What ``update`` merges into
    others is not meant: see ``merged``.
    """
    for module in script.modules:
        for node in module.nodes(ast.Name, ast.Attribute, ast.Subscript):
            if _is_taken(module, node) and any(
                isinstance(each, Container) and each.site in sites for each in script.flow.values(node)
            ):
                return module, node
    return None


def _is_taken(module: Module, node: ast.expr) -> bool:
    """Whether items of a dictionary, if the node is one, are copied or taken out of it at that place."""
    match module.parent(node):
        case ast.Dict(keys, values):
            return any(key is None and value is node for key, value in zip(keys, values, strict=True))
        case ast.BinOp(op=ast.BitOr()):
            return True
        case ast.AugAssign(op=ast.BitOr(), value=value):
            return value is node
        case ast.Attribute(attr=name):
            return name in _TAKING
        case ast.Subscript(value=owner, ctx=ast.Del()):
            return owner is node
        case ast.Call(func, arguments):
            return node in arguments and last_name(func) in _COPYING
        case ast.keyword(None) as given:
            call = module.parent(given)
            return isinstance(call, ast.Call) and last_name(call.func) in _COPYING
    return False
