"""The processes that a script starts: found by a mark in their environment, and ended with it.

psutil is imported where it is needed: it belongs to the extra `verify`, and `Plan.check` says so where it is missing.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

    import psutil

MARK = "TORCHFAST_RUN"
"""The variable whose value marks the processes of one run; what they start inherits it."""
VMSTAT = Path("/proc/vmstat")
"""The kernel's counters, on Linux."""


def marked(marker: str, patience: float = 0.0) -> list[int]:
    """The processes that carry the mark and still run, by their ids.

    A look reads the environment of every process, and the system refuses those of other users. macOS shows an empty
    one of its own programs, such as ``/bin/sleep``: these are not found (https://github.com/giampaolo/psutil/issues/2084).

    Args:
        marker: The value of ``MARK`` in their environment.
        patience: Seconds in which those that are about to end may do so.
    """
    import psutil

    until = time.monotonic() + patience
    while found := [process.pid for process in psutil.process_iter() if _carries(process, marker)]:
        if time.monotonic() >= until:
            return found
        time.sleep(0.02)
    return []


def carries(process: int, marker: str) -> bool:
    """Whether the process with this id runs, and carries the mark."""
    import psutil

    try:
        return _carries(psutil.Process(process), marker)
    except psutil.NoSuchProcess:
        return False


def is_ending(process: int) -> bool:
    """Whether the process with this id is no more but for what the system still takes back from it.

    Its memory goes first, and with it the environment that held the mark; a GPU's driver counts it for up to a second
    more, until all that it had on the device is freed.
    """
    import psutil

    try:
        return bool(psutil.Process(process).memory_info().vms == 0)
    except psutil.AccessDenied:
        return False  # it is another user's
    except psutil.NoSuchProcess:  # a zombie, too
        return True


def _carries(process: psutil.Process, marker: str) -> bool:
    import psutil

    try:
        return process.environ().get(MARK) == marker
    except psutil.AccessDenied:
        return False  # it is another user's, or the system's
    except psutil.ZombieProcess:
        return False  # it has ended, and only its parent has not asked how
    except psutil.NoSuchProcess:
        return False  # it ended since it was listed


def end_all(child: subprocess.Popen[bytes] | None, marker: str) -> None:
    """Ends the child, its group, and whatever else carries its mark.

    Args:
        child: None where the user ended it while it was being started.
        marker: The value of ``MARK`` in the environment of its processes.
    """
    import psutil

    if child is not None:
        _end_group(child)
    for process in marked(marker):  # a launcher's workers have sessions of their own
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(process).kill()
    if child is not None:
        child.wait()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        child.kill()
        return
    try:
        os.killpg(child.pid, signal.SIGKILL)  # the child leads a session of its own
    except ProcessLookupError:
        pass
    except PermissionError:  # macOS says so of a group in which only zombies are left
        child.kill()


def oom_kills() -> int:
    """How many processes the system has ended so far for want of memory; 0 where it does not say.

    Only Linux tells (``oom_kill`` in /proc/vmstat, since 4.13), and psutil does not read that counter. Elsewhere a run
    without memory is known by the last lines of its output, or is reported as killed.
    """
    try:
        text = VMSTAT.read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)
