"""Which expressions gave a name what it holds where it is read, in one function or module."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import bound_names
from codemods.dataflow.source import FUNCTIONS, children, kept, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_Given: TypeAlias = "frozenset[ast.expr | None]"
_UNKNOWN: _Given = frozenset({None})


class Reaching:
    """The names that are read in the own code of a function or module, each with what it may have been given.

    A name that is given another one holds what that one does. ``None`` stands for whatever is no plain expression: a
    parameter, a part of a tuple, an item that a loop goes through.
    """

    def __init__(self, scope: ast.AST) -> None:
        self._reads: Mapping[ast.Name, _Given] = _reads(scope)
        self._readers: defaultdict[ast.expr, list[ast.Name]] = defaultdict(list)
        for name, given in self._reads.items():
            for each in given - _UNKNOWN:
                if each is not None:
                    self._readers[each].append(name)

    def given(self, name: ast.Name) -> Sequence[ast.expr] | None:
        """What the name may have been given where it is read; None where not all of that is known."""
        found = self._reads.get(name, _UNKNOWN)
        known = [each for each in found if each is not None]
        return sorted(known, key=lambda each: (each.lineno, each.col_offset)) if len(known) == len(found) else None

    def readers(self, value: ast.expr) -> Sequence[ast.Name]:
        """Where what the expression gave is read, in the order of the text, be it by another name."""
        return sorted(self._readers.get(value, ()), key=lambda each: (each.lineno, each.col_offset))


@kept
def reaching(scope: ast.AST) -> Reaching:
    """What the names of a function or module are given."""
    return Reaching(scope)


def _reads(scope: ast.AST) -> Mapping[ast.Name, _Given]:
    walk_ = _Walk()
    body = scope.body if isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)) else []
    walk_.run(body)
    late = [each.test for each in walk(scope) if isinstance(each, ast.While)]
    # What functions within read, and tests of later passes, they may read at any time.
    functions = [each for each in walk(scope) if isinstance(each, FUNCTIONS) and each is not scope]
    for part in (*late, *functions):
        local = bound_names(part) if isinstance(part, FUNCTIONS) else frozenset()
        for name in walk(part):
            if isinstance(name, ast.Name) and name.id in walk_.ever and name.id not in local:
                walk_.reads[name] = walk_.reads.get(name, frozenset()) | walk_.ever[name.id]
    return walk_.reads


class _Walk(ForwardAnalysis[_Given]):
    def __init__(self) -> None:
        super().__init__({}, _UNKNOWN)
        self.reads: dict[ast.Name, _Given] = {}
        self.ever: dict[str, _Given] = {}
        """What each name was ever given."""

    def join(self, one: _Given, other: _Given) -> _Given:
        return one | other

    def of(self, node: ast.expr) -> _Given:
        return self.names.get(node.id, _UNKNOWN) if isinstance(node, ast.Name) else frozenset({node})

    def element(self, node: ast.expr) -> _Given:  # noqa: ARG002 - whatever is gone through
        return _UNKNOWN

    def augmented(self, statement: ast.AugAssign) -> _Given:
        if isinstance(statement.target, ast.Name):
            self._read(statement.target)
        return _UNKNOWN

    def bound(self, target: ast.Name, held: _Given) -> None:
        self.ever[target.id] = self.ever.get(target.id, frozenset()) | held

    def reached(self, statement: ast.stmt) -> None:
        for name in _names_of(statement):
            self._read(name)

    def _read(self, name: ast.Name) -> None:
        self.reads[name] = self.reads.get(name, frozenset()) | self.names.get(name.id, _UNKNOWN)


def _names_of(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names that a statement reads itself, not those of the statements within."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return
    for part in children(statement):
        if not isinstance(part, (ast.stmt, ast.excepthandler, ast.match_case)):
            for each in walk(part):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                    yield each
