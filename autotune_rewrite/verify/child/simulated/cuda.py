"""What torch.cuda answers about the device: its streams and events, its memory, its properties."""

from __future__ import annotations

import collections
import contextlib
import time
import types
from typing import TYPE_CHECKING, Any

import torch

from .presence import LegacyTensor, untyped

if TYPE_CHECKING:
    from collections.abc import Callable

    from .presence import SimulatedDevice

NAME = "simulated CUDA device"
MEMORY = 16 * 2**30
"""Bytes that the device claims to have."""
ZEROS = """
    memory_allocated memory_reserved memory_cached max_memory_allocated max_memory_reserved max_memory_cached
    memory_usage utilization current_device current_device_index current_device_idx
""".split()  # noqa: SIM905 - a table
"""What torch.cuda and torch.accelerator answer with zero."""
SILENT = """
    init set_device set_device_index set_device_idx set_stream synchronize empty_cache ipc_collect
    manual_seed manual_seed_all seed seed_all set_rng_state set_rng_state_all set_per_process_memory_fraction
    reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached
""".split()  # noqa: SIM905 - a table
"""What they take without an answer. Seeds are the CPU generator's, which the script's other seeds set."""
PLAIN_TENSORS = ("Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double", "Bool")
"""For each there is a ``torch.cuda.…Tensor``."""


class Stream:
    """Stands for ``torch.cuda.Stream``: all work is done when it is asked for."""

    cuda_stream = 0

    def __init__(self, *_: object, **__: object) -> None:
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Stream:  # noqa: PYI034 - the device has only one
        """Does nothing, as does the exit."""
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing."""

    def query(self) -> bool:
        """Whether all is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether it records a graph."""
        return False

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait_event(self, event: object) -> None:
        """Waits for nothing."""

    def wait_stream(self, stream: object) -> None:
        """Waits for nothing."""

    def record_event(self, event: Event | None = None) -> Event:
        """The event, which has happened."""
        event = event or Event()
        event.record()
        return event


class Event:
    """Stands for ``torch.cuda.Event``: happens when it is recorded."""

    def __init__(self, *_: object, **__: object) -> None:
        self.recorded = time.perf_counter()

    def record(self, *_: object) -> None:
        """Notes the time."""
        self.recorded = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds until another event."""
        return 1000 * (end.recorded - self.recorded)

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait(self, *_: object) -> None:
        """Waits for nothing."""


class OnDevice(contextlib.nullcontext[None]):
    """Stands for ``torch.cuda.device``, ``torch.cuda.stream`` and their like: there is only one of each to be on."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()


def answer_for(device: SimulatedDevice) -> None:
    """Lets torch.cuda, and torch.accelerator where there is one, speak of the device."""
    major, minor = device.capability
    stream = Stream()
    properties = types.SimpleNamespace(
        name=NAME,
        major=major,
        minor=minor,
        total_memory=MEMORY,
        multi_processor_count=1,
        warp_size=32,
        max_threads_per_multi_processor=1024,
        is_integrated=False,
        is_multi_gpu_board=False,
    )
    values: dict[str, Any] = {
        "is_available": True,
        "device_count": 1,
        "current_accelerator": torch.device("cuda"),
        "get_device_name": NAME,
        "get_device_properties": properties,
        "get_arch_list": [f"sm_{major}{minor}"],
        "can_device_access_peer": False,
        "is_tf32_supported": major >= 8,  # noqa: PLR2004 - Ampere
        "is_current_stream_capturing": False,
        "current_stream": stream,
        "default_stream": stream,
        "memory_snapshot": [],
        "memory_summary": f"{NAME}: memory is not counted",
        "mem_get_info": (MEMORY, MEMORY),
        "get_memory_info": (MEMORY, MEMORY),
    }
    values |= dict.fromkeys(ZEROS, 0) | dict.fromkeys(SILENT)
    functions: dict[str, Any] = {
        "is_initialized": lambda: device.initialized and not device.lost,
        "_is_in_bad_fork": lambda: device.lost,
        "is_bf16_supported": lambda including_emulation=True: major >= 8 or including_emulation,  # noqa: PLR2004 - Ampere
        "memory_stats": lambda *_, **__: collections.Counter(),  # has 0 for every name
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda *_, **__: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "stream": OnDevice,
        "StreamContext": OnDevice,
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "device": OnDevice,
        "device_of": OnDevice,
        "device_index": OnDevice,
    }
    owners: list[Any] = [torch.cuda, torch.cuda.memory, torch.cuda.random, getattr(torch, "accelerator", None)]
    for owner in owners:
        for name, function in functions.items():
            if hasattr(owner, name):
                setattr(owner, name, function)
        for name, value in values.items():
            if hasattr(owner, name):
                setattr(owner, name, answering(value))
    if owners[-1] is not None:
        # While it captures a graph, torch.compile asks this, and then the driver for its streams.
        owners[-1].is_available = lambda: torch._guards.CompileContext.try_get() is None  # noqa: SLF001 - as torch does
    cuda = untyped.cuda
    cuda.get_device_capability = answering(device.capability)
    cuda.default_generators = (torch.default_generator,)
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(cuda.nvtx, name, answering(None))
    for name in PLAIN_TENSORS:
        on_cpu = getattr(torch, f"{name}Tensor")
        members = {"__module__": "torch.cuda", "on_cpu": on_cpu, "dtype": on_cpu.dtype, "device": device}
        setattr(cuda, on_cpu.__name__, LegacyTensor(on_cpu.__name__, (), members))
    untyped.backends.cudnn.is_available = untyped.backends.cuda.is_built = answering(True)  # noqa: FBT003 - a value


def answering(value: Any) -> Callable[..., Any]:  # noqa: ANN401 - any value
    """A function of its own, as torch.compile wants it, that returns the value whatever it is asked."""
    return lambda *_, **__: value
