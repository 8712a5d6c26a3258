"""Whether the rewritten script computes the same: by its bits, by what it leaves out, by what it ends with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.omissions import omissions, unseen, unseen_evaluation
from autotune_rewrite.verify.statistics.measurement import training_passes
from autotune_rewrite.verify.statistics.pairs import EARLY, START, Check
from autotune_rewrite.verify.statistics.seeds import MARGIN_PART, MARGIN_SPREADS, MIN_SEEDS, Summary, figure

if TYPE_CHECKING:
    from collections.abc import Collection

    from autotune_rewrite.verify.comparison import Comparison
    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.statistics.pairs import Pair

Equality = Literal["equal", "non-inferior", "different", "inconclusive", "not-checked"]
Bits = Literal["equal", "different", "unrepeatable", "unknown"]

DIVERGED = "A loss of the rewritten script is not finite, while all of the original's are."
NOTHING_SEEN = (
    "NOTHING WAS COMPARED: the original did not call backward() in its main process, and no metric was found in what "
    "it prints or gives to TensorBoard; --metric can name one."
)
CALM = 0.1
"""The part of the tolerance below which losses that come apart later have done so by themselves, as chaos does."""
OWN = 3.0
"""How many times as far as the original from itself losses may be apart, as one control is but one draw of that."""
FEWEST_LOSSES = 3
"""Fewer may be those of a warm-up alone, before the training goes on in other processes."""
NAMED = 3
"""Files, before the rest is counted."""
REPEATS = "The original repeats itself bit for bit."
NOT_REPEATABLE = "The original is not repeatable: it differs from itself with the same seed."


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the rewritten script computes the same, why, and by what that was judged."""

    equality: Equality
    reason: str
    summary: Summary | None = None

    def after(self, sentence: str) -> Answer:
        """The same, with a sentence before the reason."""
        return replace(self, reason=f"{sentence} {self.reason}") if sentence else self

    def with_note(self, sentence: str) -> Answer:
        """The same, with a sentence after the reason."""
        return replace(self, reason=f"{self.reason} {sentence}") if sentence else self


def judge_equality(plan: Plan, comparison: Comparison) -> Answer:
    """Whether the rewritten script computes the same under its promise, and why; of runs that were cut, how far.

    Args:
        plan: What was promised, and by what to judge.
        comparison: At least one pair.
    """
    answer = _judge(plan, comparison)
    if answer.equality not in ("equal", "non-inferior"):
        return answer
    contents = _contents(comparison) if answer.equality == "equal" else ""
    return _as_far_as_seen(plan, comparison, answer).with_note(contents).with_note(_beyond(comparison))


def _contents(comparison: Comparison) -> str:
    """The files of which less than their contents was compared, in a sentence; empty where there are none."""
    names = comparison.other_contents
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"Contents of {', '.join(names[:NAMED])}{more} differ: of these, only number and size were compared."


def _as_far_as_seen(plan: Plan, comparison: Comparison, answer: Answer) -> Answer:
    """The same, or less where what was seen is too little to say so."""
    losses = comparison.pairs[0].original.losses
    odd = [at for at, loss in enumerate(losses, 1) if not isfinite(loss)]
    if plan.metric is None and metrics.chosen(comparison.pairs[0].original) is None:
        if losses and len(odd) == len(losses):
            return Answer("inconclusive", "No loss is finite, in both scripts, and no metric was found.")
        if 0 < len(losses) < FEWEST_LOSSES:
            seen = "1 LOSS WAS" if len(losses) == 1 else f"{len(losses)} LOSSES WERE"
            few = f"ONLY {seen} SEEN, and no metric: what was trained elsewhere was not compared."
            return replace(answer, equality="not-checked").with_note(few)
        if unseen_evaluation(comparison):
            return replace(answer, equality="inconclusive").with_note("No metric tells what its evaluation does.")
    return answer.with_note(
        f"{len(odd)} losses of both are not finite, the first in iteration {odd[0]}." if odd else ""
    )


