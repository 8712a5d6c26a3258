"""The processes that a script starts: found by a mark in their environment, and ended with it."""

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

PROC = Path("/proc")


def marked(marker: str, patience: float = 0.0) -> list[int]:
    """The processes that carry the mark and still run, where the system tells (Linux).

    Args:
        marker: What their environment holds.
        patience: Seconds in which those that are about to end may do so.
    """
    until = time.monotonic() + patience
    while found := _marked(marker):
        if time.monotonic() >= until:
            return found
        time.sleep(0.02)
    return []


def carries(process: int, marker: str) -> bool:
    """Whether the process runs, and its environment holds the mark."""
    try:
        if marker.encode() not in (PROC / str(process) / "environ").read_bytes():
            return False
        state = (
            (PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        )
    except OSError:  # it is gone, or somebody else's
        return False
    return state not in "ZX"


def _marked(marker: str) -> list[int]:
    if sys.platform != "linux":
        return []
    processes = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    return [process for process in processes if carries(process, marker)]


def end_all(child: subprocess.Popen[bytes] | None, marker: str) -> None:
    """Ends the child, its group, and whatever else carries its mark.

    Args:
        child: None where the user ended it while it was being started.
        marker: What the environment of its processes holds.
    """
    if sys.platform == "win32":
        if child is not None:
            child.kill()
    else:
        if child is not None:
            _end_group(child)
        for process in _marked(marker):  # a launcher's workers have sessions of their own
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    if child is not None:
        child.wait()


def _end_group(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)  # the child leads a session of its own
    except ProcessLookupError:
        pass
    except PermissionError:  # macOS says so of a group in which only zombies are left
        child.kill()


def oom_kills() -> int:
    """How many processes Linux has ended so far for want of memory; 0 where that is not told."""
    try:
        text = (PROC / "vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)
