"""Inside the run: where does the time of an iteration go, and which lines wait for the device?

``python profiled.py CONFIG`` runs a script as ``harness.py`` does, and like that one it stands on torch and the
standard library only. ``CONFIG`` has the harness's keys, and as ``profile`` those of ``Asked``; what was seen is
written as JSON (``Seen``) beside the harness's record. Times are seconds.

A mark is a time at which another phase begins. Phases are entered and left by hooks, and only the innermost counts, so
that they add up to the whole. On CUDA each mark is an event in the stream, too: between two events lies the time as the
device spends it, and not the time that the host takes to queue work. Nothing here waits for the device before the end.

One run takes marks and nothing else, as ``torch.profiler`` slows down what it watches; another one runs some iterations
under ``torch.profiler`` for its table of operators and its trace, and looks for what waits for the device.
"""

from __future__ import annotations

import functools
import json
import math
import sys
import threading
import time
from array import array
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from autotune_rewrite.verify.child import harness, measures, reads, recorder, tables
else:
    NAME = "__torchfast_watch__"
    """Of the loaded ``harness.py``, which takes no name that a script may want."""
    spec = spec_from_file_location(NAME, Path(__file__).with_name("harness.py"))
    harness = sys.modules[NAME] = module_from_spec(spec)
    spec.loader.exec_module(harness)
    recorder = harness.beside("recorder")
    measures = recorder.measures
    reads, tables = harness.beside("reads"), harness.beside("tables")

import torch

VERSION = 1
"""Of what is written."""

PHASES = ("other", "data", "copies", "forward", "backward", "zeroing", "optimizer", "waiting", "evaluation")
"""The names of phases; their places here are their numbers. ``waiting`` is for the device."""
OTHER, DATA, COPIES, FORWARD, BACKWARD, ZEROING, OPTIMIZER, WAITING, EVALUATION = range(len(PHASES))
CLOSED = (DATA, BACKWARD)
"""What happens in these belongs to them, whatever it is: transforms are modules, checkpoints run forward again."""

OTHERS = (DATA, OPTIMIZER, BACKWARD)
"""What follows one of these is not the loss of a model that was called before it."""

READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__repr__", "__format__")
"""Methods that want a tensor's values on the host."""
COPIED_BY = ("to", "cuda")
"""Methods that copy a tensor to a device, or back."""
FEWEST = {"marks": 3, "operators": 1, "reads": 1}
"""Iterations that are measured even if the time is over: three show a spread."""
TRIES = 2000
"""Of marks, to tell what one costs."""


class Asked(TypedDict):
    """What to look at."""

    out: str
    """Where it is written."""
    warm_up: int
    """Iterations that are not measured."""
    measured: int
    """Iterations that are, at most."""
    until: float
    """Seconds of the script after which no more are measured than a few."""
    threads: int | None
    """Of torch's operators; None: as many as torch takes."""
    watch: str
    """``marks``; ``operators``, under torch.profiler; or ``reads``: only what waits for the device."""
    trace: str
    memory: str
    """Files for a Chrome trace and for a snapshot of CUDA memory, or empty."""


class Seen(TypedDict):
    """What was seen."""

    version: int
    phases: tuple[str, ...]
    iterations: list[list[float]]
    """For each measured iteration the seconds of each phase, by the device's clock where there is one."""
    on_device: bool
    """Whether that is so."""
    total: int
    """Iterations in all, those of the warm-up among them."""
    loaders: bool
    """Whether a ``DataLoader`` was read in the measured iterations."""
    modules: bool
    """Whether a module was called between two backward calls."""
    evaluations: int
    """Passes without a backward between the first measured iteration and the last."""
    overhead: float
    """Seconds of an iteration that the marks take, by a trial."""
    watched: int
    """Iterations in which operators and sites were counted."""
    operators: list[tables.Operator]
    accumulation: float | None
    """The part of the backward that adds to gradients, from 0 to 1."""
    busy: float | None
    """The part of the time, from 0 to 1, in which the device computed or copied, under torch.profiler."""
    sites: list[reads.Site]


