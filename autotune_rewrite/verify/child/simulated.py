"""One CUDA device that is not there: the script believes in it, and every operation on it happens on the CPU.

``install(capability)`` puts it into this process, before a script runs; nothing takes it out again. It is loaded by
``harness.py`` inside the measured child, and again in every process that the script spawns. Like the harness it stands
on torch and the standard library only.

What it is good for: the branch behind ``torch.cuda.is_available()`` is executed, and crashes and computes as it would
on the device, mixed precision included. What it cannot show: speed, memory, races, rounding of the device's kernels.

How it works:

* A ``TorchFunctionMode`` sees every call of torch's Python functions. It puts "cuda" devices on the CPU and remembers
  which tensors would be on the device: these say ``is_cuda``, are copied by ``.cpu()``, cannot be pinned and have no
  ``.numpy()``. Their ``.device`` is the CPU: torch's own code has to find them there.
* Autocast on "cuda" is autocast on the CPU with the same type, and with CUDA's lists of operations instead of the CPU's
  (torch/include/ATen/autocast_mode.h has them): what is cast, what stays in 32 bits, what is forbidden.
* What torch.cuda knows of a device is answered; random numbers are those of the CPU's generator.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import sys
import threading
import time
import types
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device as default_device
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

untyped: Any = torch
"""For what torch itself has not given types, and for what is changed here."""

NAME = "simulated CUDA device"
MEMORY = 16 * 2**30
"""Bytes that the device claims to have."""
CPU = torch.device("cpu")

CREATE: set[Any] = default_device._device_constructors()  # noqa: SLF001 - torch has no public list
"""The functions that create tensors where they are told to, or on the default device."""
FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray, torch.sparse_coo_tensor)
"""Those that create them where their data is, if that is a tensor."""

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

LOWER_PRECISION = """
    _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
    _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    _scaled_dot_product_flash_attention scaled_dot_product_attention
