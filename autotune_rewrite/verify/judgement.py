"""Three separate answers: did it run, is it faster, does it compute the same. "Not checked" never reads as "passed"."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from autotune_rewrite.verify.comparison import MARGIN_SPREADS, MIN_SEEDS, Basis, Ratio, Summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.comparison import Comparison, Pair
    from autotune_rewrite.verify.measurement import Figures
    from autotune_rewrite.verify.plan import Plan, PromiseName, Side
    from autotune_rewrite.verify.records import Environment, Outcome, Run

Speed = Literal["faster", "no-difference", "slower", "inconclusive", "not-checked"]
Equality = Literal["equal", "non-inferior", "different", "inconclusive", "not-checked"]

FASTER = 1.01
"""The whole interval lies above it."""
SLOWER = 0.99
"""The whole interval lies below it."""
SAME = (0.97, 1.03)
"""The whole interval lies inside."""
FIRST_LOSS_TOLERANCE = 1e-2
"""Relative, before any training: what 16-bit numbers may do to a loss. Another summation order does 1e-5."""


DIVERGED = "A loss of the rewritten script is not finite, while all of the original's are."
SIMULATED = "The CUDA device was simulated on the CPU"
NOT_TIMED: tuple[Speed, str] = ("not-checked", f"{SIMULATED}, which says nothing about speed.")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What can be said of the rewritten script."""

    run: Outcome
    speed: Speed
    equality: Equality
    reason: str
    promise: PromiseName
    side: Side | None = None
    """Whose run failed."""
    iteration: Ratio | None = None
    whole: Ratio | None = None
    basis: Basis | None = None
    """What ``whole`` is the ratio of; None where there is none."""
    pairs: int = 0
    """Pairs of runs that both went well."""
    losses: int = 0
    """Losses that were recorded in each of the original's runs, at least."""
    output: tuple[str, ...] = ()
    """The last lines of the run that failed."""
    environment: Environment = field(default_factory=dict)
    not_measured: tuple[str, ...] = ()
    """Rules that were applied and cannot act on this device."""
    sized: str = ""
    """What was done to keep to the time budget, in a sentence; else empty."""
    break_even: float | None = None
    """After how many iterations a longer start is paid back; infinite: never; None where nothing is to be."""
    blamed: tuple[str, ...] = ()
    """Rules that the failure of the rewritten script points to."""
    simulated: bool = False
    """Whether the device was: then speed cannot be told, and does not count."""
    written: tuple[str, ...] = ()
    """Files and directories of the user that a run wrote to: too large to be copied, they were linked."""
    copies: tuple[str, ...] = ()
    """Where the copies of the project are, one for each run, if they were to be kept."""
    original: Figures | None = None
    rewritten: Figures | None = None
    summary: Summary | None = None
    """What equality was judged by, where that is a matter of statistics."""
    over_tf32: Ratio | None = None
    """The whole run beside that of the original with TF32 in its matrix products, which is one line."""
    limits: str = ""
    """What takes most of the rewritten script's time now, in a sentence; empty where nothing stands out."""
    interrupted: bool = False
    """Whether the user ended it early: judged is what had been seen by then."""
    left_running: int = 0
    """Processes that runs left behind, and that were ended, at most."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Rules that a rewrite gave up because of what their changes did, each with that in a sentence."""

    @property
    def exit_code(self) -> int:
        """0 for a pass, 1 for any other judgement, 2 where a run failed."""
        if self.run != "ok":
            return 2
        return 0 if self.fit and (self.simulated or self.speed in ("faster", "no-difference")) else 1

    @property
    def tells_enough(self) -> bool:
        """Whether more pairs of runs could not change the answers, but for their digits."""
        return self.speed != "inconclusive" and self.equality != "inconclusive"

    @property
    def fit(self) -> bool:
        """Whether the rewritten script may be written: it runs, computes the same and is not slower.

        An inconclusive speed is said, not punished.
        """
        return self.run == "ok" and self.equality in ("equal", "non-inferior") and self.speed != "slower"


