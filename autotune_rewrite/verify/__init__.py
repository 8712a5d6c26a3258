"""Runs the original and the rewritten script and says whether one is faster and computes the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotune_rewrite.verify import records as stored
from autotune_rewrite.verify import turns
from autotune_rewrite.verify.allowance import Allowance
from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.judgement import Base, Judgement, judge, judge_failure
from autotune_rewrite.verify.plan import FIRST_LOOK, Plan, Side, Turn, VerifyError
from autotune_rewrite.verify.records import Run
from autotune_rewrite.verify.run import probe, run_in_turns, run_script
from autotune_rewrite.verify.statistics.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.records import Environment
    from autotune_rewrite.verify.statistics.pairs import Pair

__all__ = ["Judgement", "Plan", "Progress", "VerifyError", "judge_again", "may_take_turns", "verify"]

FEWEST_ITERATIONS = 40
"""Of runs that are cut to keep to the time budget."""
FEWEST_BATCHES = 5
"""Of an epoch that is cut so that a second one is reached."""
TF32_RUNS = 4
"""Of the original with TF32 in its matrix products, at most: a second baseline needs no more."""
BUSY = 0.9
"""The part of a script's time, at least, in which its main thread is busy where both run in turns: what waits (for a
disk, a server, workers) goes on waiting while it is stopped, and that would not be timed."""
MEMORY = 0.8
"""The part of the free memory that two scripts may take together."""
CHECK_SHARE = 1 / 8
"""The part of the time budget that each run of a look at the bits may take."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run that starts now, or goes on."""

    number: int
    """From 1."""
    total: int
    """How many runs there are until it is judged whether they are enough."""
    side: Side
    iterations: int = 0
    """Backward calls seen so far; 0 where the run starts now."""
    per_second: float = 0.0
    """Iterations, lately; 0 where that is not known."""
    seconds_left: float | None = None
    """Of all runs together, as far as is known."""


def verify(
    plan: Plan,
    progress: Callable[[Progress], None] | None = None,
    *,
    records: Path | None = None,
    on_run: Callable[[Run], None] | None = None,
    environment: Environment | None = None,
) -> Judgement:
    """Runs both scripts in pairs of fresh processes and judges them. Ctrl-C ends the runs, not the judging.

    Args:
        plan: What to compare.
        progress: Is told of each run before it starts, and about twice a second while it lasts.
        records: A directory that all records are written to.
        on_run: Is given each run when it has ended.
        environment: What is known of the device from runs before; None: it is asked first.

    Raises:
        VerifyError: The plan cannot be carried out, and nothing was run; or records cannot be written.
    """
    plan.check()
    series = _Series(plan, Allowance(plan.time_budget), progress, on_run)
    try:
        series.environment = probe(plan) if environment is None else environment
        series.run()
    except KeyboardInterrupt:  # between two runs; within one, the run ends with what was seen
        series.taken.append(Run("original", 0, "interrupted", "was interrupted between two runs", (), 0.0))
    if records is not None:
        stored.save(records, series.plan, series.environment, series.taken)
    return judged(series.plan, series.taken, series.environment)


def judge_again(records: Path, **changes: object) -> Judgement:
    """Judges runs of which only the records are left.

    Args:
        records: The directory that ``verify`` wrote them to.
        changes: Fields of the plan that are to be others now: ``margin``, ``metric``, ``higher``, ``promise``.

    Raises:
        VerifyError: The records cannot be read.
    """
    plan, environment, runs = stored.load(records)
    return judged(replace(plan, **changes), list(runs), environment)  # type: ignore[arg-type]


def judged(plan: Plan, runs: list[Run], environment: Environment) -> Judgement:
    """What can be said of the runs, in the order in which they were made."""
    comparison = Comparison.of(plan, runs)
    failed = [run for run in runs if run.outcome not in ("ok", "interrupted")]
    interrupted = any(run.outcome == "interrupted" for run in runs)
    if failed:
        # Where both sides fail, it is the original that has to be mended first.
        first = min(failed, key=lambda run: run.side != "original")
        other = next((run for run in failed if run.side != first.side), None)
        judgement = judge_failure(plan, first, other, len(comparison.pairs), environment)
    elif comparison.pairs:
        judgement = judge(plan, comparison, environment)
    else:
        judgement = judge_failure(plan, runs[-1], None, 0, environment)
    written = dict.fromkeys(path for run in runs for path in run.written)
    copies = tuple(run.copy for run in runs if run.copy)
    return replace(
        judgement,
        written=tuple(written),
        copies=copies,
        sized=plan.sized,
        base=_base(plan, runs),
        interrupted=interrupted,
        captured_only=plan.simulated is not None and any(run.compiles for run in runs),
    )


