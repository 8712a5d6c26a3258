"""What a run left behind, as plain values and as JSON: measuring and judging meet here only.

A directory of records holds ``plan.json``, with what was compared and how, and ``run-001.json`` and so on, one for each
run in the order in which they were made. Numbers that JSON lacks are strings: ``nan``, ``inf`` and ``-inf``.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from autotune_rewrite.project.revisions import Revision
from autotune_rewrite.verify.plan import Kind, Plan, Side, Turn, VerifyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION = 2
"""Of the layout of plans and runs."""

Outcome = Literal["ok", "crashed", "exited", "killed", "vanished", "out-of-memory", "timed-out", "interrupted"]
"""How a run ended: well; by an exception; with a status of its own choice other than 0; by a signal; without a trace
(``os._exit``); for want of memory; not within its time; because the user ended all."""
Environment = dict[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass through a ``DataLoader``, from the call of ``iter`` on. Times are seconds from the script's start."""

    start: float
    end: float
    """Where the last batch was asked for, in a pass that was left early."""
    waited: float
    """Spent in waiting for batches (without worker processes: in making them)."""
    batches: int
    samples: int
    """By the first dimension of each batch's first tensor; 0 where there is none."""
    iterations: int
    """Backward calls during the pass: none in an evaluation."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value that the script gave to TensorBoard."""

    tag: str
    step: int | None
    value: float


@dataclass(frozen=True, slots=True)
class File:
    """A file that the script created or changed in its copy of the project."""

    name: str
    """Relative to the copy."""
    size: int
    """Bytes."""
    digest: str
    """SHA-256 of what is in it, of a checkpoint that of its tensors; empty where it is too large or cannot be read."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What the GPU did during a run, by NVML, sampled from outside. None where the driver does not tell."""

    utilization: float | None = None
    """Percent of the time in which a kernel ran: the mean of the samples."""
    clock: float | None = None
    """MHz of the multiprocessors, in the mean."""
    throttled: tuple[str, ...] = ()
    """Why the clock was held back: ``power``, ``thermal`` …"""
    foreign: int = 0
    """The most processes of others that were computing on it at once."""
    energy: float | None = None
    """Joule, from the start to the end of the run."""
    foreign_part: float | None = None
    """Of the samples, those with such processes, from 0 to 1. None: not told, or by a version that took a process of
    the run itself for one of others while it ended."""

    @property
    def shared(self) -> bool:
        """Whether others are known to have computed on it."""
        return bool(self.foreign and self.foreign_part)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left behind. Times are seconds; a run that is not ok has what was seen until its last window."""

    side: Side
    offset: int
    outcome: Outcome
    problem: str
    """Why it is not ok, in words that follow "the … script"; else empty."""
    output: tuple[str, ...]
    """Its last lines on standard error, or on standard output where that is empty."""
    wall_seconds: float
    """From the start of the process to its end; all times are without those in which it was stopped for another."""
    kind: Kind = "pair"
    ended: str = ""
    """``finished``, ``cut`` or ``raised``; empty where the process ended without a whole record."""
    times: tuple[float, ...] = ()
    """When each top-level backward call began, from the script's start."""
    losses: tuple[float, ...] = ()
    """One for each of ``times``."""
    waits: tuple[float, ...] = ()
    """One for each of ``times``: how long batches had been waited for until then, in all."""
    compiles: tuple[float, ...] = ()
    """When each compilation of ``torch.compile`` ended, from the script's start."""
    passes: tuple[Pass, ...] = ()
    """Through data loaders, in the order of their starts."""
    parameters: tuple[str, ...] = ()
    """A digest of the final parameters for each optimizer."""
    moved: tuple[int, ...] = ()
    """For each optimizer, how many of its parameters are not as they were at its creation."""
    scalars: tuple[Scalar, ...] = ()
    """Given to ``SummaryWriter.add_scalar``, in order."""
    lines: tuple[str, ...] = ()
    """What it wrote to standard output, then to standard error; of a flood only the beginning and the end."""
    files: tuple[File, ...] = ()
    """What it created or changed in its copy of the project, sorted by name."""
    launch_seconds: float = 0.0
    """From the start of the process until the file that watches the script was started: Python's, or a launcher's."""
    import_seconds: float = 0.0
    script_seconds: float = 0.0
    busy_seconds: float = 0.0
    """Of them, those in which the main thread computed, or waited for nothing but a processor."""
    bookkeeping_seconds: float = 0.0
    device_allocated: int | None = None
    """Bytes of the device's memory in tensors, at most; None without CUDA."""
    device_reserved: int | None = None
    """Bytes of it that torch's allocator had taken, at most."""
    host_bytes: int = 0
    """Resident memory of the script's own process, at most, without its workers'."""
    gpu: Gpu | None = None
    left_running: int = 0
    """Processes that the script had started and not ended; they were ended after it."""
    written: tuple[str, ...] = ()
    """Files and directories of the user that it wrote to, as its copy of the project only links to them."""
    copy: str = ""
    """Where its copy of the project was left; empty where it was not."""
    environment: Environment = field(default_factory=dict)
    imported: tuple[str, ...] = ()
    """The files of the project's modules that it had imported when it ended."""
    in_turns: bool = False
    """Whether the other run of its pair was stopped while it ran, and it while the other did."""

    @property
    def cut(self) -> bool:
        """Whether it was ended before its own end."""
        return self.ended == "cut"

    @property
    def exit_seconds(self) -> float | None:
        """From the script's end to that of its process and of all that it started; None unless it came to its end.

        Workers are joined there, and the device's memory is freed.
        """
        if self.ended != "finished" or self.outcome != "ok":
            return None
        known = self.launch_seconds + self.import_seconds + self.script_seconds + self.bookkeeping_seconds
        return max(0.0, self.wall_seconds - known)

    @property
    def turn(self) -> Turn:
        """Its place in the plan."""
        return Turn(self.side, self.offset, self.kind)


