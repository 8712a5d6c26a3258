"""One script in one fresh child process: a configuration in, a record out, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from autotune_rewrite.verify.plan import Plan, Turn, VerifyError
from autotune_rewrite.verify.records import Environment, Outcome, Run
from autotune_rewrite.verify.scratch import copied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from autotune_rewrite.verify.harness import Config

HARNESS = Path(__file__).with_name("harness.py")
KEPT_OUTPUT = 16_384
"""The last bytes of each output stream that are kept; a flood must not fill the memory."""
KEPT_LINES = 20
PROBE_TIMEOUT = 300.0
"""Seconds for one ``import torch``; over a cold network disk it does take minutes."""
DRAIN_SECONDS = 5.0
"""How long the end of the output is awaited; a process that left the group may hold the pipe open for ever."""


class Tail(threading.Thread):
    """Reads a stream to its end and keeps only the last part, so that the writer never has to wait."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._kept = b""
        self.start()

    def run(self) -> None:
        """Reads until every writer has closed the stream."""
        with self._stream:
            while block := os.read(self._stream.fileno(), 65_536):
                self._kept = (self._kept + block)[-KEPT_OUTPUT:]

    def lines(self) -> tuple[str, ...]:
        """The last lines; call it when the writer has ended."""
        self.join(DRAIN_SECONDS)
        lines = self._kept.decode("utf-8", errors="replace").splitlines()
        return tuple(line.rstrip() for line in lines if line.strip())[-KEPT_LINES:]


def probe(plan: Plan) -> Environment:
    """Describes the machine as the runs will see it, and brings torch's files into the disk cache for the first run.

    Raises:
        VerifyError: torch cannot be imported there, or the plan asks for CUDA and there is none.
    """
    config: Config = {
        "script": None,
        "argv": [""],
        "path": [],
        "capability": plan.simulated,
        "seed": 0,
        "offset": 0,
        "iterations": None,
        "seconds": None,
        "record": "",
    }
    ended = _execute(config, _child_environment(plan), PROBE_TIMEOUT)
    if ended.record is None:
        message = f"torch cannot be imported by {sys.executable}: {(ended.output or ('no message',))[-1]}"
        raise VerifyError(message)
    environment: Environment = ended.record["environment"]
    if plan.device == "cuda" and not environment["cuda"]:
        message = f"the device is cuda, but torch {environment['torch']} finds no CUDA device here"
        raise VerifyError(message)
    return environment


def run_script(plan: Plan, turn: Turn, seconds: float | None = None) -> Run:
    """Runs the turn's script, in a copy of its project.

    Args:
        plan: How many iterations it has at most, and after how many seconds it is stopped as one that hangs.
        turn: Which script, and with which seeds.
        seconds: After so many it is ended cleanly, at the next iteration.
    """
    text = plan.script(turn.side)
    typed = text
    if turn.side == "rewritten" and plan.script_directory is not None:
        typed = plan.script_directory / text.name
    started = Path.cwd()
    with copied(typed, started, keep=plan.keep) as scratch:
        script = scratch.place(typed.resolve())
        if typed != text:
            script.unlink(missing_ok=True)  # it may be a link
            script.write_bytes(text.read_bytes())
        directories = [script.parent]
        if turn.side == "rewritten" and typed.resolve().parent != plan.original.resolve().parent:
            directories.append(plan.original.resolve().parent)
        config: Config = {
            "script": str(script),
            # Relative where the user typed it so.
            "argv": [str(script if typed.is_absolute() else typed), *plan.arguments],
            "path": [str(directory) for directory in directories],
            "capability": plan.simulated,
            "seed": plan.seed + turn.offset,
            "offset": turn.offset,
            "iterations": plan.iterations,
            "seconds": seconds,
            "record": "",
        }
        ended = _execute(config, _child_environment(plan), plan.seconds_of_run, scratch.place(started.resolve()))
        output = tuple(scratch.as_original(line) for line in ended.output)
        written, copy = scratch.written(), str(scratch.root) if plan.keep else ""
    record = ended.record or {}
    if ended.status is None:
        outcome: Outcome = "timed-out"
        problem = f"did not end within {plan.seconds_of_run:g} seconds"
    elif ended.status != 0 or not record:
        outcome = "crashed"
        problem = _crash(ended.status, record)
    else:
        outcome = "ok"
        problem = ""
    return Run(
        side=turn.side,
        offset=turn.offset,
        outcome=outcome,
        problem=problem,
        output=output,
        wall_seconds=ended.wall_seconds,
        written=written,
        copy=copy,
        ended=record.get("ended", ""),
        times=tuple(record.get("times", ())),
        losses=tuple(float(loss) for loss in record.get("losses", ())),
        parameters=tuple(record.get("parameters", ())),
        import_seconds=record.get("import_seconds", 0.0),
        script_seconds=record.get("script_seconds", 0.0),
        bookkeeping_seconds=record.get("bookkeeping_seconds", 0.0),
    )


@dataclass(frozen=True, slots=True)
class _Ended:
    """A child process that is no more."""

    status: int | None
    """As ``subprocess`` has it: negative for a signal; None where it was ended because of the timeout."""
    output: tuple[str, ...]
    wall_seconds: float
    record: dict[str, Any] | None


def _execute(config: Config, environment: dict[str, str], timeout: float, started: Path | None = None) -> _Ended:
    with TemporaryDirectory(prefix="torchfast-") as directory:
        path = Path(directory) / "record.json"
        command = [sys.executable, str(HARNESS), json.dumps({**config, "record": str(path)})]
        start = time.perf_counter()
        child = subprocess.Popen(  # noqa: S603 - running the user's script is what was asked for
            command,
            env=environment,
            cwd=started,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            streams = [Tail(stream) for stream in (child.stderr, child.stdout) if stream is not None]
            try:
                status: int | None = child.wait(timeout)
            except subprocess.TimeoutExpired:
                status = None
            wall_seconds = time.perf_counter() - start
        finally:
            _end(child)
        errors, output = (stream.lines() for stream in streams)
        record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        return _Ended(status, errors or output, wall_seconds, record)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child and all that it started and left behind."""
    if sys.platform == "win32":
        child.kill()
    else:
        try:
            os.killpg(child.pid, signal.SIGKILL)  # the child leads a session of its own
        except ProcessLookupError:
            pass
        except PermissionError:  # macOS says so of a group in which only zombies are left
            child.kill()
    child.wait()


def _child_environment(plan: Plan) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("PYTHONHASHSEED", str(plan.seed))  # or the order of sets differs from run to run
    environment.setdefault("MPLBACKEND", "Agg")  # or plt.show() waits for someone to close a window
    if plan.device in ("cpu", "simulated"):
        environment["CUDA_VISIBLE_DEVICES"] = ""
        environment["HIP_VISIBLE_DEVICES"] = ""
    return environment


def _crash(status: int, record: Mapping[str, Any]) -> str:
    """How the run ended, for the sentence "the … script …"."""
    seen = f" after {len(record['times'])} iterations" if record.get("times") else ""
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return f"was ended by {name}{seen}"
    if status == 0:
        return "left before its end without a trace (os._exit?)"
    return f"ended with exit status {status}{seen}"
