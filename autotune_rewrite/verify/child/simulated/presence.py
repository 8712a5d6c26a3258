"""Which tensors would be on the device: a mode sees each call of torch's functions, and keeps the books."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device as default_device
from torch.utils.weak import WeakTensorKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

untyped: Any = torch
"""For what torch itself has not given types, and for what is changed here."""

CPU = torch.device("cpu")

CREATE: set[Any] = default_device._device_constructors()  # noqa: SLF001 - torch has no public list
"""The functions that create tensors where they are told to, or on the default device."""
FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray, torch.sparse_coo_tensor)
"""Those that create them where their data is, if that is a tensor."""


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