def _base(plan: Plan, runs: list[Run]) -> Base | None:
    """What was compared, where the original is that of a revision."""
    if plan.base is None:
        return None
    then = plan.base
    read = {str(then.script), str(plan.rewritten.resolve()), *(path for run in runs for path in run.imported)}
    used = sorted(path.relative_to(then.top).as_posix() for path in then.paths if str(path) in read)
    now = str(plan.rewritten)
    return Base(then.name, then.commit, str(then.typed), now, then.uncommitted, len(then.paths), used=tuple(used))


@dataclass(slots=True)
class _Series:
    """The runs of a plan, until there is something to say."""

    plan: Plan
    time: Allowance
    progress: Callable[[Progress], None] | None = None
    on_run: Callable[[Run], None] | None = None
    environment: Environment = field(default_factory=dict)
    taken: list[Run] = field(default_factory=list)
    _may_share: bool = True
    """Whether the two runs of a pair may be alive at once, as far as has been tried."""

    def run(self) -> None:
        """Takes pairs of runs until a look tells enough, all are taken, or one fails."""
        asked = self.plan.pairs
        # A run that alone takes the time of all the others tells how to size them.
        seconds = None if self.plan.full else self.plan.time_budget / 4
        if not self._pair(0, seconds):
            return
        first = self.taken[:2]
        original = next(run for run in first if run.side == "original")
        if self._leaves_more_than_pairs(original):
            self.time.reserved = 2 * CHECK_SHARE * self.plan.time_budget
        again = self._size(first)
        if not (self._pair(0) if again else self._second_baseline(0)):
            return
        for pair in range(1, self.plan.pairs + 1):
            if pair < self.plan.pairs and not self.time.holds_another_pair:
                self.plan = replace(self.plan, pairs=pair)  # what there is, is judged
            if pair in self.plan.looks and self._tells_enough(original):
                return
            if pair >= self.plan.pairs:
                break
            if not self._pair(pair):
                return
        if self.plan.pairs < asked:
            sized = f"Fewer pairs were run to keep to the time budget of {self.plan.time_budget:g} s."
            self.plan = replace(self.plan, sized=self.plan.sized or sized)

    def _tells_enough(self, original: Run) -> bool:
        """Whether more pairs could not change the answers; runs what else it takes to answer.

        Args:
            original: Its first run: how long an epoch is.
        """
        if self.plan.speed_only:
            return judged(self.plan, self.taken, self.environment).speed != "inconclusive"
        comparison = Comparison.of(self.plan, self.taken)
        promise, unequal = self.plan.promise, comparison.unequal
        seen = {run.kind for run in self.taken}
        if self.time.left <= 0:
            return True
        self.time.limit = self.time.left
        if unequal is not None and promise in ("bitwise", "precision") and "control" not in seen:
            # Does the original agree with itself? Only then does a difference say something about the rewritten.
            if not self._take(Turn("original", unequal.original.offset, "control")):
                return True
            comparison = Comparison.of(self.plan, self.taken)
        if "check" not in seen and self._leaves_bits_open(comparison, original) and not self._check(original):
            return True
        return judged(self.plan, self.taken, self.environment).tells_enough

    def _leaves_more_than_pairs(self, original: Run) -> bool:
        """Whether other runs are to be expected, by what the first pair has shown."""
        if self.plan.speed_only:
            return False
        comparison = Comparison.of(self.plan, self.taken)
        if comparison.unequal is not None and comparison.unequal.lengths_differ:
            return not _reaches_second_epoch(original)  # they were cut after some time
        return comparison.unequal is not None or self._leaves_bits_open(comparison, original)

    def _leaves_bits_open(self, comparison: Comparison, original: Run) -> bool:
        """Whether bits were promised, and the plain runs do not tell whether that is kept."""
        if comparison.unequal is None:
            return self.plan.promise == "bitwise" and not _reaches_second_epoch(original)
        if self.plan.promise != "bitwise":
            return self.plan.bitwise is not None
        # Without CUDA an original that repeats itself needs no deterministic algorithms for it.
        repeats = comparison.repeated is not None and comparison.repeated.equal
        return self._has_cuda() or not repeats

    def _take(self, turn: Turn, seconds: float | None = None, plan: Plan | None = None) -> bool:
        """Makes a run; whether it went well."""
        run = run_script(self._ending(plan or self.plan), turn, seconds, self._watch(turn))
        self.time.runs += run.wall_seconds
        if turn.kind != "pair" and self._was_ended([run]):
            return False  # which says nothing
        return self._keep(run)

    def _ending(self, plan: Plan) -> Plan:
        """The plan for a run that is ended where it takes longer than what was left, unless a timeout was asked for."""
        return plan if plan.timeout is not None else replace(plan, timeout=_upward(self.time.limit))

    def _keep(self, run: Run) -> bool:
        """Takes note of a run; whether it went well."""
        self.taken.append(run)
        if self.on_run is not None:
            self.on_run(run)
        return run.outcome == "ok"

    def _watch(self, turn: Turn) -> Callable[[int, float], None] | None:
        if self.progress is None:
            return None
        tell, number = self.progress, len(self.taken) + 1
        paired = sum(run.kind == "pair" for run in self.taken)
        next_look = next((look for look in self.plan.looks if 2 * look > paired), self.plan.pairs)
        total = max(number, len(self.taken) - paired + 2 * next_look)
        left = self.time.runs / len(self.taken) * (total - len(self.taken)) if self.taken else None

        def watch(iterations: int, per_second: float) -> None:
            tell(Progress(number, total, turn.side, iterations, per_second, left))

        watch(0, 0.0)
        return watch

    def _pair(self, pair: int, seconds: float | None = None) -> bool:
        """Makes the runs of a pair, and of the second baseline where there is one; whether all went well.

        A pair that is ended because the time is over says nothing, where there are others that were not.
        """
        before, spent = len(self.taken), self.time.spent
        self.time.limit = max(self.time.left, self.plan.time_budget * CHECK_SHARE)
        if self._runs_of_pair(pair, seconds):
            self.time.pairs.append(self.time.spent - spent)
            return True
        if self._was_ended(self.taken[before:]) and Comparison.of(self.plan, self.taken[:before]).pairs:
            del self.taken[before:]
            sized = f"The time budget of {self.plan.time_budget:g} s was over before another pair of runs had ended."
            self.plan = replace(self.plan, pairs=pair, sized=self.plan.sized or sized)
        return False

    def _was_ended(self, runs: Sequence[Run]) -> bool:
        """Whether one of them was, as the time is over."""
        return self.plan.timeout is None and self.time.left <= 0 and any(run.outcome == "timed-out" for run in runs)

    def _runs_of_pair(self, pair: int, seconds: float | None) -> bool:
        """The same, but for what follows from the time."""
        if self._could_take_turns() and self._pair_in_turns(pair, seconds):
            return all(run.outcome == "ok" for run in self.taken[-2:])
        for number, turn in enumerate(self.plan.pair_turns[pair]):
            well = self._take(turn, seconds)
            # A rewritten script that fails first says nothing as long as the original was not seen to work.
            if not well and (self.taken[-1].outcome == "interrupted" or turn.side == "original" or pair or number):
                return False
        if self.taken[-1].outcome != "ok" or self.taken[-2].outcome != "ok":
            return False
        return seconds is not None or self._second_baseline(pair)

    def _could_take_turns(self) -> bool:
        """Whether the two runs of a pair may be alive at once, by what the pair before has shown.

        What is stopped must not be waited for, nor go on waiting; one script must not see what the other one writes.
        """
        on_cpu = self.plan.simulated is None and not self.environment.get("cuda")
        if not (turns.POSSIBLE and on_cpu and self._may_share and not self.plan.launcher):
            return False
        pairs = Comparison.of(self.plan, self.taken).pairs
        if not pairs:
            return self.plan.takes_turns
        return may_take_turns(pairs[-1])

    def _pair_in_turns(self, pair: int, seconds: float | None) -> bool:
        """Makes the runs of a pair, one stopped while the other runs; whether they stand.

        Two scripts that are alive at once may want the same port, or the same file outside of their copies. Where they
        fail, or differ although the pair before did not, this pair and all after it are run one after the other. So
        they are where the first pair waits: what it waited for went on while it was stopped.
        """
        now, later = self.plan.pair_turns[pair]
        runs = run_in_turns(self._ending(self.plan), (now, later), self._watch(now), seconds)
        interrupted = any(run.outcome == "interrupted" for run in runs)
        both = Comparison.of(self.plan, runs).pairs
        alike = bool(both) and (_is_equal_so_far(both[0]) if seconds else both[0].equal)
        alike = alike and (bool(self.taken) or _is_busy(both[0]))
        self.time.runs += sum(run.wall_seconds for run in runs)
        if interrupted or alike or self._was_ended(runs):
            for run in runs:
                self._keep(run)
            return True
        self._may_share = False
        return False

    def _second_baseline(self, pair: int) -> bool:
        """Runs the original with TF32 beside a pair, where there is such a thing; whether it went well."""
        return pair >= TF32_RUNS or not self._has_tf32() or self._take(Turn("original", pair, "tf32"))

    def _has_cuda(self) -> bool:
        return self.plan.simulated is None and bool(self.environment.get("cuda"))

    def _has_tf32(self) -> bool:
        """Whether TF32 in matrix products is something that this device could have."""
        ampere = 8.0
        return self._has_cuda() and float(self.environment.get("capability", 0.0)) >= ampere

    def _check(self, original: Run) -> bool:
        """Looks at the bits: the original, and the changes that promise the same ones; whether the runs went well."""
        plan = self._plan_of_check(original)
        for side in ("original", "rewritten"):
            if not self._take(Turn(side, 0, "check"), plan=plan):
                return False
        check = Comparison.of(self.plan, self.taken).check
        if check is None or check.pair.repeats:
            return True
        return self._take(Turn("original", 0, "check"), plan=plan)

    def _plan_of_check(self, original: Run) -> Plan:
        """Runs that reach a second epoch within their share of the time; epochs are cut to that end."""
        share = min(self.plan.time_budget * CHECK_SHARE, self.time.left / 2)
        fitting = _iterations_within(original, share)
        limit = fitting if self.plan.iterations is None else min(fitting, self.plan.iterations)
        epoch = next((one for one in original.passes if one.iterations), None)
        if epoch is None:
            return replace(self.plan, iterations=limit)
        each = epoch.iterations / max(1, epoch.batches)
        if 2 * epoch.iterations <= limit and _reaches_second_epoch(original):
            return replace(self.plan, iterations=limit)
        batches = max(FEWEST_BATCHES, int(limit / each / 2))
        return replace(self.plan, iterations=max(1, round(2 * batches * each)), batches=batches)

    def _size(self, first: list[Run]) -> bool:
        """Keeps to the time budget by what the first pair took: fewer pairs, or runs that are cut.

        Returns:
            Whether the first pair has to be made again.
        """
        plan, budget = self.plan, self.plan.time_budget
        of_pair = sum(run.wall_seconds for run in first) * (1.5 if self._has_tf32() else 1)
        cut = any(run.cut and len(run.times) != plan.iterations for run in first)
        if not cut and of_pair * plan.pairs <= budget:
            return False
        fewest = min(plan.pairs, FIRST_LOOK)
        kept = f"to keep to the time budget of {budget:g} s"
        if not cut and (of_pair * fewest <= budget or plan.iterations is not None or plan.full):
            self.plan = replace(plan, pairs=max(fewest, int(budget / of_pair)))
            return False
        iterations = min(_iterations_within(run, self.time.for_pairs / (2 * fewest)) for run in first)
        if not cut and (iterations >= len(first[0].times) or self.time.for_pairs <= 0):
            self.plan = replace(
                plan, pairs=fewest, sized=f"Fewer pairs were run {kept}, which their start alone exceeds."
            )
            return False
        known = None if cut else len(first[0].times)
        sized = f"Runs were cut to {iterations} iterations {kept}."
        self.plan = replace(plan, pairs=fewest, iterations=iterations, length=plan.length or known, sized=sized)
        # Whole runs tell what cut ones cannot: which files and metrics there are, and how long the end takes.
        self.taken = [] if cut else [replace(run, kind="whole") for run in first]
        self.time.pairs.clear()  # the next ones are shorter
        return True


