"""Two runs or two sets of runs side by side: figures, no words yet."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.statistics.measurement import Measurement
from autotune_rewrite.verify.statistics.pairs import Check, Pair
from autotune_rewrite.verify.statistics.ratio import CONFIDENCE, Ratio, quantile_of_t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.plan import Plan
    from autotune_rewrite.verify.records import Run


LOOK_CONFIDENCE = (CONFIDENCE, 0.9736, 0.9823, 0.9867, 0.9891)
"""Of each of one, two and more looks after 4, 8, 16, ... pairs: all of them together err in 5 % of cases.

As Pocock's bounds, the same at every look; computed for the intervals of ``Ratio`` over 800,000 sequences of normal
noise (``tests/verify/test_verify_looks.py`` does it again), where Pocock's own are for a known spread.
"""
Basis = Literal["whole", "extrapolated", "cut"]


def confidence_of_looks(looks: int) -> float:
    """Of the interval at each of so many looks; beyond those of the table errors are shared out evenly."""
    if looks <= len(LOOK_CONFIDENCE):
        return LOOK_CONFIDENCE[looks - 1]
    return 1 - (1 - CONFIDENCE) / looks


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
            confidence=confidence_of_looks(len(plan.looks)),
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
    def of_pairs(self) -> tuple[float, ...]:
        """The ratio of each pair, of which ``run`` is the mean."""
        sides = self._seconds([(pair.original, pair.rewritten) for pair in self.pairs])
        return tuple(before / after for before, after in zip(*sides, strict=True))

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
        return Ratio.of(*self._seconds(couples), self.confidence)

    def _seconds(self, couples: Sequence[tuple[Run, Run]]) -> tuple[list[float], list[float]]:
        """Of whole runs, of either side."""
        imports = statistics.median(run.import_seconds for couple in couples for run in couple)
        sides: tuple[list[float], list[float]] = ([], [])
        for couple in couples:
            for side, run, other, end in zip(sides, couple, reversed(couple), self._ends, strict=True):
                measurement = Measurement.of(run, other)
                seconds = imports + measurement.seconds_at(self.length or measurement.iterations)
                side.append(seconds + (max(0.0, end - measurement.end_seconds) if run.cut else 0.0))
        return sides

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
