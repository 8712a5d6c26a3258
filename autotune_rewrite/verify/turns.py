"""Two processes that run in turns, one stopped while the other runs: what disturbs the machine meets both alike.

On two cores of a machine that others share, eight pairs of a script of ten seconds beside itself varied by 7.8 % where
one run followed the other, and by 1.6 % in turns (standard deviation of the ratio's logarithm).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import sys
import time
from threading import Condition
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

POSSIBLE = sys.platform == "linux"
"""Elsewhere a process that is stopped would stay when the one that measures is killed."""
SLICE = 0.2
"""Seconds of a turn: caches are warm again within a hundredth of it, and other programs seldom come and go so soon."""
POLL = 0.25
"""Seconds between two looks at a process that runs alone."""


class Pace(Protocol):
    """When a process may run, and how long it has run."""

    slice: float
    """Seconds until ``pause`` is to be called again."""

    def begin(self, directory: Path) -> Path | None:
        """Waits until the process may be started.

        Args:
            directory: Where a file may be written.

        Returns:
            The file that tells the process how long it was stopped, if it ever is.
        """

    def now(self) -> float:
        """Seconds as ``time.perf_counter`` counts them, but for those in which the process was stopped."""

    def pause(self, process: int) -> None:
        """Lets the other process run, if there is one; the process leads the group that is stopped meanwhile.

        Raises:
            KeyboardInterrupt: The user has ended both.
        """

    def interrupt(self) -> None:
        """The user has ended it: the other process is to end, too."""

    def end(self) -> None:
        """The process has ended: waits until the other has, too, as what follows would disturb it."""


class Alone:
    """A process runs from its start to its end."""

    slice = POLL

    def begin(self, directory: Path) -> None:
        """It may start."""

    def now(self) -> float:
        """As it is."""
        return time.perf_counter()

    def pause(self, process: int) -> None:
        """Nobody waits for it."""

    def interrupt(self) -> None:
        """There is no other."""

    def end(self) -> None:
        """Nobody waits for it."""


class Turns:
    """What two processes share: whose turn it is, and which of the two have come and gone."""

    def __init__(self) -> None:
        self.parts = Part(self, 0), Part(self, 1)
        self._changed = Condition()
        self._at = 0
        self._come: set[int] = set()
        self._gone: set[int] = set()
        self._interrupted = False

    def come(self, number: int) -> None:
        """A process could start now: waits for the other one, and then for its turn."""
        with self._changed:
            self._come.add(number)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._gone or len(self._come) == len(self.parts))
        self.take(number)

    def take(self, number: int) -> None:
        """Waits for the turn of a process.

        Raises:
            KeyboardInterrupt: The user has ended both.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._interrupted or self._at == number or 1 - number in self._gone)
            if self._interrupted:
                raise KeyboardInterrupt
            self._at = number

    def give(self, number: int) -> bool:
        """It is the other's turn; whether there is another that has one."""
        with self._changed:
            if self._interrupted:
                raise KeyboardInterrupt
            if 1 - number in self._gone:
                return False
            self._at = 1 - number
            self._changed.notify_all()
            return True

    def go(self, number: int) -> None:
        """A process has ended, or never starts: from now on the other has all turns."""
        with self._changed:
            self._gone.add(number)
            self._changed.notify_all()

    def wait_for_all(self) -> None:
        """Waits until both have gone."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._gone) == len(self.parts))

    def interrupt(self) -> None:
        """Ends both: whoever waits, or has its turn, learns of it."""
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()


class Part:
    """One of two processes that run in turns.

    Args:
        turns: What it shares with the other.
        number: 0 for the one that begins, or 1.
    """

    slice = SLICE

    def __init__(self, turns: Turns, number: int) -> None:
        self._turns, self._number = turns, number
        self._stopped = 0.0
        self._told: mmap.mmap | None = None

    def begin(self, directory: Path) -> Path:
        """Waits until both may be started, and it is this one's turn.

        Args:
            directory: Where a file may be written.

        Returns:
            The file that tells the process how long it was stopped.
        """
        path = directory / "stopped"
        path.write_bytes(struct.pack("d", 0.0))
        with path.open("r+b") as file:
            self._told = mmap.mmap(file.fileno(), 0)
        self._turns.come(self._number)
        return path

    def now(self) -> float:
        """Seconds as ``time.perf_counter`` counts them, but for those in which the process was stopped."""
        return time.perf_counter() - self._stopped

    def pause(self, process: int) -> None:
        """Stops the group that the process leads while the other one has its turn.

        Raises:
            KeyboardInterrupt: The user has ended both.
        """
        with contextlib.suppress(ProcessLookupError):  # it ends just now
            os.killpg(process, signal.SIGSTOP)
        since = time.perf_counter()
        if self._turns.give(self._number):
            self._turns.take(self._number)
        self._stopped += time.perf_counter() - since
        assert self._told is not None  # noqa: S101 - `begin` was called; for the type checker
        struct.pack_into("d", self._told, 0, self._stopped)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGCONT)

    def interrupt(self) -> None:
        """The user has ended it: the other process is to end, too."""
        self._turns.interrupt()

    def end(self) -> None:
        """The process has ended: waits until the other has, too, as what follows would disturb it."""
        self.go()
        self._turns.wait_for_all()

    def go(self) -> None:
        """There is no process any more, or never was one."""
        self._turns.go(self._number)
