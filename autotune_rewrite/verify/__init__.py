"""Runs the original and the rewritten script and says whether one is faster and computes the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotune_rewrite.verify.comparison import CONFIDENCE, LOOK_CONFIDENCE, Comparison, Pair
from autotune_rewrite.verify.judgement import Judgement, judge, judge_failure
from autotune_rewrite.verify.measurement import Measurement
from autotune_rewrite.verify.plan import Plan, Side, Turn, VerifyError
from autotune_rewrite.verify.run import probe, run_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify.records import Environment, Run

__all__ = ["Judgement", "Plan", "Progress", "VerifyError", "verify"]

FEWEST_PAIRS = 4
"""Fewer tell too little to save time by."""
FEWEST_ITERATIONS = 40
"""Of runs that are cut to keep to the time budget."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run that starts now, or goes on."""

    number: int
    """From 1."""
    total: int
    """How many runs there may be, as far as is known."""
    side: Side
    iterations: int = 0
    """Backward calls seen so far; 0 where the run starts now."""
    per_second: float = 0.0
    """Iterations, lately; 0 where that is not known."""
    seconds_left: float | None = None
    """Of all runs together, as far as is known."""


def verify(plan: Plan, progress: Callable[[Progress], None] | None = None) -> Judgement:
    """Runs both scripts in pairs of fresh processes and judges them.

    Args:
        plan: What to compare.
        progress: Is told of each run before it starts.

    Raises:
        VerifyError: The plan cannot be carried out; nothing was run.
    """
    plan.check()
    series = _Series(plan, probe(plan), progress)
    judgement = series.judged()
    written = dict.fromkeys(path for run in series.taken for path in run.written)
    copies = tuple(run.copy for run in series.taken if run.copy)
    return replace(judgement, written=tuple(written), copies=copies, sized=series.sized)


@dataclass(slots=True)
class _Series:
    """The runs of a plan, until there is something to say."""

    plan: Plan
    environment: Environment
    progress: Callable[[Progress], None] | None
    taken: list[Run] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    sized: str = ""
    """What was done to keep to the time budget, in a sentence; else empty."""

    def judged(self) -> Judgement:
        """Judges at each look, and stops at the first that tells enough."""
        # A run that alone takes the time of all the others tells how to size them.
        failure = self._pair(seconds=self.plan.time_budget / 4)
        if failure is None:
            self._size()
        control: Run | None = None
        while failure is None:
            while failure is None and len(self.pairs) not in self.plan.looks:
                failure = self._pair()
            if failure is not None:
                break
            confidence = CONFIDENCE if len(self.plan.looks) == 1 else LOOK_CONFIDENCE
            comparison = Comparison(tuple(self.pairs), control, self.plan.length, confidence)
            unequal = comparison.unequal
            if unequal is not None and control is None and self.plan.promise in ("bitwise", "precision"):
                # Does the original agree with itself? Only then does a difference say something about the rewritten.
                control = self._take(Turn("original", unequal.original.offset))
                if control.outcome != "ok":
                    return judge_failure(self.plan, control, None, len(self.pairs), self.environment)
                comparison = replace(comparison, control=control)
            judgement = judge(self.plan, comparison, self.environment)
            if judgement.tells_enough or len(self.pairs) >= self.plan.pairs:
                return judgement
            failure = self._pair()
        return failure

    def _take(self, turn: Turn, seconds: float | None = None) -> Run:
        number = len(self.taken) + 1
        if self.progress is not None:
            self.progress(Progress(number, max(number, 2 * self.plan.pairs), turn.side))
        self.taken.append(run_script(self.plan, turn, seconds))
        return self.taken[-1]

    def _pair(self, seconds: float | None = None) -> Judgement | None:
        """Runs the next pair; what there is to say where a run fails."""
        runs: dict[Side, Run] = {}
        for turn in self.plan.pair_turns[len(self.pairs)]:
            run = runs[turn.side] = self._take(turn, seconds)
            # A rewritten script that fails first says nothing as long as the original was not seen to work.
            if run.outcome != "ok" and (turn.side == "original" or self.pairs):
                break
        failures = [runs[side] for side in ("original", "rewritten") if side in runs and runs[side].outcome != "ok"]
        if failures:
            other = failures[1] if len(failures) > 1 else None
            return judge_failure(self.plan, failures[0], other, len(self.pairs), self.environment)
        self.pairs.append(Pair(runs["original"], runs["rewritten"]))
        return None

    def _size(self) -> None:
        """Keeps to the time budget by what the first pair took: fewer pairs, or runs that are cut."""
        plan, budget = self.plan, self.plan.time_budget
        runs = self.pairs[0].original, self.pairs[0].rewritten
        of_pair = sum(run.wall_seconds for run in runs)
        cut = any(run.cut and len(run.times) != plan.iterations for run in runs)
        if not cut and of_pair * plan.pairs <= budget:
            return
        fewest = min(plan.pairs, FEWEST_PAIRS)
        kept = f"to keep to the time budget of {budget:g} s"
        if not cut and (of_pair * fewest <= budget or plan.iterations is not None):
            self.sized = f"Fewer pairs were run {kept}." if fewest < plan.pairs else ""
            self.plan = replace(plan, pairs=fewest)
            return
        share = budget / (2 * fewest)
        iterations = min(_iterations_within(run, share) for run in runs)
        known = None if cut else len(runs[0].times)
        self.plan = replace(plan, pairs=fewest, iterations=iterations, length=plan.length or known)
        self.sized = f"Runs were cut to {iterations} iterations {kept}."
        self.pairs.clear()


def _iterations_within(run: Run, seconds: float) -> int:
    """How many iterations of the script fit into so many seconds of a run, its start among them."""
    measurement = Measurement.of(run)
    each = measurement.iteration_seconds
    if not each:
        return FEWEST_ITERATIONS
    start = run.wall_seconds - measurement.iterations * each
    return max(FEWEST_ITERATIONS, int((seconds - start) / each))