def judge(plan: Plan, comparison: Comparison, environment: Environment) -> Judgement:
    """Judges runs that all went well.

    Args:
        plan: What was asked.
        comparison: At least one pair.
        environment: Of the runs.
    """
    timed = plan.simulated is None
    diverged = any(pair.diverged for pair in comparison.pairs)
    speed, of_speed = judge_speed(comparison) if timed else NOT_TIMED
    equality, of_equality = judge_equality(comparison, plan.promise, plan.margin)
    return Judgement(
        run="ok",
        speed=speed,
        equality=equality,
        reason=f"{of_equality} {of_speed}",
        promise=plan.promise,
        iteration=comparison.iteration if timed else None,
        whole=comparison.run if timed else None,
        basis=comparison.basis if timed else None,
        pairs=len(comparison.pairs),
        losses=min(len(pair.original.losses) for pair in comparison.pairs),
        break_even=comparison.break_even if timed else None,
        environment=environment,
        not_measured=plan.not_measured if timed else (),
        blamed=_blamed(plan, [DIVERGED]) if diverged else (),
        simulated=not timed,
    )


def judge_failure(plan: Plan, failed: Run, other: Run | None, pairs: int, environment: Environment) -> Judgement:
    """Judges a run that did not go well.

    Args:
        plan: What was asked.
        failed: The run; the original's, where both failed.
        other: The other side's run, where that failed, too.
        pairs: How many pairs went well before.
        environment: Of the runs.
    """
    reason = f"The {failed.side} script {failed.problem}."
    if other is not None:
        reason += f" The {other.side} script {other.problem}, too."
    blamed = _blamed(plan, failed.output) if failed.side == "rewritten" and other is None else ()
    if blamed:
        reason += f" That points to {' and '.join(blamed)}."
    simulated = plan.simulated is not None
    if simulated:
        reason += f" {SIMULATED}."
    return Judgement(
        run=failed.outcome,
        speed="not-checked",
        equality="not-checked",
        reason=reason,
        promise=plan.promise,
        side=failed.side,
        pairs=pairs,
        output=failed.output,
        environment=environment,
        not_measured=() if simulated else plan.not_measured,
        blamed=blamed,
        simulated=simulated,
    )


def _blamed(plan: Plan, said: Sequence[str]) -> tuple[str, ...]:
    """The rules one of whose signatures stands in what was said."""
    return tuple(
        rule
        for rule, patterns in plan.signatures
        if any(re.search(pattern, line) for pattern in patterns for line in said)
    )


def speed_word(ratio: Ratio) -> Speed:
    """The word for a ratio, by its whole interval."""
    if ratio.low is None or ratio.high is None:
        return "inconclusive"
    if ratio.low > FASTER:
        return "faster"
    if ratio.high < SLOWER:
        return "slower"
    if SAME[0] < ratio.low and ratio.high < SAME[1]:
        return "no-difference"
    return "inconclusive"


def judge_speed(comparison: Comparison) -> tuple[Speed, str]:
    """Whether the whole run is faster at the script's own length, and why."""
    word = speed_word(comparison.run)
    if len(comparison.pairs) == 1:
        return word, "One pair of runs shows no spread: its speed-up may be noise."
    if comparison.basis == "extrapolated":
        return word, f"Speed is extrapolated from runs that were cut to the script's {comparison.length} iterations."
    if comparison.basis == "whole":
        if word == "inconclusive" and comparison.run.resolution is not None:
            seen = f"below {100 * comparison.run.resolution:.1f} %"
            return word, f"The runs vary too much to see a change {seen}: more pairs or longer runs may show it."
        return word, "Speed is that of whole runs."
    # A whole run's ratio lies between that of the run as it was cut and that of an iteration, whatever its length.
    if comparison.iteration is not None and speed_word(comparison.iteration) == word != "inconclusive":
        return word, "Runs were cut; the script's own length is not known, but both ratios say the same at any length."
    return (
        "inconclusive",
        "Runs were cut, and how a whole run compares depends on the script's length, which is not known.",
    )


