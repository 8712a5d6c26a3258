"""What the machine is, what its limits are, and what torch says of it."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from tests.gpu.facts.recording import answer, plain, rounded

if TYPE_CHECKING:
    from tests.gpu.facts.recording import Seen

untyped: Any = torch
GIB = 2**30
MIB = 2**20
VARIABLES = ("CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "PYTORCH_", "TORCH", "TRITON_", "OMP_", "MKL_")
"""The beginnings of the environment variables that decide what torch does."""
OPTIMIZERS = (
    *("Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "NAdam", "RAdam", "Adamax", "Adadelta", "Rprop", "ASGD"),
    *("Adafactor", "LBFGS", "SparseAdam", "Muon"),
)


def device_and_limits(seen: Seen) -> None:
    """The machine, the device, the allocators and how much memory can be pinned."""
    with seen.part("versions"):
        seen["versions"] = versions()
    with seen.part("device"):
        describe_device(seen)
    with seen.part("limits"):
        seen["limits"] = limits()
    with seen.part("driver"):
        if seen.on_cuda("nvidia_smi", "there is no driver"):
            seen["nvidia_smi"] = nvidia_smi()
    with seen.part("allocator"):
        if seen.on_cuda("allocator", "the simulated device has no allocator"):
            describe_allocator(seen)
    with seen.part("pinned"):
        if seen.on_cuda("pinned_gib", "memory is not really pinned for the simulated device"):
            pin_much(seen)


def versions() -> dict[str, Any]:
    """What runs, and what torch of this version can do."""
    cudnn: Any = torch.backends.cudnn
    signatures = {
        name: inspect.signature(getattr(torch.optim, name)) for name in OPTIMIZERS if name in vars(torch.optim)
    }
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": cudnn.version() if cudnn.is_available() else None,
        "has_module_compile": hasattr(torch.nn.Module, "compile"),
        "fused_optimizers": [name for name, signature in signatures.items() if "fused" in signature.parameters],
        "foreach_optimizers": [name for name, signature in signatures.items() if "foreach" in signature.parameters],
    }


def describe_device(seen: Seen) -> None:
    """The device, and the ways to ask for it."""
    cuda, accelerator = untyped.cuda, untyped.accelerator
    seen["initialized_by_is_available"] = cuda.is_initialized()
    seen["name"] = cuda.get_device_name()
    seen["capability"] = list(cuda.get_device_capability())
    properties = cuda.get_device_properties(0)
    seen["memory_gib"] = rounded(properties.total_memory / GIB)
    seen["multiprocessors"] = properties.multi_processor_count
    if seen.on_cuda("l2_mib", "the simulated device has no cache"):
        seen["l2_mib"] = properties.L2_cache_size / MIB
        free, total = cuda.mem_get_info()
        seen["free_gib"], seen["total_gib"] = rounded(free / GIB), rounded(total / GIB)
        seen["context_mib"] = rounded((total - free) / MIB)
    seen["architectures"] = cuda.get_arch_list()
    seen["bf16_supported"] = cuda.is_bf16_supported()
    seen["bf16_supported_without_emulation"] = cuda.is_bf16_supported(including_emulation=False)
    seen["tf32_supported"] = answer(cuda.is_tf32_supported)
    seen["autocast_available"] = {kind: torch.amp.is_autocast_available(kind) for kind in ("cuda", "cpu", "mps")}
    seen["autocast_of_a_device"] = answer(lambda: torch.autocast(untyped.device("cuda")), ValueError, RuntimeError)
    seen["accelerator"] = {
        "is_available": accelerator.is_available(),
        "current_accelerator": str(accelerator.current_accelerator()),
        "device_count": accelerator.device_count(),
        "current_device_index": accelerator.current_device_index(),
    }
    seen["default_device"] = str(torch.get_default_device())
    if seen.on_cuda("no_such_index", "the simulated device takes every index for its own"):
        seen["no_such_index"] = answer(lambda: torch.ones(1, device="cuda:7"))


def limits() -> dict[str, Any]:
    """What the system lets a process have."""
    shared = os.statvfs("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - it is asked for by this name
    memory = meminfo()
    return {
        "memlock_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "shared_memory_gib": rounded(shared.f_frsize * shared.f_blocks / GIB) if shared else None,
        "cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)),
        "cpu_quota": file_text("/sys/fs/cgroup/cpu.max"),
        "memory_limit": file_text("/sys/fs/cgroup/memory.max"),
        "memory_gib": rounded(memory["MemTotal"] / GIB),
        "available_gib": rounded(memory["MemAvailable"] / GIB),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "start_method": multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0],
        "sharing_strategy": untyped.multiprocessing.get_sharing_strategy(),
        "system": platform.platform(),
        "variables": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(VARIABLES)},
        "switch_interval": sys.getswitchinterval(),
    }


def file_text(path: str) -> str | None:
    """What a file of the system says, where there is one."""
    return Path(path).read_text(encoding="utf-8").strip() if Path(path).is_file() else None


def meminfo() -> dict[str, int]:
    """Bytes of memory by the system's names."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    return {name: 1024 * int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}


def nvidia_smi() -> str | None:
    """Name, driver and modes as the driver's tool says them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = "name,driver_version,memory.total,compute_mode,persistence_mode,power.limit,clocks.max.sm,pcie.link.gen.max"
    command = [program, f"--query-gpu={query}", "--format=csv,noheader"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    return (ended.stdout or ended.stderr).strip()


def describe_allocator(seen: Seen) -> None:
    """The caching allocator's settings, and what it reserves for sizes that grow, as batches of varying length do."""
    cuda = untyped.cuda
    seen["allocator"] = cuda.get_allocator_backend()
    seen["allocator_settings"] = plain(cuda.memory._snapshot()["allocator_settings"])
    reserved: dict[str, Any] = {}
    for settings in ("expandable_segments:False", "expandable_segments:True"):
        cuda.empty_cache()
        reserved[settings] = answer(partial(reserved_for_growing_sizes, settings))
    seen["reserved_mib_for_sizes_growing_from_100_to_200_mib"] = reserved
    cuda.empty_cache()
    cuda.memory._set_allocator_settings("expandable_segments:False")


def reserved_for_growing_sizes(settings: str) -> float:
    """MiB that are reserved after tensors of ten growing sizes, one at a time."""
    untyped.cuda.memory._set_allocator_settings(settings)
    for size in range(100, 200, 10):
        tensor = torch.empty(size * MIB, dtype=torch.uint8, device="cuda")
        del tensor
    return float(untyped.cuda.memory_reserved() / MIB)


def pin_much(seen: Seen) -> None:
    """Pins memory in pieces of one GiB, up to a limit of size and time that is ours."""
    most = min(4, int(meminfo()["MemAvailable"] / GIB / 2))
    pinned: list[torch.Tensor] = []
    seconds: list[float] = []
    stopped = "our own limit"
    while len(pinned) < most and sum(seconds) < 2:
        start = time.perf_counter()
        try:
            pinned.append(torch.empty(GIB, dtype=torch.uint8, pin_memory=True))
        except RuntimeError as error:
            stopped = f"{type(error).__name__}: {error}"
            break
        seconds.append(time.perf_counter() - start)
    seen["pinned_gib"], seen["pinning_stopped_by"] = len(pinned), stopped
    seen["pinning_seconds_per_gib"] = [rounded(one, 3) for one in seconds]
