"""Runs the original and the rewritten script and says whether one is faster and computes the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autotune_rewrite.verify.comparison import Comparison, Pair
from autotune_rewrite.verify.judgement import Judgement, judge, judge_failure
from autotune_rewrite.verify.plan import Plan, Side, Turn, VerifyError
from autotune_rewrite.verify.run import Environment, Run, probe, run_script

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Judgement", "Plan", "Progress", "VerifyError", "verify"]


@dataclass(frozen=True, slots=True)
class Progress:
    """A run that starts now."""

    number: int
    """From 1."""
    total: int
    """How many runs are expected by now."""
    side: Side


def verify(plan: Plan, progress: Callable[[Progress], None] | None = None) -> Judgement:
    """Runs both scripts in pairs of fresh processes and judges them.

    Args:
        plan: What to compare.
        progress: Is told of each run before it starts.

    Raises:
        VerifyError: The plan cannot be carried out; nothing was run.
    """
    plan.check()
    taken: list[Run] = []
    judgement = _judged(plan, probe(plan), progress, taken)
    written = dict.fromkeys(path for run in taken for path in run.written)
    return replace(judgement, written=tuple(written), copies=tuple(run.copy for run in taken if run.copy))


def _judged(
    plan: Plan, environment: Environment, progress: Callable[[Progress], None] | None, taken: list[Run]
) -> Judgement:
    """Runs both scripts until there is something to say; all runs come into ``taken``."""
    total = 2 * plan.pairs

    def take(turn: Turn) -> Run:
        number = len(taken) + 1
        if progress is not None:
            progress(Progress(number, max(number, total), turn.side))
        taken.append(run_script(plan, turn))
        return taken[-1]

    pairs: list[Pair] = []
    for turns in plan.pair_turns:
        runs: dict[Side, Run] = {}
        for turn in turns:
            run = runs[turn.side] = take(turn)
            # A rewritten script that fails first says nothing as long as the original was not seen to work.
            if run.outcome != "ok" and (turn.side == "original" or pairs):
                break
        failures = [runs[side] for side in ("original", "rewritten") if side in runs and runs[side].outcome != "ok"]
        if failures:
            other = failures[1] if len(failures) > 1 else None
            return judge_failure(plan, failures[0], other, len(pairs), environment)
        pairs.append(Pair(runs["original"], runs["rewritten"]))
    comparison = Comparison(tuple(pairs), length=plan.length)
    if comparison.unequal is not None and plan.promise in ("bitwise", "precision"):
        # Does the original agree with itself? Only then does a difference say something about the rewritten script.
        control = take(Turn("original", comparison.unequal.original.offset))
        if control.outcome != "ok":
            return judge_failure(plan, control, None, len(pairs), environment)
        comparison = replace(comparison, control=control)
    return judge(plan, comparison, environment)
