# ruff: noqa: N802, N815 - a fake has the names of what it stands in for
"""What is sampled of the GPU, with a driver that answers as it is told to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.verify.gpu import Sampler
from autotune_rewrite.verify.records import Gpu

if TYPE_CHECKING:
    from collections.abc import Callable

OURS, ABSENT = 1_000_000_001, 1_000_000_002
"""Above any process id that the system gives."""
FOREIGN = os.getppid()
"""Somebody's who lives."""


class NVMLError(Exception):
    """As NVML's own."""


class Driver(ModuleType):
    """A module ``pynvml`` with two devices; what stands in ``fails`` is not supported."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    nvmlClocksThrottleReasonSwPowerCap = 0x4
    nvmlClocksThrottleReasonHwSlowdown = 0x8
    nvmlClocksThrottleReasonSyncBoost = 0x10
    nvmlClocksThrottleReasonSwThermalSlowdown = 0x20
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40
    nvmlClocksThrottleReasonHwPowerBrakeSlowdown = 0x80

    def __init__(self, *fails: str, before: tuple[int, ...] = (), **values: Any) -> None:
        super().__init__("pynvml")
        self.fails = fails
        self.values = {"busy": [80, 90], "clock": [1400, 1500], "reasons": [0], "processes": [()], **values}
        self.values["processes"] = [before, *self.values["processes"]]
        self.open = 0
        self.devices: list[Any] = []
        self.sampled = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "nvmlDeviceGetComputeRunningProcesses":  # the last question of each sample
            self.sampled += 1
        if name.startswith("nvml") and name in super().__getattribute__("fails"):
            return self._unsupported
        return super().__getattribute__(name)

    def _unsupported(self, *_: Any) -> None:
        raise NVMLError

    def _next(self, name: str) -> Any:
        """The values in order; the last one again and again."""
        values = self.values[name]
        return values.pop(0) if len(values) > 1 else values[0]

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index > 1:
            raise NVMLError
        return f"GPU-{index}a2b"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return uuid

    def nvmlDeviceGetUUID(self, device: str) -> str:
        return device

    def nvmlDeviceGetUtilizationRates(self, device: str) -> SimpleNamespace:
        self.devices.append(device)
        return SimpleNamespace(gpu=self._next("busy"))

    def nvmlDeviceGetClockInfo(self, _: str, kind: int) -> int:
        assert kind == self.NVML_CLOCK_SM
        return int(self._next("clock"))

    def nvmlDeviceGetPowerUsage(self, _: str) -> int:
        return 250_000

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: str) -> int:
        return int(self._next("reasons"))

    def nvmlDeviceGetTotalEnergyConsumption(self, _: str) -> int:
        self.values.setdefault("energy", [5_000_000, 5_012_500])
        return int(self._next("energy"))

    def nvmlDeviceGetComputeRunningProcesses(self, _: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=process) for process in self._next("processes")]


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Gpu | None]:
    def sample(driver: Driver, visible: str | None = None, samples: int = 2) -> Gpu | None:
        """Lets the sampler take so many samples, of which the last figures are repeated if it takes more."""
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        sampler = Sampler(visible, lambda process: process == OURS, interval=0.001)
        sampler.start()
        deadline = time.monotonic() + 10
        while sampler._thread is not None and driver.sampled < samples + 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        gpu = sampler.stop()
        assert driver.open == 0 or "nvmlShutdown" in driver.fails
        return gpu

    return sample


def test_what_the_driver_tells_is_reported(sampled: Callable[..., Gpu | None]) -> None:
    driver = Driver(busy=[80], clock=[1410], reasons=[0x1 | 0x2 | 0x100, 0x4 | 0x8, 0x40])
    expected = Gpu(80, 1410, ("power", "thermal", "hardware"), foreign=0, foreign_part=0.0, energy=12.5)
    assert sampled(driver, samples=3) == expected


def test_figures_are_means_of_the_samples(sampled: Callable[..., Gpu | None]) -> None:
    gpu = sampled(Driver())
    assert gpu is not None
    assert gpu.utilization is not None
    assert gpu.clock is not None
    assert 80 < gpu.utilization < 90  # the first sample has 80, all others 90
    assert 1400 < gpu.clock < 1500


def test_a_gpu_that_is_idle_or_whose_clocks_were_set_is_not_throttled(sampled: Callable[..., Gpu | None]) -> None:
    gpu = sampled(Driver(reasons=[0x1 | 0x2 | 0x100]))
    assert gpu is not None
    assert gpu.throttled == ()


@pytest.mark.parametrize(
    ("fails", "unknown"),
    [
        pytest.param("nvmlDeviceGetUtilizationRates", {"utilization": None}, id="no utilisation, as of a part (MIG)"),
        pytest.param("nvmlDeviceGetClockInfo", {"clock": None}, id="no clock"),
        pytest.param("nvmlDeviceGetCurrentClocksThrottleReasons", {"throttled": ()}, id="no reasons"),
        pytest.param("nvmlDeviceGetComputeRunningProcesses", {"foreign": 0, "foreign_part": 0.0}, id="no processes"),
    ],
)
def test_an_unsupported_call_leaves_its_figure_unknown(
    sampled: Callable[..., Gpu | None], fails: str, unknown: dict[str, Any]
) -> None:
    driver = Driver(fails, busy=[80], clock=[1410], reasons=[0x4], processes=[(FOREIGN,)])
    known = {"utilization": 80, "clock": 1410, "throttled": ("power",), "energy": 12.5}
    assert sampled(driver) == Gpu(**{**known, "foreign": 1, "foreign_part": 1.0, **unknown})


def test_without_a_counter_energy_is_the_mean_power_times_the_time(
    sampled: Callable[..., Gpu | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((100.0, 104.0))
    monkeypatch.setattr("autotune_rewrite.verify.gpu.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    gpu = sampled(Driver("nvmlDeviceGetTotalEnergyConsumption"))
    assert gpu is not None
    assert gpu.energy == 1000.0  # 250 W for 4 s


def test_energy_is_unknown_where_neither_it_nor_power_is_told(sampled: Callable[..., Gpu | None]) -> None:
    gpu = sampled(Driver("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"))
    assert gpu is not None
    assert gpu.energy is None


@pytest.mark.parametrize(
    ("before", "during", "foreign"),
    [
        pytest.param((), [(OURS,)], 0, id="ours"),
        pytest.param((), [(OURS, FOREIGN)], 1, id="ours and one of others"),
        pytest.param((), [(FOREIGN,), (OURS,)], 1, id="the most at once counts"),
        pytest.param((), [(ABSENT,)], 0, id="an id that means nothing in this container"),
        pytest.param((ABSENT,), [(ABSENT, OURS)], 1, id="such an id that was there before the run"),
        pytest.param((ABSENT,), [()], 0, id="one that ended before the run began to compute"),
    ],
)
def test_foreign_processes_are_counted(
    sampled: Callable[..., Gpu | None], before: tuple[int, ...], during: list[tuple[int, ...]], foreign: int
) -> None:
    gpu = sampled(Driver(before=before, processes=during))
    assert gpu is not None
    assert gpu.foreign == foreign


def test_the_part_of_the_samples_with_others_is_told(sampled: Callable[..., Gpu | None]) -> None:
    gpu = sampled(Driver(processes=[(FOREIGN,), ()]), samples=4)
    assert gpu is not None
    assert gpu.foreign_part is not None
    assert 0 < gpu.foreign_part <= 0.25
    assert gpu.shared


@pytest.mark.skipif(sys.platform == "win32", reason="there are no zombies")
@pytest.mark.parametrize("there_before", [pytest.param(False, id="the run's own"), pytest.param(True, id="the last's")])
def test_a_process_that_is_ending_is_none_of_others(sampled: Callable[..., Gpu | None], *, there_before: bool) -> None:
    """The driver still counts it for up to a second, in which its environment no longer says whose it was."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    gpu = sampled(Driver(before=(process.pid,) if there_before else (), processes=[(OURS,), (OURS, process.pid)]))
    process.wait()
    assert gpu is not None
    assert (gpu.foreign, gpu.foreign_part) == (0, 0.0)
    assert not gpu.shared


