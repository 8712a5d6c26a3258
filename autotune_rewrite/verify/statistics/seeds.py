"""How much worse a script ends, beside what seeds do to it."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.statistics.pairs import Pair, mean, relative
from autotune_rewrite.verify.statistics.ratio import CONFIDENCE, quantile_of_t

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.records import Run


MARGIN_SPREADS = 2.0
"""The margin of non-inferiority, in standard deviations of the original over its seeds: about what luck does to it."""
MARGIN_PART = 0.05
"""Of the original's figure, which that margin never exceeds: where a seed moves it by more, as where it draws the data,
the spread is that of the problem, and says nothing of luck."""
MIN_SEEDS = 3
"""Fewer say nothing about a spread."""
LAST_TENTH = "the mean of the last tenth of the losses"


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
        return relative(self.original, self.rewritten, 0.0)

    @property
    def resolvable(self) -> float:
        """The smallest margin within which these runs could have been told to end."""
        return max(self.high, -self.low)


def figure(run: Run, metric: metrics.Series | None) -> float:
    """By which a run is judged; not a number where it has none."""
    if metric is not None:
        series = metrics.same_in(run, metric)
        return math.nan if series is None else series.final
    return last_tenth(run.losses) if run.losses else math.nan


def last_tenth(losses: Sequence[float]) -> float:
    """The mean of the last tenth, and of at least the last one."""
    return mean(losses[-max(1, len(losses) // 10) :])
