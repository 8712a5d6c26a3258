"""Three separate answers: did it run, is it faster, does it compute the same. "Not checked" never reads as "passed"."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from autotune_rewrite.project.revisions import named
from autotune_rewrite.verify.cures import cure
from autotune_rewrite.verify.equality import Equality, judge_equality
from autotune_rewrite.verify.statistics.measurement import UNSTEADY, Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.comparison import Basis, Comparison
    from autotune_rewrite.verify.plan import Plan, PromiseName, Side
    from autotune_rewrite.verify.records import Environment, Outcome, Run
    from autotune_rewrite.verify.statistics.ratio import Ratio
    from autotune_rewrite.verify.statistics.seeds import Summary

Speed = Literal["faster", "no-difference", "slower", "inconclusive", "not-checked"]

FASTER = 1.01
"""The whole interval lies above it."""
SLOWER = 0.99
"""The whole interval lies below it."""
SAME = (0.97, 1.03)
"""The whole interval lies inside."""
ENDING = (1.0, 0.05)
"""Seconds, and the part of the run, above which it is said that one side's process takes longer to end."""
LEANS = 0.9
"""An inconclusive ratio below it leans so far to slower that nothing is written: noise alone seldom takes a tenth."""
WAITING, STARTING, EVALUATING = 0.25, 0.5, 0.3
"""The parts of the rewritten script's time above which data, its start or evaluation are what limits it."""

SIMULATED = "The CUDA device was simulated on the CPU"
ENDED: dict[Outcome, str] = {
    "ok": "ended well",
    "crashed": "ended by an exception",
    "exited": "ended with an exit status other than 0",
    "killed": "was ended by a signal",
    "vanished": "left before its end without a trace (os._exit?)",
    "out-of-memory": "ran out of memory",
    "timed-out": "did not end in time",
    "interrupted": "was interrupted",
}
"""What follows "the … script" where the run itself has no words for it."""
ADVICE: dict[Outcome, str] = {
    "out-of-memory": "A smaller batch needs less memory.",
    "timed-out": "If it needs longer, --timeout gives it more time.",
    "vanished": "Only a script that comes to its end can be judged.",
}
NOT_TIMED: tuple[Speed, str] = ("not-checked", f"{SIMULATED}, which says nothing about speed.")


@dataclass(frozen=True, slots=True)
class Base:
    """What was compared, where the original is that of a git revision."""

    revision: str
    """As the user named it."""
    commit: str
    original: str
    """The script at that commit."""
    rewritten: str
    """That of the working tree."""
    uncommitted_changes: bool
    """Whether the working tree has some."""
    differing: int = 0
    """Files that are not the same on both sides."""
    used: tuple[str, ...] = ()
    """Of them, the scripts and the modules that runs imported, by their paths in the repository."""

    @property
    def then(self) -> str:
        """The original: ``train.py at 1a2b3c4 (main~2)``."""
        return f"{self.original} at {named(self.commit, self.revision)}"

    @property
    def now(self) -> str:
        """What stands beside it."""
        return f"{self.rewritten} in the working tree{', with uncommitted changes' * self.uncommitted_changes}"


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
    of_pairs: tuple[float, ...] = ()
    """The ratio of each of them, of which ``whole`` is the mean."""
    in_turns: int = 0
    """Of them, those in which one script was stopped while the other ran."""
    reach: int | None = None
    """After how many iterations what was compared ends; None where whole runs were."""
    losses: int = 0
    """Losses that were recorded in each of the original's runs, at least."""
    output: tuple[str, ...] = ()
    """The last lines of the run that failed."""
    environment: Environment = field(default_factory=dict)
    applied: tuple[str, ...] = ()
    """The rules that were applied, where that is known."""
    not_measured: tuple[str, ...] = ()
    """Those that cannot act on this device, and in brackets the lines where others cannot."""
    captured_only: bool = False
    """Whether ``torch.compile`` captured graphs and ran them as they are, as on a simulated device."""
    sized: str = ""
    """What was done to keep to the time budget, in a sentence; else empty."""
    noise: float | None = None
    """By which part two runs of the original are apart in time, in the mean; None with fewer than two pairs."""
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
    base: Base | None = None
    """The revision of the original; None: it is a script of now."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Rules that a rewrite gave up because of what their changes did, each with that in a sentence."""

    @property
    def exit_code(self) -> int:
        """0 for a pass, 1 for any other judgement, 2 where a run failed, 130 where the user ended it, as shells do."""
        if self.interrupted:
            return 130
        if self.run != "ok":
            return 2
        return 0 if self.fit and (self.simulated or self.speed in ("faster", "no-difference")) else 1

    @property
    def tells_enough(self) -> bool:
        """Whether more pairs of runs could not change the answers, but for their digits."""
        return self.speed != "inconclusive" and self.equality != "inconclusive"

    @property
    def fit_but_slower(self) -> bool:
        """Whether the rewritten script runs and computes the same, and is slower for certain."""
        return self.run == "ok" and self.equality in ("equal", "non-inferior") and self.speed == "slower"

    @property
    def fit(self) -> bool:
        """Whether the rewritten script may be written: it runs, computes the same and is not slower.

        An inconclusive speed is said, and not punished unless its ratio is far on the slower side.
        """
        leans = self.speed == "inconclusive" and self.whole is not None and self.whole.estimate < LEANS
        same = self.equality in ("equal", "non-inferior")
        return self.run == "ok" and same and self.speed != "slower" and not leans


