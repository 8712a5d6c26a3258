"""Tasks keep to their budget, and what has a line is not done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.verify.plan import VerifyError
from tests.gpu.tasks import ENOUGH, UNFINISHED, Hung, Ledger, Task, carry_out, fits, results, unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.tasks import Values


def within(seconds: float) -> float:
    """The deadline that is so far away."""
    return time.monotonic() + seconds


def answering(key: str, seconds: float = 0.0, *, alone: bool = True) -> Task:
    return Task(key, seconds, lambda _: {"answer": key.upper()}, alone=alone)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "out" / "stage-1.jsonl")


def keys(ledger: Ledger) -> list[str]:
    return [line["key"] for line in ledger.lines()]


def test_each_result_is_a_line_with_its_key_and_time(ledger: Ledger) -> None:
    told: list[Values] = []

    progress = carry_out([answering("a"), answering("b")], ledger, within(10), tell=told.append)

    assert [(line["key"], line["answer"]) for line in ledger.lines()] == [("a", "A"), ("b", "B")]
    assert all(line["took"] >= 0 and line["began"] > 0 for line in ledger.lines())
    assert told == progress.done == list(ledger.lines())


def test_what_has_a_line_is_not_done_again(ledger: Ledger) -> None:
    carry_out([answering("a")], ledger, within(10))

    progress = carry_out([answering("a"), answering("b")], ledger, within(10))

    assert (progress.before, [line["key"] for line in progress.done]) == (1, ["b"])
    assert keys(ledger) == ["a", "b"]


def test_what_does_not_fit_is_postponed_and_what_is_shorter_goes_on(ledger: Ledger) -> None:
    progress = carry_out([answering("long", 100), answering("short", 1)], ledger, within(10))

    assert (progress.postponed, keys(ledger)) == (["long"], ["short"])


def test_a_line_that_was_cut_short_is_done_again_in_its_place(ledger: Ledger) -> None:
    carry_out([answering("a"), answering("b")], ledger, within(10))
    ledger.path.write_bytes(ledger.path.read_bytes()[:-9])
    assert keys(ledger) == ["a"]

    carry_out([answering("a"), answering("b")], ledger, within(10))

    assert keys(ledger) == ["a", "b"]
    assert ledger.path.read_bytes().count(b"\n") == 2


def test_a_task_is_told_how_many_seconds_are_left(ledger: Ledger) -> None:
    given: list[float] = []

    def run(seconds: float) -> Values:
        given.append(seconds)
        return {}

    carry_out([Task("a", 1, run)], ledger, within(10))

    assert 9 < given[0] <= 10


def failing(error: Exception) -> Callable[[float], Values]:
    def run(_: float) -> Values:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(
            subprocess.CalledProcessError(1, "make_data.py", stderr="Traceback\nOSError: no space\n"),
            "CalledProcessError: Command 'make_data.py' returned non-zero exit status 1.: OSError: no space",
            id="data that cannot be generated",
        ),
        pytest.param(OSError(28, "No space left"), "OSError: [Errno 28] No space left", id="a full disk"),
        pytest.param(VerifyError("not\ncopied"), "VerifyError: not copied", id="what the verifier refuses"),
    ],
)
def test_an_error_around_a_task_costs_no_other_and_the_next_call_tries_again(
    error: Exception, said: str, ledger: Ledger
) -> None:
    broken = Task("broken", 0, failing(error), alone=False)
    others = [answering("a", alone=False), answering("b")]

    progress = carry_out([broken, *others], ledger, within(10), beside=2)

    (line,) = progress.unfinished
    assert (line["key"], line[UNFINISHED], line["began"] > 0) == ("broken", said, True)
    assert sorted(line["key"] for line in progress.done) == ["a", "b"]
    assert ledger.keys() == {"a", "b"}
    assert [line["key"] for line in unfinished(ledger.lines())] == ["broken"]

    again = carry_out([answering("broken"), *others], ledger, within(10), beside=2)

    assert (again.before, [line["key"] for line in again.done]) == (2, ["broken"])
    assert unfinished(ledger.lines()) == []
    assert [line["key"] for line in results(ledger.lines())].count("broken") == 1


def test_an_error_in_a_task_is_not_hidden(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        carry_out([Task("a", 0, failing(ZeroDivisionError()))], ledger, within(10))


@pytest.mark.parametrize(
    ("seconds", "hangs"),
    [pytest.param(ENOUGH, True, id="it had long enough"), pytest.param(ENOUGH / 2, False, id="it had not")],
)
def test_a_task_that_does_not_end_in_two_calls_hangs(seconds: float, hangs: bool, ledger: Ledger) -> None:  # noqa: FBT001
    task = Task("a", 0, lambda _: Hung(seconds, {"answer": "hangs"}))

    first = carry_out([task], ledger, within(100))
    second = carry_out([task], ledger, within(100))

    assert (len(first.done), len(first.unfinished)) == (0, 1)
    assert [line["answer"] for line in second.done] == (["hangs"] if hangs else [])
    assert ledger.keys() == (frozenset("a") if hangs else frozenset())


def test_a_result_that_others_may_have_caused_is_found_anew_alone(ledger: Ledger) -> None:
    both = meeting(2)
    calls: list[str] = []

    def crowded(seconds: float) -> Values:
        calls.append("a")
        return {"full": len(calls) == 1, **(both(seconds) if len(calls) == 1 else {})}

    doubtful = Task("a", 0, crowded, alone=False, doubtful=lambda values: bool(values["full"]))
    carry_out([doubtful, Task("b", 0, both, alone=False)], ledger, within(10), beside=2)

    assert len(calls) == 2
    assert [line["full"] for line in ledger.lines() if line["key"] == "a"] == [False]


def test_what_prepares_the_machine_for_tasks_that_are_done_is_not_carried_out(ledger: Ledger) -> None:
    prepare = Task("cold/1", 0, lambda _: {}, serves=frozenset({"a", "b"}))
    tasks = [prepare, answering("a"), answering("b", 100)]
    carry_out(tasks, ledger, within(10))
    assert keys(ledger) == ["cold/1", "a"]

    carry_out([replace(prepare, key="cold/2"), answering("a"), answering("b")], ledger, within(10))
    carry_out([replace(prepare, key="cold/3"), answering("a"), answering("b")], ledger, within(10))

    assert keys(ledger) == ["cold/1", "a", "cold/2", "b"]


def meeting(count: int) -> Callable[[float], Values]:
    """Waits for so many tasks to be under way at once."""
    barrier = threading.Barrier(count)

    def run(_: float) -> Values:
        barrier.wait(timeout=10)
        return {}

    return run


def test_tasks_that_may_run_beside_each_other_do(ledger: Ledger) -> None:
    run = meeting(2)
    carry_out([Task("a", 0, run, alone=False), Task("b", 0, run, alone=False)], ledger, within(10), beside=2)
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
    carry_out(tasks, ledger, within(10), beside=3)

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

carry_out([Task("a", 0, lambda _: {"answer": 1}), Task("b", 0, run)], Ledger(Path(sys.argv[1])), time.monotonic() + 100)
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
