"""What makes a program wait or tidy up, and what depends on it."""

from __future__ import annotations

import enum

from codemods.dataflow.names import words


class Pause(enum.Enum):
    """What a call does besides computing."""

    CACHE = "gives cached memory back"
    COLLECTION = "collects garbage"
    WAIT = "waits for the device"
    SLEEP = "sleeps"


_PAUSES = {
    Pause.CACHE: words(
        """
        torch.cuda.empty_cache torch.cuda.memory.empty_cache torch.cuda.ipc_collect torch.mps.empty_cache
        torch.xpu.empty_cache torch.xpu.memory.empty_cache torch.accelerator.empty_cache
        torch.accelerator.memory.empty_cache
        """
    ),
    Pause.COLLECTION: words("gc.collect"),
    Pause.WAIT: words(
        "torch.cuda.synchronize torch.mps.synchronize torch.xpu.synchronize torch.accelerator.synchronize"
    ),
    Pause.SLEEP: words("time.sleep"),
}
_BY_NAME = {name: each for each, names in _PAUSES.items() for name in names}

STEERS_COLLECTION = words(
    "gc.disable gc.freeze gc.set_threshold gc.set_debug gc.get_objects gc.get_referrers gc.get_stats gc.get_count"
)
"""Functions after which, or for which, it matters when garbage is collected."""
SEES_COLLECTION = words(
    """
    weakref.ref weakref.proxy weakref.finalize weakref.WeakMethod weakref.WeakSet weakref.WeakKeyDictionary
    weakref.WeakValueDictionary
    """
)
"""Functions and classes that tell when an object is freed."""
_OF_MEMORY = words(
    """
    memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached
    memory_stats memory_stats_as_nested_dict memory_usage host_memory_stats host_memory_stats_as_nested_dict
    memory_summary memory_snapshot mem_get_info device_memory_used
    current_allocated_memory driver_allocated_memory
    """
)
_OF_DEVICES = ("torch.cuda.", "torch.mps.", "torch.xpu.", "torch.accelerator.")
_OF_SYSTEM = words(
    "psutil resource tracemalloc pynvml py3nvml nvidia_smi GPUtil gpustat memory_profiler pympler objgraph"
)


def pause(name: str) -> Pause | None:
    """What the function of that qualified name does besides computing."""
    return _BY_NAME.get(name)


def reads_memory(name: str) -> bool:
    """Whether the function or class of that qualified name tells how much memory is in use."""
    of_device = name.startswith(_OF_DEVICES) and name.rpartition(".")[2] in _OF_MEMORY
    return of_device or name.partition(".")[0] in _OF_SYSTEM


def names() -> frozenset[str]:
    """All functions that do something besides computing."""
    return frozenset(_BY_NAME)
