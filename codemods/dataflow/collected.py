"""Which modules only a test runner runs: what they call, and with what, is not what the program does."""

from __future__ import annotations

import ast
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from codemods.dataflow.source import LOOPS, children, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from codemods.dataflow.source import Module

_FILE = re.compile(r"test_\w*\.py|\w+_test\.py")
_FIXTURES = "conftest.py"
_DIRECTORIES = frozenset({"test", "tests"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def collected(modules: Iterable[Module]) -> frozenset[Module]:
    """The files of unit tests, and what else lies in a directory of tests, but for scripts that a user runs."""
    idle = [each for each in modules if not _runs_something(each)]
    files = [each for each in idle if _is_test_file(each)]
    directories = {_directory(each) for each in files if _directory(each).name in _DIRECTORIES}
    return frozenset([*files, *(each for each in idle if _directory(each) in directories)])


def _is_test_file(module: Module) -> bool:
    name = PurePath(module.path).name
    return name == _FIXTURES or (_FILE.fullmatch(name) is not None and any(_tests(module)))


def _tests(module: Module) -> Iterator[ast.AST]:
    """``def test_loss():``, in the module or in a class."""
    classes = (each for each in module.tree.body if isinstance(each, ast.ClassDef))
    for owner in (module.tree, *classes):
        yield from (each for each in children(owner) if isinstance(each, _FUNCTIONS) and each.name.startswith("test"))


def _runs_something(module: Module) -> bool:
    """Whether it is a script: it has a loop of its own, or calls one of its functions, if not ``test_loss()``."""
    own = {each.name for each in module.tree.body if isinstance(each, _FUNCTIONS)}
    run = [each for each in module.tree.body if not isinstance(each, (*_FUNCTIONS, ast.ClassDef))]
    return any(isinstance(each, LOOPS) or _is_call_of(own, each) for statement in run for each in walk(statement))


def _is_call_of(functions: Collection[str], node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions):
        return False
    is_test = node.func.id.startswith("test") and not (node.args or node.keywords)
    return not is_test


def _directory(module: Module) -> PurePath:
    return PurePath(module.path).parent
