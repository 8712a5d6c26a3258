"""Tasks within a budget of seconds, and the file of JSON lines that their results are appended to.

A stage is a list of tasks, the most valuable first. A stage that is started again goes on where it ended: tasks that
have a line in the file are not carried out again. A process that is killed loses the tasks that were under way alone.

A task that something around it kept from its result, such as a full disk, has a line that says so under ``unfinished``,
and is carried out again by the next call.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.plan import VerifyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

Values = dict[str, Any]
"""What JSON has: strings, numbers, booleans, null, lists and objects."""
UNFINISHED, HUNG = "unfinished", "hung"
"""In the line of a task without a result: why it has none, and whether that is that it did not end in time."""
OUTER = (OSError, subprocess.SubprocessError, VerifyError)
"""What may go wrong around a task, and says nothing of what it asks."""
ENOUGH = 60.0
"""Seconds after which a task that did not end in time in an earlier call, either, is taken to hang."""


@dataclass(frozen=True, slots=True)
class Hung:
    """A task that did not end in the seconds that were left: it hangs, or they were too few."""

    seconds: float
    """That it was given."""
    values: Values
    """What its line says if it hangs."""


Result = Values | Hung | None
"""Of a task; None: the seconds were too few, and it is to be done again."""


@dataclass(frozen=True, slots=True)
class Task:
    """One result of a stage."""

    key: str
    """Names its line; unique in the stage."""
    seconds: float
    """That it takes on the machine that the stage is meant for, as estimated."""
    run: Callable[[float], Result]
    """Carries it out within so many seconds, at most. It may be called in another thread."""
    alone: bool = True
    """Whether nothing else may run beside it: its times count."""
    round: int = 0
    """Which round of its stage it belongs to."""
    serves: frozenset[str] = frozenset()
    """The keys of the tasks that it prepares the machine for: where all have lines, it is not carried out. Empty: it is
    there for its own sake."""
    doubtful: Callable[[Values], bool] = lambda _: False
    """Whether a result may come from what ran beside it: then it is carried out once more, alone."""


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
        """Of the tasks that have a result."""
        return frozenset(line["key"] for line in self.lines() if UNFINISHED not in line)

    def hung(self) -> frozenset[str]:
        """Of the tasks that did not end in the seconds that a call had left for them."""
        return frozenset(line["key"] for line in self.lines() if line.get(HUNG))

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
    """The lines with results that were appended."""
    before: int = 0
    """Tasks that had a result already."""
    postponed: list[str] = field(default_factory=list)
    """The keys of the tasks that there was no time for."""
    unfinished: list[Values] = field(default_factory=list)
    """The lines of the tasks that have no result for another reason."""


def carry_out(
    tasks: Sequence[Task],
    ledger: Ledger,
    deadline: float,
    *,
    beside: int = 1,
    tell: Callable[[Values], None] = lambda _: None,
) -> Progress:
    """Carries out the tasks that have no result yet, in order, as long as their estimates fit before the deadline.

    Args:
        tasks: The most valuable first. One that does not fit any more is left for the next call; a shorter one behind
            it may still fit.
        ledger: Where each result is appended as soon as it is there.
        deadline: By ``time.monotonic``.
        beside: How many tasks may run at once, where each of them may have others beside it.
        tell: Is given each line.
    """
    known, hung = ledger.keys(), ledger.hung()
    progress = Progress(before=sum(task.key in known for task in tasks))
    waiting = deque(
        task for task in tasks if task.key not in known and not (task.serves and known.issuperset(task.serves))
    )
    running: dict[Future[Result], Task] = {}

    def settle() -> None:
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            task = running.pop(future)
            values = future.result()
            if isinstance(values, Hung):
                values = _of_hung(values, known_to_hang=task.key in hung)
            if values is None:
                progress.postponed.append(task.key)
                continue
            if not task.alone and beside > 1 and task.doubtful(values):
                waiting.append(replace(task, alone=True))
                continue
            line = {"key": task.key, **values}
            ledger.append(line)
            (progress.unfinished if UNFINISHED in line else progress.done).append(line)
            tell(line)

    with ThreadPoolExecutor(max(1, beside)) as pool:
        while waiting or running:
            full = len(running) >= beside or any(each.alone for each in running.values())
            if running and (not waiting or waiting[0].alone or full):
                settle()
                continue
            task = waiting.popleft()
            left = deadline - time.monotonic()
            if task.seconds > left:
                progress.postponed.append(task.key)
                continue
            running[pool.submit(_timed, task, left)] = task
    return progress


def _of_hung(task: Hung, *, known_to_hang: bool) -> Values:
    """The line of a task that did not end in time: its own, if that was so in an earlier call and it had long enough."""
    if known_to_hang and task.seconds >= ENOUGH:
        return task.values
    about = {name: task.values[name] for name in ("began", "took")}
    return {**about, UNFINISHED: f"did not end within the {task.seconds:.0f} seconds that were left", HUNG: True}


def _timed(task: Task, seconds: float) -> Result:
    """The task's result, with when it was begun (seconds since 1970) and how long it took."""
    began, start = time.time(), time.perf_counter()
    try:
        result = task.run(seconds)
    except OUTER as error:
        result = {UNFINISHED: _in_one_line(error)}
    about = {"began": round(began), "took": round(time.perf_counter() - start, 3)}
    if isinstance(result, Hung):
        return replace(result, values={**about, **result.values})
    return None if result is None else {**about, **result}


def _in_one_line(error: Exception) -> str:
    """What went wrong, with the last line that a command said of it."""
    said = getattr(error, "stderr", None) or ""
    last = said.strip().splitlines()[-1:] if isinstance(said, str) else []
    return " ".join(f"{type(error).__name__}: {': '.join([str(error), *last])}".split())


def unfinished(lines: Iterable[Values]) -> list[Values]:
    """The last line of each task that has no result in any call.

    Args:
        lines: Of a stage.
    """
    last = {line["key"]: line for line in lines}
    return [line for line in last.values() if UNFINISHED in line]


def results(lines: Iterable[Values]) -> list[Values]:
    """The lines with results.

    Args:
        lines: Of a stage.
    """
    return [line for line in lines if UNFINISHED not in line]


def fits(tasks: Sequence[Task], beside: int = 1) -> float:
    """Seconds that the tasks should take in all, with so many at once where they may have others beside them."""
    return sum(task.seconds for task in tasks if task.alone) + sum(
        task.seconds for task in tasks if not task.alone
    ) / max(1, beside)
