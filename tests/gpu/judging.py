"""What the lines of a stage say: each measured text beside the naive script of the same rounds, judged by the verifier."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune_rewrite.verify import Judgement, Plan, judged
from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.records import run_of
from autotune_rewrite.verify.statistics.measurement import Measurement
from tests.gpu.running import NAIVE
from tests.gpu.speed import COLD, TF32

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from autotune_rewrite.verify.records import Run
    from tests.gpu.tasks import Values


@dataclass(frozen=True, slots=True)
class Beside:
    """One text beside the naive one."""

    script: str
    """With the batch size before it, where that is another one."""
    label: str
    judgement: Judgement
    comparison: Comparison
    compiling: float | None = None
    """Seconds that it takes longer where no compiled kernel is at hand; None where that was not seen."""

    def ratio_at(self, iterations: int, *, cold: bool) -> float | None:
        """The ratio of whole runs of so many iterations, extrapolated; None where the runs are too short to tell.

        Args:
            iterations: Of a whole run.
            cold: Whether compiled kernels have to be made.
        """
        pairs = self.comparison.pairs
        sides = [
            [Measurement.of(pair.original, pair.rewritten) for pair in pairs],
            [Measurement.of(pair.rewritten, pair.original) for pair in pairs],
        ]
        if not pairs or any(one.iteration_seconds is None for side in sides for one in side):
            return None
        # To import torch is the same work on both sides: its noise is not that of the scripts.
        imports = statistics.median(run.import_seconds for pair in pairs for run in (pair.original, pair.rewritten))
        before, after = (
            imports
            + statistics.fmean(
                one.script_seconds + (iterations - one.iterations) * (one.iteration_seconds or 0.0) for one in side
            )
            for side in sides
        )
        return before / (after + (self.compiling or 0.0 if cold else 0.0))


def compared(lines: Iterable[Values]) -> Iterator[Beside]:
    """Each text that was measured in a round with the naive one, in the order in which they were first measured.

    Args:
        lines: Of a stage that measures.
    """
    measured = [line for line in lines if "run" in line]
    for group in dict.fromkeys(map(_group, measured)):
        of_group = [line for line in measured if _group(line) == group]
        naive = _runs(of_group, NAIVE)
        tf32 = [run for run in _runs(of_group, TF32) if run.outcome == "ok"]
        for label in dict.fromkeys(line["label"] for line in of_group):
            if label == NAIVE or (label.endswith(COLD) and _runs(of_group, label.removesuffix(f", {COLD}"))):
                continue
            yield _beside(group, label, naive, tf32, of_group)


def _group(line: Values) -> str:
    """The script, with the batch size before it where that is another one."""
    key: str = line["key"]
    return key.rpartition(f"/{line['label']}/")[0].replace("/", ": ")


def _runs(lines: Sequence[Values], label: str) -> list[Run]:
    return [run_of(line["run"]) for line in lines if line["label"] == label]


def _beside(group: str, label: str, naive: list[Run], tf32: list[Run], lines: Sequence[Values]) -> Beside:
    """One text beside the naive one, and beside the naive one with TF32."""
    claims = next((line["claims"] for line in lines if line["label"] == label), None) or {}
    environment = next((run.environment for run in naive if run.environment), {})
    plan = Plan(
        original=Path(f"{NAIVE}.py"),
        rewritten=Path(f"{label}.py"),
        promise=claims.get("promise", "precision"),
        tolerance=claims.get("tolerance", 1e-2),
        redrawn=claims.get("redraws", True),
        device="simulated" if "simulated" in environment else "auto",
        pairs=max(1, len(naive)),
    )
    if label == TF32:  # the naive script in its other form is what is compared
        runs = [*naive, *(replace(run, side="rewritten", kind="pair") for run in tf32)]
    else:
        runs = [*naive, *_runs(lines, label), *tf32]
    comparison = Comparison.of(plan, runs)
    cold = [run for run in _runs(lines, f"{label}, {COLD}") if run.outcome == "ok" and run.ended == "finished"]
    return Beside(
        group,
        label,
        judged(plan, runs, environment),
        comparison,
        _compiling(cold, [pair.rewritten for pair in comparison.pairs]),
    )


def _compiling(cold: Sequence[Run], warm: Sequence[Run]) -> float | None:
    """How much later the end of a run that had to compile comes than that of the others; of machines, the first counts."""
    of_length = [run for run in warm if cold and len(run.times) == len(cold[0].times)]
    if not of_length:
        return None
    return max(0.0, cold[0].script_seconds - statistics.median(run.script_seconds for run in of_length))
