"""Inside the run: what time is it, without the time in which this process was stopped?

It stands on the standard library only, as ``harness.py`` does, which loads it before torch.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from pathlib import Path

STOPPED = "TORCHFAST_STOPPED"
"""The variable with the file that says how long this process was stopped: one float64, in seconds."""
OF_THREAD = Path("/proc/thread-self/schedstat")
"""On Linux: nanoseconds of this thread on a processor, and those in which it waited for one that others had."""


def _shared() -> memoryview[float] | None:
    """What the file holds, as it changes; None where this process is never stopped."""
    path = os.environ.get(STOPPED)
    if not path:
        return None
    with Path(path).open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)).cast("d")


_SHARED = _shared()


def stopped() -> float:
    """Seconds in which this process was stopped so far."""
    return 0.0 if _SHARED is None else _SHARED[0]


def now() -> float:
    """Seconds as ``time.perf_counter`` counts them, but for those in which this process was stopped."""
    if _SHARED is None:
        return time.perf_counter()
    while True:
        before, at = _SHARED[0], time.perf_counter()
        if _SHARED[0] == before:  # or it was stopped between the two
            return at - before


def busy() -> float:
    """Seconds in which this thread computed, or could have: without those in which it waited for something else."""
    with contextlib.suppress(OSError, ValueError):
        computed, ready, _ = map(int, OF_THREAD.read_text(encoding="ascii").split())
        return (computed + ready) / 1e9
    return time.thread_time()
