"""The rest of torch that takes devices and that the mode does not see, and the threads and processes beside it."""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import torch

from .cuda import answering
from .presence import CPU, InThread, is_device, on_cpu, untyped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .presence import SimulatedDevice


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
    """The code of this package, by whatever holds it."""
    for value in values:
        if isinstance(value, types.CodeType):
            yield value
            yield from own_code(value.co_consts)
        elif is_own(getattr(value, "__module__", None)) and isinstance(value, types.FunctionType):
            yield from own_code([value.__code__])
        elif is_own(getattr(value, "__module__", None)) and isinstance(value, type):
            yield from own_code(vars(value).values())


def is_own(module: str | None) -> bool:
    """Whether a module of that name belongs to this package, or is it."""
    return str(module).startswith(str(__package__))


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

        modules = [module for name, module in list(sys.modules.items()) if is_own(name)]
        for code in own_code(value for module in modules for value in vars(module).values()):
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
