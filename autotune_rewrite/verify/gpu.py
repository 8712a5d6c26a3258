"""What the GPU does during a run, seen from outside: NVML, sampled by the process that waits for the run."""

from __future__ import annotations

import os
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.processes import is_ending
from autotune_rewrite.verify.records import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable

THROTTLED = {
    "power": ("SwPowerCap",),
    "power brake": ("HwPowerBrakeSlowdown",),
    "thermal": ("SwThermalSlowdown", "HwThermalSlowdown"),
    "hardware": ("HwSlowdown",),
    "sync boost": ("SyncBoost",),
}
"""NVML's reasons for a clock below the highest; that the GPU is idle, or its clocks were set, is no throttling."""


def visible() -> list[str]:
    """The GPUs that a script sees, as ``CUDA_VISIBLE_DEVICES`` names them; none where no driver tells."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [each.strip() for each in chosen.split(",") if each.strip() not in ("", "-1")]
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            return [str(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return []


class Sampler:
    """Samples one GPU from ``start`` to ``stop``; does nothing where there is no GPU, driver or ``nvidia-ml-py``.

    A driver that cannot answer a question leaves that figure unknown; it never ends the run.

    NVML counts GPUs in the order of their PCI slots, and CUDA by default from the fastest on: where GPUs of different
    kinds are mixed, ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` makes an index mean the same.
    """

    def __init__(self, visible: str | None, own: Callable[[int], bool], interval: float = 0.5) -> None:
        """Touches no driver yet.

        Args:
            visible: ``CUDA_VISIBLE_DEVICES`` of the run: its first device, by index or UUID, is sampled. None: the
                first device of all. Empty: there is none.
            own: Whether a process, by its id, belongs to the run. It is asked from another thread.
            interval: Seconds between two samples.
        """
        self._first = "0" if visible is None else visible.split(",")[0].strip()
        self._own = own
        self._interval = interval
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._nvml: Any = None
        self._device: Any = None
        self._began = 0.0
        self._energy: float | None = None
        self._before: frozenset[int] = frozenset()
        self._utilization: list[float] = []
        self._clock: list[float] = []
        self._power: list[float] = []
        self._reasons = 0
        self._foreign: list[int] = []

    def start(self) -> None:
        """Finds the device and begins; call it before the run computes, so that what computes already is not its."""
        if not self._first or self._first == "-1":
            return
        try:
            import pynvml
        except ImportError:
            return
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return
        self._device = self._found()
        if self._device is None:
            self._ask("nvmlShutdown")
            return
        self._began = time.perf_counter()
        self._energy = self._ask("nvmlDeviceGetTotalEnergyConsumption", self._device)
        self._before = self._computing()
        self._thread = threading.Thread(target=self._run, name="torchfast-gpu", daemon=True)
        self._thread.start()

    def stop(self) -> Gpu | None:
        """Ends the sampling.

        Returns:
            What was seen; None where there was nothing to sample.
        """
        if self._thread is None:
            return None
        self._ended.set()
        self._thread.join()
        self._thread = None
        energy = self._spent(time.perf_counter() - self._began)
        self._ask("nvmlShutdown")
        return Gpu(
            utilization=statistics.fmean(self._utilization) if self._utilization else None,
            clock=statistics.fmean(self._clock) if self._clock else None,
            throttled=tuple(
                word
                for word, names in THROTTLED.items()
                if any(self._reasons & getattr(self._nvml, f"nvmlClocksThrottleReason{name}") for name in names)
            ),
            foreign=max(self._foreign, default=0),
            foreign_part=sum(map(bool, self._foreign)) / len(self._foreign) if self._foreign else None,
            energy=energy,
        )

    def _found(self) -> Any:  # noqa: ANN401 - a handle is NVML's own business
        """The handle of the device; None where there is none such."""
        if self._first.isdecimal():
            return self._ask("nvmlDeviceGetHandleByIndex", int(self._first))
        if self._first.startswith("MIG-"):
            return self._ask("nvmlDeviceGetHandleByUUID", self._first)
        # CUDA takes a UUID that is cut short, and NVML does not.
        for index in range(self._ask("nvmlDeviceGetCount") or 0):
            device = self._ask("nvmlDeviceGetHandleByIndex", index)
            if device is not None and str(self._ask("nvmlDeviceGetUUID", device)).startswith(self._first):
                return device
        return None

    def _ask(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401 - NVML's functions have no types
        """NVML's answer; None where the driver or the device does not give it."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError:
            return None

    def _run(self) -> None:
        while not self._ended.wait(self._interval):
            self._sample()

    def _sample(self) -> None:
        rates = self._ask("nvmlDeviceGetUtilizationRates", self._device)
        if rates is not None:
            self._utilization.append(rates.gpu)
        clock = self._ask("nvmlDeviceGetClockInfo", self._device, self._nvml.NVML_CLOCK_SM)
        if clock is not None:
            self._clock.append(clock)
        power = self._ask("nvmlDeviceGetPowerUsage", self._device) if self._energy is None else None
        if power is not None:
            self._power.append(power)
        # The driver has called them event reasons since, and still answers to the name that older ones know.
        self._reasons |= self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._device) or 0
        self._foreign.append(sum(map(self._is_foreign, self._computing())))

    def _computing(self) -> frozenset[int]:
        """The processes that compute on the device, by their ids."""
        return frozenset(each.pid for each in self._ask("nvmlDeviceGetComputeRunningProcesses", self._device) or ())

    def _is_foreign(self, process: int) -> bool:
        """Whether it surely is not of the run.

        A container may be told ids that mean nothing in it: one that is not known here counts only if it was there
        before the run. One that is about to end computes nothing, and no longer shows whose it was.
        """
        import psutil

        if self._own(process):
            return False
        return not is_ending(process) if psutil.pid_exists(process) else process in self._before

    def _spent(self, seconds: float) -> float | None:
        """Joule: the difference of two readings of the device's counter, else its power in the mean, times the time."""
        if self._energy is not None:
            energy = self._ask("nvmlDeviceGetTotalEnergyConsumption", self._device)
            return None if energy is None else (energy - self._energy) / 1000  # it counts millijoules
        return statistics.fmean(self._power) / 1000 * seconds if self._power else None  # it tells milliwatts