class Marks:
    """Where phases begin."""

    def __init__(self, *, on_device: bool, named: bool = False) -> None:
        self.times, self.phases = array("d"), array("b")
        self.events: list[Any] = []
        """One for each mark on the device's stream; None where it could not be recorded."""
        self.boundaries = array("q")
        """The marks at which iterations begin."""
        self.deep = False
        """Whether a module that is called now belongs to what goes on already."""
        self.modules = False
        """Whether a call of a module led to a backward."""
        self.off = False
        self._on_device, self._named = on_device, named
        self._stack = [OTHER]
        self._ranges: list[Any] = []
        self._thread = threading.get_ident()
        self._after_model = -1
        """The mark after the last call of a model."""

    def is_inside(self, phase: int) -> bool:
        """Whether the phase is not to be entered: it is, or what goes on owns all that happens in it."""
        now = self._stack[-1]
        if now == phase or now in CLOSED or self.off:
            return True
        return threading.get_ident() != self._thread or torch.compiler.is_compiling()

    def enter(self, phase: int) -> None:
        """The phase begins."""
        self._stack.append(phase)
        if self._named:
            self._ranges.append(torch.profiler.record_function(f"{tables.PREFIX}{PHASES[phase]}"))
            self._ranges[-1].__enter__()
        self.mark()

    def leave(self) -> None:
        """The innermost phase ends."""
        phase = self._stack.pop()
        self.mark()
        if self._named:
            self._ranges.pop().__exit__(None, None, None)
        if phase == FORWARD:
            self._after_model = len(self.times) - 1

    def begin(self) -> None:
        """An iteration begins: with its backward, as the harness counts. What came after the model is the loss."""
        between = range(self._after_model, len(self.times))
        before = self.boundaries[-1] if self.boundaries else -1
        if self._after_model > before and not any(self.phases[at] in OTHERS for at in between):
            self.modules = True
            for at in between:
                if self.phases[at] == OTHER:
                    self.phases[at] = FORWARD
        self.boundaries.append(len(self.times))
        self.mark()

    def row(
        self, start: int, end: int, evaluations: Iterable[tuple[float, float]], *, on_device: bool
    ) -> Iterable[float]:
        """The seconds of each phase between two marks.

        Args:
            start: The first mark.
            end: The last one.
            evaluations: When those began and ended: whatever happens in them is theirs.
            on_device: Whether the device's clock counts; a mark without an event is left out then.
        """
        row = [0.0] * len(PHASES)
        last = start
        for at in range(start + 1, end + 1):
            if on_device and self.events[at] is None:
                continue
            before = self.times[last]
            seconds = self.times[at] - before
            if on_device:
                seconds = self.events[last].elapsed_time(self.events[at]) / 1000
            evaluates = any(since <= before < until for since, until in evaluations)
            row[EVALUATION if evaluates else self.phases[last]] += seconds
            last = at
        return row

    def around(self, phase: int, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which is a phase by itself."""

        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
            if self.is_inside(phase):
                return function(*args, **kwargs)
            return self.run(phase, function, args, kwargs)

        return marked

    def run(self, phase: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever it returns
        """Calls the function, as a phase."""
        self.enter(phase)
        try:
            return function(*args, **kwargs)
        finally:
            self.leave()

    def stop(self) -> None:
        """This is a fork of the script, which is another process."""
        self.off = self.deep = True

    def mark(self) -> None:
        """What goes on now goes on from here."""
        phase = self._stack[-1]
        self.deep = phase in (FORWARD, *CLOSED) or self.off
        self.phases.append(phase)
        if self._on_device:
            self.events.append(_event())
        self.times.append(time.perf_counter())


def _event() -> Any:  # noqa: ANN401 - a CUDA event, whose class torch has not typed
    """An event in the stream, or None where there can be none: before CUDA starts, and while a graph is captured."""
    cuda: Any = torch.cuda
    if not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return None
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


class Profiler(recorder.Recorder):
    """The harness's hooks, which tell iterations and passes, and more of them, which tell phases."""

    def __init__(self, config: harness.Config) -> None:
        super().__init__(config)
        self._asked = cast("Asked", config["profile"])  # type: ignore[typeddict-item]
        self._places: dict[str, str] = config["places"]  # type: ignore[typeddict-item]
        self._simulated = config["capability"] is not None
        self._until = time.perf_counter() + self._asked["until"]
        self.limit = self._asked["warm_up"] + self._asked["measured"]
        self.end = math.inf
        named = self._asked["watch"] == "operators"
        self.marks = Marks(on_device=torch.cuda.is_available() and not self._simulated, named=named)
        self._reads = reads.Reads(self._places, simulated=self._simulated)
        self._profile: Any = None
        self._closed = False
        self._watched = 0
        if self._asked["threads"] is not None:
            torch.set_num_threads(self._asked["threads"])

    def install(self) -> None:
        """Puts all hooks into torch."""
        from torch.utils.data import dataloader  # torch has imported it

        super().install()
        untyped: Any = torch
        module, tensor, scaler = untyped.nn.Module, untyped.Tensor, untyped.amp.GradScaler
        module.__call__ = self._marked_call(module.__call__)
        for owner, name, phase in (
            (dataloader.DataLoader, "__iter__", DATA),
            (dataloader._BaseDataLoaderIter, "__next__", DATA),  # noqa: SLF001 - all iterators of loaders come from it
            (untyped.autograd, "grad", BACKWARD),
            (untyped.optim.Optimizer, "zero_grad", ZEROING),
            (module, "zero_grad", ZEROING),
            (scaler, "step", OPTIMIZER),
            (scaler, "update", OPTIMIZER),
            (scaler, "unscale_", OPTIMIZER),
        ):
            setattr(owner, name, self.marks.around(phase, getattr(owner, name)))
        for name in (*READS, *COPIED_BY):
            function = getattr(tensor, name)
            wrapper = (self._marked_copy if name in COPIED_BY else self._marked_read)(name, function)
            setattr(tensor, name, wrapper)
            if self._simulated:
                harness.beside("simulated").follow(function, wrapper)
        untyped.cuda.synchronize = self._marked_read("synchronize", untyped.cuda.synchronize)

    def tell(self, line: recorder.Window | recorder.Record) -> None:
        """Writes a line of the record, and with the last one what was seen."""
        if "version" in line:
            self._close()
            Path(self._asked["out"]).write_text(json.dumps(self._seen()), encoding="utf-8")
        super().tell(line)

    def losses(self) -> list[float]:
        """None: nobody compares them."""
        return []

    def parameters(self) -> list[str]:
        """None: nobody compares them."""
        return []

    def moved(self) -> list[int]:
        """None: nobody compares them."""
        return []

    def _fork(self) -> None:
        super()._fork()
        self.marks.stop()

    def _watched_backward(self, backward: Callable[..., None]) -> Callable[..., None]:
        watched = super()._watched_backward(self.marks.around(BACKWARD, backward))
        self._hooks = (*self._hooks, Profiler._iteration, Profiler._begun, Marks.mark, _event)
        return watched

    def _watched_creation(self, create: Callable[..., None]) -> Callable[..., None]:
        """Marks the steps of each class of optimizers when the first of them is made."""
        marked: set[Any] = set()

        @functools.wraps(create)
        def watched(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - passed on as it came
            create(optimizer, *args, **kwargs)
            kind = type(optimizer)
            if kind.step not in marked:
                kind.step = self.marks.around(OPTIMIZER, kind.step)
                marked.add(kind.step)

        return watched

    def _iteration(self, tensors: Any) -> None:  # noqa: ANN401 - a tensor or a sequence of them
        losses = (tensors,) if isinstance(tensors, torch.Tensor) else tensors
        if any(map(measures.is_pretended, losses)):
            return
        if self._cuda.is_initialized() and self._cuda.is_current_stream_capturing():
            self._capture(losses)
            return
        now = time.perf_counter()
        self._begun(now)
        if now >= self._next_window:
            self._window()
            self._next_window = now + recorder.WINDOW

    def _begun(self, now: float) -> int:
        iteration = len(self.times)
        if now >= self._until and iteration >= self._asked["warm_up"] + FEWEST[self._asked["watch"]]:
            self.limit = min(iteration, self.limit or iteration)
        self.marks.begin()
        if iteration == self._asked["warm_up"] and self._asked["watch"] != "marks":
            self._open()
        if self.limit is not None and iteration >= self.limit:
            self._close()
        return super()._begun(now)

    def _open(self) -> None:
        """From now on operators and reads are watched."""
        self._reads.open()
        if self._asked["memory"]:
            self._cuda.memory._record_memory_history()  # noqa: SLF001 - as torch's documentation has it
        if self._asked["watch"] == "operators":
            kinds = torch.profiler.ProfilerActivity
            activities = [kinds.CPU, kinds.CUDA] if torch.cuda.is_available() else [kinds.CPU]
            self._profile = torch.profiler.profile(activities=activities)
            self._profile.start()

    def _close(self) -> None:
        """It was enough, or the script has ended."""
        if self._closed or not self._reads.is_open:
            return
        self._closed = True
        self._watched = len(self.times) - self._asked["warm_up"]
        if self._profile is not None:
            if torch.cuda.is_available():
                self._cuda.synchronize()
            self._profile.stop()
        self._reads.close()
        if self._asked["memory"]:
            self._cuda.memory._dump_snapshot(self._asked["memory"])  # noqa: SLF001 - as torch's documentation has it
        if self._profile is not None and self._asked["trace"]:
            self._profile.export_chrome_trace(self._asked["trace"])

    def _marked_call(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The outermost call of a module is a forward; those in it cost next to nothing."""
        marks = self.marks

        @functools.wraps(call)
        def marked(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
            if marks.deep or marks.is_inside(FORWARD):
                return call(module, *args, **kwargs)
            return marks.run(FORWARD, call, (module, *args), kwargs)

        return marked

    def _marked_copy(self, name: str, move: Callable[..., Any]) -> Callable[..., Any]:
        """A copy from the host to a device, or one back, for which the host waits."""
        marks = self.marks

        @functools.wraps(move)
        def marked(tensor: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
            target = "cuda" if name == "cuda" else reads.target(args, kwargs)
            if target is None or reads.is_on_host(tensor) == (target == "cpu") or marks.is_inside(COPIES):
                return move(tensor, *args, **kwargs)
            if target == "cpu":
                self._reads.count("to")
            return marks.run(WAITING if target == "cpu" else COPIES, move, (tensor, *args), kwargs)

        return marked

    def _marked_read(self, name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        """The host wants values that are on a device."""
        marks = self.marks

        @functools.wraps(read)
        def marked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it came
            if args and isinstance(args[0], torch.Tensor) and reads.is_on_host(args[0]):
                return read(*args, **kwargs)
            if marks.is_inside(WAITING):
                return read(*args, **kwargs)
            self._reads.count(name.strip("_"))
            return marks.run(WAITING, read, args, kwargs)

        return marked

    def _seen(self) -> Seen:
        """All of it; the device is waited for."""
        first, marks = self._asked["warm_up"], self.marks
        starts = list(marks.boundaries[first:])
        on_device = bool(starts) and bool(marks.events) and marks.events[starts[0]] is not None
        rows = self._rows(starts, on_device=on_device)
        if rows is None:
            on_device, rows = False, self._rows(starts, on_device=False) or []
        span = (marks.times[starts[0]], marks.times[starts[-1]]) if starts else (0.0, 0.0)
        passes = [one for one in self.passes.all if span[0] <= one.start < span[1]]
        each = max(1, len(starts) - 1)
        operators, accumulation, busy = [], None, None
        if self._profile is not None:
            table = self._profile.key_averages()
            operators = tables.operators(table)
            accumulation = tables.accumulation(table)
            busy = tables.busy(self._profile.events())
        return Seen(
            version=VERSION,
            phases=PHASES,
            iterations=rows,
            on_device=on_device,
            total=len(self.times),
            loaders=any(row[DATA] for row in rows),
            modules=marks.modules,
            evaluations=sum(one.iterations == 0 and one.batches > 0 for one in passes),
            overhead=_cost_of_mark(on_device=on_device) * (starts[-1] - starts[0]) / each if starts else 0.0,
            watched=self._watched,
            operators=operators,
            accumulation=accumulation,
            busy=busy,
            sites=self._reads.sites(),
        )

    def _rows(self, starts: list[int], *, on_device: bool) -> list[list[float]] | None:
        """The seconds of each phase, iteration by iteration; None where the device cannot tell: there are several."""
        if on_device:
            self._cuda.synchronize()
        evaluations = [(one.start, one.end) for one in self.passes.all if one.iterations == 0 and one.batches > 0]
        try:
            return [list(self.marks.row(*ends, evaluations, on_device=on_device)) for ends in pairwise(starts)]
        except RuntimeError:
            if not on_device:
                raise
            return None


def _cost_of_mark(*, on_device: bool) -> float:
    """Seconds that one mark takes here, by the quickest of some trials."""
    costs = []
    for _ in range(5):
        marks = Marks(on_device=on_device)
        nothing = marks.around(FORWARD, lambda: None)
        start = time.perf_counter()
        for _ in range(TRIES // 10):
            nothing()
        costs.append((time.perf_counter() - start) / len(marks.times))
    return min(costs)


def main() -> int | str | None:
    """Runs the script that the configuration names."""
    harness.die_with_parent()
    return harness.main(Profiler)


if __name__ == "__main__":
    sys.exit(main())
