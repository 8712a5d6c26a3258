"""One script in one fresh child process: a configuration in, a record out, and nothing left running."""

from __future__ import annotations

import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from autotune_rewrite.project.runnable import is_notebook, runnable
from autotune_rewrite.verify.child.clock import STOPPED
from autotune_rewrite.verify.gpu import Sampler
from autotune_rewrite.verify.output import TAIL_LINES, Output
from autotune_rewrite.verify.plan import Plan, Turn, VerifyError, search_path
from autotune_rewrite.verify.processes import MARK, carries, end_all, marked, oom_kills
from autotune_rewrite.verify.records import Environment, Gpu, Outcome, Pass, Run, Scalar
from autotune_rewrite.verify.scratch import copied
from autotune_rewrite.verify.turns import Alone, Part, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from autotune_rewrite.verify.child.harness import Config
    from autotune_rewrite.verify.scratch import Scratch
    from autotune_rewrite.verify.turns import Pace

HARNESS = Path(__file__).parent / "child" / "harness.py"
PROBE_TIMEOUT = 300.0
"""Seconds for one ``import torch``; over a cold network disk it does take minutes."""
LINGER = 60.0
"""Seconds that a process may still need when its script has ended: workers are joined, files flushed."""
LINGER_CUT = 5.0
"""Seconds that it gets where it was cut: nothing that it does now is measured."""
PATIENCE = 1.0
"""Seconds in which the processes that a script has left behind may come to their own end."""
LOST = "at most the last half second of its record is lost"
NO_MEMORY = re.compile(
    r"OutOfMemoryError|CUDA out of memory|^MemoryError|can't allocate memory|not enough memory|CUDA_ERROR_OUT_OF_MEMORY"
)


def probe(plan: Plan) -> Environment:
    """Describes the machine as the runs will see it, and brings torch's files into the disk cache for the first run.

    Raises:
        VerifyError: torch cannot be imported there, or the plan asks for CUDA and there is none.
    """
    config = _config(plan, Turn("original", 0))
    ended = _Child([sys.executable, str(HARNESS)], config, _child_environment(plan)).ended(PROBE_TIMEOUT, None, Alone())
    if ended.interrupted:
        raise KeyboardInterrupt
    if "environment" not in ended.record:
        message = f"torch cannot be imported by {sys.executable}: {(ended.output or ('no message',))[-1]}"
        raise VerifyError(message)
    environment: Environment = ended.record["environment"]
    if plan.device == "cuda" and not environment["cuda"]:
        message = f"the device is cuda, but torch {environment['torch']} finds no CUDA device here"
        raise VerifyError(message)
    return environment


