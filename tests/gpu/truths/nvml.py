"""The GPU by NVML, as this process sees it; nothing where there is none. Its settings are left as they are."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTLED = 64 * 2**20
"""Bytes by which the memory in use may differ from what it was: the driver's own varies."""
PATIENCE = 10.0
"""Seconds in which the driver may take memory back after the end of a process."""


class Card:
    """One GPU. A question that the driver does not answer has the answer None."""

    def __init__(self, nvml: Any, device: Any) -> None:
        self._nvml, self._device = nvml, device

    def _ask(self, name: str) -> Any:
        try:
            return getattr(self._nvml, name)(self._device)
        except self._nvml.NVMLError:
            return None

    def used(self) -> int | None:
        """Bytes of memory in use by anybody."""
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        return None if memory is None else int(memory.used)

    def watt(self) -> float | None:
        """Its power now."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        return None if power is None else power / 1000

    def processes(self) -> list[int] | None:
        """The ids of the processes that compute on it; a container may be told those that mean something elsewhere."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if found is None else sorted(each.pid for each in found)

    def settled(self, before: int | None) -> int | None:
        """Bytes in use, as soon as they are about what they were, or after some patience.

        Args:
            before: Bytes that were in use.
        """
        until = time.monotonic() + PATIENCE
        while True:
            now = self.used()
            if now is None or before is None or now - before <= SETTLED or time.monotonic() >= until:
                return now
            time.sleep(0.2)


@contextlib.contextmanager
def card() -> Iterator[Card | None]:
    """The first GPU that scripts see; None where there is none, no driver, or no ``nvidia-ml-py``."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    try:
        import pynvml
    except ImportError:
        yield None
        return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield _card(pynvml, first)
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _card(nvml: Any, first: str) -> Card | None:
    try:
        if first.isdecimal():
            return Card(nvml, nvml.nvmlDeviceGetHandleByIndex(int(first)))
        return Card(nvml, nvml.nvmlDeviceGetHandleByUUID(first)) if first else None
    except nvml.NVMLError:
        return None
