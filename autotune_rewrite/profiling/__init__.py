"""Runs some iterations of a script, and says where their time goes."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from autotune_rewrite.profiling.profiles import (
    COMPUTING,
    Estimate,
    Operator,
    Part,
    Profile,
    Site,
    mean_of,
    parts_of,
    share_of,
)
from autotune_rewrite.verify import Plan, Progress, VerifyError
from autotune_rewrite.verify.cures import cure
from autotune_rewrite.verify.plan import Turn
from autotune_rewrite.verify.run import probe, run_script
from codemods.codemod import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from autotune_rewrite.verify.child.profiled import Asked, Seen
    from autotune_rewrite.verify.records import Run

__all__ = ["Profile", "Profiling", "profile"]

PROFILED = Path(__file__).parents[1] / "verify" / "child" / "profiled.py"
WARM_UP = 5
"""Iterations that are not measured, unless the user says how many."""
MOST = 200
"""Iterations that are measured, unless the user says how many."""
WATCHED = 10
"""Iterations under torch.profiler, which records every operator."""
SHARE_OF_MARKS = 2 / 3
"""Of the time budget, for the run that is timed; the rest is for the run under torch.profiler."""
TIME_BUDGET = 60.0
TIMEOUT = 600.0
"""Seconds, unless the user says how many."""
OF_KINETO = re.compile(r"(USDT|STAGE|INFO|WARNING|ERROR):\d{4}-\d\d-\d\d ")
"""Lines that torch.profiler's library writes to standard error, where they come after the script's own."""
TURN = Turn("original", 0)


@dataclass(frozen=True, slots=True)
class Profiling:
    """What is to be profiled, and how."""

    plan: Plan
    """The script, twice: nothing is compared."""
    warm_up: int = WARM_UP
    iterations: int = MOST
    """That are measured, at most."""
    threads: int | None = None
    trace: Path | None = None
    memory: Path | None = None
    operators: bool = True
    """Whether there is a second run, for what torch.profiler tells."""

    def check(self) -> None:
        """Refuses what cannot be done, before anything runs.

        Raises:
            VerifyError: A number is out of range, the script cannot be run, or a file not be written.
        """
        for name, number, least in (
            ("iterations", self.iterations, 1),
            ("warm-up iterations", self.warm_up, 0),
            ("threads", 1 if self.threads is None else self.threads, 1),
        ):
            if number < least:
                raise VerifyError(f"the number of {name} is {number}, but at least {least} is needed")
        if self.trace is not None and self.plan.simulated is not None:
            raise VerifyError("--trace: times on a simulated device say nothing, so that there is nothing to trace")
        for path in (self.trace, self.memory):
            if path is not None and not path.absolute().parent.is_dir():
                raise VerifyError(f"{path}: its directory does not exist")
        self.plan.check()


def profile(profiling: Profiling, progress: Callable[[Progress], None] | None = None) -> Profile:
    """Runs the script twice, some iterations each time.

    Args:
        profiling: What to do.
        progress: Is told how far it has come.

    Raises:
        VerifyError: It cannot be done, or the script fails or has no iterations to measure.
    """
    profiling.check()
    plan = profiling.plan
    if plan.device == "cuda" or profiling.memory is not None:
        known = probe(plan)
        if profiling.memory is not None and (not known["cuda"] or plan.simulated is not None):
            raise VerifyError("--memory: a snapshot is of CUDA memory, and there is no CUDA device")
    with TemporaryDirectory(prefix="torchfast-") as directory:
        child = _Child(profiling, Path(directory), progress)
        if plan.simulated is not None:
            run, seen = child.run("reads", 1, 1)
            return _profile(profiling, run, _checked(profiling, run, seen), seen)
        run, marked = child.run("marks", 1, 2 if profiling.operators else 1)
        counted = _checked(profiling, run, marked)
        if not profiling.operators:
            return _profile(profiling, run, counted, None)
        second, watched = child.run("operators", 2, 2)
        if watched is None and (profiling.trace or profiling.memory):
            raise VerifyError(f"{plan.original}: under torch.profiler, the script {_why(second)}")
        found = _profile(profiling, run, counted, watched)
        if watched is None:
            why = f"Operators were not seen: under torch.profiler, the script {_why(second)}."
            found = replace(found, notes=(*found.notes, why))
        child.keep_files()
    return found


@dataclass(slots=True)
class _Child:
    """Runs the script, and reads what was seen."""

    profiling: Profiling
    directory: Path
    progress: Callable[[Progress], None] | None

    def run(self, watch: str, number: int, total: int) -> tuple[Run, Seen | None]:
        """One run, and what was seen of it; nothing where it failed."""
        plan, out = self.profiling.plan, self.directory / f"{watch}.json"
        share = 1.0 if total == 1 else SHARE_OF_MARKS if watch == "marks" else 1 - SHARE_OF_MARKS
        asked: Asked = {
            "out": str(out),
            "warm_up": self.profiling.warm_up,
            "measured": self.profiling.iterations if watch == "marks" else min(WATCHED, self.profiling.iterations),
            "until": share * plan.time_budget,
            "threads": self.profiling.threads,
            "watch": watch,
            "trace": self._file("trace.json") if self.profiling.trace and watch == "operators" else "",
            "memory": self._file("memory.pickle") if self.profiling.memory and watch == "operators" else "",
        }
        run = run_script(plan, TURN, None, self._watch(number, total), harness=PROFILED, more={"profile": asked})
        if run.outcome == "interrupted":
            raise KeyboardInterrupt
        if run.outcome != "ok" or not out.exists():
            return run, None
        seen: Seen = json.loads(out.read_text(encoding="utf-8"))
        return run, seen

    def keep_files(self) -> None:
        """Puts what the child wrote where the user wants it.

        Raises:
            VerifyError: It cannot be written there.
        """
        for name, target in (("trace.json", self.profiling.trace), ("memory.pickle", self.profiling.memory)):
            if target is None:
                continue
            try:
                shutil.copyfile(self._file(name), target)
            except OSError as error:
                raise VerifyError(f"{target}: {error.strerror or error}") from error

    def _file(self, name: str) -> str:
        return str(self.directory / name)

    def _watch(self, number: int, total: int) -> Callable[[int, float], None] | None:
        if self.progress is None:
            return None
        tell = self.progress
        tell(Progress(number, total, "original"))
        return lambda iterations, per_second: tell(Progress(number, total, "original", iterations, per_second))


def _checked(profiling: Profiling, run: Run, seen: Seen | None) -> Seen:
    """What was seen.

    Raises:
        VerifyError: The script failed, or there is nothing to measure.
    """
    script, warm_up = profiling.plan.original, profiling.warm_up
    if seen is None:
        cured = cure(profiling.plan, run.output).removesuffix(".")
        raise VerifyError(". ".join(filter(None, (f"{script}: the script {_why(run)}", cured))))
    if not seen["total"]:
        raise VerifyError(f"{script}: the script came to its end without an iteration: it never calls backward")
    if seen["iterations"]:
        return seen
    count = seen["total"]
    ended = "1 iteration" if count == 1 else f"{count} iterations"
    if count == 1:
        raise VerifyError(f"{script}: the script ended after {ended}, and what is measured lies between two of them")
    raise VerifyError(
        f"{script}: the script ended after {ended}, of which the first {warm_up} warm up: nothing was measured "
        f"(--warm-up {max(0, count - 2) // 2} would do)"
    )


def _why(run: Run) -> str:
    """How a run failed, with the last line that it wrote."""
    last = next((line.strip() for line in reversed(run.output) if line.strip() and not OF_KINETO.match(line)), "")
    return f"{run.problem}: {last}" if last else run.problem


def _profile(profiling: Profiling, run: Run, seen: Seen, watched: Seen | None) -> Profile:
    """What both runs say together.

    Args:
        profiling: What was asked for.
        run: The one that was timed.
        seen: Its phases.
        watched: The operators and sites of the other run, if it went well.
    """
    plan = profiling.plan
    simulated = plan.simulated is not None
    phases = [Phase[name.upper()] for name in seen["phases"]]
    between = phases.index(Phase.EVALUATION)
    rows = [[0.0 if at == between else seconds for at, seconds in enumerate(row)] for row in seen["iterations"]]
    iterations = [sum(row) for row in rows]
    mean = mean_of(iterations)
    per = 1 / max(1, watched["watched"] if watched else 1)
    return Profile(
        script=str(plan.original),
        arguments=plan.arguments,
        device="simulated" if simulated else "cuda" if seen["on_device"] else "cpu",
        environment=run.environment,
        warm_up=profiling.warm_up,
        iterations=len(rows),
        iteration=None if simulated else mean,
        parts=() if simulated else _in_order(parts_of(rows, phases)),
        computing=None if simulated else _computing(rows, phases),
        evaluation=None if simulated else _evaluation([row[between] for row in seen["iterations"]], iterations),
        passes=seen["evaluations"],
        loaders=seen["loaders"],
        modules=seen["modules"],
        on_device=seen["on_device"],
        overhead=0.0 if simulated else seen["overhead"] / mean.value,
        watched=watched["watched"] if watched else 0,
        operators=tuple(_operator(each, per) for each in (watched["operators"] if watched else ())),
        accumulation=watched["accumulation"] if watched else None,
        busy=watched["busy"] if watched else None,
        sites=tuple(_site(each, per) for each in (watched["sites"] if watched else ())),
    )


def _in_order(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """As an iteration has them."""
    order = list(Phase)
    return tuple(sorted(parts, key=lambda part: order.index(part.phase)))


def _computing(rows: list[list[float]], phases: list[Phase]) -> Estimate | None:
    """The share of forward and backward together."""
    seconds = [sum(each for each, phase in zip(row, phases, strict=True) if phase in COMPUTING) for row in rows]
    return share_of(seconds, [sum(row) for row in rows]) if any(seconds) else None


def _evaluation(seconds: list[float], iterations: list[float]) -> Part | None:
    """What evaluations took, as a part of all that was seen."""
    if not any(seconds):
        return None
    wholes = [own + rest for own, rest in zip(seconds, iterations, strict=True)]
    return Part(Phase.EVALUATION, sum(seconds) / len(seconds), share_of(seconds, wholes))


def _operator(values: Mapping[str, Any], per: float) -> Operator:
    return Operator(values["name"], per * values["calls"], per * values["host_seconds"], per * values["device_seconds"])


def _site(values: Mapping[str, Any], per: float) -> Site:
    calls = {name: per * count for name, count in values["calls"].items()}
    confirmed = values["confirmed"]
    return Site(values["path"], values["line"], calls, None if confirmed is None else per * confirmed)