def run_script(  # noqa: PLR0913 - who runs more than the harness says so, and nobody else
    plan: Plan,
    turn: Turn,
    seconds: float | None = None,
    watch: Callable[[int, float], None] | None = None,
    *,
    pace: Pace | None = None,
    harness: Path | None = None,
    more: Mapping[str, object] | None = None,
) -> Run:
    """Runs the turn's script, in a copy of its project.

    Args:
        plan: How many iterations it has at most, and after how many seconds it is stopped as one that hangs.
        turn: Which script, with which seeds, and what for.
        seconds: After so many it is ended cleanly, at the next iteration.
        watch: Is told now and then how many iterations there were, and how many a second there are.
        pace: When it may run; None: always.
        harness: A file to run in the place of the harness, which has that run in another process, or does more.
        more: What that file is told beside the harness's configuration; ``places`` is where copies come from.
    """
    text, own = plan.script(turn), plan.location(turn)
    started, revision = plan.started(turn), plan.revision(turn)
    book = runnable(str(own), text.read_bytes()) if is_notebook(text) else None
    with copied(own, started, top=plan.base.top if plan.base is not None else None, keep=plan.keep) as scratch:
        if revision is not None:
            scratch.go_back(revision)
        elif plan.place(turn) != text:
            scratch.put(own, text.read_bytes())
        if book is not None:
            scratch.put(own, book.text.encode())
        for module, changed in plan.changed_modules(turn):
            _replaced(scratch, module, changed)
        scratch.settle()
        config = _config(plan, turn, scratch.place(own), scratch, seconds)
        if more is not None:
            places = {str(copy): str(own) for own, copy in scratch.places.items()}
            config = {**config, **more, "places": places}  # type: ignore[typeddict-item]
        command = [*_launched(plan), str(harness or HARNESS)]
        child = _Child(command, config, _child_environment(plan, turn), scratch.place(started.resolve()))
        ended = child.ended(plan.seconds_of_run, watch, pace or Alone())

        def told(line: str) -> str:
            line = scratch.as_original(line)
            return line if book is None else book.in_cells(line, str(own))

        output, lines = tuple(map(told, ended.output)), tuple(map(told, ended.lines))
        files = scratch.changed()
        written, copy = scratch.written(), str(scratch.root) if plan.keep else ""
    record = ended.record
    _refuse_strays(plan, turn, record.get("strayed", ()))
    outcome, problem = _outcome(ended, plan.seconds_of_run, output)
    return Run(
        side=turn.side,
        offset=turn.offset,
        kind=turn.kind,
        outcome=outcome,
        problem=problem,
        output=output,
        lines=lines,
        files=files,
        wall_seconds=ended.wall_seconds,
        written=written,
        copy=copy,
        left_running=ended.left_running if outcome == "ok" else 0,
        ended=record.get("ended", ""),
        times=tuple(record.get("times", ())),
        losses=tuple(float(loss) for loss in record.get("losses", ())),
        waits=tuple(record.get("waits", ())),
        compiles=tuple(record.get("compiles", ())),
        passes=tuple(Pass(**one) for one in record.get("passes", ())),
        scalars=tuple(Scalar(tag, at, float(value)) for tag, at, value in record.get("scalars", ())),
        parameters=tuple(record.get("parameters", ())),
        moved=tuple(record.get("moved", ())),
        launch_seconds=max(0.0, record["started_at"] - ended.started_at) if "started_at" in record else 0.0,
        import_seconds=record.get("import_seconds", 0.0),
        script_seconds=record.get("script_seconds", 0.0),
        busy_seconds=record.get("busy_seconds", 0.0),
        bookkeeping_seconds=record.get("bookkeeping_seconds", 0.0),
        device_allocated=record.get("device_allocated"),
        device_reserved=record.get("device_reserved"),
        host_bytes=record.get("host_bytes", 0),
        gpu=ended.gpu,
        imported=tuple(record.get("imported", ())),
        environment=record.get("environment", {}),
        in_turns=isinstance(pace, Part),
    )


def run_in_turns(
    plan: Plan,
    turns: tuple[Turn, Turn],
    watch: Callable[[int, float], None] | None = None,
    seconds: float | None = None,
) -> tuple[Run, Run]:
    """Runs the scripts of a pair, each in a copy of its project, one stopped while the other runs.

    Args:
        plan: As for ``run_script``.
        turns: Of the run that begins, and of the other.
        watch: Is told of the first.
        seconds: After so many of its own each is ended cleanly, at the next iteration.
    """
    shared = Turns()

    def run(number: int) -> Run:
        part = shared.parts[number]
        try:
            return run_script(plan, turns[number], seconds, None if number else watch, pace=part)
        finally:
            part.go()  # it may not have come so far that its process could start

    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(run, 1)
        try:
            first = run(0)
        except BaseException:
            shared.interrupt()
            raise
        return first, other.result()


def _refuse_strays(plan: Plan, turn: Turn, strayed: Iterable[str]) -> None:
    """Refuses to judge by a run that read the user's own files where others were meant.

    Raises:
        VerifyError: It did: the script names its project by an absolute path, for example.
    """
    revision = plan.revision(turn)
    meant = {str(own.resolve()) for own, _ in plan.changed_modules(turn)}
    if revision is not None:
        meant |= {str(each) for each in revision.paths}
    other = next((each for each in strayed if each in meant), None)
    if other is not None:
        message = (
            f"{other}: imported by an absolute path, and not from the copy of the project, where its text is another"
        )
        raise VerifyError(message)


def _replaced(scratch: Scratch, own: Path, changed: Path) -> None:
    """Gives a module in the copy of the project another text.

    Raises:
        VerifyError: It is not in the copy, as it lies elsewhere: the user's own must not be touched.
    """
    if not scratch.place(own.resolve()).is_relative_to(scratch.root):
        message = (
            f"{own}: not copied with the project, so that its rewrite cannot be run: start it from the top of both"
        )
        raise VerifyError(message)
    scratch.put(own.resolve(), changed.read_bytes())


