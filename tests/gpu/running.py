"""Runs of the prepared scripts, as the verifier makes them, and their records as lines of a stage."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.records import as_json
from autotune_rewrite.verify.run import run_script
from tests.gpu.scripts import BY_NAME
from tests.gpu.tasks import Hung
from tests.scripts import SMALL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from autotune_rewrite.verify.plan import Kind
    from autotune_rewrite.verify.records import Run
    from tests.gpu.scripts import Length
    from tests.gpu.setting import Setting
    from tests.gpu.tasks import Result

NAIVE = "naive"
DIGITS = 6
"""Of times that are kept: microseconds."""
GENERATING = 300.0
"""Seconds that the data of one script may take."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a script is run."""

    arguments: tuple[str, ...] = ()
    data: tuple[str, ...] | None = None
    """Of ``make_data.py``; None: the script has its data beside it."""
    iterations: int | None = None
    """After so many calls of ``backward`` the run is cut."""
    seconds: float | None = None
    """After so many of the script the run is cut, at the next iteration."""

    @classmethod
    def of(cls, length: Length, *, iterations: int | None = None, seconds: float | None = None) -> Extent:
        """One of a script's lengths, cut."""
        return cls(length.arguments, length.data, iterations, seconds)


@dataclass(frozen=True, slots=True)
class Made:
    """A run, and how long it was allowed to take."""

    run: Run
    seconds: float
    """After which it was ended."""
    most: float
    """Seconds after which a run counts as one that hangs."""

    def result(self, values: Mapping[str, Any]) -> Result:
        """What a task that made this run gives back; a run that was ended because a call was says nothing of its script.

        Args:
            values: What else its line has.
        """
        if self.run.outcome == "interrupted":
            return None
        line = {**values, "run": as_line(self.run)}
        if self.run.outcome == "timed-out" and self.seconds < self.most:
            return Hung(self.seconds, line)
        return line


class Prepared:
    """The folder that ``prepare`` wrote, on the machine where its scripts run."""

    def __init__(self, setting: Setting) -> None:
        """Reads the manifest.

        Raises:
            FileNotFoundError: Nothing was prepared.
        """
        self.setting = setting
        self.scripts = (setting.prepared / "scripts").resolve()
        self._generated: set[tuple[str, ...]] = set()
        self._generating = Lock()
        self.manifest: dict[str, Any] = json.loads((setting.prepared / "manifest.json").read_text(encoding="utf-8"))

    def names(self) -> list[str]:
        """Of the scripts that are to be run."""
        known = [*BY_NAME, *(fixture.name for fixture in SMALL)]
        return [name for name in known if name in self.manifest["scripts"] and self.setting.wants(name)]

    def variants(self, script: str) -> Mapping[str, Mapping[str, Any]]:
        """What the tool made of a script, by name, with the rules that changed it and what they promise."""
        found: Mapping[str, Mapping[str, Any]] = self.manifest["scripts"][script]
        return found

    def file(self, script: str, variant: str) -> Path:
        """A script's text."""
        return self.scripts / script / f"{variant}.py"

    def has(self, script: str, variant: str) -> bool:
        """Whether there is such a text."""
        return self.file(script, variant).exists()

    def compiles(self, script: str, variant: str) -> bool:
        """Whether the text has kernels compiled."""
        if variant == "expert":
            return script in BY_NAME and BY_NAME[script].expert_compiles
        return "compile" in self.variants(script).get(variant, {}).get("rules", ())

    def arguments(self, script: str, extent: Extent, seconds: float = GENERATING) -> tuple[str, ...]:
        """The script's arguments; its data are generated if they are not there.

        Args:
            script: Its name.
            extent: How much of it.
            seconds: That generating may take.

        Raises:
            CalledProcessError: The data could not be generated.
            TimeoutExpired: That would have taken longer.
        """
        if extent.data is None:
            return extent.arguments
        folder = self.setting.scratch / "data" / script
        end = time.monotonic() + min(GENERATING, seconds)
        with self._generating:  # runs beside each other may want the same
            if (script, *extent.data) not in self._generated:
                maker = self.scripts / script / "make_data.py"
                command = [sys.executable, str(maker), str(folder), *extent.data]
                folder.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(
                    command,
                    check=True,
                    timeout=max(0.0, end - time.monotonic()),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                self._generated.add((script, *extent.data))
        return ("--data", str(folder), *extent.arguments)

    def plan(self, script: str, variant: str, extent: Extent, *, seconds: float = GENERATING) -> Plan:
        """The plan that compares a variant with the naive script; data may take so many seconds."""
        known = self.variants(script).get(variant, {})
        return Plan(
            original=self.file(script, NAIVE),
            rewritten=self.file(script, variant),
            promise=known.get("promise", "precision"),
            tolerance=max(known.get("tolerance", 1e-2), 1e-5),
            redrawn=known.get("redraws", False),
            iterations=extent.iterations,
            device=self.setting.device,
            capability="9.0" if self.setting.device == "simulated" else None,
            arguments=self.arguments(script, extent, seconds),
        )

    def run(
        self,
        script: str,
        variant: str,
        extent: Extent,
        *,
        seconds: float,
        most: float,
        kind: Kind = "pair",
        seed: int = 0,
        harness: Path | None = None,
    ) -> Made:
        """One run, started in the current directory, which is copied for it: it should be an empty one.

        Args:
            script: Its name.
            variant: Which text.
            extent: How much of it.
            seconds: That are left, for its data, too.
            most: Seconds after which it is ended as one that hangs.
            kind: As in a plan's turn: with TF32, under deterministic algorithms, or neither.
            seed: The same for all runs that are compared as a pair.
            harness: What runs it in the place of a fresh process: a client of a process that forks.

        Raises:
            CalledProcessError: Its data could not be generated.
            TimeoutExpired: That would have taken longer.
        """
        end = time.monotonic() + seconds
        plan = self.plan(script, variant, extent, seconds=seconds)
        left = max(1.0, min(most, end - time.monotonic()))
        turn = Turn("original" if variant == NAIVE else "rewritten", seed, kind)
        run = run_script(replace(plan, timeout=left), turn, extent.seconds, harness=harness)
        return Made(run if harness is None else of_fork(run), left, most)


def of_fork(run: Run) -> Run:
    """The record of a run that forked: the fork does not carry the mark of its run, and was counted as somebody else's."""
    if run.gpu is None or not run.gpu.foreign:
        return run
    return replace(run, gpu=replace(run.gpu, foreign=run.gpu.foreign - 1))


def as_line(run: Run) -> dict[str, Any]:
    """The record of a run as a line has it: times to the microsecond, losses as they are."""
    values: dict[str, Any] = as_json(run)
    for name in ("times", "waits", "compiles"):
        values[name] = [round(each, DIGITS) for each in values[name]]
    return values