def judge_equality(comparison: Comparison, promise: PromiseName, margin: float | None = None) -> tuple[Equality, str]:
    """Whether the rewritten script computes the same under its promise, and why."""
    pairs = comparison.pairs
    if not all(pair.original.losses for pair in pairs):
        return "not-checked", "No loss was seen: the original did not call backward() in its main process."
    if comparison.unequal is None:
        if not pairs[0].original.parameters:
            return "equal", "Every loss is equal bit for bit; no optimizer was seen, so parameters were not compared."
        return "equal", "Every loss and every final parameter is equal bit for bit."
    certain = _certain_difference(comparison, promise)
    if certain is not None:
        return "different", certain
    if promise == "training":
        return "not-checked", "Training was meant to change: its results are shown, and never judged as equal."
    return _judge_spread(comparison, promise, margin)


def _certain_difference(comparison: Comparison, promise: PromiseName) -> str | None:
    """Why the scripts cannot be equal under the promise, or None where only statistics can tell."""
    for pair in comparison.pairs:
        if pair.lengths_differ and not (comparison.lengths_vary and pair.rewritten.losses):
            return f"The original has {len(pair.original.losses)} losses, the rewritten {len(pair.rewritten.losses)}."
        if pair.diverged:
            return DIVERGED
    unequal, repeated = comparison.unequal, comparison.repeated
    if promise == "bitwise" and unequal is not None and repeated is not None and repeated.equal:
        return _first_difference(unequal)
    if promise == "precision" and repeated is not None:
        # Where the original's own first loss moves as far with one seed, a distance says nothing.
        farthest = max(pair.first_loss_distance for pair in comparison.pairs)
        if repeated.first_loss_distance <= FIRST_LOSS_TOLERANCE < farthest:
            return (
                f"The first losses differ by {farthest:.2g} relative to their size; "
                f"another precision explains at most {FIRST_LOSS_TOLERANCE:g}."
            )
    return None


def _first_difference(pair: Pair) -> str:
    at = pair.first_difference
    if at is None:
        return "Every loss is equal, but final parameters differ."
    return (
        f"Losses differ from iteration {at + 1} on ({pair.original.losses[at]!r} in the original, "
        f"{pair.rewritten.losses[at]!r} in the rewritten script), although the original repeats itself bit for bit."
    )


def _judge_spread(comparison: Comparison, promise: PromiseName, margin: float | None) -> tuple[Equality, str]:
    """Non-inferiority of the last tenth of the losses, beside the original's own spread over seeds."""
    because = ""
    if promise == "bitwise":
        because = "The original is not repeatable: it differs from itself with the same seed. "
    summary = Summary.of(comparison.pairs, comparison.confidence, margin)
    if summary is None:
        few = f"fewer than {MIN_SEEDS} pairs say nothing of a spread"
        why = few if len(comparison.pairs) < MIN_SEEDS else "the last losses are not finite"
        return "inconclusive", f"{because}Results differ, and {why}."
    if summary.margin == 0:
        return "inconclusive", f"{because}Results differ, and the original shows no spread over its seeds to judge by."
    which = "" if margin is not None else f", {MARGIN_SPREADS:g} standard deviations of the original over its seeds"
    figures = (
        f"the mean of the last tenth of the losses is {summary.worse:+.3g} ({summary.low:+.3g} to {summary.high:+.3g}) "
        f"against the original's, with a margin of {summary.margin:.3g}{which}."
    )
    if summary.low > summary.margin or summary.high < -summary.margin:
        # Much better is no more "the same" than much worse: perhaps the loss itself was changed.
        end = "worse" if summary.worse > 0 else "better"
        return "different", f"{because}The rewritten script ends {end} than luck explains: {figures}"
    if summary.high < summary.margin:
        return "non-inferior", f"{because}Results differ no more than by luck: {figures}"
    return "inconclusive", f"{because}Results differ, and these pairs cannot tell whether it matters: {figures}"