def _config(
    plan: Plan, turn: Turn, script: Path | None = None, scratch: Scratch | None = None, seconds: float | None = None
) -> Config:
    """What the child is told; without a script it only describes the machine."""
    config: Config = {
        "script": None,
        "module": None,
        "notebook": False,
        "argv": [""],
        "path": [],
        "copies": [],
        "capability": plan.simulated,
        "seed": plan.seed + turn.offset,
        "offset": turn.offset,
        "iterations": plan.iterations,
        "seconds": seconds,
        "batches": plan.batches,
        "deterministic": turn.kind == "check",
        "tf32": turn.kind == "tf32",
        "launched": bool(plan.launcher),
        "record": "",
    }
    if script is None or scratch is None:
        return config
    typed = plan.place(turn)
    config["copies"] = [(str(own), str(copy)) for own, copy in scratch.places.items()]
    if plan.module:
        directory = scratch.place(Path.cwd().resolve())
        name = ".".join(script.relative_to(directory).with_suffix("").parts)
        return {
            **config,
            "script": str(script),
            "module": name,
            "argv": [str(script), *plan.arguments],
            "path": [str(directory)],
        }
    directories = [script.parent]
    if plan.base is None and typed.resolve().parent != plan.original.resolve().parent:
        directories.append(plan.original.resolve().parent)
    # Relative where the user typed it so.
    argv = [str(script if typed.is_absolute() else typed), *plan.arguments]
    config["notebook"] = is_notebook(plan.script(turn))
    return {**config, "script": str(script), "argv": argv, "path": [str(directory) for directory in directories]}


@dataclass(slots=True)
class _Record:
    """The lines of a record, as they are written."""

    path: Path
    whole: dict[str, Any] = field(default_factory=dict)
    """The last line, when it is there."""
    times: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    known: dict[int, float] = field(default_factory=dict)
    _read: int = 0

    def look(self) -> None:
        """Reads the lines that were written since the last look."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        for line in text.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # it is being written, or never will be
            self._read += len(line)
            values = json.loads(line)
            if "known" not in values:
                self.whole = values
                return
            self.times += values["times"]
            self.waits += values["waits"]
            self.known.update((iteration, float(loss)) for iteration, loss in values["known"])

    def values(self) -> dict[str, Any]:
        """All of it; of a process that was killed, what its windows told."""
        losses = [self.known.get(at, math.nan) for at in range(len(self.times))]
        if not self.whole:
            return {"times": self.times, "waits": self.waits, "losses": losses} if self.times else {}
        if self.whole.get("ended") == "raised":
            unknown = [math.nan] * (len(self.whole["times"]) - len(losses))
            return {**self.whole, "losses": losses + unknown}
        return self.whole


@dataclass(frozen=True, slots=True)
class _Ended:
    """A child process that is no more."""

    status: int | None
    """As ``subprocess`` has it: negative for a signal; None where it was ended because of the timeout."""
    output: tuple[str, ...]
    lines: tuple[str, ...]
    started_at: float
    """Seconds since 1970."""
    wall_seconds: float
    record: dict[str, Any]
    left_running: int
    gpu: Gpu | None
    out_of_memory: bool
    """Whether the system ended processes for want of memory meanwhile."""
    interrupted: bool


class _Child:
    """The child process, with all that it starts."""

    def __init__(
        self, command: list[str], config: Config, environment: dict[str, str], started: Path | None = None
    ) -> None:
        self._command, self._config, self._started = command, config, started
        self._marker = uuid.uuid4().hex
        self._environment = {**environment, MARK: self._marker}

    def ended(self, timeout: float, watch: Callable[[int, float], None] | None, pace: Pace) -> _Ended:
        """Starts it, and waits for its end; it is ended when the time is over, or with Ctrl-C."""
        with TemporaryDirectory(prefix="torchfast-") as directory:
            record = _Record(Path(directory) / "record.jsonl")
            config = json.dumps({**self._config, "record": str(record.path)})
            oom_before = oom_kills()
            gpu = Sampler(self._environment.get("CUDA_VISIBLE_DEVICES"), lambda process: carries(process, self._marker))
            gpu.start()
            status: int | None = None
            interrupted = False
            left_running = 0
            streams: list[Output] = []
            child: subprocess.Popen[bytes] | None = None
            start, started_at = pace.now(), time.time()
            try:
                stopped = pace.begin(Path(directory))
                start, started_at = pace.now(), time.time()
                child = subprocess.Popen(  # noqa: S603 - running the user's script is what was asked for
                    [*self._command, config],
                    env=self._environment if stopped is None else {**self._environment, STOPPED: str(stopped)},
                    cwd=self._started,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
                streams = [Output(stream) for stream in (child.stdout, child.stderr) if stream is not None]
                status = _wait(child, record, start + timeout, watch, pace)
                wall_seconds = pace.now() - start
                if status is not None and marked(self._marker):
                    # What it had others do is its own work, too, as long as they end soon.
                    left_running = len(marked(self._marker, patience=PATIENCE))
                    wall_seconds = pace.now() - start
            except KeyboardInterrupt:
                interrupted = True
                wall_seconds = pace.now() - start
                pace.interrupt()
            finally:
                end_all(child, self._marker)
                pace.end()
                sampled = gpu.stop()
            output, errors = [stream.lines() for stream in streams] or [(), ()]
            record.look()
            return _Ended(
                status=status,
                output=(errors or output)[-TAIL_LINES:],
                lines=(*output, *errors),
                started_at=started_at,
                wall_seconds=wall_seconds,
                record=record.values(),
                left_running=left_running,
                gpu=sampled,
                out_of_memory=oom_kills() > oom_before,
                interrupted=interrupted,
            )


def _wait(
    child: subprocess.Popen[bytes],
    record: _Record,
    deadline: float,
    watch: Callable[[int, float], None] | None,
    pace: Pace,
) -> int | None:
    """The child's exit status, or None where it does not end in time.

    A child that was cut has told all that counts, and gets a short time only.
    """
    seen: deque[tuple[float, int]] = deque([(pace.now(), 0)], maxlen=8)
    has_told = cut = False
    while not _ends_within(child, pace.slice):
        record.look()
        now = pace.now()
        if record.whole and not has_told:
            has_told, cut = True, record.whole.get("ended") == "cut"
            deadline = min(deadline, now + (LINGER_CUT if cut else LINGER))
        if now >= deadline:
            return 0 if cut else None
        if watch is not None and len(record.times) != seen[-1][1]:
            seen.append((now, len(record.times)))
            (then, before), (_, iterations) = seen[0], seen[-1]
            watch(iterations, (iterations - before) / (now - then))
        pace.pause(child.pid)
    return child.returncode


def _ends_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for the child, and notices its end at once: ``Popen.wait`` looks for it twenty times a second."""
    if hasattr(os, "pidfd_open") and child.poll() is None:
        try:
            process = os.pidfd_open(child.pid)
        except OSError:
            pass  # an old kernel
        else:
            try:
                select.select([process], [], [], seconds)
            finally:
                os.close(process)
            return child.poll() is not None
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _launched(plan: Plan) -> list[str]:
    """The command that a Python file and its arguments are appended to."""
    if not plan.launcher:
        return [sys.executable]
    return [shutil.which(plan.launcher[0], path=search_path()) or plan.launcher[0], *plan.launcher[1:]]


