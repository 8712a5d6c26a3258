"""Runs one training script as ``__main__`` and writes down what it did: ``python harness.py CONFIG``.

This file is executed inside the measured child process, where alone torch is imported. It stands on torch and the
standard library only, so that it runs wherever the script runs; so does ``simulated.py``, which it loads on demand.

It observes through hooks and never waits for the device: a loss is copied, on the device, into a buffer that was
allocated before, and read when the script has ended. ``CONFIG`` is a JSON object with the keys of ``Config``. The
record is a file of JSON objects, one a line: windows of what was seen, about two a second (``Window``), in case that
the process is killed, and at the end all of it (``Record``). Times are seconds.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import hashlib
import inspect
import json
import math
import os
import platform
import random
import signal
import sys
import threading
import time
import types
from array import array
from collections import deque
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from multiprocessing import spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from weakref import WeakKeyDictionary

STARTED, STARTED_AT = time.perf_counter(), time.time()

import torch  # noqa: E402 - its import is timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VERSION = 2
"""Of the record's layout."""

WINDOW = 0.5
"""Seconds of what was seen that may be lost when the process is killed."""

CHUNK = 4096
"""Losses in one buffer; the next buffer is allocated when this one is full."""

FEWEST = 20
"""Iterations that a run has before it is ended because of its time: fewer say little."""

KEPT_OPTIMIZERS = 8
"""The last optimizers, whose parameters are kept alive for the digest; older models may be freed by the script."""


SIMULATED = "__torchfast_simulated__"
"""The name of the loaded ``simulated.py``, which takes none that a script may want."""

SCALE = "_torchfast_scale"
"""The attribute of a scaled loss that holds its factor."""
SEEN = "_torchfast_pass"
"""The attribute of a data loader's iterator that holds what was seen of the pass."""
WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
"""The modules whose ``SummaryWriter`` is watched, as soon as the script imports them."""
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
"""The variables by which launchers tell a process its rank."""


class Config(TypedDict):
    """What to run."""

    script: str | None
    """The file to run, or None to only describe this machine."""
    module: str | None
    """The name of the module that the file is, to be run as ``python -m`` runs it; None: as a script."""
    argv: list[str]
    path: list[str]
    """The directories that take the place of the script's own at the head of ``sys.path``."""
    capability: str | None
    """Of the CUDA device to simulate; None: what torch finds is what there is."""
    seed: int
    offset: int
    """Is added to every seed that the script sets by itself, so that runs with different seeds do differ."""
    iterations: int | None
    """Ends the run at the start of the backward call after this many, or never."""
    seconds: float | None
    """Ends the run at the start of the first backward call after so many seconds of the script, or never."""
    batches: int | None
    """Ends every pass through a data loader after so many, or never."""
    deterministic: bool
    """Runs under deterministic algorithms, so that bits can be compared."""
    tf32: bool
    """Runs with TF32 in matrix products: ``torch.set_float32_matmul_precision("high")``."""
    launched: bool
    """Whether a launcher started this process with others: then only the one with rank 0 writes a record."""
    record: str
    """Where the record is written."""


class Window(TypedDict):
    """What was seen since the last one, so far as it can be told without waiting for the device."""

    times: list[float]
    waits: list[float]
    known: list[tuple[int, float | str]]
    """Iterations, from 0, with their losses: those of a CUDA device come one window later."""


class Record(TypedDict):
    """What was seen, all of it."""

    version: int
    ended: str
    """``finished``, ``cut`` after ``iterations``, or ``raised``."""
    times: list[float]
    """When each top-level backward call began, from the script's start."""
    waits: list[float]
    """One for each of ``times``: how long batches had been waited for until then, in all."""
    compiles: list[float]
    """When each compilation ended, from the script's start."""
    passes: list[dict[str, float | int]]
    """Through data loaders, with the keys of ``Pass``."""
    scalars: list[tuple[str, int | None, float | str]]
    """What was given to ``SummaryWriter.add_scalar``: tag, step and value."""
    losses: list[float | str]
    """Of each such call, summed where it is not a scalar; what JSON lacks is a string: ``nan``, ``inf``, ``-inf``."""
    parameters: list[str]
    """A SHA-256 for each optimizer, in order of creation, over the bits of its parameters at the end."""
    moved: list[int]
    """For each optimizer, how many of its parameters are not as they were at its creation."""
    started_at: float
    """When this file was started, in seconds since 1970: another process has another ``perf_counter``."""
    import_seconds: float
    """From the start of this file to the script's start: nearly all of it is ``import torch``."""
    script_seconds: float
    """From the script's start to its end, or to where it was cut."""
    bookkeeping_seconds: float
    """From the script's end until the record was written."""
    device_allocated: int | None
    device_reserved: int | None
    """Bytes of CUDA memory, at most; None without CUDA."""
    host_bytes: int
    """Resident memory of this process, at most."""
    environment: dict[str, str | int | bool]


