"""Questions that lead to each other, perhaps back to where they began: none is asked twice, and none is cut off."""

from __future__ import annotations

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

    What is asked for while it is being worked out is taken for the least first, and is worked out again until it does
    not grow.

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
        self._running: set[Key] = set()
        self._taken: dict[Key, Result] = {}
        """What those are taken for that are being worked out, or rest on such."""
        self._growths = 0
        """How often one of these has grown."""
        self._assumed: set[Key] = set()
        """What was taken for something since the innermost of the running ones was begun."""
        self._resting: dict[Key, frozenset[Key]] = {}
        """What was answered by what these are taken for."""

    def of(self, key: Key) -> Result:
        """The answer to a question."""
        if key in self._known:
            return self._known[key]
        if key in self._running or key in self._resting:
            self._assumed |= self._resting.get(key, {key})
            return self._taken.get(key, self._bottom)
        around, self._assumed = self._assumed, set()
        self._running.add(key)
        found = self._settled(key)
        self._running.remove(key)
        self._assumed.discard(key)
        self._taken[key] = found
        for each in (key, *(each for each, on in self._resting.items() if key in on)):
            self._rest(each, self._resting.pop(each, frozenset()) - {key} | self._assumed)
        self._assumed |= around
        return found

    def _settled(self, key: Key) -> Result:
        """The answer, worked out again and again where it needs itself and nothing else that is not known."""
        while True:
            growths = self._growths
            found = self._compute(key)
            if not self._assumed:
                return found
            before = self._taken.get(key, self._bottom)
            found = self._join(found, before)
            if found != before:
                self._taken[key] = found
                self._growths += 1
            if self._assumed != {key} or self._growths == growths:
                return found
            self._resting = {each: on for each, on in self._resting.items() if key not in on}
            self._assumed.clear()

    def _rest(self, key: Key, on: frozenset[Key]) -> None:
        if on:
            self._resting[key] = on
        else:
            self._known[key] = self._taken.pop(key)