def _child_environment(plan: Plan, turn: Turn | None = None) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name != STOPPED}
    environment.setdefault("PYTHONHASHSEED", str(plan.seed))  # or the order of sets differs from run to run
    environment.setdefault("MPLBACKEND", "Agg")  # or plt.show() waits for someone to close a window
    if plan.device in ("cpu", "simulated"):
        environment["CUDA_VISIBLE_DEVICES"] = ""
        environment["HIP_VISIBLE_DEVICES"] = ""
    if turn is not None and turn.kind == "check":
        environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS reads it when it starts
    return environment


def _outcome(ended: _Ended, timeout: float, output: tuple[str, ...]) -> tuple[Outcome, str]:
    """How the run ended, and that in words for the sentence "the … script …"."""
    record, status = ended.record, ended.status
    how = record.get("ended", "")
    count = len(record.get("times", ()))
    after = f" after {count} iterations" if count else ""
    lost = "" if how else f" ({LOST})" if count else ""
    if ended.interrupted:
        return "interrupted", f"was interrupted{after}"
    if status is None and how == "finished":
        return "timed-out", "reached its end, but something kept its process running (a thread that is no daemon?)"
    if status is None:
        return (
            "timed-out",
            f"did not end within {timeout:g} seconds{lost}; it was ended{after or ' before any iteration was told'}",
        )
    if how == "cut" or (how == "finished" and status == 0):
        return "ok", ""
    if ended.out_of_memory or any(NO_MEMORY.search(line) for line in output):
        return "out-of-memory", f"ran out of memory{after}{lost}"
    if status < 0 and how != "raised":
        return "killed", f"was ended by {_name(-status)}{after}{lost}"
    if how == "raised" and output and output[-1].startswith("EOFError"):
        return "crashed", f"read from standard input{after}, where nobody answers"
    if how == "raised":
        return "crashed", f"ended with an exception{after}"
    if how == "finished":
        return "exited", f"ended with exit status {status}{after}"
    status_said = f" with exit status {status}" if status else ""
    return "vanished", f"left{status_said}{after} without coming to its end (os._exit?){lost}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
