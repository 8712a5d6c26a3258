"""Tasks within a budget of seconds, and the file of JSON lines that their results are appended to.

A stage is a list of tasks, the most valuable first. A stage that is started again goes on where it ended: tasks that
have a line in the file are not carried out again. A process that is killed loses the tasks that were under way alone.
"""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Values = dict[str, Any]
"""What JSON has: strings, numbers, booleans, null, lists and objects."""


@dataclass(frozen=True, slots=True)
class Task:
    """One result of a stage."""

    key: str
    """Names its line; unique in the stage."""
    seconds: float
    """That it takes on the machine that the stage is meant for, as estimated."""
    run: Callable[[float], Values | None]
    """Carries it out within so many seconds, at most; None: they were too few, and it is to be done again. It may be
    called in another thread."""
    alone: bool = True
    """Whether nothing else may run beside it: its times count."""


class Ledger:
    """A file of JSON lines, each an object with the key of its task."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> Iterator[Values]:
        """The whole lines, in the order in which they were written; one that a kill has cut short is passed over."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                values: Values = json.loads(line)
                yield values

    def keys(self) -> frozenset[str]:
        """Of the tasks that have a line."""
        return frozenset(line["key"] for line in self.lines())

    def append(self, values: Values) -> None:
        """Writes a line so that it survives the end of this process, in the place of one that was cut short.

        Args:
            values: The line; what is not finite is given as a string.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        with self.path.open("rb+") as file:
            written = file.read()
            file.seek(written.rfind(b"\n") + 1)
            file.truncate()
            file.write(json.dumps(values, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@dataclass(slots=True)
class Progress:
    """What became of a stage's tasks in one call."""

    done: list[Values] = field(default_factory=list)
    """The lines that were appended."""
    before: int = 0
    """Tasks that had a line already."""
    postponed: list[str] = field(default_factory=list)
    """The keys of the tasks that the budget did not hold."""


def carry_out(
    tasks: Sequence[Task],
    ledger: Ledger,
    budget: float,
    *,
    beside: int = 1,
    tell: Callable[[Values], None] = lambda _: None,
) -> Progress:
    """Carries out the tasks that have no line yet, in order, as long as their estimates fit into the budget.

    Args:
        tasks: The most valuable first. One that does not fit any more is left for the next call; a shorter one behind
            it may still fit.
        ledger: Where each result is appended as soon as it is there.
        budget: Seconds from now on.
        beside: How many tasks may run at once, where each of them may have others beside it.
        tell: Is given each line.
    """
    end = time.monotonic() + budget
    known = ledger.keys()
    progress = Progress(before=sum(task.key in known for task in tasks))
    waiting = [task for task in tasks if task.key not in known]
    running: dict[Future[Values | None], Task] = {}

    def settle() -> None:
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            task = running.pop(future)
            values = future.result()
            if values is None:
                progress.postponed.append(task.key)
                continue
            line = {"key": task.key, **values}
            ledger.append(line)
            progress.done.append(line)
            tell(line)

    with ThreadPoolExecutor(max(1, beside)) as pool:
        for task in waiting:
            while running and (task.alone or len(running) >= beside or any(each.alone for each in running.values())):
                settle()
            left = end - time.monotonic()
            if task.seconds > left:
                progress.postponed.append(task.key)
                continue
            running[pool.submit(_timed, task, left)] = task
        while running:
            settle()
    return progress


def _timed(task: Task, seconds: float) -> Values | None:
    """The task's result, with when it was begun (seconds since 1970) and how long it took."""
    began, start = time.time(), time.perf_counter()
    values = task.run(seconds)
    return None if values is None else {"began": round(began), "took": round(time.perf_counter() - start, 3), **values}


def fits(tasks: Sequence[Task], beside: int = 1) -> float:
    """Seconds that the tasks should take in all, with so many at once where they may have others beside them."""
    return sum(task.seconds for task in tasks if task.alone) + sum(
        task.seconds for task in tasks if not task.alone
    ) / max(1, beside)