def _beyond(comparison: Comparison) -> str:
    """What cut runs say nothing of, in a sentence; empty where whole runs were compared."""
    reach = comparison.reach
    if reach is None:
        return ""
    if comparison.whole is None:
        return f"Only {reach} iterations were compared: the script's end, files and metrics were NOT CHECKED."
    return f"Results were compared over {reach} iterations; what is written and printed, in one whole run."


def _judge(plan: Plan, comparison: Comparison) -> Answer:
    """Whether the rewritten script computes the same, in what was seen.

    Args:
        plan: What was promised, and by what to judge.
        comparison: At least one pair.
    """
    if any(pair.diverged for pair in (*comparison.pairs, *comparison.whole_pairs)):
        return Answer("different", DIVERGED)
    omitted = None if plan.promise == "training" else next(omissions(plan, comparison), None)
    if omitted is not None:
        return Answer("different", omitted)
    metric, note = _metric(plan, comparison)
    if isinstance(metric, str):
        return Answer("not-checked", f"{metric} Nothing was judged by it.")
    lost = not all(pair.original.losses for pair in comparison.pairs)
    if lost and metric is None:
        return Answer("not-checked", NOTHING_SEEN)
    note = " ".join(filter(None, (note, unseen(comparison))))
    if _in_bits(plan, comparison) and (not lost or comparison.pairs[0].original.parameters):
        equal = _all_equal(plan, comparison, lost=lost)
        if metric is None or metric.name not in comparison.varying:
            return equal.with_note(unseen(comparison))
        varies = f"{equal.reason} But {metric.name} varies from run to run, in the original, too."
        return _judge_spread(plan, comparison, metric).after(varies).with_note(note)
    if plan.promise == "bitwise":
        return _judge_bitwise(plan, comparison, metric).with_note(note)
    return _judge_results(plan, comparison, metric).with_note(note)


def _judge_results(plan: Plan, comparison: Comparison, metric: metrics.Series | None) -> Answer:
    """Bits may differ: what the runs end with is judged, and how they begin."""
    bits, of_bits = _judge_bits(plan, comparison) if plan.bitwise is not None else ("equal", "")
    if bits == "different":
        return Answer("different", of_bits)
    if plan.promise == "training":
        margin = plan.margin if metric is not None or plan.metric is None else None
        shown = Summary.of(comparison.pairs, comparison.confidence, margin, metric)
        why = "A change of the training was asked for: its results are shown, and not judged as equal."
        return Answer("not-checked", why, shown).after(of_bits)
    moved = _apart(plan, comparison)
    if moved is not None and moved.equality == "different":
        return moved
    answer = _judge_spread(plan, comparison, metric).after("" if moved is None else moved.reason).after(of_bits)
    other = _figure_moved(plan, comparison, metric)
    answer = answer.with_note(other)
    if (bits == "unknown" or moved is not None or other) and answer.equality == "non-inferior":
        answer = replace(answer, equality="inconclusive")
    return answer


def _in_bits(plan: Plan, comparison: Comparison) -> bool:
    """Whether all pairs are equal bit for bit; what is in files counts only where all bits were promised."""
    varying = comparison.varying
    if plan.promise == "bitwise":
        return comparison.unequal is None
    return all(pair.equal and varying.issuperset(pair.metrics_that_differ) for pair in comparison.pairs)


def _all_equal(plan: Plan, comparison: Comparison, *, lost: bool) -> Answer:
    """No pair differs in a bit; but the pair that ran whole may, beyond where the others were cut."""
    whole = comparison.whole
    if whole is not None and comparison.whole_differs and plan.promise != "training":
        differs = _difference(whole, comparison.varying)
        return Answer("inconclusive", f"Runs that were cut are equal bit for bit, but of whole ones: {differs}")
    where, final = "", "final parameter"
    if comparison.basis != "whole":
        where, final = f" after {comparison.iterations} iterations", "parameter"
    too = "" if whole is None else ", and so it is in one whole run"
    if lost:
        return Answer("equal", f"No loss was seen; every {final}{where} and every metric is equal bit for bit{too}.")
    if not comparison.pairs[0].original.parameters:
        no_optimizer = "no optimizer was seen, so parameters were not compared"
        return Answer("equal", f"Every loss{where} is equal bit for bit{too}; {no_optimizer}.")
    equal = f"Every loss and every {final}{where} is equal bit for bit{too}."
    other = comparison.unequal
    if other is not None:
        return Answer(
            "non-inferior", f"{equal} {other.beside(comparison.varying)[0]} is not, as far as it was compared."
        )
    return Answer("equal", equal)


