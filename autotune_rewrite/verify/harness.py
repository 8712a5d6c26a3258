"""Runs one training script as ``__main__`` and writes down what it did: ``python harness.py CONFIG``.

This file is executed inside the measured child process, where alone torch is imported. It stands on torch and the
standard library only, so that it runs wherever the script runs; so does ``simulated.py``, which it loads on demand.

It observes through hooks and never waits for the device: a loss is copied, on the device, into a buffer that was
allocated before, and read when the script has ended. ``CONFIG`` is a JSON object with the keys of ``Config``; the
record is a JSON object with the keys of ``Record``. Times are seconds.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import functools
import hashlib
import json
import math
import os
import platform
import random
import signal
import sys
import time
import types
from array import array
from collections import deque
from importlib.machinery import SourceFileLoader
from multiprocessing import spawn
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

STARTED = time.perf_counter()

import torch  # noqa: E402 - its import is timed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

VERSION = 1
"""Of the record's layout."""

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


class Config(TypedDict):
    """What to run."""

    script: str | None
    """The file to run, or None to only describe this machine."""
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
    record: str
    """Where the record is written."""


class Record(TypedDict):
    """What was seen."""

    version: int
    ended: str
    """``finished``, ``cut`` after ``iterations``, or ``raised``."""
    times: list[float]
    """When each top-level backward call began, from the script's start."""
    losses: list[float | str]
    """Of each such call, summed where it is not a scalar; what JSON lacks is a string: ``nan``, ``inf``, ``-inf``."""
    parameters: list[str]
    """A SHA-256 for each optimizer, in order of creation, over the bits of its parameters at the end."""
    import_seconds: float
    """From the start of this file to the script's start: nearly all of it is ``import torch``."""
    script_seconds: float
    """From the script's start to its end, or to where it was cut."""
    bookkeeping_seconds: float
    """From the script's end until the record was written."""
    environment: dict[str, str | int | bool]


class Enough(SystemExit):
    """Ends a run that was asked to end after some iterations."""


