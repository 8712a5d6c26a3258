"""Two processes that run in turns: when each runs, and what they know of the time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.verify import turns
from autotune_rewrite.verify.child import clock
from autotune_rewrite.verify.child.clock import STOPPED
from autotune_rewrite.verify.turns import Alone, Part, Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not turns.POSSIBLE, reason="processes take turns on Linux only")

COUNTS = f"""
import json, sys, time
sys.path.insert(0, {str(Path(clock.__file__).parent)!r})
import clock

seconds = float(sys.argv[1])
start, began, before = clock.now(), time.perf_counter(), clock.stopped()
while clock.now() - start < seconds:
    pass
print(json.dumps([clock.now() - start, time.perf_counter() - began, clock.stopped() - before]))
"""
"""Computes for so many seconds of its own time, and tells them, the time that passed, and how long it was stopped."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a process said at its end, and what its part knew then. Seconds."""

    own: float
    passed: float
    stopped: float
    measured: float


def counted(part: Part, directory: Path, seconds: float) -> Counted:
    """Runs the program above in turns with another."""
    directory.mkdir()
    try:
        path = part.begin(directory)
        start = part.now()
        command = [sys.executable, "-c", COUNTS, str(seconds)]
        environment = {**os.environ, STOPPED: str(path)}
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as process:
            while process.poll() is None:
                until = time.perf_counter() + part.slice
                while process.poll() is None and time.perf_counter() < until:
                    time.sleep(0.005)
                part.pause(process.pid)
            measured = part.now() - start
            assert process.stdout is not None
            own, passed, stopped = json.loads(process.stdout.read())
        return Counted(own, passed, stopped, measured)
    finally:
        part.go()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(max_workers=2) as threads:
        yield threads


def test_each_is_stopped_while_the_other_runs_and_does_not_count_it(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    first, second = Turns().parts
    runs = [pool.submit(counted, part, tmp_path / str(at), 1.0) for at, part in enumerate((first, second))]

    for run in runs:
        seen = run.result()
        assert seen.stopped > 2 * turns.SLICE, "the other had turns"
        assert seen.passed == pytest.approx(seen.own + seen.stopped, abs=0.1)
        assert seen.own < seen.measured


def test_the_one_that_is_left_runs_on(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    first, second = Turns().parts
    shorter, longer = (
        pool.submit(counted, part, tmp_path / str(seconds), seconds) for part, seconds in ((first, 0.1), (second, 1.5))
    )

    assert shorter.result().own < 1.0
    assert longer.result().stopped < 1.0, "it is stopped as long as the other is there, and no longer"


def test_nobody_waits_for_one_that_never_starts(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    first, second = Turns().parts
    run = pool.submit(counted, second, tmp_path / "run", 0.1)
    first.go()

    assert run.result(timeout=60).stopped < 0.05


def test_neither_starts_before_both_can(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    first, second = Turns().parts
    begun = pool.submit(first.begin, tmp_path)
    time.sleep(0.1)
    assert not begun.done()
    (tmp_path / "other").mkdir()
    other = pool.submit(second.begin, tmp_path / "other")
    assert begun.result(timeout=60) == tmp_path / "stopped"
    assert not other.done(), "it is the first one's turn"
    first.go()
    other.result(timeout=60)


def test_whoever_waits_for_its_turn_learns_that_the_user_has_ended_all(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    first, second = Turns().parts
    waiting = [pool.submit(part.begin, tmp_path) for part in (second, first)]
    waiting[1].result(timeout=60)
    first.interrupt()

    with pytest.raises(KeyboardInterrupt):
        waiting[0].result(timeout=60)


def test_alone_time_is_as_it_is() -> None:
    pace = Alone()
    pace.pause(0)
    assert pace.now() == pytest.approx(time.perf_counter(), abs=0.1)
    assert clock.now() == pytest.approx(time.perf_counter(), abs=0.1)
    assert clock.stopped() == 0.0


def test_who_waits_is_not_busy() -> None:
    before = clock.busy()
    time.sleep(0.3)
    slept = clock.busy()
    until = time.perf_counter() + 0.3
    while time.perf_counter() < until:
        pass
    assert slept - before < 0.1
    assert clock.busy() - slept == pytest.approx(0.3, abs=0.1)
