"""What the local names of a unit may be at one point of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from codemods.dataflow.values import UNBOUND, Values, joined

_NEVER_BOUND: Values = frozenset({UNBOUND})


class Environment(Mapping[str, Values]):
    """The local names that may be bound at a point, each with what it may be there.

    Immutable, so that every statement can keep the environment that it starts with. Neighbouring points share one
    large dictionary, and what was bound since lies over it, until that is so much that copying it gets dear and a new
    large one is made. So a module of n assignments costs about n·√n entries, not n².
    """

    __slots__ = ("_base", "_recent")

    def __init__(self, base: dict[str, Values] | None = None, recent: dict[str, Values] | None = None) -> None:
        self._base = base or {}
        self._recent = recent or {}

    def __getitem__(self, name: str) -> Values:
        found = self._recent.get(name)
        return self._base[name] if found is None else found

    def find(self, name: str) -> Values | None:
        """What the name may be, or None where it is not bound."""
        found = self._recent.get(name)
        return self._base.get(name) if found is None else found

    def __contains__(self, name: object) -> bool:
        return name in self._recent or name in self._base

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (name for name in self._recent if name not in self._base)

    def __len__(self) -> int:
        return len(self._base) + sum(name not in self._base for name in self._recent)

    def bind(self, name: str, values: Values) -> Environment:
        """The environment after the name was bound."""
        return self if self is UNREACHABLE else self._with({name: values})

    def unbind(self, name: str) -> Environment:
        """The environment after ``del name``."""
        return self.bind(name, _NEVER_BOUND)

    def join(self, other: Environment) -> Environment:
        """The environment where two ways meet: itself, where the other brings nothing new.

        A name that only one of them binds may be unbound.
        """
        if self is UNREACHABLE or other is UNREACHABLE or self is other:
            return other if self is UNREACHABLE else self
        base, recent = self._base, self._recent
        other_base, other_recent = other._base, other._recent
        same = base is other_base
        names = {**recent, **other_recent} if same else {**base, **recent, **other_base, **other_recent}
        changed: dict[str, Values] = {}
        for name in names:
            mine, theirs = recent.get(name), other_recent.get(name)
            if mine is None:
                mine = base.get(name, _NEVER_BOUND)
            if theirs is None:
                theirs = other_base.get(name, _NEVER_BOUND)
            if mine is theirs:
                continue
            both = mine if theirs <= mine else joined(mine, theirs)
            if both != mine or name not in self:
                changed[name] = both
        return self._with(changed) if changed else self

    def _with(self, changed: dict[str, Values]) -> Environment:
        recent = {**self._recent, **changed}
        if len(recent) ** 2 > len(self._base):
            return Environment({**self._base, **recent})
        return Environment(self._base, recent)


UNREACHABLE = Environment()
"""The environment after ``return``, ``raise``, ``break`` and ``continue``."""