def judge(plan: Plan, comparison: Comparison, environment: Environment) -> Judgement:
    """Judges runs that all went well.

    Args:
        plan: What was asked.
        comparison: At least one pair.
        environment: Of the runs.
    """
    timed = plan.simulated is None
    sides = [[getattr(pair, side) for pair in comparison.pairs] for side in ("original", "rewritten")]
    original, rewritten = Figures.of(*sides), Figures.of(*reversed(sides))
    whole, iteration = (comparison.run, comparison.iteration) if timed else (None, None)
    speed, of_speed = NOT_TIMED if whole is None else judge_speed(comparison, whole, iteration)
    answer = judge_equality(plan, comparison)
    unsteady = _unsteady(original, rewritten) if timed else ""
    ending = _ending(original, rewritten) if timed else ""
    return Judgement(
        run="ok",
        speed=speed,
        equality=answer.equality,
        reason=" ".join(filter(None, (answer.reason, of_speed, ending, unsteady))),
        promise=plan.promise,
        iteration=iteration,
        whole=whole,
        basis=comparison.basis if timed else None,
        pairs=len(comparison.pairs),
        of_pairs=comparison.of_pairs if timed else (),
        in_turns=sum(pair.original.in_turns for pair in comparison.pairs),
        reach=comparison.reach,
        losses=min(len(pair.original.losses) for pair in comparison.pairs),
        break_even=comparison.break_even if timed else None,
        noise=comparison.noise if timed else None,
        environment=environment,
        not_measured=plan.not_measured if timed else (),
        blamed=_blamed(plan, [answer.reason]) if answer.equality == "different" else (),
        simulated=not timed,
        original=original if timed else None,
        rewritten=rewritten if timed else None,
        summary=answer.summary,
        over_tf32=comparison.over_tf32 if timed else None,
        limits=_limits(rewritten, whole=comparison.basis == "whole") if timed else "",
        left_running=max(run.left_running for run in comparison.runs),
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
    reason = f"The {failed.side} script {failed.problem or ENDED[failed.outcome]}."
    if other is not None:
        reason += f" The {other.side} script {other.problem or ENDED[other.outcome]}, too."
    own = failed.side == "rewritten" and other is None and failed.outcome != "interrupted"
    blamed = _blamed(plan, (*failed.output, failed.problem)) if own else ()
    if blamed:
        reason += f" That points to {' and '.join(blamed)}."
    elif failed.outcome == "out-of-memory" and own:
        reason += " The original does not."
    elif failed.outcome in ADVICE and failed.ended != "finished":
        reason += f" {ADVICE[failed.outcome]}"
    else:
        reason = " ".join(filter(None, (reason, cure(plan, failed.output))))
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
        interrupted=failed.outcome == "interrupted",
        left_running=max(run.left_running for run in (failed, other or failed)),
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


def judge_speed(comparison: Comparison, whole: Ratio, iteration: Ratio | None) -> tuple[Speed, str]:
    """Whether the whole run is faster at the script's own length, and why.

    Args:
        comparison: At least one pair.
        whole: Its ratio of whole runs.
        iteration: Its ratio of iterations.
    """
    word = speed_word(whole)
    disturbed = _disturbed(comparison)
    alone = _only_pair(whole, comparison.basis) if len(comparison.pairs) == 1 else ""
    if disturbed:
        return "inconclusive", " ".join(filter(None, (alone, disturbed)))
    if alone:
        return word, alone
    if comparison.basis == "extrapolated":
        first = comparison.of_whole_pair
        if first is not None and _contradicts(first, word):
            return "inconclusive", (
                f"Extrapolated from runs that were cut the ratio is {whole.estimate:.2f}, but the pair that ran whole "
                f"was {first.estimate:.2f} times as fast: iterations after the cut take another time."
            )
        return word, f"Speed is extrapolated from runs that were cut to the script's {comparison.length} iterations."
    if comparison.basis == "whole":
        if word == "inconclusive" and whole.resolution is not None:
            seen = f"below {100 * whole.resolution:.1f} %"
            return word, f"The runs vary too much to see a change {seen}: more pairs or longer runs may show it."
        return word, "Speed is that of whole runs."
    # A whole run's ratio lies between that of the run as it was cut and that of an iteration, whatever its length.
    if iteration is not None and speed_word(iteration) == word != "inconclusive":
        return word, (
            f"Runs were cut after {comparison.iterations} iterations; the script's own length is not known, but both "
            "ratios say the same as long as iterations stay as long as these."
        )
    return (
        "inconclusive",
        "Runs were cut, and how a whole run compares depends on the script's length, which is not known.",
    )


def _only_pair(seen: Ratio, basis: Basis) -> str:
    """What a single pair says, in a sentence."""
    if seen.estimate < SAME[0]:
        what = f"took {1 / seen.estimate:.2f} times as long as the original"
    elif seen.estimate > SAME[1]:
        what = f"was {seen.estimate:.2f} times as fast as the original"
    else:
        what = "took as long as the original"
    how = {"whole": "", "extrapolated": ", extrapolated to its own length,", "cut": ", as far as it was run,"}[basis]
    return (
        f"In the only pair of runs the rewritten script{how} {what}: one pair shows no spread, so how much of that is "
        "noise is not known."
    )


def _contradicts(seen: Ratio, word: Speed) -> bool:
    """Whether one whole pair says another thing than cut runs do, by more than its own noise explains."""
    if word == "faster":
        return seen.estimate < SAME[0]
    if word == "slower":
        return seen.estimate > SAME[1]
    return abs(seen.estimate - 1) > UNSTEADY


def _disturbed(comparison: Comparison) -> str:
    """Why times of the two sides cannot be compared, in a sentence; empty where they can."""
    sides = [[pair.original.gpu for pair in comparison.pairs], [pair.rewritten.gpu for pair in comparison.pairs]]
    foreign = [any(gpu is not None and gpu.shared for gpu in side) for side in sides]
    if foreign[0] != foreign[1]:
        which = "original" if foreign[0] else "rewritten script"
        return f"Other programs computed on the GPU during runs of the {which} alone: their times cannot be compared."
    if comparison.basis == "whole":
        left = [
            min(getattr(pair, side).left_running for pair in comparison.pairs) for side in ("original", "rewritten")
        ]
        if left[1] > left[0]:
            return f"The rewritten script left {left[1]} processes running, whose work was not timed."
    # The cap on power that a run's own work reaches is a part of how fast it is: 16-bit products reach it sooner.
    reasons_of = [[set() if gpu is None else {*gpu.throttled} - {"power"} for gpu in side] for side in sides]
    held = [2 * sum(map(bool, side)) >= len(side) for side in reasons_of]
    if held[0] != held[1]:
        reasons = sorted(set().union(*reasons_of[held.index(True)]))
        which = "original" if held[0] else "rewritten script"
        return (
            f"The GPU's clock was held back ({', '.join(reasons)}) during runs of the {which} alone: "
            "their times cannot be compared."
        )
    return ""


def _unsteady(original: Figures, rewritten: Figures) -> str:
    """A sentence on runs whose pace changed, and on a GPU that was shared; empty where there is nothing to say."""
    notes = []
    sides = [side for side, figures in (("original", original), ("rewritten", rewritten)) if not figures.steady]
    if sides:
        whose = "both scripts" if len(sides) > 1 else f"the {sides[0]} script"
        notes.append(
            f"Runs of {whose} are not steady: the halves of what was timed differ by more than {100 * UNSTEADY:.0f} %, "
            "or compiling went on too long."
        )
    if original.gpu is not None and original.gpu.shared:
        notes.append("Other programs computed on the GPU: do not trust the times.")
    return " ".join(notes)


def _ending(original: Figures, rewritten: Figures) -> str:
    """A sentence on a process that ends much later than its script, unless the other side's does, too; else empty."""
    ends = {"original": original.exit_seconds or 0.0, "rewritten": rewritten.exit_seconds or 0.0}
    later, other = sorted(ends, key=lambda side: -ends[side])
    longer = ends[later] - ends[other]
    run = (original if later == "original" else rewritten).run_seconds
    if longer <= max(ENDING[0], ENDING[1] * run):
        return ""
    return (
        f"The {later} script's process took {ends[later]:.1f} s longer to end than the script itself, the {other} "
        f"script's {ends[other]:.1f} s: times of whole runs hold that."
    )


def _limits(figures: Figures, *, whole: bool) -> str:
    """What takes most of the time, in a sentence; empty where nothing stands out."""
    start = (figures.start_seconds or 0.0) / figures.run_seconds if figures.run_seconds else 0.0
    if whole and start > STARTING:
        return f"{100 * start:.0f} % of the rewritten script's time passes before its first backward call."
    if figures.waiting is not None and figures.waiting > WAITING:
        return f"The rewritten script waits for data in {100 * figures.waiting:.0f} % of the time."
    epoch, evaluation = figures.epoch_seconds, figures.evaluation_seconds
    if epoch is not None and evaluation is not None and evaluation > EVALUATING * (epoch + evaluation):
        part = 100 * evaluation / (epoch + evaluation)
        return f"The rewritten script spends {part:.0f} % of the time of an epoch in evaluating."
    return ""
