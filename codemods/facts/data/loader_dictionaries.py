"""Which dictionaries are given to loaders alone, so that an option of all of them may stand there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script


def users_of(script: Script, loader: Loader) -> list[Loader]:
    """The loaders that are given one of the loader's dictionaries with ``**``, itself among them."""
    return [each for each in script.loaders if set(loader.dictionaries) & set(each.dictionaries)]


def own_sites(script: Script, loader: Loader) -> list[ast.AST]:
    """Where the loader's dictionaries are written out; nothing where one is not, or is given to more than loaders."""
    given = set(loader.dictionaries)
    sites = [each.site for each in loader.dictionaries if each.site is not None and _is_literal(loader.module, each)]
    is_all_theirs = _is_only_given(script, given, {each.call for each in users_of(script, loader)})
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
        if is_theirs and _is_literal(loader.module, value) and _is_only_given(script, {value}, set(calls)):
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
