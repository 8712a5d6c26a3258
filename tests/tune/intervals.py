"""Intervals as they are measured, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune_rewrite.verify.judgement import FASTER, SAME, SLOWER

if TYPE_CHECKING:
    from autotune_rewrite.verify.judgement import Speed
    from autotune_rewrite.verify.statistics.ratio import Ratio

HALF_WIDTH = 1.015
"""Of intervals: as wide as those of some pairs on an idle machine."""


def speed_of(ratio: Ratio) -> Speed:
    assert ratio.low is not None
    assert ratio.high is not None
    if ratio.low > FASTER:
        return "faster"
    if ratio.high < SLOWER:
        return "slower"
    return "no-difference" if ratio.low > SAME[0] and ratio.high < SAME[1] else "inconclusive"
