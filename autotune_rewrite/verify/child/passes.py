"""Inside the run: how often are data loaders passed through, and how long are their batches waited for?

It stands on torch and the standard library only, as ``harness.py`` does; ``recorder.py`` loads it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

SEEN = "_torchfast_pass"
"""The attribute of a data loader's iterator that holds what was seen of the pass."""


class Pass:
    """A pass through a data loader. Times are those of the clock that ``Passes`` reads."""

    __slots__ = ("batches", "end", "iterations", "samples", "start", "waited")

    def __init__(self, start: float, waited: float) -> None:
        self.start, self.end, self.waited = start, start + waited, waited
        self.batches = self.samples = self.iterations = 0


class Passes:
    """The hooks in data loaders and their iterators, and what they have seen.

    Args:
        most: Ends every pass after so many batches, or never.
        now: The clock.
    """

    def __init__(self, most: int | None, now: Callable[[], float]) -> None:
        self.all: list[Pass] = []
        self.waited = 0.0
        """Seconds that batches were waited for, in all."""
        self.off = False
        """Whether this is a fork of the script: it is not the run."""
        self._most, self._now = most, now
        self._fresh: list[Pass] = []
        """The passes that gave a batch since the last backward call."""
        self._loading = False
        self._thread = threading.get_ident()

    def trained(self) -> None:
        """A backward call has begun: it is for what was read since the last one."""
        if self._fresh:
            for one in self._fresh:
                one.iterations += 1
            self._fresh.clear()

    def watched_iter(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        """The ``__iter__`` of data loaders, with which a pass begins."""

        @functools.wraps(begin)
        def watched(loader: Any) -> Any:  # noqa: ANN401 - a data loader, and its iterator
            if not self._is_training():
                return begin(loader)
            start = self._now()
            self._loading = True
            try:
                batches = begin(loader)
            finally:
                self._loading = False
            waited = self._now() - start
            self.waited += waited
            self.all.append(Pass(start, waited))
            with contextlib.suppress(AttributeError):  # an iterator of the script's own may take no attributes
                setattr(batches, SEEN, self.all[-1])
            return batches

        return watched

    def watched_next(self, following: Callable[..., Any]) -> Callable[..., Any]:
        """The ``__next__`` of their iterators, which gives a batch or ends the pass."""

        @functools.wraps(following)
        def watched(batches: Any) -> Any:  # noqa: ANN401 - a loader's iterator, and a batch
            seen: Pass | None = getattr(batches, SEEN, None)
            if seen is None or not self._is_training():
                return following(batches)
            if self._most is not None and seen.batches >= self._most:
                self._end(seen)
                raise StopIteration
            start = self._now()
            self._loading = True
            try:
                batch = following(batches)
            except StopIteration:
                self._end(seen)
                raise
            finally:
                self._loading = False
                seen.end = self._now()
                seen.waited += seen.end - start
                self.waited += seen.end - start
            seen.batches += 1
            seen.samples += rows(batch)
            if seen not in self._fresh:
                self._fresh.append(seen)
            return batch

        return watched

    def _end(self, seen: Pass) -> None:
        """The last batch of a pass was not trained on if no backward call came after it."""
        if seen in self._fresh:
            self._fresh.remove(seen)

    def _is_training(self) -> bool:
        """Whether this is the script's main thread, and not within the loading of another batch."""
        return not (self._loading or self.off) and threading.get_ident() == self._thread


def rows(batch: Any) -> int:  # noqa: ANN401 - whatever a loader yields
    """How many samples a batch has: the first dimension of its first tensor; 0 where that is not to be seen."""
    while not isinstance(batch, torch.Tensor):
        if isinstance(batch, dict):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        else:
            return 0
    return batch.shape[0] if batch.dim() else 1