def _metric(plan: Plan, comparison: Comparison) -> tuple[metrics.Series | str | None, str]:
    """The metric to judge by, why there is none, or None for the losses; and a sentence on what is not judged."""
    first = comparison.pairs[0].original
    found = metrics.chosen(first) if plan.metric is None else metrics.asked(first, plan.metric, plan.higher)
    if comparison.basis != "whole":
        if found is None or not first.losses:
            return None, ""
        name = plan.metric if isinstance(found, str) else found.name
        return None, f"Runs were cut, so their losses were judged; --full judges {name}."
    if not isinstance(found, metrics.Series):
        return found, ""
    if any(metrics.same_in(run, found) is None for pair in comparison.pairs for run in (pair.original, pair.rewritten)):
        missing = f"{found.name} was not found in every run"
        return (None, f"{missing}, so losses were judged.") if first.losses else (f"{missing}.", "")
    finals = {figure(run, found) for pair in comparison.pairs for run in (pair.original, pair.rewritten)}
    if len(finals) == 1 and len(comparison.pairs) >= MIN_SEEDS and plan.margin is None and first.losses:
        return None, f"{found.name} is the same in every run, so losses were judged."
    return found, ""


def _judge_bits(plan: Plan, comparison: Comparison) -> tuple[Bits, str]:
    """Whether the bitwise changes alone compute the same, bit for bit, as far as the check or the control tells."""
    check = comparison.check
    whose = "" if plan.bitwise is None else "with the changes alone that promise the same bits, "
    if check is not None:
        differs = _difference(check.pair, check.varying)
        if differs is None:
            return "equal", f"Under deterministic algorithms {whose}every bit is equal over {_reach(check)}."
        if check.repeated is None:
            return (
                "unknown",
                "Bits differ under deterministic algorithms; the original was not run again beside itself.",
            )
        if check.repeated.equal:
            return "different", f"Under deterministic algorithms, {whose}{differs[0].lower()}{differs[1:]} {REPEATS}"
        return "unrepeatable", NOT_REPEATABLE
    if plan.bitwise is not None:
        return "unknown", "The changes that promise the same bits were not compared alone."
    unequal, repeated = comparison.unequal, comparison.repeated
    if unequal is None or repeated is None:
        return "unknown", "The original was not run again beside itself."
    if repeated.equal:
        return "different", f"{_difference(unequal, comparison.varying)} {REPEATS}"
    return "unrepeatable", NOT_REPEATABLE


def _judge_bitwise(plan: Plan, comparison: Comparison, metric: metrics.Series | None) -> Answer:
    """Plain pairs are not all equal; what that means is told by the check, else by the control."""
    bits, of_bits = _judge_bits(plan, comparison)
    if bits == "different":
        return Answer("different", of_bits)
    unequal, repeated = comparison.unequal, comparison.repeated
    if unequal is None:  # in what was seen, which is less than losses and parameters
        return _judge_spread(plan, comparison, metric)
    if bits == "equal" and comparison.check is not None:
        at = unequal.first_difference
        seen = _seen(comparison.check, unequal)
        if repeated is not None and repeated.equal and (at is None or at >= seen):
            return Answer("different", f"{_difference(unequal, comparison.varying)} {REPEATS} {of_bits}")
    spread = _judge_spread(plan, comparison, metric).after(of_bits)
    if bits == "equal" and spread.equality != "different":
        own = ", as the original's own do" if repeated is not None and not repeated.equal else ""
        return Answer("equal", f"{of_bits} Without them results differ{own}.", spread.summary)
    if bits == "unknown" and spread.equality == "non-inferior":
        return replace(spread, equality="inconclusive")
    return spread


