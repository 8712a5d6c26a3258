"""Judging, on records that no process made."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.verify.comparison import Comparison, Pair, Ratio, Summary
from autotune_rewrite.verify.judgement import Judgement, judge, judge_failure, speed_word
from autotune_rewrite.verify.plan import Plan, PromiseName
from autotune_rewrite.verify.records import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.plan import Side

FALLING = tuple(1 / (1 + at) for at in range(40))
NAN = math.nan


def record(
    side: Side = "original",
    losses: Sequence[float] = FALLING,
    *,
    seed: int = 0,
    seconds: float = 10.0,
    startup: float = 0.0,
    ended: str = "finished",
    parameters: tuple[str, ...] = ("digest",),
) -> Run:
    """A run whose script took so many seconds, its start-up among them, with iterations of equal length."""
    each = (seconds - startup) / max(1, len(losses))
    return Run(
        side=side,
        offset=seed,
        outcome="ok",
        problem="",
        output=(),
        wall_seconds=seconds + 2,
        ended=ended,
        times=tuple(startup + at * each for at in range(len(losses))),
        losses=tuple(losses),
        parameters=parameters,
        import_seconds=2.0,
        script_seconds=seconds,
    )


def judged(
    pairs: Sequence[tuple[Run, Run]],
    promise: PromiseName = "bitwise",
    control: Run | None = None,
    length: int | None = None,
) -> Judgement:
    plan = Plan(Path("a.py"), Path("b.py"), promise=promise, not_measured=("loader-pin",))
    return judge(plan, Comparison(tuple(Pair(*pair) for pair in pairs), control, length), {})


def seeded(shift: float = 0.0, spread: float = 0.1, noise: float = 0.0) -> list[tuple[Run, Run]]:
    """Four pairs whose losses differ: by seed, by a constant shift, and by noise of alternating sign."""
    pairs = []
    for seed, luck in enumerate((-1.0, 1.0, -0.5, 0.5)):
        original = [loss + 1 + luck * spread for loss in FALLING]
        sign = 1 if seed < 2 else -1
        rewritten = [loss + shift + sign * noise for loss in original]
        pairs.append((record(losses=original, seed=seed), record("rewritten", rewritten, seed=seed)))
    return pairs


def timed(*seconds: tuple[float, float]) -> list[tuple[Run, Run]]:
    return [(record(seconds=before), record("rewritten", seconds=after)) for before, after in seconds]


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        pytest.param(1.011, 2.0, "faster", id="the whole interval above 1.01"),
        pytest.param(1.0, 2.0, "inconclusive", id="the lower end below 1.01"),
        pytest.param(0.5, 0.989, "slower", id="the whole interval below 0.99"),
        pytest.param(0.5, 1.0, "inconclusive", id="the upper end above 0.99"),
        pytest.param(0.98, 1.02, "no-difference", id="inside 0.97 to 1.03"),
        pytest.param(0.96, 1.02, "inconclusive", id="too wide for no difference"),
        pytest.param(None, None, "inconclusive", id="no interval"),
    ],
)
def test_speed_needs_the_whole_interval(low: float | None, high: float | None, word: str) -> None:
    assert speed_word(Ratio(1.5, low, high)) == word


def test_interval_is_students_t_on_the_logarithms() -> None:
    ratio = Ratio.of([1.0, 1.0, 1.0], [1.0, math.exp(-0.1), math.exp(-0.2)])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)  # t(0.975, 2), from a printed table to 4.303
    assert ratio.estimate == pytest.approx(math.exp(0.1))
    assert (ratio.low, ratio.high) == pytest.approx((math.exp(0.1 - half), math.exp(0.1 + half)))


@pytest.mark.parametrize(
    ("seconds", "speed"),
    [
        pytest.param([(10, 5), (10.1, 5), (9.9, 5), (10, 5.1)], "faster", id="half the time"),
        pytest.param([(5, 10), (5, 10.1), (5, 9.9), (5.1, 10)], "slower", id="twice the time"),
        pytest.param([(10, 10), (10.05, 10), (10, 10.05), (10, 10)], "no-difference", id="the same time"),
        pytest.param([(10, 5), (5, 10), (10, 10), (20, 5)], "inconclusive", id="all over the place"),
        pytest.param([(10, 1)], "inconclusive", id="one pair, however large the gain"),
    ],
)
def test_speed_of_whole_runs(seconds: list[tuple[float, float]], speed: str) -> None:
    assert judged(timed(*seconds)).speed == speed


@pytest.mark.parametrize("sd", [0.01, 0.03, 0.12])
@pytest.mark.parametrize("pairs", [2, 4, 8])
def test_unchanged_scripts_are_seldom_told_apart(sd: float, pairs: int) -> None:
    draw = random.Random(f"{sd} {pairs}")  # noqa: S311 - the same noise in every run
    times = [([draw.lognormvariate(0, sd) for _ in range(pairs)], [1.0] * pairs) for _ in range(2000)]
    words = Counter(speed_word(Ratio.of(before, after)) for before, after in times)
    assert words["faster"] + words["slower"] <= 0.06 * 2000


def test_a_true_gain_is_found() -> None:
    draw = random.Random(0)  # noqa: S311 - the same noise in every run
    times = [([1.15 * draw.lognormvariate(0, 0.02) for _ in range(4)], [1.0] * 4) for _ in range(500)]
    words = Counter(speed_word(Ratio.of(before, after)) for before, after in times)
    assert words["faster"] >= 0.95 * 500
    assert words["slower"] == 0


def test_import_of_torch_is_the_same_work_on_both_sides() -> None:
    odd = replace(record(seconds=10), import_seconds=60.0, wall_seconds=70.0)
    others = timed((10, 10), (10, 10))
    assert judged([(odd, record("rewritten")), *others]).speed == "no-difference"


def cut_pairs(startup: float, iteration: float) -> list[tuple[Run, Run]]:
    """Runs cut after 40 iterations of a quarter second; the rewritten ones with this start-up and iteration."""
    rewritten = record("rewritten", seconds=startup + 40 * iteration, startup=startup, ended="cut")
    return [(record(ended="cut"), rewritten)] * 4


@pytest.mark.parametrize(
    ("length", "speed", "basis"),
    [
        pytest.param(None, "inconclusive", "cut", id="the length decides and is not known"),
        pytest.param(60, "slower", "extrapolated", id="a short script never earns the start-up back"),
        pytest.param(4000, "faster", "extrapolated", id="a long script does"),
    ],
)
def test_cut_runs_with_a_start_up_cost(length: int | None, speed: str, basis: str) -> None:
    judgement = judged(cut_pairs(startup=20, iteration=0.1), length=length)
    assert (judgement.speed, judgement.basis) == (speed, basis)
    assert judgement.iteration is not None
    assert judgement.iteration.estimate == pytest.approx(2.5)


def test_cut_runs_that_are_faster_at_any_length() -> None:
    judgement = judged(cut_pairs(startup=0, iteration=0.1))
    assert (judgement.speed, judgement.basis) == ("faster", "cut")
    assert "own length is not known" in judgement.reason


def test_equal_bit_for_bit_passes() -> None:
    judgement = judged(timed((10, 5), (10, 5)))
    assert (judgement.equality, judgement.exit_code, judgement.fit) == ("equal", 0, True)


def test_slower_is_neither_a_pass_nor_fit() -> None:
    judgement = judged(timed((5, 10), (5, 10)))
    assert (judgement.equality, judgement.exit_code, judgement.fit) == ("equal", 1, False)


def test_inconclusive_speed_is_fit_but_no_pass() -> None:
    judgement = judged(timed((5, 10)))
    assert (judgement.exit_code, judgement.fit) == (1, True)


@pytest.mark.parametrize("promise", ["bitwise", "random", "precision", "training"])
def test_same_bits_are_equal_under_every_promise(promise: PromiseName) -> None:
    assert judged(timed((10, 10)), promise).equality == "equal"


def test_not_a_number_equals_itself() -> None:
    losses = (1.0, NAN, NAN)
    assert judged([(record(losses=losses), record("rewritten", losses))]).equality == "equal"


@pytest.mark.parametrize(
    ("rewritten", "reason"),
    [
        pytest.param(
            record("rewritten", (*FALLING[:3], 0.2500001, *FALLING[4:])),
            "Losses differ from iteration 4 on (0.25 in the original, 0.2500001 in the rewritten script). "
            "The original repeats itself bit for bit.",
            id="one loss by one part in a million",
        ),
        pytest.param(
            record("rewritten", parameters=("other",)),
            "Every loss is equal, but final parameters differ.",
            id="only the parameters",
        ),
        pytest.param(
            record("rewritten", FALLING[:-1]),
            "The original has 40 losses, the rewritten 39.",
            id="a loss is missing",
        ),
        pytest.param(record("rewritten", ()), "The original has 40 losses, the rewritten 0.", id="no loss at all"),
        pytest.param(
            record("rewritten", (*FALLING[:-1], NAN)),
            "A loss of the rewritten script is not finite, while all of the original's are.",
            id="a loss is not a number",
        ),
    ],
)
def test_different_under_bitwise(rewritten: Run, reason: str) -> None:
    judgement = judged([(record(), rewritten)], control=record())
    assert judgement.equality == "different"
    assert judgement.reason.startswith(reason)
    assert (judgement.exit_code, judgement.fit) == (1, False)


def test_no_loss_is_not_a_pass() -> None:
    judgement = judged([(record(losses=()), record("rewritten", ()))] * 4)
    assert (judgement.equality, judgement.exit_code, judgement.fit) == ("not-checked", 1, False)
    assert judgement.iteration is None


def test_an_original_that_differs_from_itself_is_not_repeatable() -> None:
    pairs = seeded(shift=0.01)
    judgement = judged(pairs[:2], control=record(losses=[2.0] * 40))
    assert judgement.equality == "inconclusive"
    assert judgement.reason.startswith("The original is not repeatable")


def test_number_of_losses_may_vary_where_the_originals_does() -> None:
    pairs = seeded(noise=0.01)
    original, rewritten = pairs[0]
    pairs[0] = (record(losses=original.losses[:-1]), rewritten)
    assert judged(pairs, "random").equality == "non-inferior"


@pytest.mark.parametrize(
    ("pairs", "equality"),
    [
        pytest.param(seeded(noise=0.01), "non-inferior", id="noise well below what seeds do"),
        pytest.param(seeded(shift=1.0), "different", id="worse than luck explains"),
        pytest.param(seeded(shift=-1.0), "different", id="better than luck explains"),
        pytest.param(seeded(noise=1.0), "inconclusive", id="noise far above what seeds do"),
        pytest.param(seeded(noise=0.01)[:2], "inconclusive", id="too few pairs"),
        pytest.param(seeded(noise=0.01, spread=0.0), "inconclusive", id="seeds change nothing: no spread"),
        pytest.param(
            [(record(losses=[NAN] * 4), record("rewritten", [NAN, NAN, NAN, 1.0]))] * 4,
            "inconclusive",
            id="the original is not a number either",
        ),
    ],
)
def test_statistical_equality(pairs: list[tuple[Run, Run]], equality: str) -> None:
    assert judged(pairs, "random").equality == equality


def test_margin_is_two_standard_deviations_of_the_original() -> None:
    summary = Summary.of([Pair(*pair) for pair in seeded(spread=0.1)])
    assert summary is not None
    assert summary.margin == pytest.approx(2 * math.sqrt((0.01 + 0.01 + 0.0025 + 0.0025) / 3))


@pytest.mark.parametrize(
    ("first", "control", "equality"),
    [
        pytest.param(1.005, 1.0, "non-inferior", id="within what 16 bits do"),
        pytest.param(1.02, 1.0, "different", id="farther than another precision explains"),
        pytest.param(1.02, 1.5, "non-inferior", id="the original's own first loss moves as far"),
    ],
)
def test_first_loss_under_precision(first: float, control: float, equality: str) -> None:
    pairs = [
        (
            record(losses=(1.0, *before.losses)),
            record("rewritten", (first, *after.losses)),
        )
        for before, after in seeded(noise=0.01)
    ]
    again = record(losses=(control, *pairs[0][0].losses[1:]))
    assert judged(pairs, "precision", again).equality == equality


def test_training_is_never_judged_as_equal() -> None:
    judgement = judged(seeded(noise=0.001), "training")
    assert (judgement.equality, judgement.exit_code) == ("not-checked", 1)


BLAMING = Plan(
    Path("a.py"),
    Path("b.py"),
    "precision",
    signatures=(("amp", (r"same dtype", r"not finite")), ("compile", (r"Inductor",))),
)


@pytest.mark.parametrize(
    ("side", "other", "line", "blamed"),
    [
        pytest.param(
            "rewritten", False, "mat1 and mat2 must have the same dtype", ("amp",), id="what a rule may cause"
        ),
        pytest.param("rewritten", False, "ValueError: no", (), id="what no rule may cause"),
        pytest.param("rewritten", True, "InductorError", (), id="what the original does, too"),
        pytest.param("original", False, "InductorError", (), id="what only the original does"),
    ],
)
def test_a_failure_points_to_rules_by_their_signatures(
    side: Side, line: str, blamed: tuple[str, ...], *, other: bool
) -> None:
    failed = Run(side, 0, "crashed", "ended with exit status 1", ("Traceback", line), 1.0)
    judgement = judge_failure(BLAMING, failed, failed if other else None, 2, {})
    assert judgement.blamed == blamed
    assert judgement.reason.endswith("That points to amp.") == bool(blamed)


@pytest.mark.parametrize(("last", "blamed"), [(NAN, ("amp",)), (0.5, ())])
def test_a_loss_that_is_not_finite_points_to_rules_by_their_signatures(last: float, blamed: tuple[str, ...]) -> None:
    pair = Pair(record(losses=(1.0, 0.5)), record("rewritten", losses=(1.0, last)))
    assert judge(BLAMING, Comparison((pair,)), {}).blamed == blamed


def test_a_failure_is_told_with_its_side_and_output() -> None:
    failed = Run("rewritten", 0, "crashed", "ended with exit status 1", ("ValueError: no",), 1.0)
    judgement = judge_failure(Plan(Path("a.py"), Path("b.py")), failed, None, 2, {})
    assert (judgement.run, judgement.side, judgement.exit_code, judgement.fit) == ("crashed", "rewritten", 2, False)
    assert (judgement.speed, judgement.equality) == ("not-checked", "not-checked")
    assert judgement.reason == "The rewritten script ended with exit status 1."
    assert judgement.output == ("ValueError: no",)
