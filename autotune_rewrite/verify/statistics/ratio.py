"""How many times as fast, with an interval."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


CONFIDENCE = 0.95
TRIMMED = 0.2
"""The part of the pairs that is left out on either side, as others' programs and the system disturb single runs."""
FEWEST_TRIMMED = 8
"""Of fewer pairs none is left out: too few would be left to show their spread."""
ENOUGH = 4
"""Pairs that show by themselves that they vary more than those of other comparisons."""


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
        """The geometric mean of the paired ratios with a t interval on their logarithms, both trimmed.

        The interval is Yuen's, of the winsorized variance (Biometrika 61, 1974); without trimming it is Student's. On
        22 pairs of a script of 6 seconds beside itself, on two cores where other programs ran, 32 drawn at a time, it
        was a third as wide as Student's, and held the truth as often (95 %).

        Args:
            originals: Seconds, one for each pair.
            rewritten: Seconds, of the same pairs.
            confidence: Of the interval.
        """
        logs = sorted(math.log(before / after) for before, after in zip(originals, rewritten, strict=True))
        out = int(TRIMMED * len(logs)) if len(logs) >= FEWEST_TRIMMED else 0
        kept = logs[out : len(logs) - out]
        mean = statistics.fmean(kept)
        if len(logs) == 1:
            return cls(math.exp(mean), None, None, confidence)
        winsorized = [kept[0]] * out + kept + [kept[-1]] * out
        variance = (len(logs) - 1) * statistics.variance(winsorized) / (len(kept) * (len(kept) - 1))
        half = quantile_of_t((1 + confidence) / 2, len(kept) - 1) * math.sqrt(variance)
        return cls(math.exp(mean), math.exp(mean - half), math.exp(mean + half), confidence)

    @classmethod
    def among(cls, ratios: Sequence[float], others: Iterable[Sequence[float]], confidence: float) -> Ratio:
        """The geometric mean of some pairs' ratios, with an interval by the spread of several comparisons' pairs.

        Two pairs say little about how far pairs of this script vary, the pairs of all its comparisons together more:
        their pooled variance stands in the place of the pairs' own, unless these vary more, and there are enough of
        them to show it. From ``FEWEST_TRIMMED`` pairs on they need no others.

        Args:
            ratios: Of the pairs, one at least.
            others: Ratios of the pairs of other comparisons, each about a mean of its own.
            confidence: Of the interval.
        """
        if len(ratios) >= FEWEST_TRIMMED:
            return cls.of(ratios, [1.0] * len(ratios), confidence)
        own = [math.log(each) for each in ratios]
        mean = statistics.fmean(own)
        groups = [own, *([math.log(each) for each in other] for other in others)]
        freedom = sum(len(group) - 1 for group in groups if group)
        if not freedom:
            return cls(math.exp(mean), None, None, confidence)
        variance = sum((len(group) - 1) * statistics.variance(group) for group in groups if len(group) > 1) / freedom
        if len(own) >= ENOUGH and statistics.variance(own) > variance:
            variance, freedom = statistics.variance(own), len(own) - 1
        half = quantile_of_t((1 + confidence) / 2, freedom) * math.sqrt(variance / len(own))
        return cls(math.exp(mean), math.exp(mean - half), math.exp(mean + half), confidence)

    def __str__(self) -> str:
        """Such as "2.48 times as fast (2.26 to 2.72)"."""
        interval = "" if self.low is None or self.high is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"{self.estimate:.2f} times as fast{interval}"

    @property
    def resolution(self) -> float | None:
        """The smallest change, as a part of 1, that the interval could tell from none; None without an interval."""
        return None if self.high is None else self.high / self.estimate - 1


@lru_cache
def quantile_of_t(probability: float, freedom: int) -> float:
    """Of Student's t distribution with so many degrees of freedom."""
    from scipy.special import stdtrit  # only verifying needs scipy, and says so where it is missing

    return float(stdtrit(freedom, probability))