""".split()  # noqa: SIM905 - a table
"""AT_FORALL_LOWER_PRECISION_FP: CUDA's autocast runs them in 16 bits."""
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""So does it cuDNN's recurrent networks, which these are on CUDA."""
WIDEST = """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split()  # noqa: SIM905 - a table
"""AT_FORALL_PROMOTE: it runs them in the widest type among their arguments."""
BANNED = "binary_cross_entropy"
"""It refuses this one. Everything else that it knows, it runs in 32 bits."""
UNSAFE = """\
torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.
Many models use a sigmoid layer right before the binary cross entropy layer.
In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits
or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are
safe to autocast."""
ONLY_ON_CPU = (
    *("fft_", "linalg_", "cholesky_", "lu_", "stft", "inverse", "pinverse", "geqrf", "orgqr", "ormqr", "svd"),
    *("triangular_solve", "quantile", "nanquantile", "polar", "view_as_complex", "index_copy", "cross_entropy_loss"),
)
"""What the CPU's autocast casts to 32 bits and CUDA's leaves alone, so that 16-bit arguments are an error there."""


class SimulatedDevice(TorchFunctionMode):
    """The mode, and what it knows of the tensors that would be on the device."""

    def __init__(self, capability: tuple[int, int]) -> None:
        super().__init__()
        self.capability = capability
        self.initialized = False
        """Whether something was put on the device."""
        self.lost = False
        """Whether this is a fork of a process that used the device: as with CUDA, it cannot be used here."""
        self.holds_new_tensors = False
        """Whether tensors are created on the device by default: ``torch.set_default_tensor_type`` said so."""
        self._present: Any = WeakTensorKeyDictionary()
        self._pinned: Any = WeakTensorKeyDictionary()
        tensor = untyped.Tensor
        self._special: dict[Any, Callable[..., Any]] = {
            tensor.to: self._to,
            tensor.cuda: self._cuda,
            tensor.cpu: self._cpu,
            tensor.type: self._type,
            tensor.type_as: self._type_as,
            tensor.data.__set__: self._set_data,
            tensor.is_cuda.__get__: self.has,
            tensor.get_device: lambda of: 0 if self.has(of) else of.get_device(),
            tensor.pin_memory: self._pin,
            tensor.is_pinned: lambda of, *_, **__: of in self._pinned,
            tensor.numpy: self._for_numpy(tensor.numpy),
            tensor.__array__: self._for_numpy(tensor.__array__),
            torch.device: torch.device,
            untyped._C._nn._parse_to: untyped._C._nn._parse_to,  # noqa: SLF001 - which device Module.to was given
        }

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - any of torch's functions
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever it returns
        """Calls one of torch's functions, with the CPU in place of the device."""
        return (traced if torch.compiler.is_compiling() else self.call)(func, args, dict(kwargs or {}))

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - as above
        """Calls the function and keeps the books of what is on the device."""
        special = self._special.get(func)
        if special is not None:
            return special(*args, **kwargs)
        present, pinned = self._is_for_device(func, args, kwargs), kwargs.pop("pin_memory", False)
        if present and ("device" in kwargs or func in CREATE):
            kwargs["device"] = CPU
        result = func(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()})
        changed_in_place = {id(value) for value in tensors((args, kwargs))}
        for value in tensors(result):
            if present and func.__name__ != "__get__":  # to read an attribute does not reach for the device
                self._use()
            if present and id(value) not in changed_in_place:
                self._present[value] = True
            if pinned:
                self._pinned[value] = True
        return result

    def has(self, value: object) -> bool:
        """Whether this is a tensor on the device."""
        return value in self._present

    def is_default(self) -> bool:
        """Whether tensors are created on the device where nothing else is said."""
        for mode in reversed(untyped.overrides._get_current_function_mode_stack()):  # noqa: SLF001 - torch asks it, too
            if isinstance(mode, default_device.DeviceContext):
                return is_device(mode.device)
        return self.holds_new_tensors

    def follow(self, function: Any, wrapper: Any) -> None:  # noqa: ANN401 - any of torch's functions
        """Takes a function that was put in the place of one of torch's for that one: torch looks it up by name."""
        if function in self._special:
            self._special[wrapper] = self._special[function]

    def put(self, value: torch.Tensor) -> torch.Tensor:
        """Says of a new tensor that it is on the device."""
        self._use()
        self._present[value] = True
        return value

    def fork(self) -> None:
        """Tells the device that this process is a copy of the one that it was in."""
        self.lost = self.initialized

    def _use(self) -> None:
        if self.lost:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )
        self.initialized = True

    def _is_for_device(self, func: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether the results of a call are on the device."""
        device = kwargs.get("device")
        if device is not None:
            return is_device(device)
        if func in CREATE:
            data = args[0] if args and func in FROM_DATA else None
            return self.has(data) if isinstance(data, torch.Tensor) else self.is_default()
        return any(map(self.has, tensors((args, kwargs))))

    def _moved(self, value: torch.Tensor, result: torch.Tensor, *, present: bool) -> torch.Tensor:
        """The result of moving a tensor: a copy where it changes places, which is no leaf of the graph any more."""
        if self.has(value) != present and result is value:
            result = value.clone()
        if present:
            self._use()
            if result is not value:
                self.put(result)
        return result

    def _to(self, value: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - as Tensor.to
        target = kwargs.get("device", kwargs.get("other", args[0] if args else None))
        if isinstance(target, torch.Tensor):
            present = self.has(target)
        elif target is None or isinstance(target, torch.dtype):
            present = self.has(value)
        else:
            present = is_device(target)
            if present and "device" in kwargs:
                kwargs["device"] = CPU
            elif present:
                args = (CPU, *args[1:])
        return self._moved(value, value.to(*args, **kwargs), present=present)

    def _cuda(
        self, value: torch.Tensor, *_: object, memory_format: torch.memory_format = torch.preserve_format, **__: object
    ) -> torch.Tensor:
        return self._to(value, "cuda", memory_format=memory_format)

    def _cpu(self, value: torch.Tensor, *, memory_format: torch.memory_format = torch.preserve_format) -> torch.Tensor:
        return self._to(value, "cpu", memory_format=memory_format)

    def _type(self, value: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as there
        if dtype is None:
            name: str = value.type()
            return name.replace("torch.", "torch.cuda.") if self.has(value) else name
        present = self.has(value)
        if isinstance(dtype, str):
            present = dtype.startswith("torch.cuda.")
            dtype = dtype.replace("torch.cuda.", "torch.")
        elif isinstance(dtype, LegacyTensor):
            present, dtype = True, dtype.on_cpu
        elif not isinstance(dtype, torch.dtype):
            present = False
        return self._moved(value, value.type(dtype, *args, **kwargs), present=present)

    def _type_as(self, value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return self._moved(value, value.type_as(other), present=self.has(other))

    def _set_data(self, value: torch.Tensor, data: torch.Tensor) -> None:
        value.data = data
        if self.has(data):
            self.put(value)
        else:
            self._present.pop(value, None)

    def _pin(self, value: torch.Tensor, *_: object) -> torch.Tensor:
        if self.has(value) or value.layout is not torch.strided:
            raise RuntimeError(f"cannot pin '{self._type(value)}' only dense CPU tensors can be pinned")
        pinned = value if value in self._pinned else value.detach().clone()
        self._pinned[pinned] = True
        return pinned

    def _for_numpy(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        def converted(value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
            if self.has(value) and not kwargs.get("force"):
                raise TypeError(
                    "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                    "memory first."
                )
            return convert(value, *args, **kwargs)

        return converted


class InThread(TorchFunctionMode):
    """The mode in another thread: it captures no graph, though ``is_compiling`` is true while the main thread does."""

    def __init__(self, device: SimulatedDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401 - any of torch's functions
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever it returns
        """As the device's."""
        return self.device.call(func, args, dict(kwargs or {}))


def traced(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - as the mode
    """What the mode does while torch.compile captures a graph, for it cannot follow the bookkeeping."""
    if func is torch.device:
        return func(*args, **kwargs)
    if func is torch.Tensor.cuda:
        return args[0].clone()
    return func(*map(on_cpu, args), **{name: on_cpu(value) for name, value in kwargs.items()})


def is_device(device: object) -> bool:
    """Whether a device, its name or its index is CUDA's."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return isinstance(device, int)


def on_cpu(value: Any) -> Any:  # noqa: ANN401 - any argument
    """The argument, or the CPU where it names a CUDA device."""
    return CPU if isinstance(value, (torch.device, str)) and is_device(value) else value


def tensors(values: object, depth: int = 3) -> Iterator[torch.Tensor]:
    """The tensors among values, in nested sequences and mappings down to a depth."""
    if isinstance(values, torch.Tensor):
        yield values
    elif depth and isinstance(values, (tuple, list, dict)):
        for value in values.values() if isinstance(values, dict) else values:
            yield from tensors(value, depth - 1)


# --- mixed precision ------------------------------------------------------------------------------------------------


def use_cuda_autocast_lists() -> object:
    """Gives autocast on the CPU the operations that CUDA's has: what is cast, widened, left alone and forbidden.

    Returns:
        What has to be kept alive: the registrations end with it.
    """
    library = untyped.library.Library("aten", "IMPL")
    on_cpu, on_cuda = (
        {name.partition("::")[2] for name in torch._C._dispatch_get_registrations_for_dispatch_key(key)}  # noqa: SLF001
        for key in ("AutocastCPU", "AutocastCUDA")
    )
    recurrent = {f"{name}.{form}" for name in RECURRENT for form in ("input", "data")}
    for name in sorted(on_cuda | recurrent):
        operation, _, overload = name.partition(".")
        if operation in LOWER_PRECISION and name in on_cpu:
            continue  # the CPU's kernel does the same, and keeps what it cast for the next time
        packet = getattr(torch.ops.aten, operation, None)
        if packet is not None and (overload or "default") in packet.overloads():
            library.impl(name, cast_arguments(operation, getattr(packet, overload or "default")), "AutocastCPU")
    for name in sorted(on_cpu - on_cuda):
        if name.startswith(ONLY_ON_CPU):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
    return library


def cast_arguments(operation: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """What autocast does before an operation.

    Args:
        operation: Its name.
        run: The operation itself.
    """
    autocast = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)  # noqa: SLF001 - as torch.library does it

    def cast(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        if operation == BANNED:
            raise RuntimeError(UNSAFE)
        given = (args, kwargs)
        found = {value.dtype for value in tensors(given) if value.is_floating_point()}
        wanted: torch.dtype | None = torch.float32
        if operation in LOWER_PRECISION or operation in RECURRENT:
            wanted = torch.get_autocast_dtype("cpu")
        elif operation in WIDEST:
            wanted = torch.float32 if torch.float32 in found else None
        elif any(isinstance(value, torch.dtype) for value in (*args, *kwargs.values())):
            wanted = None  # the script says itself in which type it wants a sum
        with torch._C._ExcludeDispatchKeyGuard(autocast):  # noqa: SLF001 - as torch.library does it
            return run(*as_type(args, wanted), **as_type(kwargs, wanted))

    return cast


def as_type(values: Any, wanted: torch.dtype | None) -> Any:  # noqa: ANN401 - any nest of arguments
    """The values with their floating point tensors in the wanted type, but for those of 64 bits."""
    if wanted is None:
        return values
    if isinstance(values, torch.Tensor):
        return values.to(wanted) if values.is_floating_point() and values.dtype is not torch.float64 else values
    if isinstance(values, dict):
        return {name: as_type(value, wanted) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(as_type(value, wanted) for value in values)
    return values


def mirror_autocast() -> None:
    """Lets autocast on "cuda" switch on the CPU's, too: torch itself keeps the state of both."""
    autocast, module = untyped.autocast, untyped.amp.autocast_mode
    enter, leave, cast = autocast.__enter__, autocast.__exit__, module._cast  # noqa: SLF001 - custom_fwd casts with it

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:  # noqa: ANN401, N807 - as there
        if self.device == "cuda":
            self.before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return enter(self)

    @functools.wraps(leave)
    def __exit__(self: Any, *error: object) -> Any:  # noqa: ANN401, N807 - as there
        if self.device == "cuda":
            enabled, dtype = self.before
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return leave(self, *error)

    autocast.__enter__, autocast.__exit__ = __enter__, __exit__
    module._cast = lambda value, device, dtype: cast(value, "cpu" if device == "cuda" else device, dtype)  # noqa: SLF001


def scale_on_cpu() -> None:
    """Lets a gradient scaler for "cuda" scale gradients on the CPU."""
    scaler = untyped.amp.GradScaler
    create = scaler.__init__

    @functools.wraps(create)
    def __init__(self: Any, device: str = "cuda", *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807 - as there
        create(self, "cpu" if is_device(device) else device, *args, **kwargs)

    scaler.__init__ = __init__


# --- torch.cuda -----------------------------------------------------------------------------------------------------


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


class LegacyTensor(type):
    """The type of ``torch.cuda.FloatTensor`` and its like."""

    on_cpu: Any
    dtype: torch.dtype
    device: SimulatedDevice

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ANN401 - as the old constructors
        """A tensor on the device."""
        value: torch.Tensor = cls.on_cpu(*args, **kwargs)
        return cls.device.put(value)

    def __instancecheck__(cls, instance: object) -> bool:
        """Whether it is a tensor of this type on the device."""
        return cls.device.has(instance) and getattr(instance, "dtype", None) is cls.dtype


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


# --- the rest of torch ----------------------------------------------------------------------------------------------


class Generator(torch._C.Generator):  # noqa: SLF001 - torch.Generator, whose name is about to be taken
    """A ``torch.Generator`` that is on the CPU where it was asked to be on the device."""

    def __new__(cls, device: Any = CPU) -> Generator:  # noqa: ANN401, PYI034 - as there
        """Makes one."""
        return super().__new__(cls, on_cpu(device))  # type: ignore[call-arg]


def change_torch(device: SimulatedDevice) -> None:
    """Changes what takes devices and is not seen by the mode."""
    untyped.Generator = Generator
    untyped.compile = capture_only(torch.compile)
    untyped.Tensor.record_stream = answering(None)
    data_parallel: Any = sys.modules[torch.nn.DataParallel.__module__]
    data_parallel._get_available_device_type = answering(None)  # noqa: SLF001 - without devices it is its module
    data_parallel.data_parallel = untyped.nn.parallel.data_parallel = on_one_device
    untyped.serialization.register_package(0, lambda _: None, lambda storage, to: storage if is_device(to) else None)
    for storage in (torch.UntypedStorage, torch.TypedStorage):
        storage.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    make_parameter = torch.nn.Parameter.__new__

    @functools.wraps(make_parameter)
    def __new__(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:  # noqa: ANN401, FBT001, FBT002, N807
        parameter = make_parameter(cls, data, requires_grad)
        return device.put(parameter) if device.has(data) else parameter

    untyped.nn.Parameter.__new__ = __new__
    set_type, get_device = torch.set_default_tensor_type, torch.get_default_device

    @functools.wraps(set_type)
    def set_default_tensor_type(tensor: Any) -> None:  # noqa: ANN401 - as there
        name = tensor if isinstance(tensor, str) else f"{tensor.__module__}.{tensor.__name__}"
        device.holds_new_tensors = name.startswith("torch.cuda.")
        set_type(name.replace("torch.cuda.", "torch."))

    @functools.wraps(get_device)
    def get_default_device() -> torch.device:
        return torch.device("cuda", 0) if device.is_default() else get_device()

    untyped.set_default_tensor_type, untyped.get_default_device = set_default_tensor_type, get_default_device


def on_one_device(
    module: Callable[..., Any],
    inputs: Any,  # noqa: ANN401 - as there
    *_: object,
    module_kwargs: dict[str, Any] | None = None,
    **__: object,
) -> Any:  # noqa: ANN401 - as there
    """``torch.nn.parallel.data_parallel`` where there is one device: it calls the module itself."""
    arguments = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*arguments, **(module_kwargs or {}))


def own_code(values: Iterable[object]) -> Iterator[types.CodeType]:
    """The code of this module, by whatever holds it."""
    for value in values:
        if isinstance(value, types.CodeType):
            yield value
            yield from own_code(value.co_consts)
        elif getattr(value, "__module__", None) == __name__ and isinstance(value, types.FunctionType):
            yield from own_code([value.__code__])
        elif getattr(value, "__module__", None) == __name__ and isinstance(value, type):
            yield from own_code(vars(value).values())


def run_backward_under(device: SimulatedDevice) -> None:
    """Keeps the mode on during the backward pass, for hooks and for the script's own autograd functions.

    Otherwise it would be off, since ``backward`` and ``grad`` are themselves called by the mode.
    """
    autograd = untyped.autograd
    run = autograd._engine_run_backward  # noqa: SLF001 - both call it

    @functools.wraps(run)
    def run_backward(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        with device:
            return run(*args, **kwargs)

    autograd._engine_run_backward = run_backward  # noqa: SLF001 - as above


def capture_only(compile_: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.compile`` that captures the graph, forward and backward, and then runs it as it is."""

    @functools.wraps(compile_)
    def captured(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on
        from torch._dynamo.eval_frame import skip_code  # torch.compile imports it now, too

        for code in own_code(globals().values()):
            skip_code(code)  # what runs between two graphs is not to become a graph of its own
        backend = kwargs.get("backend", "inductor")
        if isinstance(backend, str) and backend != "eager":
            kwargs["backend"] = "aot_eager"
            for name in "mode", "options":  # of the backend that does not run
                kwargs.pop(name, None)
        return compile_(*args, **kwargs)

    return captured


def follow_processes(device: SimulatedDevice) -> None:
    """Takes the mode, which belongs to a thread, into every other thread, and tells the device of forks."""
    start = threading.Thread.start

    @functools.wraps(start)
    def started(self: threading.Thread) -> None:
        run = self.run

        def under_mode() -> None:
            with InThread(device):
                run()

        self.run = under_mode  # type: ignore[method-assign]
        start(self)

    threading.Thread.start = started  # type: ignore[method-assign]
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=device.fork)


def install(capability: str) -> None:
    """Puts the device into this process.

    Args:
        capability: As "9.0": of 8.0 and above there are 16-bit numbers with the range of 32-bit ones.
    """
    major, minor = map(int, capability.split("."))
    device = SimulatedDevice((major, minor))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of kernels that take the place of others
        KEPT.append(use_cuda_autocast_lists())
    mirror_autocast()
    scale_on_cpu()
    answer_for(device)
    change_torch(device)
    run_backward_under(device)
    follow_processes(device)
    KEPT.append(device)
    device.__enter__()  # type: ignore[no-untyped-call] # until the process ends


def follow(function: object, wrapper: object) -> None:
    """Tells the device that a wrapper was put in the place of one of torch's functions."""
    for device in KEPT:
        if isinstance(device, SimulatedDevice):
            device.follow(function, wrapper)


KEPT: list[object] = []
"""What must live as long as the process."""
