"""What several looks at the same runs do to errors: the confidence of each is right for all of them together."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from autotune_rewrite.verify.comparison import confidence_of_looks
from autotune_rewrite.verify.judgement import speed_word
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.statistics.ratio import ENOUGH, FEWEST_TRIMMED, TRIMMED, Ratio, quantile_of_t

if TYPE_CHECKING:
    from numpy.typing import NDArray


def looks_of(pairs: int) -> tuple[int, ...]:
    return Plan(Path("a.py"), Path("b.py"), pairs=pairs).looks


def excluding_zero(noise: NDArray[np.float64], looks: tuple[int, ...]) -> float:
    """In which part of the sequences, one a row, an interval at any of the looks excludes their true mean, zero."""
    confidence = confidence_of_looks(len(looks))
    wrong = np.zeros(len(noise), dtype=bool)
    for pairs in looks:
        seen = np.sort(noise[:, :pairs], axis=1)
        out = int(TRIMMED * pairs) if pairs >= FEWEST_TRIMMED else 0
        left = pairs - 2 * out
        winsorized = np.clip(seen, seen[:, [out]], seen[:, [pairs - out - 1]])
        variance = (pairs - 1) * winsorized.var(axis=1, ddof=1) / (left * (left - 1))
        half = quantile_of_t((1 + confidence) / 2, left - 1) * np.sqrt(variance)
        wrong |= np.abs(seen[:, out : pairs - out].mean(axis=1)) > half
    return float(wrong.mean())


@pytest.mark.parametrize("pairs", [4, 8, 32])
def test_these_sequences_have_the_verifiers_intervals(pairs: int) -> None:
    noise = np.random.default_rng(pairs).standard_normal((1, pairs))
    half = math.log(Ratio.of(np.exp(noise[0]).tolist(), [1.0] * pairs).low or 0.0)
    mean = math.log(Ratio.of(np.exp(noise[0]).tolist(), [1.0] * pairs).estimate)
    shifted = noise - mean
    for part, expected in ((0.99, 0.0), (1.01, 1.0)):
        assert excluding_zero(shifted + part * (mean - half), (pairs,)) == expected


@pytest.mark.parametrize("pairs", [4, 6, 8, 16, 20, 32, 64])
def test_all_looks_together_err_in_one_case_of_twenty(pairs: int) -> None:
    noise = np.random.default_rng(pairs).standard_normal((40_000, pairs))
    # Looks that a budget brings nearer to each other err a little less often than those of the table.
    assert 0.043 <= excluding_zero(noise, looks_of(pairs)) <= 0.053


def test_pauses_of_single_runs_do_not_make_errors_more_frequent() -> None:
    draw = np.random.default_rng(0)
    shape = 40_000, 32
    noise = 0.02 * draw.standard_normal(shape)
    noise += 0.3 * (draw.random(shape) < 0.05) * draw.choice([-1.0, 1.0], shape)
    assert excluding_zero(noise, looks_of(32)) <= 0.055


def word(logs: NDArray[np.float64], looks: tuple[int, ...]) -> str:
    """What is said of pairs whose ratios have these logarithms, by the first look that tells."""
    for pairs in looks:
        said = speed_word(Ratio.of(np.exp(logs[:pairs]).tolist(), [1.0] * pairs, confidence_of_looks(len(looks))))
        if said != "inconclusive":
            return said
    return "inconclusive"


@pytest.mark.parametrize(
    ("ratio", "spread", "right", "share"),
    [
        pytest.param(1.0, 0.03, "no-difference", 0.8, id="nothing was gained"),
        pytest.param(1.05, 0.04, "faster", 0.9, id="a twentieth was gained"),
        pytest.param(0.95, 0.04, "slower", 0.9, id="a twentieth was lost"),
    ],
)
def test_a_spread_of_some_percent_is_no_obstacle(ratio: float, spread: float, right: str, share: float) -> None:
    draw = np.random.default_rng(1)
    words = Counter(word(np.log(ratio) + spread * draw.standard_normal(32), looks_of(32)) for _ in range(400))
    assert words[right] >= share * 400
    assert sum(words.values()) - words[right] - words["inconclusive"] <= 0.05 * 400


def test_pauses_of_single_runs_hide_no_gain() -> None:
    draw = np.random.default_rng(2)
    shape = 200, 32
    noise = 0.02 * draw.standard_normal(shape)
    noise += 0.5 * (draw.random(shape) < 0.1) * draw.choice([-1.0, 1.0], shape)  # a run of ten takes 1.6 times as long
    words = Counter(word(math.log(1.05) + each, looks_of(32)) for each in noise)
    assert words["faster"] >= 0.9 * 200
    assert words["slower"] + words["no-difference"] <= 0.05 * 200


# --- the pairs of several comparisons -------------------------------------------------------------------------------


def test_two_pairs_have_an_interval_by_the_spread_of_others() -> None:
    alone = Ratio.among([1.10, 1.12], [], 0.95)
    among = Ratio.among([1.10, 1.12], [[2.0, 2.02, 1.98, 2.0], [0.9, 0.91]], 0.95)

    assert alone.low is not None
    assert among.low is not None
    assert alone.low < 1.0
    assert among.low > 1.05
    assert among.estimate == alone.estimate == pytest.approx(math.sqrt(1.10 * 1.12))


def test_one_pair_has_an_interval_where_others_show_how_far_pairs_vary() -> None:
    assert Ratio.among([1.1], [], 0.95).low is None
    assert Ratio.among([1.1], [[1.3], []], 0.95).low is None
    assert Ratio.among([1.1], [[1.3, 1.31, 1.29]], 0.95).low == pytest.approx(1.065, abs=0.005)


def test_pairs_that_vary_more_than_those_of_others_have_their_own_spread() -> None:
    quiet = [[1.0, 1.001, 0.999, 1.0]] * 3
    own = [1.0, 1.3, 0.9, 1.2]

    assert Ratio.among(own, quiet, 0.95) == Ratio.of(own, [1.0] * 4)


def test_many_pairs_need_no_others() -> None:
    own = [1.1, 1.2, 1.15, 1.11, 1.19, 1.12, 1.18, 3.0]

    assert Ratio.among(own, [[1.0, 2.0]], 0.95) == Ratio.of(own, [1.0] * 8)


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_intervals_by_a_common_spread_hold_the_truth_as_often_as_they_say(pairs: int) -> None:
    noise = np.exp(0.03 * np.random.default_rng(pairs).standard_normal((2000, 3, 4)))
    missed = 0
    for groups in noise:
        ratio = Ratio.among(list(groups[0, :pairs]), [list(groups[1]), list(groups[2])], 0.95)
        assert ratio.low is not None
        assert ratio.high is not None
        missed += not ratio.low <= 1.0 <= ratio.high

    # Four pairs that vary more have their own spread, which errs on the side of caution.
    assert (0.03 if pairs < ENOUGH else 0.02) < missed / len(noise) < 0.08