def as_json(value: Any) -> Any:  # noqa: ANN401 - any of the values here
    """A record as values that JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [as_json(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def run_of(values: Mapping[str, Any]) -> Run:
    """The run that ``as_json`` has described."""
    gpu = values["gpu"]
    known = {
        **values,
        **{name: tuple(values[name]) for name in ("output", "compiles", "parameters", "moved", "lines", "written")},
        **{name: tuple(map(float, values[name])) for name in ("times", "losses", "waits")},
        "imported": tuple(values.get("imported", ())),
        "passes": tuple(Pass(**each) for each in values["passes"]),
        "files": tuple(File(**each) for each in values["files"]),
        "scalars": tuple(Scalar(each["tag"], each["step"], float(each["value"])) for each in values["scalars"]),
        "gpu": None if gpu is None else Gpu(**{**gpu, "throttled": tuple(gpu["throttled"])}),
    }
    return Run(**known)


def plan_of(values: Mapping[str, Any]) -> Plan:
    """The plan that ``as_json`` has described."""
    paths = ("original", "rewritten", "original_text", "bitwise", "script_directory")
    known = {
        **values,
        **{name: None if values.get(name) is None else Path(values[name]) for name in paths},
        **{name: tuple(values[name]) for name in ("arguments", "launcher", "not_measured")},
        **{
            name: tuple((Path(own), Path(text)) for own, text in values.get(name, ()))
            for name in ("modules", "bitwise_modules", "original_modules")
        },
        "signatures": tuple((rule, tuple(patterns)) for rule, patterns in values["signatures"]),
        "time_budget": float(values["time_budget"]),
        "base": None if values.get("base") is None else _revision_of(values["base"]),
    }
    return Plan(**known)


def _revision_of(values: Mapping[str, Any]) -> Revision:
    known = {
        **values,
        **{name: Path(values[name]) for name in ("top", "script", "typed", "folder")},
        **{name: tuple(values[name]) for name in ("laid", "gone")},
    }
    return Revision(**known)


def save(directory: Path, plan: Plan, environment: Environment, runs: Sequence[Run]) -> None:
    """Writes a directory of records.

    Raises:
        VerifyError: It cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        of_plan = {"version": VERSION, "plan": as_json(plan), "environment": environment, "runs": len(runs)}
        (directory / "plan.json").write_text(json.dumps(of_plan, indent=2), encoding="utf-8")
        for number, run in enumerate(runs, start=1):
            text = json.dumps({"version": VERSION, "run": as_json(run)}, allow_nan=False)
            (directory / f"run-{number:03}.json").write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"{error.filename or directory}: {error.strerror or error}"
        raise VerifyError(message) from error


def load(directory: Path) -> tuple[Plan, Environment, tuple[Run, ...]]:
    """Reads a directory of records.

    Raises:
        VerifyError: Something is missing, is no record, or has a layout that is not known here.
    """
    path = directory / "plan.json"
    of_plan = _read(path)
    try:
        plan, environment = plan_of(of_plan["plan"]), of_plan["environment"]
        runs = []
        for number in range(1, of_plan["runs"] + 1):
            path = directory / f"run-{number:03}.json"
            runs.append(run_of(_read(path)["run"]))
    except (KeyError, TypeError, ValueError) as error:
        message = f"{path}: not a record of torchfast verify ({error})"
        raise VerifyError(message) from error
    return plan, environment, tuple(runs)


def _read(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise VerifyError(message) from error
    except ValueError as error:
        message = f"{path}: not JSON: {error}"
        raise VerifyError(message) from error
    if not isinstance(values, dict) or values.get("version") != VERSION:
        found = values.get("version") if isinstance(values, dict) else None
        message = f"{path}: records of version {VERSION} are read here, and this one has {found or 'none'}"
        raise VerifyError(message)
    return values
