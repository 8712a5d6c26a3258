"""Which of a library's networks is made where the user chooses one by its name, and gives no options?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.values import External
from codemods.facts.workers.arguments import values_by_default
from codemods.library.kinds import CHOSEN_BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.values import Values
    from codemods.facts.script import Script


def chosen_by_default(script: Script, name: str) -> frozenset[str]:
    """The names that ``torchvision.models.?`` stands for by default: of ``models.__dict__[args.arch]`` its default.

    Empty where one of the choices is not known.
    """
    package = name.removesuffix(CHOSEN_BY_NAME)
    chosen: set[str] = set()
    for key in _keys(script, package):
        texts = [key.value] if isinstance(key, ast.Constant) else values_by_default(script, key)
        if texts is None or not all(isinstance(each, str) for each in texts):
            return frozenset()
        chosen |= {f"{package}.{each}" for each in texts}
    return frozenset(chosen)


def _keys(script: Script, package: str) -> Iterator[ast.expr]:
    """What names an attribute of the package: in ``models.__dict__[key]``, ``getattr(models, key)``."""
    for module in script.modules:
        for node in module.nodes(ast.Subscript, ast.Call):
            match node:
                case ast.Subscript(owner, key) if _is(script.flow.values(owner), f"{package}.__dict__"):
                    if not _is_only_asked_about(script, module.parent(node)):
                        yield key
                case ast.Call(function, [owner, key, *_]) if _is(script.flow.values(owner), package) and _is(
                    script.flow.values(function), "builtins.getattr"
                ):
                    yield key


def _is_only_asked_about(script: Script, around: ast.AST | None) -> bool:
    """``callable(models.__dict__[name])``, of each name that the package has."""
    return isinstance(around, ast.Call) and _is(script.flow.values(around.func), "builtins.callable")


def _is(values: Values, name: str) -> bool:
    return any(isinstance(each, External) and each.name == name for each in values)