def may_take_turns(pair: Pair) -> bool:
    """Whether the runs of the next pair may be alive at once: these are equal, hardly waited, and fit into memory."""
    import psutil

    needed = sum(run.host_bytes for run in (pair.original, pair.rewritten))
    return pair.equal and _is_busy(pair) and needed < MEMORY * psutil.virtual_memory().available


def _is_equal_so_far(pair: Pair) -> bool:
    """Whether runs that may have been cut after some time differ in nothing but their length."""
    return pair.equal or (pair.lengths_differ and pair.first_difference is None)


def _is_busy(pair: Pair) -> bool:
    """Whether the main thread of both hardly ever waited."""
    return all(run.busy_seconds >= BUSY * run.script_seconds for run in (pair.original, pair.rewritten))


def _reaches_second_epoch(run: Run) -> bool:
    """Whether it began a second pass of training, or has no loader whose passes could be seen."""
    trained = [one for one in run.passes if one.iterations]
    return not trained or len(trained) > 1 or not run.cut


def _iterations_within(run: Run, seconds: float) -> int:
    """How many iterations of the script fit into so many seconds of a run, its start among them.

    Without a limit (``inf``) they are as many as the run had.
    """
    measurement = Measurement.of(run)
    each = measurement.iteration_seconds
    if not each:
        return FEWEST_ITERATIONS
    start = run.wall_seconds - measurement.iterations * each
    fitting = (seconds - start) / each
    return max(FEWEST_ITERATIONS, int(fitting) if math.isfinite(fitting) else len(run.times))


def _upward(seconds: float) -> float:
    """As it is told to the user."""
    return math.ceil(seconds) if math.isfinite(seconds) else seconds