class Losses:
    """The losses seen on one device, in the order of the iterations."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.iterations = array("q")
        self._chunks: list[torch.Tensor] = []
        self._places: tuple[torch.Tensor, ...] = ()
        """The elements of the last chunk: to index it each time would cost more than the copy."""

    def add(self, iteration: int, loss: torch.Tensor) -> None:
        """Copies a detached scalar into the buffer, without waiting for it."""
        at = len(self.iterations) % CHUNK
        if at == 0:
            dtype = torch.float32 if self.device.type == "mps" else torch.float64  # mps has no float64
            with torch.inference_mode(mode=False):
                self._chunks.append(torch.zeros(CHUNK, dtype=dtype, device=self.device))
                self._places = self._chunks[-1].unbind()
        self._places[at].copy_(loss)
        self.iterations.append(iteration)

    def read(self) -> Iterable[tuple[int, float]]:
        """Each iteration with its loss. Waits for the device."""
        values = (value for chunk in self._chunks for value in chunk.tolist())
        return zip(self.iterations, values, strict=False)


class Recorder:
    """The hooks, and what they have seen."""

    def __init__(self, limit: int | None, seconds: float | None = None) -> None:
        self.limit = limit
        self.end = math.inf if seconds is None else time.perf_counter() + seconds
        self.times = array("d")
        self.cut: float | None = None
        """When the run was ended because it had its iterations."""
        self._losses: dict[torch.device, Losses] = {}
        self._parameters: deque[list[dict[str, Any]]] = deque(maxlen=KEPT_OPTIMIZERS)
        self._hooks: tuple[Callable[..., Any], ...] = ()
        self._cuda: Any = torch.cuda
        self._depth = 0
        self._process = os.getpid()

    def install(self) -> None:
        """Puts the hooks into torch. ``Tensor.backward`` calls ``torch.autograd.backward`` by this very name."""
        torch.autograd.backward = self._watched_backward(torch.autograd.backward)
        torch.optim.Optimizer.__init__ = self._watched_creation(torch.optim.Optimizer.__init__)  # type: ignore[method-assign]
        scaler: Any = torch.amp.GradScaler
        scaler.scale = self._watched_scale(scaler.scale)
        torch.compile = self._watched_compile(torch.compile)

    def losses(self) -> list[float]:
        """One per top-level backward call; NaN where a call had none. Waits for the device."""
        losses = [math.nan] * len(self.times)
        for buffer in self._losses.values():
            for iteration, loss in buffer.read():
                losses[iteration] = loss
        return losses

    def parameters(self) -> list[str]:
        """A digest for each optimizer. Waits for the device."""
        return [digest(parameter for group in groups for parameter in group["params"]) for groups in self._parameters]

    def _watched_backward(self, backward: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(backward)
        def watched(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            # A backward inside a backward (checkpointing) belongs to the outer one, also from the engine's own threads.
            outermost = self._depth == 0 and os.getpid() == self._process
            if outermost:
                self._iteration(args[0] if args else kwargs.get("tensors", ()))
            self._depth += 1
            try:
                backward(*args, **kwargs)
            finally:
                self._depth -= 1

        self._hooks = (watched, Recorder._iteration, Recorder._value, Losses.add)
        return watched

    def _iteration(self, tensors: Any) -> None:  # noqa: ANN401 - a tensor or a sequence of them
        now = time.perf_counter()
        iteration = len(self.times)
        if (self.limit is not None and iteration >= self.limit) or (now >= self.end and iteration >= FEWEST):
            self.cut = self.cut or now
            raise Enough(0)
        self.times.append(now)
        if self._cuda.is_initialized() and self._cuda.is_current_stream_capturing():
            return  # nothing is computed now: the copy would become a part of the script's graph
        losses = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        values = [self._value(loss) for loss in losses if isinstance(loss, torch.Tensor)]
        if not values:
            return
        value = values[0]
        for other in values[1:]:
            value = value + other.to(value.device, non_blocking=True)
        buffer = self._losses.get(value.device)
        if buffer is None:
            buffer = self._losses[value.device] = Losses(value.device)
        buffer.add(iteration, value)

    def _value(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss without its graph, as one element, and without the factor that a gradient scaler put on it."""
        value = loss.detach()
        if value.is_complex():
            value = value.abs()
        if value.dim():
            value = value.sum()
        scale: torch.Tensor | None = getattr(loss, SCALE, None)
        return value if scale is None else value / scale.to(value.device, non_blocking=True)

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
            from torch._dynamo.decorators import skip  # torch.compile imports it now, too

            for hook in self._hooks:  # or a loop that is compiled whole would have them compiled into it
                skip(hook)
            return compile_(*args, **kwargs)

        return watched

    def _watched_creation(self, create: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(create)
        def watched(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            create(optimizer, *args, **kwargs)
            # The list of groups, not the optimizer: its state is large, and the script may want that memory back.
            self._parameters.append(optimizer.param_groups)

        return watched


def digest(parameters: Iterable[torch.Tensor]) -> str:
    """SHA-256 over shapes, types and bits."""
    found = hashlib.sha256()
    for parameter in parameters:
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
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
    ]
    if numpy is not None:
        seeders.append((numpy.random, "seed"))
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
    if capability is not None:
        described["simulated"] = capability
    return described


def main_module(config: Config, script: str) -> tuple[types.ModuleType, types.CodeType]:
    """A fresh ``__main__`` for the script, as ``python script.py`` makes it, and the code to execute in it."""
    source = Path(script).read_bytes()
    if config["capability"] is not None:
        simulate_in_spawned_workers(config["capability"], config, script)
    sys.modules["__torchfast_harness__"] = sys.modules["__main__"]  # keeps this module's names alive
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__loader__ = SourceFileLoader("__main__", script)
    module.__dict__.update(__builtins__=builtins, __cached__=None)
    sys.modules["__main__"] = module
    return module, compile(source, script, "exec", dont_inherit=True)


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


def execute(config: Config, script: str) -> int | str | None:
    """Runs the script to its end and writes the record.

    Returns:
        The status to exit with, as the script would have left it.
    """
    recorder = Recorder(config["iterations"], config["seconds"])
    recorder.install()
    seed_everything(config["seed"], config["offset"])
    module, code = main_module(config, script)
    status: int | str | None = 0
    ended = "finished"
    process = os.getpid()
    start = time.perf_counter()
    try:
        exec(code, module.__dict__)  # noqa: S102 - running the script is what this file is for
    except SystemExit as error:
        status = error.code
    except BaseException as error:  # noqa: BLE001 - whatever the script raised is its own; it is shown as Python shows it
        traceback = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        ended, status = "raised", 1
    end = time.perf_counter()
    if os.getpid() != process:
        return status  # a fork of the script that came to its end: the record is the first process's
    if recorder.cut is not None:
        ended, status, end = "cut", 0, recorder.cut
    whole = ended != "raised"  # after an error the device may be unusable
    record = Record(
        version=VERSION,
        ended=ended,
        times=[at - start for at in recorder.times],
        losses=[loss if math.isfinite(loss) else str(loss) for loss in (recorder.losses() if whole else ())],
        parameters=recorder.parameters() if whole else [],
        import_seconds=start - STARTED,
        script_seconds=end - start,
        bookkeeping_seconds=0.0,
        environment=environment(config["capability"]) if whole else {},
    )
    record["bookkeeping_seconds"] = time.perf_counter() - end
    write(record, config)
    return status


def write(record: Record, config: Config) -> None:
    """Writes the record whole or not at all."""
    path = Path(config["record"])
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(record, allow_nan=False), encoding="utf-8")
    unfinished.replace(path)


def main() -> int | str | None:
    """Does what the configuration in the first argument says."""
    config: Config = json.loads(sys.argv[1])
    die_with_parent()
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = config["path"]
    sys.argv[:] = config["argv"]
    if config["capability"] is not None:
        simulate(config["capability"])
    if config["script"] is not None:
        return execute(config, config["script"])
    described = environment(config["capability"])
    empty = Record(
        version=VERSION,
        ended="finished",
        times=[],
        losses=[],
        parameters=[],
        import_seconds=0.0,
        script_seconds=0.0,
        bookkeeping_seconds=0.0,
        environment=described,
    )
    write(empty, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