class Enough(SystemExit):
    """Ends a run that was asked to end after some iterations."""


class HostValues:
    """Numbers that came one after the other, each with a key."""

    def __init__(self) -> None:
        self.keys = array("q")
        self.values = array("d")
        self._told = 0

    def add(self, key: int, value: float) -> None:
        """Takes the number."""
        self.values.append(value)
        self.keys.append(key)

    def read(self) -> Iterable[tuple[int, float]]:
        """Each key with its value."""
        return zip(self.keys, self.values, strict=True)

    def news(self) -> list[tuple[int, float]]:
        """What came since the last call."""
        known = list(zip(self.keys[self._told :], self.values[self._told :], strict=True))
        self._told = len(self.keys)
        return known


class DeviceValues:
    """Numbers that are computed on a device one after the other, each with a key, in buffers there."""

    def __init__(self, device: torch.device) -> None:
        self.keys = array("q")
        self.device = device
        self._chunks: list[torch.Tensor] = []
        self._places: tuple[torch.Tensor, ...] = ()
        """The elements of the last chunk: to index it each time would cost more than the copy."""
        self._told = 0
        """How many were copied to the host already."""
        self._coming: tuple[int, torch.Tensor, Any] | None = None
        """The first key, pinned memory, and the event after which the values are in it."""
        self._cuda: Any = torch.cuda
        self._stream: Any = None

    def add(self, key: int, value: torch.Tensor) -> None:
        """Copies a detached scalar into the buffer, on the device, without waiting for it."""
        at = len(self.keys) % CHUNK
        if at == 0:
            dtype = torch.float32 if self.device.type == "mps" else torch.float64  # mps has no float64
            with torch.inference_mode(mode=False), self._own_stream():
                self._chunks.append(torch.empty(CHUNK, dtype=dtype, device=self.device))
                self._places = self._chunks[-1].unbind()
        self._places[at].copy_(value)
        self.keys.append(key)

    def _own_stream(self) -> contextlib.AbstractContextManager[Any]:
        """For memory that nothing which is still to run on the script's streams had before."""
        if self.device.type != "cuda":
            return contextlib.nullcontext()
        if self._stream is None:
            self._stream = self._cuda.Stream(self.device)
        stream: contextlib.AbstractContextManager[Any] = self._cuda.stream(self._stream)
        return stream

    def read(self) -> Iterable[tuple[int, float]]:
        """Each key with its value. Waits for the device, and for all its streams."""
        if self.device.type == "cuda":
            self._cuda.synchronize(self.device)
        values = (value for chunk in self._chunks for value in chunk.tolist())
        return zip(self.keys, values, strict=False)

    def news(self) -> list[tuple[int, float]]:
        """What was copied through pinned memory since the last call; of other devices than CUDA nothing."""
        if self.device.type != "cuda":
            return []
        known: list[tuple[int, float]] = []
        if self._coming is not None:
            first, values, copied = self._coming
            if not copied.query():
                return known
            known = list(zip(self.keys[first:], values.tolist(), strict=False))
            self._coming = None
        if self._told < len(self.keys):
            chunk, start = divmod(self._told, CHUNK)
            part = self._chunks[chunk][start : len(self.keys) - chunk * CHUNK]
            values = torch.empty(len(part), dtype=part.dtype, pin_memory=True)
            values.copy_(part, non_blocking=True)
            there: Any = self._cuda.Event()
            there.record(torch.cuda.current_stream(self.device))
            self._coming = self._told, values, there
            self._told += len(part)
        return known


