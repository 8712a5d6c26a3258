"""Inside the run: which losses, times, batches and optimizers were there, as hooks in torch see them?

It stands on torch and the standard library only, as ``harness.py`` does, which loads it.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import sys
from array import array
from collections import deque
from importlib.abc import MetaPathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from weakref import WeakKeyDictionary

import torch

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable
    from importlib.machinery import ModuleSpec

    from autotune_rewrite.verify.child import clock, measures, passes
    from autotune_rewrite.verify.child.harness import Config
else:
    # As the harness loads this file: what lies beside it takes a name that no script may want.
    def beside(name: str) -> types.ModuleType:
        """The module that lies beside this one; the harness may have loaded it."""
        known = f"__torchfast_{name}__"
        if known not in sys.modules:
            spec = spec_from_file_location(known, Path(__file__).with_name(f"{name}.py"))
            module = sys.modules[known] = module_from_spec(spec)
            spec.loader.exec_module(module)
        return sys.modules[known]

    clock, measures, passes = beside("clock"), beside("measures"), beside("passes")

WINDOW = 0.5
"""Seconds of what was seen that may be lost when the process is killed."""
FEWEST = 20
"""Iterations that a run has before it is ended because of its time: fewer say little."""
KEPT_OPTIMIZERS = 8
"""The last optimizers, whose parameters are kept alive for the digest; older models may be freed by the script."""
SCALE = "_torchfast_scale"
"""The attribute of a scaled loss that holds its factor."""
WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
"""The modules whose ``SummaryWriter`` is watched, as soon as the script imports them."""


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
    """When this file was started, in seconds since 1970: another process has another ``perf_counter``. Less the time
    that it had been stopped before."""
    import_seconds: float
    """From the start of this file to the script's start: nearly all of it is ``import torch``."""
    script_seconds: float
    """From the script's start to its end, or to where it was cut."""
    busy_seconds: float
    """Of them, those in which the main thread computed, or waited for nothing but a processor."""
    bookkeeping_seconds: float
    """From the script's end until the record was written."""
    device_allocated: int | None
    device_reserved: int | None
    """Bytes of CUDA memory, at most; None without CUDA."""
    host_bytes: int
    """Resident memory of this process, at most."""
    environment: dict[str, str | int | bool]
    imported: list[str]
    """The files of the project's modules, as the user has them."""
    strayed: list[str]
    """Of them, those that were imported from the user's own files, and not from the copy."""


class Enough(SystemExit):
    """Ends a run that was asked to end after some iterations."""


class Recorder:
    """The hooks, and what they have seen."""

    def __init__(self, config: Config) -> None:
        self.limit = config["iterations"]
        self.end = math.inf if config["seconds"] is None else clock.now() + config["seconds"]
        self.times, self.waits, self.compiles = array("d"), array("d"), array("d")
        self.passes = passes.Passes(config["batches"], clock.now)
        self.cut: float | None = None
        """When the run was ended because it had its iterations."""
        self._start = self.busy = 0.0
        """When the script was started, and how busy the main thread had been until then."""
        self._path = ""
        self._file = -1
        self.give_up: Callable[[], None] = sys.exit
        """Ends the process at once: the script catches what ends a run."""
        self._told = 0
        """How many iterations the windows have told."""
        self._next_window = math.inf
        self._losses, self._scalars = measures.Buffers(), measures.Buffers()
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
        loader.__iter__ = self.passes.watched_iter(loader.__iter__)
        batches: Any = dataloader._BaseDataLoaderIter  # noqa: SLF001 - all iterators of loaders come from it
        batches.__next__ = self.passes.watched_next(batches.__next__)
        sys.meta_path.insert(0, AfterImport(WRITERS, self._watch_writer))

    def _fork(self) -> None:
        self.forked = self.passes.off = True

    def begin(self, record: str | None) -> float:
        """The script starts now.

        Args:
            record: The file that windows go to, if any.
        """
        self._path = record or ""
        self.busy = clock.busy()
        self._start = clock.now()
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
        return [
            measures.digest(parameter for group in groups for parameter in group["params"])
            for groups in self._parameters
        ]

    def moved(self) -> list[int]:
        """How many parameters of each optimizer are not as they were when it was created. Waits for the device."""
        return [sum(measures.has_moved(*each) for each in of_optimizer) for of_optimizer in self._lengths]

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
            passes.Passes.trained,
            Recorder._value,
            Recorder._window,
            measures.Buffers.add,
        )
        return watched

    def _iteration(self, tensors: Any) -> None:  # noqa: ANN401 - a tensor or a sequence of them
        now = clock.now()
        # What most scripts have costs least: a number of the CPU's.
        plain = type(tensors) is torch.Tensor and tensors.is_cpu
        losses = (tensors,) if plain or isinstance(tensors, torch.Tensor) else tensors
        if not plain and any(map(measures.is_pretended, losses)):
            return
        if not plain and self._cuda.is_initialized() and self._cuda.is_current_stream_capturing():
            self._capture(losses)
            return
        iteration = self._begun(now)
        if plain:
            self._losses.add(iteration, self._value(tensors))
        elif values := [self._value(loss) for loss in losses if isinstance(loss, torch.Tensor)]:
            self._losses.add(iteration, measures.summed(values))
        if now >= self._next_window:
            self._window()
            self._next_window = now + WINDOW

    def _capture(self, losses: Iterable[Any]) -> None:
        """Nothing is computed now: a copy of the loss becomes part of the script's graph, and replays make it anew."""
        if self._capturing is None:
            return  # what captures is not torch's own class
        values = [self._value(loss) for loss in losses if isinstance(loss, torch.Tensor)]
        value = measures.summed(values) if values else None
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
        self.waits.append(self.passes.waited)
        self.passes.trained()
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
            now = clock.now()
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
            known=[(iteration, measures.number(loss)) for iteration, loss in self._losses.news()],
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
        self.compiles.append(clock.now())

    def _watched_creation(self, create: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(create)
        def watched(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            create(optimizer, *args, **kwargs)
            # The list of groups, not the optimizer: its state is large, and the script may want that memory back.
            self._parameters.append(optimizer.param_groups)
            given = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            self._lengths.append([(parameter, measures.length(parameter)) for parameter in given])

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
