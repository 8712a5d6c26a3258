"""Two runs or two sets of runs side by side: figures, no words yet."""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import File, Run

CONFIDENCE = 0.95
LOOK_CONFIDENCE = 1 - 0.0294
"""Of each of two looks, after half and after all of the pairs: errors come to 5 % in all (Pocock's bounds)."""
MARGIN_SPREADS = 2.0
"""The margin of non-inferiority, in standard deviations of the original over its seeds: about what luck does to it."""
MARGIN_PART = 0.05
"""Of the original's figure, which that margin never exceeds: where a seed moves it by more, as where it draws the data,
the spread is that of the problem, and says nothing of luck."""
FIRST = slice(0, 1)
START = slice(1, 20)
"""The iterations over which losses that begin the same have to stay together, after the first one."""
EARLY = slice(1, 5)
"""The first of them, in which a difference has not had the time to grow by itself."""
DATA = (".npy", ".npz", ".safetensors", ".csv", ".json", ".pt", ".pth", ".ckpt", ".tar")
"""Files that hold results: of checkpoints, to whose state a rewrite may add, only the tensors were read."""
MIN_SEEDS = 3
"""Fewer say nothing about a spread."""

LAST_TENTH = "the mean of the last tenth of the losses"

Basis = Literal["whole", "extrapolated", "cut"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """The original's time divided by the rewritten script's: above 1 where the rewritten one is faster."""

    estimate: float
    low: float | None
    """Of the interval; None where one pair shows no spread."""
    high: float | None
    confidence: float = CONFIDENCE
    """Of the interval."""

    @classmethod
    def of(cls, originals: Sequence[float], rewritten: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
        """The geometric mean of the paired ratios with a t interval on their logarithms.

        Args:
            originals: Seconds, one for each pair.
            rewritten: Seconds, of the same pairs.
            confidence: Of the interval.
        """
        logs = [math.log(before / after) for before, after in zip(originals, rewritten, strict=True)]
        mean = statistics.fmean(logs)
        if len(logs) == 1:
            return cls(math.exp(mean), None, None, confidence)
        half = quantile_of_t((1 + confidence) / 2, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(mean), math.exp(mean - half), math.exp(mean + half), confidence)

    @property
    def resolution(self) -> float | None:
        """The smallest change, as a part of 1, that the interval could tell from none; None without an interval."""
        return None if self.high is None else self.high / self.estimate - 1


@dataclass(frozen=True, slots=True)
class Pair:
    """The two runs with one seed."""

    original: Run
    rewritten: Run

    @property
    def equal(self) -> bool:
        """Whether every loss and every final parameter is the same, bit for bit."""
        return not self.lengths_differ and self.first_difference is None and not self.parameters_differ

    @property
    def repeats(self) -> bool:
        """Whether they are equal, and so is every metric that they print or give to TensorBoard."""
        return self.equal and not self.metrics_that_differ

    @property
    def metrics_that_differ(self) -> tuple[str, ...]:
        """The names of those whose values differ."""
        return metrics.differing(self.original, self.rewritten)

    @property
    def files_that_differ(self) -> tuple[str, ...]:
        """The names, with ``#`` for numbers, of files of plain data that both wrote with other contents."""
        return tuple(name for name in self._other_contents if name.endswith(DATA))

    @property
    def other_contents(self) -> tuple[str, ...]:
        """As ``files_that_differ``, of other files: logs hold times.

        Source text is left out: scripts keep a copy of themselves beside their results.
        """
        return tuple(name for name in self._other_contents if not name.endswith((*DATA, ".py", ".pyc")))

    @property
    def _other_contents(self) -> tuple[str, ...]:
        before, after = (_contents(run.files) for run in (self.original, self.rewritten))
        return tuple(name for name in before if name in after and before[name] != after[name])

    def beside(self, varying: Collection[str]) -> tuple[str, ...]:
        """The metrics and files that differ, but for those in which the original differs from itself."""
        return tuple(name for name in (*self.metrics_that_differ, *self.files_that_differ) if name not in varying)

    @property
    def lengths_differ(self) -> bool:
        """Whether they have different numbers of losses."""
        return len(self.original.losses) != len(self.rewritten.losses)

    @property
    def parameters_differ(self) -> bool:
        """Whether any final parameter, or the number of optimizers, differs."""
        return self.original.parameters != self.rewritten.parameters

    @property
    def first_difference(self) -> int | None:
        """The first iteration whose losses differ, from 0; not-a-number equals itself."""
        losses = zip(self.original.losses, self.rewritten.losses, strict=False)
        different = (at for at, (a, b) in enumerate(losses) if a != b and not (math.isnan(a) and math.isnan(b)))
        return next(different, None)

    def distance(self, iterations: slice) -> float:
        """The mean relative difference of the losses of these iterations; infinite where only one side has a number.

        A loss that starts at zero by its construction, as PPO's, is small beside those that follow: differences are
        relative to the median of the first losses, where that is more than the loss itself.
        """
        losses = zip(self.original.losses[iterations], self.rewritten.losses[iterations], strict=False)
        sizes = [abs(loss) for loss in self.original.losses[: START.stop] if math.isfinite(loss)]
        usual = statistics.median(sizes) if sizes else 0.0
        distances = [_relative(a, b, usual) for a, b in losses]
        return _mean(distances) if distances else 0.0

    @property
    def first_loss_distance(self) -> float:
        """The relative difference of the first losses; infinite where only one of them is there, or is a number."""
        both = self.original.losses and self.rewritten.losses
        return self.distance(FIRST) if both else math.inf

    @property
    def diverged(self) -> bool:
        """Whether a loss of the rewritten script is not finite, and all of the original's are."""
        return all(map(math.isfinite, self.original.losses)) and not all(map(math.isfinite, self.rewritten.losses))


@dataclass(frozen=True, slots=True)
class Summary:
    """How much worse the rewritten script ends, over the seeds, beside what seeds do to the original itself.

    The figure of a run is the last value of its metric, or its mean loss over the last tenth of the iterations. Which,
    is chosen by the first run of the original alone.
    """

    worse: float
    """The mean over the pairs of how much worse the rewritten script's figure is than the original's."""
    low: float
    """Of the one-sided bounds."""
    high: float
    margin: float
    """How much worse is no worse: what was asked for, or a spread that is capped."""
    spread: float = 0.0
    """The standard deviation of the original's figures over its seeds."""
    name: str = LAST_TENTH
    """Of the figure: this, or the name of a metric."""
    higher: bool = False
    """Whether a higher figure is better."""
    original: float = math.nan
    """The mean of the original's figures."""
    rewritten: float = math.nan

    @classmethod
    def of(
        cls,
        pairs: Sequence[Pair],
        confidence: float = CONFIDENCE,
        margin: float | None = None,
        metric: metrics.Series | None = None,
    ) -> Summary | None:
        """The comparison, or None where there are too few seeds or a figure is not a number.

        Args:
            pairs: One for each seed.
            confidence: Of the bounds.
            margin: How much worse is no worse; None: so many of the original's standard deviations over its seeds, and
                no more than a small part of its figures.
            metric: By whose last value runs are judged; None: by their losses.
        """
        if len(pairs) < MIN_SEEDS:
            return None
        originals = [figure(pair.original, metric) for pair in pairs]
        rewritten = [figure(pair.rewritten, metric) for pair in pairs]
        if not all(map(math.isfinite, (*originals, *rewritten))):
            return None
        sign = -1 if metric is not None and metric.higher else 1
        differences = [sign * (after - before) for before, after in zip(originals, rewritten, strict=True)]
        worse = statistics.fmean(differences)
        half = quantile_of_t(confidence, len(pairs) - 1) * statistics.stdev(differences) / math.sqrt(len(pairs))
        spread = statistics.stdev(originals)
        usual = min(MARGIN_SPREADS * spread, MARGIN_PART * statistics.fmean(map(abs, originals)))
        return cls(
            worse,
            worse - half,
            worse + half,
            usual if margin is None else margin,
            spread,
            LAST_TENTH if metric is None else metric.name,
            higher=sign < 0,
            original=statistics.fmean(originals),
            rewritten=statistics.fmean(rewritten),
        )

    @property
    def systematic(self) -> bool:
        """Whether the rewritten script's figures are moved in one direction: the interval excludes zero."""
        return self.low > 0 or self.high < 0

    @property
    def relative(self) -> float:
        """The size of the shift as a part of the original's figure."""
        return _relative(self.original, self.rewritten, 0.0)

    @property
    def resolvable(self) -> float:
        """The smallest margin within which these runs could have been told to end."""
        return max(self.high, -self.low)


@dataclass(frozen=True, slots=True)
class Check:
    """Under deterministic algorithms, with one seed: the original, the bitwise changes alone, the original again."""

    original: Run
    rewritten: Run
    again: Run | None = None
    """None where it was not needed, as the first two are equal."""

    @property
    def pair(self) -> Pair:
        """The original beside the bitwise changes."""
        return Pair(self.original, self.rewritten)

    @property
    def repeated(self) -> Pair | None:
        """The original beside itself, where it was run again."""
        return None if self.again is None else Pair(self.original, self.again)

    @property
    def varying(self) -> tuple[str, ...]:
        """The metrics in which the original differs from itself."""
        return () if self.repeated is None else self.repeated.metrics_that_differ


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of runs that went well, and the original run once more where it was needed."""

    pairs: tuple[Pair, ...]
    control: Run | None = None
    """The original of ``unequal`` again, with the same seed."""
    length: int | None = None
    """The iterations of a whole run, where that is known although runs were cut."""
    confidence: float = CONFIDENCE
    """Of every interval."""
    check: Check | None = None
    """The look at the bits, where it was needed."""
    tf32: tuple[Run, ...] = ()
    """Runs of the original with TF32 in its matrix products, each with the seed of one of the pairs."""
    whole: Pair | None = None
    """The first pair, where it ran to its end before the others were cut."""

    @classmethod
    def of(cls, plan: Plan, runs: Sequence[Run]) -> Comparison:
        """What runs that went well say together.

        Args:
            plan: What was asked.
            runs: In the order in which they were made; of two with the same turn the later one counts. Those that are
                not ok, or whose other half is missing, are left out.
        """
        kinds: dict[str, list[Run]] = {}
        for run in runs:
            if run.outcome == "ok":
                kinds.setdefault(run.kind, []).append(run)
        originals, rewritten = (
            {run.offset: run for run in kinds.get("pair", ()) if run.side == side} for side in ("original", "rewritten")
        )
        whole = [[run for run in kinds.get("whole", ()) if run.side == side] for side in ("original", "rewritten")]
        checked = [[run for run in kinds.get("check", ()) if run.side == side] for side in ("original", "rewritten")]
        return cls(
            pairs=tuple(Pair(originals[at], rewritten[at]) for at in sorted(originals.keys() & rewritten.keys())),
            control=kinds["control"][-1] if "control" in kinds else None,
            length=plan.length,
            confidence=CONFIDENCE if len(plan.looks) == 1 else LOOK_CONFIDENCE,
            check=Check(checked[0][0], checked[1][0], *checked[0][1:2]) if all(checked) else None,
            tf32=tuple(kinds.get("tf32", ())),
            whole=Pair(whole[0][0], whole[1][0]) if all(whole) else None,
        )

    @property
    def runs(self) -> tuple[Run, ...]:
        """All that there are."""
        paired = [run for pair in self.pairs for run in (pair.original, pair.rewritten)]
        check = [] if self.check is None else [self.check.original, self.check.rewritten, self.check.again]
        whole = [] if self.whole is None else [self.whole.original, self.whole.rewritten]
        return tuple(run for run in (*paired, *whole, self.control, *check, *self.tf32) if run is not None)

    @property
    def originals(self) -> tuple[Run, ...]:
        """The original's plain runs: of the pairs, and the control."""
        return (*(pair.original for pair in self.pairs), *(() if self.control is None else (self.control,)))

    @property
    def whole_pairs(self) -> tuple[Pair, ...]:
        """Those that ran to their end: all, the first one alone, or none."""
        if self.basis == "whole":
            return self.pairs
        return () if self.whole is None else (self.whole,)

    @property
    def iterations(self) -> int:
        """Of each run, at least."""
        return min(len(run.times) for pair in self.pairs for run in (pair.original, pair.rewritten))

    @property
    def reach(self) -> int | None:
        """After how many iterations what was compared ends; None where whole runs were compared."""
        if self.basis == "whole" or (self.unequal is None and self.whole is not None and not self.whole_differs):
            return None
        return self.iterations

    @property
    def basis(self) -> Basis:
        """What ``run`` is the ratio of: whole runs, runs extrapolated to ``length``, or runs as they were cut."""
        if not any(pair.original.cut or pair.rewritten.cut for pair in self.pairs):
            return "whole"
        return "cut" if self.length is None else "extrapolated"

    @property
    def run(self) -> Ratio:
        """Of whole runs.

        ``import torch`` comes before the script's first line, and is the same work on both sides: every run is given
        the median of all, or its noise would hide what the script does in a short run.
        """
        return self._of_whole_runs([(pair.original, pair.rewritten) for pair in self.pairs])

    @property
    def noise(self) -> float | None:
        """By which part the two originals of a block are apart in time, in the mean; None with fewer than two pairs."""
        originals = [pair.original for pair in self.pairs]
        couples = zip(originals[::2], originals[1::2], strict=False)
        ratios = [self._of_whole_runs([couple]).estimate for couple in couples]
        return math.exp(statistics.fmean(abs(math.log(ratio)) for ratio in ratios)) - 1 if ratios else None

    @property
    def over_tf32(self) -> Ratio | None:
        """As ``run``, with the original's runs with TF32 in the place of its plain ones; None where there are none."""
        rewritten = {pair.rewritten.offset: pair.rewritten for pair in self.pairs}
        couples = [(run, rewritten[run.offset]) for run in self.tf32 if run.offset in rewritten]
        return self._of_whole_runs(couples) if couples else None

    def _of_whole_runs(self, couples: Sequence[tuple[Run, Run]]) -> Ratio:
        imports = statistics.median(run.import_seconds for couple in couples for run in couple)
        sides: tuple[list[float], list[float]] = ([], [])
        for couple in couples:
            for side, run, other, end in zip(sides, couple, reversed(couple), self._ends, strict=True):
                measurement = Measurement.of(run, other)
                seconds = imports + measurement.seconds_at(self.length or measurement.iterations)
                side.append(seconds + (max(0.0, end - measurement.end_seconds) if run.cut else 0.0))
        return Ratio.of(*sides, self.confidence)

    @property
    def _ends(self) -> tuple[float, float]:
        """Seconds that a whole run of either side goes on after its last backward call, which cut runs do not see."""
        if self.whole is None:
            return 0.0, 0.0
        return Measurement.of(self.whole.original).end_seconds, Measurement.of(self.whole.rewritten).end_seconds

    @property
    def of_whole_pair(self) -> Ratio | None:
        """Of the pair that ran whole before the others were cut."""
        if self.whole is None or self.basis == "whole":
            return None
        return self._of_whole_runs([(self.whole.original, self.whole.rewritten)])

    @property
    def break_even(self) -> float | None:
        """After how many iterations a longer start (workers, compiling) is paid back; infinite where it never is.

        None where the start is no longer, as far as can be told.
        """
        sides = self._measurements
        if len(self.pairs) == 1 or any(one.iteration_seconds is None for side in sides for one in side):
            return None
        each = [[one.iteration_seconds or 0.0 for one in side] for side in sides]
        starts = [
            [one.script_seconds - one.iterations * seconds for one, seconds in zip(side, iterations, strict=True)]
            for side, iterations in zip(sides, each, strict=True)
        ]
        longer = [after - before for before, after in zip(*starts, strict=True)]
        half = quantile_of_t((1 + self.confidence) / 2, len(longer) - 1) * statistics.stdev(longer)
        if statistics.fmean(longer) <= half / math.sqrt(len(longer)):
            return None
        gained = statistics.fmean(each[0]) - statistics.fmean(each[1])
        return statistics.fmean(longer) / gained if gained > 0 else math.inf

    @property
    def iteration(self) -> Ratio | None:
        """Of one iteration after the warm-up; None where a run had fewer than two."""
        sides = [[one.iteration_seconds for one in measurements] for measurements in self._measurements]
        known = [[seconds for seconds in side if seconds] for side in sides]
        if known != sides:
            return None
        return Ratio.of(known[0], known[1], self.confidence)

    @property
    def unequal(self) -> Pair | None:
        """The first pair that is not equal bit for bit: in losses, parameters, or what does not vary beside them."""
        varying = self.varying
        return next((pair for pair in self.pairs if not pair.equal or pair.beside(varying)), None)

    @property
    def own(self) -> Pair | None:
        """The original beside itself with the same seed, where it was run again."""
        if self.control is None:
            return None
        same = [pair.original for pair in self.pairs if pair.original.offset == self.control.offset]
        return Pair(same[0], self.control) if same else None

    @property
    def varying(self) -> frozenset[str]:
        """The metrics and files in which the original differs from itself with the same seed."""
        return frozenset() if self.own is None else frozenset(self.own.beside(()))

    @property
    def other_contents(self) -> tuple[str, ...]:
        """The files of any pair whose contents differ and are not judged, as far as the original repeats them."""
        own = () if self.own is None else self.own.other_contents
        pairs = self.whole_pairs or self.pairs
        return tuple(dict.fromkeys(name for pair in pairs for name in pair.other_contents if name not in own))

    @property
    def repeated(self) -> Pair | None:
        """The original beside itself, where it was run again and a difference is to be explained."""
        return None if self.unequal is None else self.own

    @property
    def whole_differs(self) -> bool:
        """Whether the pair that ran whole beside cut ones differs, in more than figures that nobody knows to vary."""
        if self.whole is None:
            return False
        known = [name for name in self.whole.metrics_that_differ if metrics.direction(name) is not None]
        return not self.whole.equal or not self.varying.issuperset(known)

    @property
    def _measurements(self) -> tuple[list[Measurement], list[Measurement]]:
        originals = [Measurement.of(pair.original, pair.rewritten) for pair in self.pairs]
        return originals, [Measurement.of(pair.rewritten, pair.original) for pair in self.pairs]


def figure(run: Run, metric: metrics.Series | None) -> float:
    """By which a run is judged; not a number where it has none."""
    if metric is not None:
        series = metrics.same_in(run, metric)
        return math.nan if series is None else series.final
    return last_tenth(run.losses) if run.losses else math.nan


def _relative(a: float, b: float, usual: float) -> float:
    """The difference as a part of the larger one, or of what is usual if that is more."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    distance = abs(a - b) / max(abs(a), abs(b), usual)
    return distance if math.isfinite(distance) else math.inf


def _mean(values: Sequence[float]) -> float:
    """Infinite where the sum is too large for a float."""
    try:
        return statistics.fmean(values)
    except OverflowError:
        return math.inf


def _contents(files: Sequence[File]) -> dict[str, tuple[str, ...]]:
    """The digests of files that are known, in the order of their names, for each name without its numbers."""
    contents: dict[str, tuple[str, ...]] = {}
    for file in files:
        if file.digest:
            name = re.sub(r"\d+", "#", file.name)
            contents[name] = (*contents.get(name, ()), file.digest)
    return contents


def last_tenth(losses: Sequence[float]) -> float:
    """The mean of the last tenth, and of at least the last one."""
    return _mean(losses[-max(1, len(losses) // 10) :])


@lru_cache
def quantile_of_t(probability: float, freedom: int) -> float:
    """Of Student's t distribution with so many degrees of freedom."""
    from scipy.special import stdtrit  # only verifying needs scipy, and says so where it is missing

    return float(stdtrit(freedom, probability))