def _difference(pair: Pair, varying: Collection[str] = ()) -> str | None:
    """Where two runs begin to differ, in a sentence; None where they are equal bit for bit."""
    at = pair.first_difference
    if at is not None:
        return (
            f"Losses differ from iteration {at + 1} on ({pair.original.losses[at]!r} in the original, "
            f"{pair.rewritten.losses[at]!r} in the rewritten script)."
        )
    if pair.lengths_differ:
        return f"There are {len(pair.rewritten.losses)} losses, and {len(pair.original.losses)} in the original."
    if pair.parameters_differ:
        return "Every loss is equal, but final parameters differ."
    names = pair.beside(varying)
    return f"Every loss and every final parameter is equal, but {names[0]} differs." if names else None


def _reach(check: Check) -> str:
    """How far the check went."""
    iterations = len(check.original.losses)
    begun = sum(each.iterations > 0 for each in check.original.passes)
    ended = len(training_passes(check.original)) if check.original.cut else begun
    epochs = f", {begun} epochs begun" if begun > 1 else ", within the first epoch" if begun > ended else ""
    return f"{iterations} iterations{epochs}"


def _seen(check: Check, pair: Pair) -> int:
    """The iterations of a plain run that the check went through, too: no more than its first epoch if that was cut."""
    first, whole = (
        next((each.iterations for each in run.passes if each.iterations), None)
        for run in (check.original, pair.original)
    )
    return first if first is not None and whole is not None and first < whole else len(check.original.losses)


def _figure_moved(plan: Plan, comparison: Comparison, judged: metrics.Series | None) -> str:
    """That a figure by which nothing was judged is another one, in a sentence; empty where none is."""
    if plan.promise != "precision" or comparison.repeated is None:
        return ""  # what the clock moves cannot be told from the rest
    pairs = comparison.pairs
    runs = [run for pair in pairs for run in (pair.original, pair.rewritten)]
    for series in metrics.of_run(runs[0]):
        if series.compared and series.name not in comparison.varying and (judged is None or series.name != judged.name):
            known = all(metrics.same_in(run, series) is not None for run in runs)
            moved = Summary.of(pairs, comparison.confidence, None, series) if known else None
            luck = 0.0 if moved is None else MARGIN_SPREADS * moved.spread
            if moved is not None and _matters(plan, moved) and max(moved.low, -moved.high) > luck:
                return f"But {series.name} is {moved.rewritten:.4g} against the original's {moved.original:.4g}."
    return ""


def _apart(plan: Plan, comparison: Comparison) -> Answer | None:
    """That losses come apart sooner than another precision explains; None where they do not, or nothing tells."""
    repeated = comparison.repeated
    if plan.redrawn or plan.promise != "precision" or repeated is None or not comparison.pairs[0].original.losses:
        return None
    explained = f"; what was changed explains at most {plan.tolerance:g}."
    first = max(pair.first_loss_distance for pair in comparison.pairs)
    if first > max(plan.tolerance, OWN * repeated.first_loss_distance):
        return Answer("different", f"The first losses differ by {first:.2g} relative to their size{explained}")
    early, start = (fmean(pair.distance(part) for pair in comparison.pairs) for part in (EARLY, START))
    if start <= max(plan.tolerance, OWN * repeated.distance(START)):
        return None
    apart = f"Losses of iterations 2 to {START.stop} differ by {start:.2g} relative to their size"
    if early < CALM * plan.tolerance:
        grown = f", and by {early:.2g} until iteration {EARLY.stop}: a chaotic training does that, and a mistake may."
        return Answer("inconclusive", f"{apart}{grown}")
    return Answer("different", f"{apart}{explained}")