@pytest.mark.parametrize(
    ("visible", "device"),
    [
        pytest.param(None, "GPU-0a2b", id="not set: the first"),
        pytest.param("1,0", "GPU-1a2b", id="an index"),
        pytest.param("GPU-1a2b", "GPU-1a2b", id="a UUID"),
        pytest.param("GPU-1", "GPU-1a2b", id="a UUID that is cut short"),
        pytest.param("MIG-7", "MIG-7", id="a part of a device"),
    ],
)
def test_the_first_visible_device_is_sampled(
    sampled: Callable[..., Gpu | None], visible: str | None, device: str
) -> None:
    driver = Driver()
    sampled(driver, visible)
    assert set(driver.devices) == {device}


@pytest.mark.parametrize(
    ("visible", "fails"),
    [
        pytest.param("", (), id="all devices are hidden"),
        pytest.param("-1", (), id="all devices are hidden by an index that none has"),
        pytest.param("7", (), id="no such device"),
        pytest.param("GPU-9", (), id="no such UUID"),
        pytest.param("MIG-7", ("nvmlDeviceGetHandleByUUID",), id="no such part of a device"),
        pytest.param(None, ("nvmlInit",), id="no driver"),
        pytest.param("GPU-0", ("nvmlDeviceGetCount",), id="a driver that cannot count"),
        pytest.param("7", ("nvmlShutdown",), id="a driver that cannot be closed"),
    ],
)
def test_nothing_is_sampled(sampled: Callable[..., Gpu | None], visible: str | None, fails: tuple[str, ...]) -> None:
    assert sampled(Driver(*fails), visible) is None


def test_nothing_is_sampled_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    sampler = Sampler(None, lambda _: False)
    sampler.start()
    assert sampler.stop() is None


def test_the_names_are_those_of_the_package() -> None:
    """The driver of these tests answers only to names that NVML's package has."""
    pynvml = pytest.importorskip("pynvml")
    names = [name for name in vars(Driver) if name.startswith(("nvml", "NVML"))]
    assert [name for name in names if not hasattr(pynvml, name)] == []
    same = [name for name in names if isinstance(getattr(Driver, name), int)]
    assert {name: getattr(Driver, name) for name in same if name != "NVML_CLOCK_SM"}.items() <= vars(pynvml).items()
    assert pynvml.NVML_CLOCK_SM == Driver.NVML_CLOCK_SM


def test_the_package_finds_no_driver_and_nothing_is_raised() -> None:
    pynvml = pytest.importorskip("pynvml")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        sampler = Sampler(None, lambda _: False)
        sampler.start()
        assert sampler.stop() is None
    else:
        pytest.skip("there is a driver here")
