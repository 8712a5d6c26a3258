"""Truths about runs that fail: the word for how they ended, and that nothing of them is left."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from autotune_rewrite.verify.plan import Turn
from tests.gpu.truths.bench import LAST_LINES, START, Truth, told
from tests.gpu.truths.nvml import SETTLED, card
from tests.gpu.truths.texts import (
    ENDLESS,
    EXITS,
    FAILING,
    HANGS,
    INDEX,
    KILLED,
    MEMORY,
    MISMATCH,
    UNSEEN,
    VANISHES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Outcome, Run
    from tests.gpu.tasks import Task, Values
    from tests.gpu.truths.bench import Bench

BALLAST = 2**30
"""Bytes of device memory that each run holds."""
TIMEOUT, TIMEOUT_HERE = 22.0, 5.0
"""Seconds, of which the start takes some eight on a GPU; the second where runs fork."""
PATIENCE = 5.0
"""Seconds in which processes that were killed may go."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A way to fail, and the word for it."""

    name: str
    text: str
    outcome: Outcome
    hangs: bool = False


FAILURES = (
    Failure("an index out of range in an embedding", INDEX, "crashed"),
    Failure("the same in the last iteration, and nobody waits for the device", UNSEEN, "crashed"),
    Failure("number formats that do not fit", MISMATCH, "crashed"),
    Failure("killed by a signal", KILLED, "killed"),
    Failure("sys.exit(3)", EXITS, "exited"),
    Failure("os._exit(0)", VANISHES, "vanished"),
    Failure("a training that never ends", ENDLESS, "timed-out", hangs=True),
    Failure("a kernel that does not end", HANGS, "timed-out", hangs=True),
)
WANT_OF_MEMORY = Failure("more memory than there is", MEMORY, "out-of-memory")


def outcome_tasks(bench: Bench) -> list[Task]:
    """All failures beside each other, and alone the one that takes all of the device's memory."""
    return [
        bench.task("outcomes", TIMEOUT + 8.0, _ended(bench, FAILURES)),
        bench.task("out of memory", START + 4.0, _ended(bench, (WANT_OF_MEMORY,))),
    ]


def _ended(bench: Bench, failures: Sequence[Failure]) -> Callable[[Path, float], Values]:
    def work(folder: Path, deadline: float) -> Values:
        notes = [folder / f"{number}.pids" for number, _ in enumerate(failures)]
        for note in notes:
            note.unlink(missing_ok=True)
        plans = [_plan(bench, folder, number, failure, notes[number]) for number, failure in enumerate(failures)]
        with card() as gpu:
            before = None if gpu is None else gpu.used()
            runs = bench.several([(plan, Turn("original", 0)) for plan in plans], deadline)
            started = [int(word) for note in notes if note.exists() for word in note.read_text().split()]
            left = still_running(started)
            after = None if gpu is None else gpu.settled(before)
        truths = [
            Truth(failure.name, failure.outcome, run.outcome, run.outcome == failure.outcome)
            for failure, run in zip(failures, runs, strict=True)
        ]
        truths.append(Truth("processes that are left", 0, len(left), not left))
        known = bench.real and before is not None and after is not None
        more = after - before if before is not None and after is not None else None
        truths.append(
            Truth("device memory that is left", 0, more, more is not None and more <= SETTLED if known else None)
        )
        figures = {failure.name: _figures(run) for failure, run in zip(failures, runs, strict=True)}
        return told(truths, figures=figures, started=len(started), memory=[before, after])

    return work


def _plan(bench: Bench, folder: Path, number: int, failure: Failure, note: Path) -> Plan:
    limit = TIMEOUT if bench.real else TIMEOUT_HERE
    return bench.plan(
        folder,
        FAILING + failure.text,
        name=str(number),
        timeout=limit if failure.hangs else 60.0,
        arguments=(bench.setting.device, str(BALLAST if bench.real else 2**10), str(note)),
    )


def _figures(run: Run) -> Values:
    return {
        "outcome": run.outcome,
        "ended": run.ended,
        "problem": run.problem,
        "iterations": len(run.times),
        "seconds": run.wall_seconds,
        "output": run.output[-LAST_LINES:],
    }


def still_running(processes: Sequence[int]) -> list[int]:
    """Those that still run after some patience; one that is dead and was not waited for does not."""
    until = time.monotonic() + PATIENCE
    while (left := [process for process in processes if _runs(process)]) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def _runs(process: int) -> bool:
    try:
        return psutil.Process(process).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