def _judge_spread(plan: Plan, comparison: Comparison, metric: metrics.Series | None) -> Answer:
    """Non-inferiority of the metric, or of the last tenth of the losses, beside the original's spread over seeds."""
    pairs = comparison.pairs
    margin = plan.margin if metric is not None or plan.metric is None else None  # it is the metric's
    summary = Summary.of(pairs, comparison.confidence, margin, metric)
    if summary is None:
        few = f"fewer than {MIN_SEEDS} pairs say nothing of a spread"
        why = few if len(pairs) < MIN_SEEDS else "what they end with is not finite"
        return Answer("inconclusive", f"Results differ, and {why}.")
    if summary.margin == 0:
        why = "the original shows no spread over its seeds to judge by"
        return Answer("inconclusive", f"Results differ, and {why}: --margin sets what may be.", summary)
    figures = (
        f"{summary.name} is {summary.rewritten:.4g} against the original's {summary.original:.4g}, "
        f"{_worse(summary)} with a margin of {summary.margin:.3g}{_origin(summary) if margin is None else ''}."
    )
    luck = MARGIN_SPREADS * summary.spread if margin is None else margin
    if summary.low > luck or summary.high < -luck:
        # Much better is no more "the same" than much worse: perhaps the loss itself was changed.
        reason = f"The rewritten script ends {_end(summary)} than luck explains: {figures}"
        return Answer("different", reason, summary)
    if margin is None and _matters(plan, summary):
        reason = f"The rewritten script ends systematically {_end(summary)}, and only --margin can tell what matters"
        return Answer("inconclusive", f"{reason}: {figures}", summary)
    if summary.high >= summary.margin:
        reason = (
            f"Results differ, and these pairs cannot tell whether it matters: {figures} "
            f"They could have told with a margin of {summary.resolvable:.3g}."
        )
        return Answer("inconclusive", reason, summary)
    if metric is not None and pairs[0].original.losses:
        moved = _losses_moved(plan, comparison)
        if moved is not None:
            return replace(moved, reason=f"{figures[0].upper()}{figures[1:]} {moved.reason}", summary=summary)
    if summary.systematic:
        small = f"less than {100 * plan.tolerance:g} %" if margin is None else "less than the margin"
        reason = f"The rewritten script ends {_end(summary)}, systematically but by {small}: {figures}"
        return Answer("non-inferior", reason, summary)
    return Answer("non-inferior", f"Results differ no more than by luck: {figures}", summary)


def _losses_moved(plan: Plan, comparison: Comparison) -> Answer | None:
    """That losses move although the metric does not: it is coarse, and another loss altogether is no matter of luck."""
    losses = Summary.of(comparison.pairs, comparison.confidence)
    if losses is None:
        return None
    moved = f"But {losses.name} is {in_words(losses.worse)}"
    if 0 < MARGIN_SPREADS * losses.spread < max(losses.low, -losses.high):
        return Answer("different", f"{moved}, more than luck explains.")
    if plan.margin is None and _matters(plan, losses):
        return Answer(
            "inconclusive",
            f"{moved} (between {in_words(losses.low)} and {in_words(losses.high)}), which is systematic.",
        )
    return None


def _matters(plan: Plan, summary: Summary) -> bool:
    """Whether results are moved in one direction, and by more than what was changed explains.

    Both runs of a pair share their seed, so what seeds do to the original, however much, is no excuse.
    """
    return summary.systematic and summary.relative > plan.tolerance


def _end(summary: Summary) -> str:
    return "worse" if summary.worse > 0 else "better"


def _origin(summary: Summary) -> str:
    """What the default margin is, in words that follow it."""
    spread = MARGIN_SPREADS * summary.spread
    if spread <= summary.margin:
        return f", {MARGIN_SPREADS:g} standard deviations of the original over its seeds"
    part = f", {100 * MARGIN_PART:g} % of the original's"
    if summary.spread <= summary.margin:
        return part
    moved = 100 * MARGIN_PART * summary.spread / summary.margin
    return f"{part} (seeds move it by {moved:.0f} %: they change the problem, not luck; --margin states what matters)"


def _worse(summary: Summary) -> str:
    """How much worse or better, with its bounds."""
    return f"{in_words(summary.worse)} (between {in_words(summary.low)} and {in_words(summary.high)})"


def in_words(worse: float) -> str:
    """``worse by 0.01``, ``better by 0.01``: a reader need not know which sign is good."""
    return f"{'better' if worse < 0 else 'worse'} by {abs(worse):.3g}"
