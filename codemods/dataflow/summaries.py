"""What functions do, as far as other functions that they call do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

Key = TypeVar("Key", bound="Hashable")
Result = TypeVar("Result")


class Summaries(Generic[Key, Result]):
    """What functions do, by the sort of call; of those that call each other, the least that holds of all.

    None is worked out within another, as Python's stack is finite: what is asked for meanwhile is taken for the least
    first, and whatever took it for that is worked out again once more is known.

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
        self._askers: dict[Key, dict[Key, None]] = {}
        self._todo: dict[Key, None] = {}
        self._running: list[Key] = []
        """What is being worked out, if anything."""

    @property
    def asked(self) -> Iterable[Key]:
        """What was asked for so far."""
        return self._known

    def of(self, key: Key) -> Result:
        """What the function does in calls of that sort."""
        if key not in self._known:
            self._known[key] = self._bottom
            self._askers[key] = {}
            self._todo[key] = None
        if self._running:
            self._askers[key][self._running[-1]] = None
        else:
            self._settle()
        return self._known[key]

    def _settle(self) -> None:
        while self._todo:
            key, _ = self._todo.popitem()
            before = len(self._todo)
            self._running.append(key)
            found = self._join(self._compute(key), self._known[key])
            self._running.pop()
            if found != self._known[key]:
                self._known[key] = found
                # What it asked for comes first: its own answer may grow once more.
                late = dict.fromkeys(list(self._todo)[before:])
                others = {each: None for each in self._todo if each not in late}
                self._todo = others | {each: None for each in self._askers[key] if each not in late} | late
