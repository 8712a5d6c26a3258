"""Tasks keep to their budget, and what has a line is not done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.gpu.tasks import Ledger, Task, carry_out, fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.tasks import Values


def answering(key: str, seconds: float = 0.0, *, alone: bool = True) -> Task:
    return Task(key, seconds, lambda _: {"answer": key.upper()}, alone=alone)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "out" / "stage-1.jsonl")


def keys(ledger: Ledger) -> list[str]:
    return [line["key"] for line in ledger.lines()]


def test_each_result_is_a_line_with_its_key_and_time(ledger: Ledger) -> None:
    told: list[Values] = []

    progress = carry_out([answering("a"), answering("b")], ledger, 10, tell=told.append)

    assert [(line["key"], line["answer"]) for line in ledger.lines()] == [("a", "A"), ("b", "B")]
    assert all(line["took"] >= 0 and line["began"] > 0 for line in ledger.lines())
    assert told == progress.done == list(ledger.lines())


def test_what_has_a_line_is_not_done_again(ledger: Ledger) -> None:
    carry_out([answering("a")], ledger, 10)

    progress = carry_out([answering("a"), answering("b")], ledger, 10)

    assert (progress.before, [line["key"] for line in progress.done]) == (1, ["b"])
    assert keys(ledger) == ["a", "b"]


def test_what_does_not_fit_is_postponed_and_what_is_shorter_goes_on(ledger: Ledger) -> None:
    progress = carry_out([answering("long", 100), answering("short", 1)], ledger, 10)

    assert (progress.postponed, keys(ledger)) == (["long"], ["short"])


def test_a_line_that_was_cut_short_is_done_again_in_its_place(ledger: Ledger) -> None:
    carry_out([answering("a"), answering("b")], ledger, 10)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-9])
    assert keys(ledger) == ["a"]

    carry_out([answering("a"), answering("b")], ledger, 10)

    assert keys(ledger) == ["a", "b"]
    assert ledger.path.read_bytes().count(b"\n") == 2


def test_a_task_is_told_how_many_seconds_are_left(ledger: Ledger) -> None:
    given: list[float] = []

    def run(seconds: float) -> Values:
        given.append(seconds)
        return {}

    carry_out([Task("a", 1, run)], ledger, 10)

    assert 9 < given[0] <= 10


def meeting(count: int) -> Callable[[float], Values]:
    """Waits for so many tasks to be under way at once."""
    barrier = threading.Barrier(count)

    def run(_: float) -> Values:
        barrier.wait(timeout=10)
        return {}

    return run


def test_tasks_that_may_run_beside_each_other_do(ledger: Ledger) -> None:
    run = meeting(2)
    carry_out([Task("a", 0, run, alone=False), Task("b", 0, run, alone=False)], ledger, 10, beside=2)
    assert set(keys(ledger)) == {"a", "b"}


def test_nothing_runs_beside_a_task_that_measures(ledger: Ledger) -> None:
    running: list[str] = []
    met: list[tuple[str, ...]] = []

    def counted(name: str) -> Callable[[float], Values]:
        def run(_: float) -> Values:
            running.append(name)
            met.append(tuple(running))
            threading.Event().wait(0.05)
            running.remove(name)
            return {}

        return run

    tasks = [Task(name, 0, counted(name), alone=name == "b") for name in "abc"]
    carry_out(tasks, ledger, 10, beside=3)

    assert all(len(names) == 1 for names in met if "b" in names)


@pytest.mark.parametrize(
    ("beside", "seconds"), [pytest.param(1, 30.0, id="one after the other"), pytest.param(2, 20.0, id="two at once")]
)
def test_estimates_add_up(beside: int, seconds: float) -> None:
    tasks = [answering("a", 10), answering("b", 10, alone=False), answering("c", 10, alone=False)]
    assert fits(tasks, beside) == seconds


KILLED = """
import sys, time
from pathlib import Path
from tests.gpu.tasks import Ledger, Task, carry_out

def run(seconds):
    if "second" in sys.argv:
        return {"answer": 2}
    print("under way", flush=True)
    time.sleep(60)

carry_out([Task("a", 0, lambda _: {"answer": 1}), Task("b", 0, run)], Ledger(Path(sys.argv[1])), 100)
"""


def test_a_stage_that_is_killed_in_the_middle_goes_on(ledger: Ledger) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", KILLED, str(ledger.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"under way\n"
        first.send_signal(signal.SIGKILL)
    assert keys(ledger) == ["a"]

    subprocess.run([*command, "second"], check=True, env=environment)

    assert [(line["key"], line["answer"]) for line in ledger.lines()] == [("a", 1), ("b", 2)]
