"""Questions that lead to each other, perhaps back to where they began: none is asked twice, and none is cut off."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

Key = TypeVar("Key", bound="Hashable")
Result = TypeVar("Result")


def closure(starts: Iterable[Key], following: Callable[[Key], Iterable[Key]]) -> Iterator[Key]:
    """The starts and all that they lead to, each once, and before what it leads to itself."""
    todo, seen = [iter(starts)], set[Key]()
    while todo:
        key = next((each for each in todo[-1] if each not in seen), None)
        if key is None:
            todo.pop()
            continue
        seen.add(key)
        yield key
        todo.append(iter(following(key)))


class Answers(Generic[Key, Result]):
    """The answers to questions that may need the answers to others, and so their own.

    None is worked out within another, as Python's stack is finite: one that asks for what is not known yet waits until
    that is, and is worked out once more. Of those that ask for each other, each is taken for the least first, and is
    worked out again as long as what it asked for grows.

    Args:
        compute: Works one out; it may ask for others, and for itself.
        bottom: The least.
        join: What holds what two answers say; as it is applied again and again, it must come to an end.
    """

    def __init__(
        self, compute: Callable[[Key], Result], bottom: Result, join: Callable[[Result, Result], Result]
    ) -> None:
        self._compute = compute
        self._bottom = bottom
        self._join = join
        self._known: dict[Key, Result] = {}
        self._taken: dict[Key, Result] = {}
        """What those are taken for that were begun, and are not known yet."""
        self._askers: defaultdict[Key, dict[Key, None]] = defaultdict(dict)
        """What asked for these."""
        self._new: dict[Key, None] = {}
        """What was asked for and not begun, since the last one was."""
        self._running: list[Key] = []
        """What is being worked out, if anything."""

    @property
    def asked(self) -> Iterable[Key]:
        """What was asked for so far."""
        return (*self._known, *self._taken)

    def of(self, key: Key) -> Result:
        """The answer to a question."""
        if key in self._known:
            return self._known[key]
        if not self._running:
            self._settle(key)
            return self._known[key]
        self._askers[key][self._running[-1]] = None
        if key not in self._taken:
            self._new[key] = None
        return self._taken.get(key, self._bottom)

    def _settle(self, first: Key) -> None:
        """Works out an answer, and those that it needs."""
        todo = {first: None}
        try:
            while todo:
                self._take(todo)
            self._known |= self._taken
        finally:
            self._running.clear()
            self._taken.clear()
            self._askers.clear()

    def _take(self, todo: dict[Key, None]) -> None:
        """Works out the last, and puts those on top that are to be worked out because of that."""
        key, _ = todo.popitem()
        before = self._taken.setdefault(key, self._bottom)
        self._new.clear()
        self._running.append(key)
        found = self._join(self._compute(key), before)
        self._running.pop()
        for each in (key, *reversed(self._new)) if self._new else ():
            todo.pop(each, None)
            todo[each] = None
        if not self._new and found != before:
            self._taken[key] = found
            todo |= self._askers[key]
