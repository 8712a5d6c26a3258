"""What the results were measured on: written as a line of its own at the beginning of each call of a stage."""

from __future__ import annotations

import platform
import shutil
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = "/dev/shm"  # noqa: S108 - where Linux has its shared memory
PACKAGES = ("torch", "torchvision", "triton", "numpy", "scipy", "accelerate", "pytorch-lightning", "pillow", "libcst")


def described() -> dict[str, Any]:
    """The machine now: GPU, driver, clocks, temperature and power by NVML, processor, and versions of packages."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "packages": {name: _version(name) for name in PACKAGES},
        "shared_memory": shared_memory(),
        "gpu": _gpu(),
    }


def shared_memory() -> dict[str, int] | None:
    """Its size and what is free of it, in bytes; None where the system has none that can be seen."""
    try:
        usage = shutil.disk_usage(SHARED)
    except OSError:
        return None
    return {"bytes": usage.total, "free_bytes": usage.free}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    if sys.platform == "linux":
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - no file of a project
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor()


def _gpu() -> dict[str, Any] | None:
    """By NVML, of the first GPU; None where there is none."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None

    def ask(question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            answer = question(*arguments)
        except pynvml.NVMLError:
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    try:
        device = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = ask(pynvml.nvmlDeviceGetMemoryInfo, device)
        return {
            "name": ask(pynvml.nvmlDeviceGetName, device),
            "driver": ask(pynvml.nvmlSystemGetDriverVersion),
            "cuda": ask(pynvml.nvmlSystemGetCudaDriverVersion),
            "memory_bytes": None if memory is None else memory.total,
            "memory_used_bytes": None if memory is None else memory.used,
            "sm_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, device, pynvml.NVML_CLOCK_SM),
            "sm_clock_most_mhz": ask(pynvml.nvmlDeviceGetMaxClockInfo, device, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": ask(pynvml.nvmlDeviceGetClockInfo, device, pynvml.NVML_CLOCK_MEM),
            "temperature_celsius": ask(pynvml.nvmlDeviceGetTemperature, device, pynvml.NVML_TEMPERATURE_GPU),
            "power_milliwatt": ask(pynvml.nvmlDeviceGetPowerUsage, device),
            "power_limit_milliwatt": ask(pynvml.nvmlDeviceGetPowerManagementLimit, device),
            "compute_processes": len(ask(pynvml.nvmlDeviceGetComputeRunningProcesses, device) or ()),
        }
    finally:
        pynvml.nvmlShutdown()