class Buffers:
    """Numbers from the host and from other devices, each with a key."""

    def __init__(self) -> None:
        self._host = HostValues()
        self._devices: dict[torch.device, DeviceValues] = {}

    def add(self, key: int, value: torch.Tensor | float) -> None:
        """Takes a number, or a detached scalar without waiting for it."""
        if not isinstance(value, torch.Tensor):
            self._host.add(key, value)
        elif value.device.type == "cpu":
            self._host.add(key, value.item())
        else:
            if value.device not in self._devices:
                self._devices[value.device] = DeviceValues(value.device)
            self._devices[value.device].add(key, value)

    def read(self) -> list[tuple[int, float]]:
        """Each key with its value. Waits for the devices."""
        return [pair for values in self._all() for pair in values.read()]

    def news(self) -> list[tuple[int, float]]:
        """What is known since the last call, without waiting for the devices."""
        return [pair for values in self._all() for pair in values.news()]

    def _all(self) -> list[HostValues | DeviceValues]:
        return [self._host, *self._devices.values()]


class Pass:
    """A pass through a data loader. Times are those of ``time.perf_counter``."""

    __slots__ = ("batches", "end", "iterations", "samples", "start", "waited")

    def __init__(self, start: float, waited: float) -> None:
        self.start, self.end, self.waited = start, start + waited, waited
        self.batches = self.samples = self.iterations = 0


