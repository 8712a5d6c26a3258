"""Which processes belong to a run, and that they end with it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from autotune_rewrite.verify import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAITS = "import sys; print('started', flush=True); sys.stdin.read()"
STARTS_ANOTHER = (
    "import subprocess, sys; "
    f"subprocess.run([sys.executable, '-c', {WAITS!r}], start_new_session=True, stdin=sys.stdin, check=False)"
)
"""Waits for a process in a session of its own, as the workers of a launcher are."""


@pytest.fixture
def marker() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def start(marker: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts Python as a run does; when it is there, it waits until it is ended."""
    started: list[subprocess.Popen[bytes]] = []

    def run(program: str = WAITS, mark: str | None = marker) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != processes.MARK}
        environment |= {} if mark is None else {processes.MARK: mark}
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"started"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_a_process_with_the_mark_is_found(start: Callable[..., subprocess.Popen[bytes]], marker: str) -> None:
    process = start()

    assert processes.marked(marker) == [process.pid]
    assert processes.carries(process.pid, marker)


@pytest.mark.parametrize(
    "mark", [pytest.param(None, id="no mark"), pytest.param(uuid.uuid4().hex, id="another run's mark")]
)
def test_a_process_without_it_is_not(
    start: Callable[..., subprocess.Popen[bytes]], marker: str, mark: str | None
) -> None:
    process = start(mark=mark)

    assert processes.marked(marker) == []
    assert not processes.carries(process.pid, marker)


def test_a_process_that_ended_and_was_not_waited_for_does_not_run(
    start: Callable[..., subprocess.Popen[bytes]], marker: str
) -> None:
    process = start()
    process.kill()
    # Not `wait`, which would let the zombie go.
    if sys.platform != "win32":
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    assert processes.marked(marker) == []
    assert not processes.carries(process.pid, marker)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no zombies")
def test_a_process_is_ending_when_its_memory_is_gone(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start()
    assert not processes.is_ending(process.pid)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.pid_exists(process.pid)
    assert processes.is_ending(process.pid)
    process.wait()
    assert processes.is_ending(process.pid)


def test_a_process_that_may_not_be_looked_at_is_not_taken_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "memory_info", refuse)
    assert not processes.is_ending(os.getpid())


def test_an_id_that_no_process_has_carries_nothing(start: Callable[..., subprocess.Popen[bytes]], marker: str) -> None:
    process = start()
    process.kill()
    process.wait()

    assert not processes.carries(process.pid, marker)


def test_those_that_end_soon_are_waited_for(start: Callable[..., subprocess.Popen[bytes]], marker: str) -> None:
    process = start("import time; print('started', flush=True); time.sleep(0.3)")

    assert processes.marked(marker) == [process.pid]
    assert processes.marked(marker, patience=60.0) == []


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(psutil.AccessDenied(7), id="another user's process"),
        pytest.param(psutil.ZombieProcess(7), id="a zombie"),
        pytest.param(psutil.NoSuchProcess(7), id="a process that ended since it was listed"),
    ],
)
def test_a_process_whose_environment_is_not_told_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, refusal: psutil.Error
) -> None:
    def refused() -> Any:
        raise refusal

    told = SimpleNamespace(pid=8, environ=lambda: {processes.MARK: "mark"})
    monkeypatch.setattr(psutil, "process_iter", lambda: [SimpleNamespace(pid=7, environ=refused), told])

    assert processes.marked("mark") == [8]


@pytest.mark.parametrize(
    "platform",
    [
        pytest.param(sys.platform, id="this system"),
        pytest.param("win32", id="Windows: no sessions and no groups"),
    ],
)
def test_all_that_carry_the_mark_are_ended(
    start: Callable[..., subprocess.Popen[bytes]], marker: str, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(processes, "sys", SimpleNamespace(platform=platform))
    other = start(mark="another")
    child = start(STARTS_ANOTHER)
    assert len(processes.marked(marker)) == 2

    processes.end_all(child, marker)

    assert child.returncode != 0
    assert processes.marked(marker, patience=1.0) == []
    assert other.poll() is None


def test_without_a_child_the_marked_are_ended(start: Callable[..., subprocess.Popen[bytes]], marker: str) -> None:
    process = start()

    processes.end_all(None, marker)

    assert process.wait(60) != 0


def test_one_that_ends_before_it_is_killed_is_no_error(
    start: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = start()
    ended.kill()
    ended.wait()
    monkeypatch.setattr(processes, "marked", lambda _: [ended.pid])

    processes.end_all(None, "mark")


@pytest.mark.parametrize(
    ("counters", "kills"),
    [
        pytest.param("nr_free_pages 12\noom_kill 3\nnuma_hit 9\n", 3, id="Linux counts them"),
        pytest.param("nr_free_pages 12\n", 0, id="a kernel before 4.13"),
        pytest.param(None, 0, id="another system"),
    ],
)
def test_processes_ended_for_want_of_memory_are_counted_where_the_system_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counters: str | None, kills: int
) -> None:
    vmstat = tmp_path / "vmstat"
    if counters is not None:
        vmstat.write_text(counters)
    monkeypatch.setattr(processes, "VMSTAT", vmstat)

    assert processes.oom_kills() == kills
