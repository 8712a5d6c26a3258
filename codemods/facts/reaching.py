"""Which expressions gave a name what it holds where it is read, and at which places, in one function or module."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, children, kept, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.source import Module

_Given: TypeAlias = "frozenset[ast.expr | None]"
_UNKNOWN: _Given = frozenset({None})
_Bound: TypeAlias = "frozenset[ast.Name | None]"
_ELSEWHERE: _Bound = frozenset({None})
_Part = TypeVar("_Part")


class Reaching:
    """The names that are read in the own code of a function or module, each with what it may have been given.

    A name that is given another one holds what that one does. ``None`` stands for whatever is no plain expression: a
    parameter, a part of a tuple, an item that a loop goes through.
    """

    def __init__(self, scope: ast.AST) -> None:
        self._reads: Mapping[ast.Name, _Given] = _reads(_Expressions(scope), scope)
        self._readers: defaultdict[ast.expr, list[ast.Name]] = defaultdict(list)
        for name, given in self._reads.items():
            for each in given - _UNKNOWN:
                if each is not None:
                    self._readers[each].append(name)

    def given(self, name: ast.Name) -> Sequence[ast.expr] | None:
        """What the name may have been given where it is read; None where not all of that is known."""
        return None if None in self._reads.get(name, _UNKNOWN) else self.known(name)

    def known(self, name: ast.Name) -> Sequence[ast.expr]:
        """What is known of what the name may have been given where it is read."""
        known = [each for each in self._reads.get(name, _UNKNOWN) if each is not None]
        return sorted(known, key=lambda each: (each.lineno, each.col_offset))

    def readers(self, value: ast.expr) -> Sequence[ast.Name]:
        """Where what the expression gave is read, in the order of the text, be it by another name."""
        return sorted(self._readers.get(value, ()), key=lambda each: (each.lineno, each.col_offset))


class Targets:
    """The names that are read in the own code of a function or module, each with the targets that may bind it last."""

    def __init__(self, scope: ast.AST) -> None:
        self._reads: Mapping[ast.Name, _Bound] = _reads(_LastTargets(scope), scope)

    def of(self, name: ast.Name) -> Sequence[ast.Name] | None:
        """Where the name may be bound last before it is read there; None where a parameter or an import may be it."""
        found = self._reads.get(name, _ELSEWHERE)
        known = [each for each in found if each is not None]
        return sorted(known, key=lambda each: (each.lineno, each.col_offset)) if len(known) == len(found) else None

    def are_bound_alike(self, one: ast.Name, other: ast.Name) -> bool:
        """Whether two reads of a name are of what the same places bind it to: a parameter among them."""
        found = self._reads.get(one)
        return found is not None and found == self._reads.get(other)


@kept
def reaching(scope: ast.AST) -> Reaching:
    """What the names of a function or module are given."""
    return Reaching(scope)


@kept
def targets(scope: ast.AST) -> Targets:
    """What binds the names of a function or module."""
    return Targets(scope)


def is_seen_elsewhere(module: Module, name: ast.Name) -> bool:
    """Whether another function may read the name, or write to it."""
    function = module.function(name)
    if isinstance(function, FUNCTIONS) and name.id in declared_outer(function):
        return True
    others = {module.function(each) for each in module.nodes(ast.Name) if each.id == name.id} - {function}
    return any(name.id not in bound_names(each or module.tree) for each in others)


def _reads(walk_: _Walk[_Part], scope: ast.AST) -> Mapping[ast.Name, frozenset[_Part]]:
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


def _given_before(scope: ast.AST) -> Iterator[str]:
    """The names of a function that hold something when it starts: its parameters, and names of the module."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    yield from signature(scope).names
    for each in walk(scope):
        if isinstance(each, (ast.Global, ast.Nonlocal)):
            yield from each.names


class _Walk(ForwardAnalysis["frozenset[_Part]"], Generic[_Part]):
    """Notes what names hold where they are read; ``nothing_seen`` is what they hold that nothing here gave them."""

    def __init__(self, scope: ast.AST, nothing_seen: frozenset[_Part]) -> None:
        super().__init__(dict.fromkeys(_given_before(scope), nothing_seen), nothing_seen)
        self.reads: dict[ast.Name, frozenset[_Part]] = {}
        self.ever: dict[str, frozenset[_Part]] = {}
        """What each name ever held."""

    def join(self, one: frozenset[_Part], other: frozenset[_Part]) -> frozenset[_Part]:
        return one | other

    def reached(self, statement: ast.stmt) -> None:
        for name in _names_of(statement):
            self._read(name)

    def _read(self, name: ast.Name) -> None:
        self.reads[name] = self.reads.get(name, frozenset()) | self.names.get(name.id, self._bottom)

    def _note(self, name: str, held: frozenset[_Part]) -> None:
        self.ever[name] = self.ever.get(name, frozenset()) | held


class _Expressions(_Walk["ast.expr | None"]):
    """A name holds the expressions that gave it what it has."""

    def __init__(self, scope: ast.AST) -> None:
        super().__init__(scope, _UNKNOWN)

    def of(self, node: ast.expr) -> _Given:
        return self.names.get(node.id, _UNKNOWN) if isinstance(node, ast.Name) else frozenset({node})

    def element(self, node: ast.expr) -> _Given:  # noqa: ARG002 - whatever is gone through
        return _UNKNOWN

    def augmented(self, statement: ast.AugAssign) -> _Given:
        if isinstance(statement.target, ast.Name):
            self._read(statement.target)
        return _UNKNOWN

    def bound(self, target: ast.Name, held: _Given) -> None:
        self._note(target.id, held)


class _LastTargets(_Walk["ast.Name | None"]):
    """A name holds the targets that may have bound it last."""

    def __init__(self, scope: ast.AST) -> None:
        super().__init__(scope, _ELSEWHERE)
        self._subjects: set[ast.expr] = set()
        """What ``match`` is about: the names in its patterns are no targets."""

    def reached(self, statement: ast.stmt) -> None:
        super().reached(statement)
        if isinstance(statement, ast.Match):
            self._subjects.add(statement.subject)

    def of(self, node: ast.expr) -> _Bound:
        return _ELSEWHERE if node in self._subjects else frozenset()

    def bound(self, target: ast.Name, held: _Bound) -> None:  # noqa: ARG002 - as above
        # Where it is bound for certain, nothing is left of what it held.
        self.put(target.id, frozenset({target}), certain=False)
        self._note(target.id, frozenset({target}))


def _names_of(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names that a statement reads itself, not those of the statements within."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return
    for part in children(statement):
        if not isinstance(part, (ast.stmt, ast.excepthandler, ast.match_case)):
            for each in walk(part):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                    yield each