class Recorder:
    """The hooks, and what they have seen."""

    def __init__(self, config: Config) -> None:
        self.limit, self.batches = config["iterations"], config["batches"]
        self.end = math.inf if config["seconds"] is None else time.perf_counter() + config["seconds"]
        self.times, self.waits, self.compiles = array("d"), array("d"), array("d")
        self.passes: list[Pass] = []
        self.cut: float | None = None
        """When the run was ended because it had its iterations."""
        self._start = 0.0
        self._path = ""
        self._file = -1
        self.give_up: Callable[[], None] = sys.exit
        """Ends the process at once: the script catches what ends a run."""
        self._told = 0
        """How many iterations the windows have told."""
        self._next_window = math.inf
        self._waited = 0.0
        self._fresh: list[Pass] = []
        """The passes that gave a batch since the last backward call."""
        self._losses, self._scalars = Buffers(), Buffers()
        self._tags: list[tuple[str, int | None]] = []
        self._parameters: deque[list[dict[str, Any]]] = deque(maxlen=KEPT_OPTIMIZERS)
        self._lengths: deque[list[tuple[torch.Tensor, torch.Tensor | None]]] = deque(maxlen=KEPT_OPTIMIZERS)
        """The parameters of the same optimizers, each with its norm when the optimizer was created."""
        self._hooks: tuple[Callable[..., Any], ...] = ()
        self._cuda: Any = torch.cuda
        self._capturing: Any = None
        """The CUDA graph that is being captured, if any."""
        self._captured: WeakKeyDictionary[Any, list[torch.Tensor | float | None]] = WeakKeyDictionary()
        """For each CUDA graph the losses of the backward calls in it, in memory that each replay fills anew."""
        self._depth = 0
        self._loading = False
        self._thread = threading.get_ident()
        self.forked = False
        """Whether this is a fork of the script: it is not the run. To compare process ids takes longer each time."""
        self._reports_compiles = False

    def install(self) -> None:
        """Puts the hooks into torch. ``Tensor.backward`` calls ``torch.autograd.backward`` by this very name."""
        from torch.utils.data import dataloader  # torch has imported it

        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._fork)
        torch.autograd.backward = self._watched_backward(torch.autograd.backward)
        torch.optim.Optimizer.__init__ = self._watched_creation(torch.optim.Optimizer.__init__)  # type: ignore[method-assign]
        graph: Any = torch.cuda.CUDAGraph
        graph.capture_begin = self._watched_capture(graph.capture_begin)
        graph.capture_end = self._watched_capture_end(graph.capture_end)
        graph.replay = self._watched_replay(graph.replay)
        scaler: Any = torch.amp.GradScaler
        scaler.scale = self._watched_scale(scaler.scale)
        torch.compile = self._watched_compile(torch.compile)
        loader: Any = dataloader.DataLoader
        loader.__iter__ = self._watched_iter(loader.__iter__)
        batches: Any = dataloader._BaseDataLoaderIter  # noqa: SLF001 - all iterators of loaders come from it
        batches.__next__ = self._watched_next(batches.__next__)
        sys.meta_path.insert(0, AfterImport(WRITERS, self._watch_writer))

    def _fork(self) -> None:
        self.forked = True

    def begin(self, record: str | None) -> float:
        """The script starts now.

        Args:
            record: The file that windows go to, if any.
        """
        self._path = record or ""
        self._start = time.perf_counter()
        self._next_window = self._start + WINDOW
        return self._start

    def tell(self, line: Window | Record) -> None:
        """Writes a line of the record."""
        if not self._path:
            return
        if not is_open(self._file, self._path):  # the first time, or the script has closed all files that it found open
            # Unbuffered, so that a fork of the script has nothing of ours to write a second time.
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._file, json.dumps(line, allow_nan=False).encode() + b"\n")

    def since_start(self, times: Iterable[float]) -> list[float]:
        """Seconds from the script's start."""
        return [at - self._start for at in times]

    def losses(self) -> list[float]:
        """One per top-level backward call; NaN where a call had none. Waits for the device."""
        losses = [math.nan] * len(self.times)
        for iteration, loss in self._losses.read():
            losses[iteration] = loss
        return losses

    def scalars(self) -> list[tuple[str, int | None, float]]:
        """What was given to a ``SummaryWriter``. Waits for the device."""
        values = dict(self._scalars.read())
        return [(*self._tags[key], values[key]) for key in sorted(values)]

    def parameters(self) -> list[str]:
        """A digest for each optimizer. Waits for the device."""
        return [digest(parameter for group in groups for parameter in group["params"]) for groups in self._parameters]

    def moved(self) -> list[int]:
        """How many parameters of each optimizer are not as they were when it was created. Waits for the device."""
        return [sum(has_moved(*each) for each in of_optimizer) for of_optimizer in self._lengths]

    def _watched_backward(self, backward: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(backward)
        def watched(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            # A backward inside a backward (checkpointing) belongs to the outer one, also from the engine's own threads.
            if not self._depth and not self.forked:
                self._iteration(args[0] if args else kwargs.get("tensors", ()))
            self._depth += 1
            try:
                backward(*args, **kwargs)
            finally:
                self._depth -= 1

        self._hooks = (
            watched,
            Recorder._iteration,
            Recorder._capture,
            Recorder._begun,
            Recorder._value,
            Recorder._window,
            Buffers.add,
        )
        return watched

    def _iteration(self, tensors: Any) -> None:  # noqa: ANN401 - a tensor or a sequence of them
        now = time.perf_counter()
        # What most scripts have costs least: a number of the CPU's.
        plain = type(tensors) is torch.Tensor and tensors.is_cpu
        losses = (tensors,) if plain or isinstance(tensors, torch.Tensor) else tensors
        if not plain and any(map(is_pretended, losses)):
            return
        if not plain and self._cuda.is_initialized() and self._cuda.is_current_stream_capturing():
            self._capture(losses)
            return
        iteration = self._begun(now)
        if plain:
            self._losses.add(iteration, self._value(tensors))
        elif values := [self._value(loss) for loss in losses if isinstance(loss, torch.Tensor)]:
            self._losses.add(iteration, summed(values))
        if now >= self._next_window:
            self._window()
            self._next_window = now + WINDOW

    def _capture(self, losses: Iterable[Any]) -> None:
        """Nothing is computed now: a copy of the loss becomes part of the script's graph, and replays make it anew."""
        if self._capturing is None:
            return  # what captures is not torch's own class
        values = [self._value(loss) for loss in losses if isinstance(loss, torch.Tensor)]
        value = summed(values) if values else None
        copy = value.clone() if isinstance(value, torch.Tensor) else value
        self._captured.setdefault(self._capturing, []).append(copy)

    def _begun(self, now: float) -> int:
        """An iteration begins, unless the run has had enough of them; its number, from 0."""
        iteration = len(self.times)
        if (self.limit is not None and iteration >= self.limit) or (now >= self.end and iteration >= FEWEST):
            if self.cut is not None:
                self.give_up()
            self.cut = now
            raise Enough(0)
        self.times.append(now)
        self.waits.append(self._waited)
        if self._fresh:
            for one in self._fresh:
                one.iterations += 1
            self._fresh.clear()
        return iteration

    def _watched_capture(self, begin: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(begin)
        def watched(graph: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            self._captured.pop(graph, None)  # it may be captured once more
            begin(graph, *args, **kwargs)
            self._capturing = graph

        return watched

    def _watched_capture_end(self, end: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(end)
        def watched(graph: Any) -> None:  # noqa: ANN401 - a CUDA graph
            self._capturing = None
            end(graph)

        return watched

    def _watched_replay(self, replay: Callable[..., None]) -> Callable[..., None]:
        """A replay of a graph is an iteration for each backward call that was captured in it."""

        @functools.wraps(replay)
        def watched(graph: Any) -> None:  # noqa: ANN401 - a CUDA graph
            values = None if self.forked else self._captured.get(graph)
            if not values:
                replay(graph)
                return
            now = time.perf_counter()
            iterations = [self._begun(now) for _ in values]
            replay(graph)
            for iteration, value in zip(iterations, values, strict=True):
                if value is not None:
                    self._losses.add(iteration, value)
            if now >= self._next_window:
                self._window()
                self._next_window = now + WINDOW

        return watched

    def _window(self) -> None:
        window = Window(
            times=self.since_start(self.times[self._told :]),
            waits=list(self.waits[self._told :]),
            known=[(iteration, number(loss)) for iteration, loss in self._losses.news()],
        )
        self._told = len(self.times)
        self.tell(window)

    def _value(self, loss: torch.Tensor) -> torch.Tensor | float:
        """The loss without its graph, as one element, and without the factor that a gradient scaler put on it.

        On the CPU a number costs a third of what a tensor costs, and nothing has to be waited for.
        """
        scale: torch.Tensor | None = getattr(loss, SCALE, None)
        if scale is None and loss.is_cpu and loss.numel() == 1 and loss.is_floating_point():
            return loss.item()
        value = loss.detach()
        if value.is_complex():
            value = value.abs()
        if value.dim():
            value = value.sum()
        return value if scale is None else value / scale.to(value.device, non_blocking=True)

    def _watched_iter(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(begin)
        def watched(loader: Any) -> Any:  # noqa: ANN401 - a data loader, and its iterator
            if not self._is_training():
                return begin(loader)
            start = time.perf_counter()
            self._loading = True
            try:
                batches = begin(loader)
            finally:
                self._loading = False
            waited = time.perf_counter() - start
            self._waited += waited
            self.passes.append(Pass(start, waited))
            with contextlib.suppress(AttributeError):  # an iterator of the script's own may take no attributes
                setattr(batches, SEEN, self.passes[-1])
            return batches

        return watched

    def _watched_next(self, following: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(following)
        def watched(batches: Any) -> Any:  # noqa: ANN401 - a loader's iterator, and a batch
            seen: Pass | None = getattr(batches, SEEN, None)
            if seen is None or not self._is_training():
                return following(batches)
            if self.batches is not None and seen.batches >= self.batches:
                self._end(seen)
                raise StopIteration
            start = time.perf_counter()
            self._loading = True
            try:
                batch = following(batches)
            except StopIteration:
                self._end(seen)
                raise
            finally:
                self._loading = False
                seen.end = time.perf_counter()
                seen.waited += seen.end - start
                self._waited += seen.end - start
            seen.batches += 1
            seen.samples += rows(batch)
            if seen not in self._fresh:
                self._fresh.append(seen)
            return batch

        return watched

    def _end(self, seen: Pass) -> None:
        """The last batch of a pass was not trained on if no backward call came after it."""
        if seen in self._fresh:
            self._fresh.remove(seen)

    def _is_training(self) -> bool:
        """Whether this is the script's main thread, and not within the loading of another batch."""
        return not (self._loading or self.forked) and threading.get_ident() == self._thread

    def _watch_writer(self, module: types.ModuleType) -> None:
        writer: Any = getattr(module, "SummaryWriter", None)
        if writer is not None:
            writer.add_scalar = self._watched_scalar(writer.add_scalar)

    def _watched_scalar(self, add_scalar: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(add_scalar)

        @functools.wraps(add_scalar)
        def watched(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            add_scalar(*args, **kwargs)
            given = signature.bind(*args, **kwargs).arguments
            value, step = given["scalar_value"], given.get("global_step")
            if not self.forked and not isinstance(value, str):  # a string names a blob
                value = value.detach().sum() if isinstance(value, torch.Tensor) else float(value)
                self._scalars.add(len(self._tags), value)
                self._tags.append((str(given["tag"]), None if step is None else int(step)))

        return watched

    def _watched_scale(self, scale: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(scale)
        def watched(scaler: Any, outputs: Any) -> Any:  # noqa: ANN401 - a tensor or any nest of them
            scaled = scale(scaler, outputs)
            if scaled is not outputs and isinstance(scaled, torch.Tensor):
                # get_scale() would wait for the device.
                setattr(scaled, SCALE, scaler._scale)  # noqa: SLF001
            return scaled

        return watched

    def _watched_compile(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compile_)
        def watched(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
            from torch._dynamo.callback import callback_handler  # torch.compile imports both now, too
            from torch._dynamo.decorators import skip

            for hook in self._hooks:  # or a loop that is compiled whole would have them compiled into it
                skip(hook)
            if not self._reports_compiles:
                callback_handler.register_end_callback(self._compiled)
                self._reports_compiles = True
            return compile_(*args, **kwargs)

        return watched

    def _compiled(self, *_: object) -> None:
        self.compiles.append(time.perf_counter())

    def _watched_creation(self, create: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(create)
        def watched(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            create(optimizer, *args, **kwargs)
            # The list of groups, not the optimizer: its state is large, and the script may want that memory back.
            self._parameters.append(optimizer.param_groups)
            given = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            self._lengths.append([(parameter, length(parameter)) for parameter in given])

        return watched


class AfterImport(MetaPathFinder):
    """Calls back when one of some modules has been imported."""

    def __init__(self, names: tuple[str, ...], then: Callable[[types.ModuleType], None]) -> None:
        self._names, self._then = names, then

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:  # noqa: ANN401 - as importlib has it
        """What the other finders find, with a loader that calls back."""
        if name not in self._names:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def executed(module: types.ModuleType) -> None:
                execute(module)
                self._then(module)

            loader.exec_module = executed
        return spec


def is_open(file: int, path: str) -> bool:
    """Whether the descriptor is that of the file: another may have its number by now."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))  # noqa: PTH116 - it takes no Path to compare them
    except OSError:
        return False


def is_pretended(loss: Any) -> bool:  # noqa: ANN401 - whatever backward was called with
    """Whether nothing is computed: it is on the meta device, or a fake tensor of a dry run."""
    return bool(getattr(loss, "is_meta", False)) or getattr(loss, "fake_mode", None) is not None


def summed(values: list[torch.Tensor | float]) -> torch.Tensor | float:
    """The sum of scalars that may lie on several devices, without waiting for any of them."""
    total = values[0]
    for value in values[1:]:
        both = isinstance(total, torch.Tensor) and isinstance(value, torch.Tensor)
        total = total + (value.to(total.device, non_blocking=True) if both else value)  # type: ignore[union-attr]
    return total


def number(value: float) -> float | str:
    """The value as JSON has it: what JSON lacks is a string."""
    return value if math.isfinite(value) else str(value)


def rows(batch: Any) -> int:  # noqa: ANN401 - whatever a loader yields
    """How many samples a batch has: the first dimension of its first tensor; 0 where that is not to be seen."""
    while not isinstance(batch, torch.Tensor):
        if isinstance(batch, dict):
            batch = next(iter(batch.values()), None)
        elif isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        else:
            return 0
    return batch.shape[0] if batch.dim() else 1


def length(parameter: torch.Tensor) -> torch.Tensor | None:
    """The norm of a parameter, computed on its device without waiting for it; None where it has none yet."""
    try:
        norm: torch.Tensor = torch.linalg.vector_norm(parameter.detach(), dtype=torch.float64)
    except (RuntimeError, TypeError, ValueError):  # lazy, meta, quantized, on a device without float64
        return None
    return norm


def has_moved(parameter: torch.Tensor, before: torch.Tensor | None) -> bool:
    """Whether its norm is another one now, as far as that can be told."""
    now = length(parameter)
    if before is None or now is None or before.is_meta or now.is_meta:
        return False
    return now.item() != before.item()


def digest(parameters: Iterable[torch.Tensor]) -> str:
    """SHA-256 over shapes, types and bits."""
    found = hashlib.sha256()
    for parameter in parameters:
        if torch.nn.parameter.is_lazy(parameter) or parameter.is_meta:
            continue  # it has no values
        values = parameter.detach().cpu().contiguous()
        found.update(f"{values.dtype}{tuple(values.shape)}".encode())
        size = values.numel() * values.element_size()
        if size and values.layout == torch.strided:
            found.update((ctypes.c_char * size).from_address(values.data_ptr()))
    return found.hexdigest()


def seed_everything(seed: int, offset: int) -> None:
    """Seeds Python, torch and numpy (where torch brought it), and shifts the seeds that the script sets itself."""
    random.seed(seed)
    torch.manual_seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if offset == 0:
        return
    seeders: list[tuple[Any, str]] = [
        (random, "seed"),
        (torch, "manual_seed"),
        (torch.random, "manual_seed"),
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
    ]
    if numpy is not None:
        seeders += [(numpy.random, "seed"), (numpy.random, "default_rng")]
    for owner, name in seeders:
        setattr(owner, name, shifted(getattr(owner, name), offset))


def shifted(seeder: Callable[..., Any], offset: int) -> Callable[..., Any]:
    """The seeding function, with the offset added to the seed where that is a number."""

    @functools.wraps(seeder)
    def seed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
        if args and isinstance(args[0], int):
            args = ((args[0] + offset) % 2**32, *args[1:])
        return seeder(*args, **kwargs)

    return seed


def simulate(capability: str) -> None:
    """Puts a simulated CUDA device into this process.

    Args:
        capability: Of the device, as "9.0".
    """
    module: Any = types.ModuleType(SIMULATED)
    sys.modules[SIMULATED] = module
    SourceFileLoader(SIMULATED, str(Path(__file__).with_name("simulated.py"))).exec_module(module)
    module.install(capability)


def environment(capability: str | None = None) -> dict[str, str | int | bool]:
    """What ran the script.

    Args:
        capability: Of the simulated CUDA device, if there is one.
    """
    described: dict[str, str | int | bool] = {
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "cuda": torch.cuda.is_available(),
    }
    if torch.cuda.is_available():
        described["gpu"] = torch.cuda.get_device_name()
        described["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
    if capability is not None:
        described["simulated"] = capability
    return described


def main_module(config: Config, script: str) -> tuple[types.ModuleType, types.CodeType]:
    """A fresh ``__main__`` for the script, as Python makes it, and the code to execute in it."""
    if config["capability"] is not None:
        simulate_in_spawned_workers(config["capability"], config, script)
    sys.modules["__torchfast_harness__"] = sys.modules["__main__"]  # keeps this module's names alive
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __cached__=None, __file__=script)
    if config["module"] is None:
        module.__loader__ = SourceFileLoader("__main__", script)
    else:
        spec = find_spec(config["module"])  # imports the packages that it lies in, as ``python -m`` does
        if spec is None:
            raise SystemExit(f"No module named {config['module']}")
        module.__dict__.update(__spec__=spec, __loader__=spec.loader, __package__=spec.parent)
    sys.modules["__main__"] = module
    return module, compile(Path(script).read_bytes(), script, "exec", dont_inherit=True)


def simulate_in_spawned_workers(capability: str, config: Config, script: str) -> None:
    """Lets workers that start by importing the main file believe in the simulated CUDA device before they do.

    Args:
        capability: Of the device.
        config: Of this run.
        script: The file that runs.
    """
    stand_in = Path(config["record"]).with_name("main_for_workers.py")
    stand_in.write_text(
        f"__import__('runpy').run_path({__file__!r})['simulate']({capability!r})\n"
        f"__file__ = {script!r}\n"
        f"with open({script!r}, 'rb') as script:\n"
        "    code = compile(script.read(), __file__, 'exec', dont_inherit=True)\n"
        "exec(code)\n",
        encoding="utf-8",
    )
    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def prepared(name: str) -> dict[str, Any]:
        data = prepare(name)
        if data.get("init_main_from_path") == os.path.normpath(script):
            data["init_main_from_path"] = str(stand_in)
        return data

    spawn.get_preparation_data = prepared


def die_with_parent() -> None:
    """Asks Linux to end this process when the one that measures is killed."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            set_parent_death_signal = 1
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def is_recorded(config: Config) -> bool:
    """Whether the record of this process counts: of those that a launcher started, only that of rank 0 does."""
    return not config["launched"] or all(os.environ.get(name, "0") == "0" for name in RANKS)


def prepare(config: Config) -> None:
    """Sets the numerics that were asked for, before the script can."""
    if config["deterministic"]:
        torch.use_deterministic_algorithms(True, warn_only=True)  # noqa: FBT003 - torch's own signature
        torch.backends.cudnn.benchmark = False
    if config["tf32"]:
        torch.set_float32_matmul_precision("high")


def execute(config: Config, script: str, watching: Callable[[Config], Recorder]) -> int | str | None:
    """Runs the script to its end and writes the record.

    Args:
        config: Of this run.
        script: The file.
        watching: Makes what watches the script.

    Returns:
        The status to exit with, as the script would have left it.
    """
    first = is_recorded(config)
    if not first:
        config["seconds"] = None  # all have to end at the same iteration, or one waits for the others for ever
    recorder = watching(config)
    recorder.install()
    prepare(config)
    seed_everything(config["seed"], config["offset"])
    status: int | str | None = 0
    ended = "finished"
    start = recorder.begin(config["record"] if first else None)

    def give_up() -> None:
        recorder.tell(recorded(recorder, config, "cut", start, recorder.cut or start))
        os._exit(0)

    recorder.give_up = give_up
    try:
        module, code = main_module(config, script)
        exec(code, module.__dict__)  # noqa: S102 - running the script is what this file is for
    except SystemExit as error:
        status = error.code
    except BaseException as error:  # noqa: BLE001 - whatever the script raised is its own; it is shown as Python shows it
        traceback = error.__traceback__.tb_next if error.__traceback__ else None
        show(error.with_traceback(traceback))
        ended, status = "raised", 1
    end = time.perf_counter()
    if recorder.forked:
        return status  # a fork of the script that came to its end: the record is the first process's
    if recorder.cut is not None:
        ended, status, end = "cut", 0, recorder.cut
    try:
        record = recorded(recorder, config, ended, start, end)
    except RuntimeError as error:  # on the device, and nobody has waited for it until now
        show(error.with_traceback(None))  # it would lead through this file
        status, record = 1, recorded(recorder, config, "raised", start, end)
    recorder.tell(record)
    return status


def show(error: BaseException) -> None:
    """Shows an error of the script as Python does, by the script's own hook if it has one that works."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException:  # noqa: BLE001 - Python goes on, too, whatever the hook raises
        sys.__excepthook__(type(error), error, error.__traceback__)


def recorded(recorder: Recorder, config: Config, ended: str, start: float, end: float) -> Record:
    """All that was seen; of what lies on the device nothing after an error, which may have made it unusable.

    Args:
        recorder: The hooks.
        config: Of this run.
        ended: How the script ended.
        start: When it was started, by ``time.perf_counter``.
        end: When it ended.
    """
    whole = ended != "raised"
    if whole and config["capability"] is None and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.set_sync_debug_mode("default")  # or what refuses the script to wait refuses us to read
    cuda = whole and torch.cuda.is_available() and config["capability"] is None
    record = Record(
        version=VERSION,
        ended=ended,
        times=recorder.since_start(recorder.times),
        waits=list(recorder.waits),
        compiles=recorder.since_start(recorder.compiles),
        passes=[
            {
                "start": one.start - start,
                "end": one.end - start,
                "waited": one.waited,
                "batches": one.batches,
                "samples": one.samples,
                "iterations": one.iterations,
            }
            for one in recorder.passes
        ],
        scalars=[(tag, step, number(value)) for tag, step, value in (recorder.scalars() if whole else ())],
        losses=[number(loss) for loss in (recorder.losses() if whole else ())],
        parameters=recorder.parameters() if whole else [],
        moved=recorder.moved() if whole else [],
        started_at=STARTED_AT,
        import_seconds=start - STARTED,
        script_seconds=end - start,
        bookkeeping_seconds=0.0,
        device_allocated=torch.cuda.max_memory_allocated() if cuda else None,
        device_reserved=torch.cuda.max_memory_reserved() if cuda else None,
        host_bytes=peak_memory(),
        environment=environment(config["capability"]) if whole else {},
    )
    record["bookkeeping_seconds"] = time.perf_counter() - end
    return record


def peak_memory() -> int:
    """Bytes of resident memory of this process, at most; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(watching: Callable[[Config], Recorder] = Recorder) -> int | str | None:
    """Does what the configuration in the last argument says.

    Args:
        watching: Makes what watches the script.
    """
    *added, configuration = sys.argv[1:]
    config: Config = json.loads(configuration)
    die_with_parent()
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = config["path"]
    sys.argv[:] = [config["argv"][0], *added, *config["argv"][1:]]  # some launchers add arguments of their own
    if config["capability"] is not None:
        simulate(config["capability"])
    if config["script"] is not None:
        return execute(config, config["script"], watching)
    described = json.dumps({"environment": environment(config["capability"])})
    Path(config["record"]).write_text(f"{described}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
