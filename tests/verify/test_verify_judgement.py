"""Judging, on records that no process made."""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.verify.comparison import Comparison
from autotune_rewrite.verify.cures import cure
from autotune_rewrite.verify.equality import in_words
from autotune_rewrite.verify.judgement import Judgement, judge, judge_failure, speed_word
from autotune_rewrite.verify.plan import Plan, PromiseName
from autotune_rewrite.verify.records import File, Gpu, Outcome, Pass, Run, Scalar
from autotune_rewrite.verify.statistics.pairs import Check, Pair
from autotune_rewrite.verify.statistics.ratio import Ratio
from autotune_rewrite.verify.statistics.seeds import Summary, last_tenth

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    assert judgement.reason == (
        "Every loss and every parameter after 40 iterations is equal bit for bit. Only 40 iterations were compared: the "
        "script's end, files and metrics were NOT CHECKED. Runs were cut after 40 iterations; the script's own length "
        "is not known, but both ratios say the same as long as iterations stay as long as these."
    )
    assert (judgement.reach, judgement.exit_code) == (40, 0)


LONG = record(losses=(FALLING * 10), seconds=100)
"""A whole run, of whose kind others are cut after a tenth."""


def beside_whole(before: Run, after: Run, promise: PromiseName = "bitwise", iteration: float = 0.1) -> Judgement:
    """Cut runs, as many seconds long in the rewritten script, beside a pair that ran whole."""
    pairs = tuple(Pair(*pair) for pair in cut_pairs(startup=0, iteration=iteration))
    whole = Pair(before, replace(after, side="rewritten"))
    return judge(Plan(Path("a.py"), Path("b.py"), promise), Comparison(pairs, length=400, whole=whole), {})


def test_a_whole_run_tells_what_cut_ones_cannot() -> None:
    judgement = beside_whole(LONG, replace(LONG, wall_seconds=42.0))
    assert (judgement.equality, judgement.reach, judgement.speed) == ("equal", None, "faster")
    assert judgement.reason.startswith(
        "Every loss and every parameter after 40 iterations is equal bit for bit, and so it is in one whole run. Speed"
    )


@pytest.mark.parametrize("promise", ["bitwise", "random", "precision"])
@pytest.mark.parametrize(
    ("change", "equality", "reason"),
    [
        pytest.param({"lines": ()}, "different", "never prints val acc", id="a metric"),
        pytest.param({"files": ()}, "different", "does not write model.pt", id="a file"),
        pytest.param({"losses": LONG.losses[:-40]}, "different", "has 400 losses, the rewritten 360.", id="an epoch"),
        pytest.param({"losses": (*LONG.losses[:-1], NAN)}, "different", "not finite", id="diverged at the end"),
        pytest.param({"losses": (*LONG.losses[:-1], 0.5)}, "inconclusive", "from iteration 400 on", id="a late loss"),
    ],
)
def test_what_the_one_whole_run_leaves_out_counts(
    change: dict[str, object], equality: str, reason: str, promise: PromiseName
) -> None:
    before = replace(LONG, lines=("val acc 0.9",), files=files("model.pt"))
    judgement = beside_whole(before, replace(before, **change), promise)  # type: ignore[arg-type]
    assert (judgement.equality, reason in judgement.reason) == (equality, True)


def test_time_after_the_last_iteration_is_added_to_cut_runs() -> None:
    late = replace(LONG, wall_seconds=LONG.wall_seconds + 30)  # its last iteration takes 30 s longer
    judgement = beside_whole(LONG, late, iteration=0.2)
    assert judgement.whole is not None
    assert judgement.whole.estimate == pytest.approx((100 + 2) / (80 + 30 + 2), rel=0.01)


def test_a_whole_run_that_is_slower_contradicts_cut_ones_that_are_faster() -> None:
    slow = replace(LONG, times=tuple(2 * at for at in LONG.times), script_seconds=200.0, wall_seconds=202.0)
    judgement = beside_whole(LONG, slow)
    assert judgement.speed == "inconclusive"
    assert "but the pair that ran whole was 0.50 times as fast" in judgement.reason


def test_equal_bit_for_bit_passes() -> None:
    judgement = judged(timed((10, 5), (10, 5)))
    assert (judgement.equality, judgement.exit_code, judgement.fit) == ("equal", 0, True)


def test_slower_is_neither_a_pass_nor_fit() -> None:
    judgement = judged(timed((5, 10), (5, 10)))
    assert (judgement.equality, judgement.exit_code, judgement.fit) == ("equal", 1, False)


def test_inconclusive_speed_is_fit_but_no_pass() -> None:
    judgement = judged(timed((10, 10.5)))
    assert (judgement.exit_code, judgement.fit) == (1, True)
    assert not judged(timed((10, 12))).fit


@pytest.mark.parametrize("promise", ["bitwise", "random", "precision", "training"])
def test_same_bits_are_equal_under_every_promise(promise: PromiseName) -> None:
    assert judged(timed((10, 10)), promise).equality == "equal"


def test_not_a_number_equals_itself() -> None:
    losses = (*FALLING, NAN, NAN)
    judgement = judged([(record(losses=losses), record("rewritten", losses))])
    assert judgement.equality == "equal"
    assert "2 losses of both are not finite, the first in iteration 41." in judgement.reason


@pytest.mark.parametrize(
    ("losses", "lines", "equality", "reason"),
    [
        pytest.param([NAN] * 40, (), "inconclusive", "No loss is finite", id="no loss is a number"),
        pytest.param([NAN] * 40, ("val acc 0.9",), "equal", "40 losses of both are not finite", id="but a metric is"),
        pytest.param([0.5], (), "not-checked", "ONLY 1 LOSS WAS SEEN", id="one loss, as of a warm-up"),
        pytest.param([0.5], ("val acc 0.9",), "equal", "Every loss and every final parameter", id="and a metric"),
    ],
)
def test_equal_needs_something_to_be_seen(
    losses: Sequence[float], lines: tuple[str, ...], equality: str, reason: str
) -> None:
    run = replace(record(losses=losses), lines=lines)
    judgement = judged([(run, replace(run, side="rewritten"))])
    assert (judgement.equality, reason in judgement.reason) == (equality, True)


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


@pytest.mark.parametrize(
    ("spread", "margin"),
    [
        pytest.param(0.01, 2 * math.sqrt((1 + 1 + 0.25 + 0.25) / 3) * 0.01, id="two standard deviations over seeds"),
        pytest.param(0.1, 0.05 * 1.026, id="no more than 5 % of the original's"),
    ],
)
def test_the_default_margin(spread: float, margin: float) -> None:
    summary = Summary.of([Pair(*pair) for pair in seeded(spread=spread)])
    assert summary is not None
    assert summary.margin == pytest.approx(margin, rel=1e-4)


def test_seeds_that_change_the_problem_are_no_measure_of_luck() -> None:
    judgement = judged(seeded(shift=0.04, spread=0.8), "random")
    assert judgement.equality == "inconclusive"
    assert "ends systematically worse, and only --margin can tell what matters" in judgement.reason
    assert (
        "5 % of the original's (seeds move it by 71 %: they change the problem, not luck; --margin" in judgement.reason
    )
    assert "luck:" not in judgement.reason


@pytest.mark.parametrize("promise", ["random", "precision"])
@pytest.mark.parametrize(
    ("shift", "margin", "equality", "words"),
    [
        pytest.param(0.02, None, "inconclusive", "ends systematically worse, and only --margin", id="worse by 2 %"),
        pytest.param(-0.02, None, "inconclusive", "ends systematically better, and only --margin", id="better by 2 %"),
        pytest.param(0.02, 0.03, "non-inferior", "worse, systematically but by less than the margin", id="as allowed"),
        pytest.param(0.02, 0.01, "different", "ends worse than luck explains", id="more than is allowed"),
        pytest.param(0.005, None, "non-inferior", "worse, systematically but by less than 1 %", id="worse by 0.5 %"),
    ],
)
def test_a_systematic_shift_is_never_luck(
    shift: float, margin: float | None, equality: str, words: str, promise: PromiseName
) -> None:
    pairs = [Pair(a, replace(b, losses=(*a.losses[:20], *b.losses[20:]))) for a, b in seeded(shift, spread=0.1)]
    plan = Plan(Path("a.py"), Path("b.py"), promise, margin=margin)
    judgement = judge(plan, Comparison(tuple(pairs), pairs[0].original), {})
    assert (judgement.equality, words in judgement.reason) == (equality, True)
    assert "no more than by luck" not in judgement.reason


def test_a_metric_does_not_excuse_losses_that_move_systematically() -> None:
    pairs = [(a, replace(b, losses=tuple(loss * 1.02 for loss in a.losses))) for a, b in scored(ALIKE)]
    judgement = by_metric(pairs)
    assert judgement.equality == "inconclusive"
    assert "which is systematic." in judgement.reason
    assert by_metric(pairs, margin=0.03).equality == "non-inferior"


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


def trained(change: Callable[[int], float]) -> list[tuple[Run, Run]]:
    """Pairs whose losses of each iteration, from 1, differ by this part."""
    return [
        (a, replace(a, side="rewritten", losses=tuple(loss * (1 + change(at)) for at, loss in enumerate(a.losses, 1))))
        for a, _ in seeded()
    ]


@pytest.mark.parametrize(
    ("change", "own", "equality", "words"),
    [
        pytest.param(lambda _: 2e-4, 0.0, "non-inferior", "ends worse, systematically but by less than", id="bfloat16"),
        pytest.param(
            lambda at: 0.002 * (at - 1) * (at < 30),
            0.0,
            "different",
            "Losses of iterations 2 to 20 differ by 0.019 relative to their size; what was changed explains at most",
            id="another step from the first iteration on",
        ),
        pytest.param(
            lambda at: 0.002 * (at - 1) * (at < 30), 0.05, "non-inferior", "", id="the original from itself as far"
        ),
        pytest.param(
            lambda at: min(1e-6 * 4**at, 0.1) * (at < 30),
            0.0,
            "inconclusive",
            "Losses of iterations 2 to 20 differ by 0.0",
            id="chaos, that grows by itself",
        ),
    ],
)
def test_losses_stay_together_under_precision(
    change: Callable[[int], float], own: float, equality: str, words: str
) -> None:
    pairs = trained(change)
    control = replace(pairs[0][0], losses=tuple(loss * (1 + own) for loss in pairs[0][0].losses))
    judgement = judged(pairs, "precision", control)
    assert (judgement.equality, words in judgement.reason) == (equality, True)


def test_a_first_loss_of_nearly_nothing_is_seen_beside_the_others() -> None:
    pairs = [
        (replace(a, losses=(1e-9, *a.losses)), replace(b, losses=(2e-9, *b.losses))) for a, b in seeded(noise=0.001)
    ]
    assert judged(pairs, "precision", pairs[0][0]).equality == "non-inferior"


def test_losses_too_large_to_be_added_are_no_error() -> None:
    assert Comparison((Pair(*[record(losses=[1.7e308] * 40)] * 2),)).unequal is None
    assert last_tenth([1.7e308] * 40) == math.inf


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


@pytest.mark.parametrize(("worse", "words"), [(9.75e-05, "worse by 9.75e-05"), (-0.25, "better by 0.25")])
def test_what_is_better_is_not_called_worse_by_less_than_nothing(worse: float, words: str) -> None:
    assert in_words(worse) == words


@pytest.mark.parametrize(
    ("line", "plan", "cure"),
    [
        pytest.param(
            "ModuleNotFoundError: No module named 'proj.data'",
            {},
            " proj lies in this directory: -m runs the script as a module from here.",
            id="a package of the project",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'proj'",
            {"module": True},
            f" It was run by {sys.executable}: proj has to be installed there.",
            id="not found as a module either",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'einops'",
            {},
            f" It was run by {sys.executable}: einops has to be installed there.",
            id="a library",
        ),
        pytest.param(
            "RuntimeError: Found no NVIDIA driver on your system.",
            {},
            " There is no GPU for it here: --device simulated runs it without one, and says nothing of speed.",
            id="no driver",
        ),
        pytest.param(
            "torch.AcceleratorError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            {},
            " There is no GPU for it here: --device simulated runs it without one, and says nothing of speed.",
            id="no driver, and a stream is made",
        ),
        pytest.param(
            "ImportError: attempted relative import with no known parent package",
            {},
            " It is a module of a package: -m runs it as one, from the directory that holds the package.",
            id="a module of a package",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'einops'",
            {"original": Path("nb.ipynb")},
            f" It was run by {sys.executable}: einops has to be installed there.",
            id="a notebook is no module",
        ),
        pytest.param(
            "AssertionError: Torch not compiled with CUDA enabled", {"device": "simulated"}, "", id="simulated already"
        ),
        pytest.param("ValueError: no", {}, "", id="the script's own affair"),
    ],
)
def test_a_crash_says_what_cures_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, plan: dict[str, Any], cure: str
) -> None:
    (tmp_path / "proj").mkdir()
    monkeypatch.chdir(tmp_path)
    failed = Run("original", 0, "crashed", "ended with exit status 1", ("Traceback", line), 1.0)

    asked = replace(Plan(Path("a.py"), Path("b.py")), **plan)
    reason = judge_failure(asked, failed, None, 0, {}).reason

    assert reason.startswith(f"The original script ended with exit status 1.{cure}")
    assert ("There is no GPU" in reason) == ("There is no GPU" in cure)


def test_a_package_of_the_directory_above_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path / "proj")

    said = cure(Plan(Path("a.py"), Path("b.py")), ("ModuleNotFoundError: No module named 'proj'",))

    assert said == f"proj lies in {tmp_path}: start it there, as a module with -m."


# What is assembled from runs by their turns.


def test_runs_are_put_together_by_their_turns() -> None:
    runs = [
        record(seed=0, seconds=99.0),
        record("rewritten", seed=0),
        record(seed=0),  # again, as the first one was too long
        replace(record("rewritten", seed=1), outcome="crashed"),
        record(seed=1),
        record("rewritten", seed=2),
        record("rewritten", seed=3),
        record(seed=3),
        replace(record(seed=0, losses=(1.0,)), kind="control"),
        replace(record(losses=(2.0,)), kind="check"),
        replace(record("rewritten", losses=(3.0,)), kind="check"),
        replace(record(losses=(4.0,)), kind="check"),
        replace(record(seed=3, seconds=20.0), kind="tf32"),
        replace(record(losses=(5.0,)), kind="whole"),
        replace(record("rewritten", losses=(6.0,)), kind="whole"),
    ]
    comparison = Comparison.of(Plan(Path("a.py"), Path("b.py"), length=7), runs)
    assert [(pair.original.offset, pair.rewritten.offset) for pair in comparison.pairs] == [(0, 0), (3, 3)]
    assert comparison.pairs[0].original.wall_seconds == 12.0
    assert comparison.control is not None
    assert comparison.control.losses == (1.0,)
    assert comparison.check is not None
    assert comparison.check.again is not None
    seen = [comparison.check.original.losses, comparison.check.rewritten.losses, comparison.check.again.losses]
    assert seen == [(2.0,), (3.0,), (4.0,)]
    assert comparison.whole is not None
    assert (comparison.whole.original.losses, comparison.whole.rewritten.losses) == ((5.0,), (6.0,))
    assert comparison.length == 7
    assert comparison.over_tf32 is not None
    assert comparison.over_tf32.estimate == pytest.approx(22.0 / 12.0)


@pytest.mark.parametrize(("pairs", "confidence"), [(4, 0.95), (8, 0.9736), (32, 0.9867), (10**4, 0.9958)])
def test_looks_share_the_errors_of_one(pairs: int, confidence: float) -> None:
    plan = Plan(Path("a.py"), Path("b.py"), pairs=pairs)
    assert Comparison.of(plan, [record(), record("rewritten")]).confidence == pytest.approx(confidence, abs=5e-5)


def test_half_a_check_is_none() -> None:
    runs = [record(), record("rewritten"), replace(record(), kind="check")]
    assert Comparison.of(Plan(Path("a.py"), Path("b.py")), runs).check is None


# The same bits, under deterministic algorithms.

SAME = record(losses=FALLING)
OTHER = record(losses=(*FALLING[:-1], 0.9))
FAR = replace(Plan(Path("a.py"), Path("b.py"), "precision"), bitwise=Path("c.py"))


def bits(
    pairs: Sequence[tuple[Run, Run]],
    check: Check | None,
    control: Run | None = None,
    plan: Plan = Plan(Path("a.py"), Path("b.py"), "bitwise"),  # noqa: B008 - frozen
) -> Judgement:
    return judge(plan, Comparison(tuple(Pair(*pair) for pair in pairs), control, check=check), {})


def unlike(count: int = 4) -> list[tuple[Run, Run]]:
    return seeded(noise=0.001)[:count]


@pytest.mark.parametrize(
    ("check", "equality", "reason"),
    [
        pytest.param(
            Check(SAME, replace(SAME, side="rewritten")),
            "equal",
            "Under deterministic algorithms every bit is equal over 40 iterations. Without them results differ.",
            id="equal under deterministic algorithms",
        ),
        pytest.param(
            Check(SAME, OTHER, SAME),
            "different",
            "Under deterministic algorithms, losses differ from iteration 40 on (0.025 in the original, 0.9 in the "
            "rewritten script). The original repeats itself bit for bit.",
            id="different where the original repeats itself",
        ),
        pytest.param(
            Check(SAME, OTHER, record(losses=(*FALLING[:-1], 0.8))),
            "non-inferior",
            "The original is not repeatable: it differs from itself with the same seed. Results differ no more than",
            id="statistics where it does not",
        ),
        pytest.param(
            Check(SAME, OTHER), "inconclusive", "Bits differ under deterministic algorithms", id="not run again"
        ),
        pytest.param(
            Check(SAME, replace(SAME, parameters=("other",)), SAME),
            "different",
            "Under deterministic algorithms, every loss is equal, but final parameters differ.",
            id="only the parameters",
        ),
        pytest.param(
            Check(replace(SAME, lines=("val acc 0.9",)), replace(SAME, lines=("val acc 0.8",)), SAME),
            "equal",
            "Under deterministic algorithms every bit is equal over 40 iterations.",
            id="a metric that the original does not repeat",
        ),
        pytest.param(
            Check(*(replace(SAME, lines=(f"val acc {value}",)) for value in (0.9, 0.8, 0.9))),
            "different",
            "Under deterministic algorithms, every loss and every final parameter is equal, but val acc differs.",
            id="a metric that the original repeats",
        ),
        pytest.param(None, "inconclusive", "The original was not run again beside itself.", id="no look at the bits"),
    ],
)
def test_bits_are_judged_under_deterministic_algorithms(check: Check | None, equality: str, reason: str) -> None:
    judgement = bits(unlike(), check)
    assert (judgement.equality, judgement.reason[: len(reason)]) == (equality, reason)


def test_a_difference_after_the_check_counts_where_the_original_repeats_itself() -> None:
    before = seeded()[0][0]
    pair = (before, replace(before, side="rewritten", losses=(*before.losses[:30], 0.9, *before.losses[31:])))
    short = record(losses=FALLING[:20], ended="cut")
    check = Check(short, replace(short, side="rewritten"))
    assert bits([pair], check, control=before).equality == "different"
    assert bits([pair], check, control=record(losses=[0.5] * 40)).equality == "equal"


@pytest.mark.parametrize(("at", "equality"), [(15, "different"), (5, "equal")])
def test_a_check_whose_epochs_were_cut_saw_their_beginnings_alone(at: int, equality: str) -> None:
    before = replace(seeded()[0][0], passes=(Pass(0, 10, 0, 40, 40, 40),))
    after = replace(before, side="rewritten", losses=(*before.losses[:at], 0.9, *before.losses[at + 1 :]))
    checked = record(losses=FALLING[:20], ended="cut")
    checked = replace(checked, passes=(Pass(0, 2, 0, 10, 10, 10), Pass(2, 4, 0, 10, 10, 10)))
    check = Check(checked, replace(checked, side="rewritten"))
    assert bits([(before, after)], check, control=before).equality == equality


def test_bits_that_hold_do_not_excuse_a_training_that_ends_worse() -> None:
    assert bits(seeded(shift=1.0), Check(SAME, replace(SAME, side="rewritten"))).equality == "different"


def test_how_far_the_check_went_is_said() -> None:
    passes = (Pass(0, 1, 0, 30, 30, 30), Pass(1, 2, 0, 5, 5, 0), Pass(2, 3, 0, 10, 10, 10))
    reached = replace(SAME, passes=passes, ended="cut")
    within = replace(SAME, passes=passes[:1], ended="cut")
    for run, said in (
        (reached, "over 40 iterations, 2 epochs begun."),
        (within, "iterations, within the first epoch."),
    ):
        assert said in bits(unlike(), Check(run, run)).reason


@pytest.mark.parametrize(
    ("pairs", "check", "equality"),
    [
        pytest.param(unlike(), Check(SAME, SAME), "non-inferior", id="both parts hold"),
        pytest.param(unlike(), Check(SAME, OTHER, SAME), "different", id="the bits do not"),
        pytest.param(seeded(shift=1.0), Check(SAME, SAME), "different", id="the rest does not"),
        pytest.param(unlike(), None, "inconclusive", id="the bits were not looked at"),
        pytest.param(unlike(), Check(SAME, OTHER, OTHER), "non-inferior", id="the bits cannot be repeated"),
        pytest.param(timed((10, 10)), None, "equal", id="all bits are equal anyway"),
    ],
)
def test_bitwise_changes_are_judged_beside_the_others(
    pairs: list[tuple[Run, Run]], check: Check | None, equality: str
) -> None:
    assert bits(pairs, check, plan=FAR).equality == equality


# Metrics.


def scored(
    finals: Sequence[tuple[float, float]], line: str = "val acc {:.4f}", *, losses: bool = True
) -> list[tuple[Run, Run]]:
    """Pairs that differ a little in their losses, and print a metric after each of two epochs."""
    pairs = []
    for seed, values in enumerate(finals):
        runs = []
        for side, value in zip(("original", "rewritten"), values, strict=True):
            own = [loss + 0.01 * (seed + 1) + (0.0001 if side == "rewritten" else 0) for loss in FALLING]
            run = record(side, own if losses else (), seed=seed)  # type: ignore[arg-type]
            runs.append(replace(run, lines=(line.format(value - 0.1), line.format(value))))
        pairs.append((runs[0], runs[1]))
    return pairs


ALIKE = [(0.90, 0.901), (0.92, 0.919), (0.91, 0.911), (0.93, 0.929)]
WORSE = [(before, after - 0.2) for before, after in ALIKE]
BETTER = [(before, after + 0.2) for before, after in ALIKE]


def by_metric(pairs: Sequence[tuple[Run, Run]], **choices: object) -> Judgement:
    plan = replace(Plan(Path("a.py"), Path("b.py"), "random"), **choices)  # type: ignore[arg-type]
    return judge(plan, Comparison(tuple(Pair(*pair) for pair in pairs)), {})


@pytest.mark.parametrize(
    ("pairs", "choices", "equality"),
    [
        pytest.param(scored(ALIKE), {}, "non-inferior", id="as good"),
        pytest.param(scored(WORSE), {}, "different", id="worse"),
        pytest.param(scored(BETTER), {}, "different", id="better than luck explains"),
        pytest.param(scored(WORSE), {"margin": 0.5}, "non-inferior", id="worse within the margin"),
        pytest.param(scored(ALIKE), {"margin": 0.0001}, "inconclusive", id="a margin too small to tell"),
        pytest.param(scored(ALIKE, losses=False), {}, "non-inferior", id="as good, without a loss"),
        pytest.param(scored(WORSE, losses=False), {}, "different", id="worse, without a loss"),
        pytest.param(scored(WORSE, "val loss {:.4f}"), {}, "different", id="a loss that is too good"),
        pytest.param(scored([(0.9, math.nan)] * 4), {}, "different", id="not a number"),
        pytest.param(scored(WORSE, "figure {:.4f}"), {}, "non-inferior", id="nobody knows what is better: losses"),
        pytest.param(scored(WORSE, "figure {:.4f}"), {"metric": "figure", "higher": True}, "different", id="but asked"),
        pytest.param(
            scored(ALIKE, "figure {:.4f}"), {"metric": "figure", "higher": False}, "non-inferior", id="asked, and good"
        ),
        pytest.param(
            [(before, replace(after, lines=())) for before, after in scored(ALIKE, "figure {:.4f}")],
            {"metric": "figure", "higher": True},
            "different",
            id="asked, and not in the rewritten script",
        ),
        pytest.param(scored(ALIKE), {"metric": "BLEU", "higher": True}, "not-checked", id="asked, and not there"),
        pytest.param(scored(ALIKE), {"metric": "("}, "not-checked", id="asked by no regular expression"),
        pytest.param(scored([(1.0, 1.0)] * 4), {}, "non-inferior", id="the same in every run: losses"),
        pytest.param(scored([(1.0, 0.5)] * 4), {}, "inconclusive", id="no spread to judge by"),
        pytest.param(scored([(1.0, 0.5)] * 4), {"margin": 0.1}, "different", id="no spread, but a margin"),
    ],
)
def test_the_final_metric_is_judged(pairs: list[tuple[Run, Run]], choices: dict[str, object], equality: str) -> None:
    assert by_metric(pairs, **choices).equality == equality


def test_the_metric_is_in_the_summary_and_in_the_reason() -> None:
    judgement = by_metric(scored(ALIKE), margin=0.02)
    summary = judgement.summary
    assert summary is not None
    assert (summary.name, summary.higher, summary.margin) == ("val acc", True, 0.02)
    assert [summary.original, summary.rewritten] == pytest.approx([0.915, 0.915])
    assert re.search(
        r"val acc is 0\.915 against the original's 0\.915, (worse|better) by [\d.e-]+ \(between ", judgement.reason
    )
    assert "with a margin of 0.02." in judgement.reason


def test_a_metric_that_only_a_new_best_prints_must_not_vanish() -> None:
    pairs = scored(ALIKE, "new best val acc {:.4f}")
    assert by_metric(pairs).equality == "non-inferior"
    assert by_metric([(a, replace(b, lines=())) for a, b in pairs]).reason.startswith(
        "The rewritten script never prints new best val acc, as the original does."
    )


def test_training_that_was_meant_to_change_is_shown() -> None:
    judgement = by_metric(scored(WORSE), promise="training")
    assert judgement.equality == "not-checked"
    assert judgement.summary is not None
    assert judgement.summary.worse == pytest.approx(0.2, abs=0.01)


def test_a_margin_of_seeds_is_printed_as_such() -> None:
    assert "2 standard deviations of the original over its seeds" in by_metric(scored(ALIKE)).reason


def test_what_margin_could_have_been_told_is_said() -> None:
    judgement = by_metric(scored(ALIKE), margin=0.0001)
    assert judgement.summary is not None
    assert f"They could have told with a margin of {judgement.summary.resolvable:.3g}." in judgement.reason
    assert by_metric(scored(ALIKE), margin=judgement.summary.resolvable * 1.01).equality == "non-inferior"


def test_cut_runs_judge_losses_and_say_so() -> None:
    pairs = [(replace(a, ended="cut"), replace(b, ended="cut")) for a, b in scored(ALIKE)]
    judgement = by_metric(pairs)
    assert judgement.summary is not None
    assert judgement.summary.name == "the mean of the last tenth of the losses"
    assert "Runs were cut, so their losses were judged; --full judges val acc." in judgement.reason


def test_a_loss_that_is_another_one_is_not_excused_by_a_metric() -> None:
    pairs = [(a, replace(b, losses=tuple(2 * loss for loss in b.losses))) for a, b in scored(ALIKE)]
    assert by_metric(pairs).equality == "different"


def test_equal_losses_do_not_excuse_another_evaluation() -> None:
    before, after = replace(record(), lines=("val acc 0.9",)), replace(record("rewritten"), lines=("val acc 0.8",))
    assert judged([(before, after)], control=before).reason.startswith(
        "Every loss and every final parameter is equal, but val acc differs. The original repeats itself bit for bit."
    )
    unsure = judged([(before, after)], control=replace(before, lines=("val acc 0.7",)))
    assert unsure.equality == "inconclusive"


def test_nothing_seen_is_said_loudly() -> None:
    judgement = judged([(record(losses=()), record("rewritten", ()))] * 4)
    assert judgement.reason.startswith("NOTHING WAS COMPARED")


def test_parameters_and_metrics_are_equal_without_a_loss() -> None:
    pair = replace(record(losses=()), lines=("val acc 0.9",)), replace(record("rewritten", ()), lines=("val acc 0.9",))
    assert judged([pair]).equality == "equal"
    bare = tuple(replace(run, parameters=()) for run in pair)
    assert judged([(bare[0], bare[1])]).equality == "inconclusive"


# What a rewritten script must not leave out.

EPOCHS = (
    Pass(0, 1, 0, 10, 100, 10),
    Pass(1, 2, 0, 2, 20, 0),
    Pass(2, 3, 0, 10, 100, 10),
    Pass(3, 4, 0, 2, 20, 0),
)


def files(*names: str, size: int = 9, digest: str = "digest") -> tuple[File, ...]:
    return tuple(File(name, size, digest) for name in names)


def compared(
    before: Sequence[Run], after: Sequence[Run], promise: PromiseName = "bitwise", control: Run | None = None
) -> Judgement:
    """Runs that differ only as said, one pair for each, beside a control."""
    pairs = [
        (replace(a, offset=at), replace(b, side="rewritten", offset=at))
        for at, (a, b) in enumerate(zip(before, after, strict=True))
    ]
    return judged(pairs, promise, control or before[0])


@pytest.mark.parametrize("promise", ["bitwise", "random", "precision"])
@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param(files("e1.pt"), "writes 3 files such as e1.pt, the rewritten script 1.", id="fewer checkpoints"),
        pytest.param(
            files("e1.pt", "e2.pt", "e3.pt", size=900),
            "e1.pt has 9000 bytes in the original, 900 in the rewritten script.",
            id="empty checkpoints",
        ),
        pytest.param(
            files("e1.pt", "e2.pt", "e3.pt", size=18000),
            "e1.pt has 9000 bytes in the original, 18000 in the rewritten script.",
            id="larger ones",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 3])
def test_checkpoints_are_as_many_and_as_large(
    written: tuple[File, ...], reason: str, promise: PromiseName, count: int
) -> None:
    runs = [replace(before, files=files("e1.pt", "e2.pt", "e3.pt", size=9000)) for before, _ in seeded()[:count]]
    judgement = compared(runs, [replace(run, files=written) for run in runs], promise)
    assert (judgement.equality, reason in judgement.reason) == ("different", True)


@pytest.mark.parametrize(
    ("sizes", "size"),
    [
        pytest.param((9000, 9000, 9000), 9050, id="names of devices and options"),
        pytest.param((5000, 9000, 7000), 4000, id="what varies in the original"),
    ],
)
def test_sizes_may_differ(sizes: Sequence[int], size: int) -> None:
    runs = [replace(a, files=files("e.pt", size=each)) for (a, _), each in zip(seeded(), sizes, strict=False)]
    after = [replace(run, files=files("e.pt", size=size)) for run in runs]
    assert compared(runs, after, control=runs[0]).equality == "equal"


@pytest.mark.parametrize(
    ("promise", "again", "equality", "reason"),
    [
        pytest.param(
            "bitwise", "one", "different", "parameter is equal, but e#.npy differs.", id="the original repeats"
        ),
        pytest.param("bitwise", "three", "equal", "Every loss and every final parameter is equal", id="it does not"),
        pytest.param("precision", "one", "non-inferior", "e#.npy is not, as far as it was compared.", id="precision"),
    ],
)
def test_contents_of_files_are_compared(promise: PromiseName, again: str, equality: str, reason: str) -> None:
    run, other, control = (replace(SAME, files=files("e1.npy", digest=each)) for each in ("one", "two", again))
    judgement = compared([run], [other], promise, control)
    assert (judgement.equality, reason in judgement.reason) == (equality, True)
    assert Comparison((Pair(run, other),)).unequal is not None, "the original has to be run again"


def test_other_files_of_other_contents_are_named() -> None:
    run, other = (replace(SAME, files=files("e1.bin", digest=each)) for each in ("one", "two"))
    judgement = compared([run], [other])
    assert judgement.equality == "equal"
    assert "Contents of e#.bin differ: of these, only number and size were compared." in judgement.reason
    assert "Contents" not in compared([run], [other], control=other).reason, "as the original's own"


def test_copies_of_the_source_may_differ() -> None:
    runs = [replace(SAME, files=files("runs/train.py", digest=each)) for each in ("one", "two")]
    assert Comparison((Pair(runs[0], runs[1]),)).unequal is None


def test_a_checkpoint_with_other_tensors_is_different() -> None:
    run, other = (replace(SAME, files=files("e1.pt", digest=each)) for each in ("one", "two"))
    judgement = compared([run], [other], "bitwise", run)
    assert (judgement.equality, "e#.pt differs" in judgement.reason) == ("different", True)


@pytest.mark.parametrize("promise", ["bitwise", "random", "precision"])
def test_a_figure_of_any_name_must_not_vanish(promise: PromiseName) -> None:
    runs = [replace(before, lines=("Outcome: 71",)) for before, _ in seeded()]
    judgement = compared(runs, [replace(run, lines=()) for run in runs], promise)
    assert judgement.reason.startswith("The rewritten script never prints Outcome, as the original does.")


@pytest.mark.parametrize(
    ("promise", "equality"), [("bitwise", "different"), ("precision", "inconclusive")], ids=["bitwise", "precision"]
)
def test_a_figure_of_any_name_must_not_be_another(promise: PromiseName, equality: str) -> None:
    runs = [replace(before, lines=(f"EM {71 + at}",)) for at, (before, _) in enumerate(seeded())]
    after = [replace(run, lines=(f"EM {3 + at}",)) for at, run in enumerate(runs)]
    judgement = compared(runs, after, promise)
    assert (judgement.equality, "but EM differs" in judgement.reason or "But EM is 4.5" in judgement.reason) == (
        equality,
        True,
    )


def test_a_figure_that_varies_by_itself_is_no_excuse_for_losses() -> None:
    pairs = [(replace(a, lines=("score 1.1",)), replace(b, lines=("score 1.2",))) for a, b in seeded(shift=0.001)]
    judgement = judged(pairs, control=replace(pairs[0][0], lines=("score 1.3",)))
    assert judgement.equality == "different"
    assert judgement.reason.startswith("Losses differ from iteration 1 on")


FULL = replace(
    record(),
    lines=("Epoch 1: val acc 0.8", "Epoch 2: val acc 0.9", "new best val loss 0.3"),
    scalars=(Scalar("figure", 0, 1.0), Scalar("figure", 1, 1.0)),
    files=files("a.log", "model.pt", "runs/Jan01_10-00-00/events.out.1700000000.1"),
    passes=EPOCHS,
    moved=(6, 2),
)
LIKE = replace(FULL, side="rewritten", files=files("b.log", "model.pt", "runs/Jan02_11-11-11/events.out.1700000099.22"))


@pytest.mark.parametrize("promise", ["bitwise", "random", "precision"])
@pytest.mark.parametrize(
    ("rewritten", "reason"),
    [
        pytest.param(replace(LIKE, lines=()), "never prints val acc, as the original does.", id="no metric"),
        pytest.param(
            replace(LIKE, lines=LIKE.lines[1:]), "prints val acc 2 times, the rewritten script once", id="fewer"
        ),
        pytest.param(replace(LIKE, lines=LIKE.lines * 2), "prints val acc 2 times, the rewritten script 4", id="more"),
        pytest.param(replace(LIKE, scalars=()), "never gives figure to TensorBoard", id="no scalar"),
        pytest.param(replace(LIKE, scalars=LIKE.scalars[1:]), "gives figure to TensorBoard 2 times", id="one scalar"),
        pytest.param(
            replace(LIKE, files=files("b.log")), "does not write model.pt, as the original does.", id="no file"
        ),
        pytest.param(
            replace(LIKE, files=files("b.log", "model.pt")),
            "does not write runs/Jan01_10-00-00/events",
            id="no dated file",
        ),
        pytest.param(
            replace(LIKE, passes=EPOCHS[1:]), "trains on 200 samples, the rewritten script on 100.", id="data"
        ),
        pytest.param(
            replace(LIKE, passes=EPOCHS[:3]), "evaluates 2 times, the rewritten script once.", id="an evaluation"
        ),
        pytest.param(
            replace(LIKE, passes=(*EPOCHS[:3], replace(EPOCHS[3], samples=10))),
            "evaluates on 40 samples, the rewritten script on 30.",
            id="half of an evaluation",
        ),
        pytest.param(
            replace(LIKE, moved=(6, 0)),
            "changes 2 parameters of optimizer 2, the rewritten script 0.",
            id="an optimizer that is never stepped",
        ),
        pytest.param(
            replace(LIKE, moved=(5, 2)), "changes 6 parameters of optimizer 1, the rewritten script 5.", id="frozen"
        ),
        pytest.param(
            replace(LIKE, parameters=()),
            "Optimizers in the original: 1, in the rewritten script: 0.",
            id="an optimizer",
        ),
    ],
)
def test_what_every_original_does_must_be_done(rewritten: Run, reason: str, promise: PromiseName) -> None:
    judgement = judged([(FULL, rewritten)], promise, control=FULL)
    assert judgement.equality == "different"
    assert reason in judgement.reason


@pytest.mark.parametrize(
    ("original", "rewritten"),
    [
        pytest.param(FULL, LIKE, id="dates, process numbers and the script's own name"),
        pytest.param(FULL, replace(LIKE, lines=(*LIKE.lines, "test acc 0.3")), id="a metric more"),
        pytest.param(FULL, replace(LIKE, files=(*LIKE.files, *files("more.txt"))), id="a file more"),
        pytest.param(replace(FULL, files=files("__pycache__/m.cpython-311.pyc")), LIKE, id="compiled modules"),
        pytest.param(FULL, replace(LIKE, lines=("loading", *LIKE.lines)), id="other lines"),
    ],
)
def test_what_may_differ(original: Run, rewritten: Run) -> None:
    assert judged([(original, rewritten)], control=original).equality == "equal"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("lines", ("val acc 0.8", "val acc 0.9", "val acc 0.9"), id="numbers of lines"),
        pytest.param("files", files("model.pt"), id="files"),
        pytest.param("passes", EPOCHS[:2], id="samples and evaluations"),
    ],
)
def test_what_the_original_itself_does_not_always_do_may_be_left_out(field: str, value: object) -> None:
    rewritten = replace(LIKE, **{field: value})  # type: ignore[arg-type]
    varied = replace(FULL, offset=1, **{field: value})  # type: ignore[arg-type]
    pairs = [(FULL, rewritten), (varied, replace(rewritten, offset=1))]
    assert judged(pairs, "random").equality in ("equal", "inconclusive")
    assert judged([(FULL, rewritten)], "random").equality == "different"


def test_a_new_best_is_printed_as_often_as_there_is_one() -> None:
    rewritten = replace(LIKE, lines=LIKE.lines[:2])
    assert judged([(FULL, rewritten)], "random").equality == "inconclusive"
    assert judged([(FULL, rewritten)], control=FULL).equality == "different"


def test_cut_runs_owe_nothing_that_comes_at_the_end() -> None:
    bare = replace(record("rewritten"), ended="cut")
    assert judged([(replace(FULL, ended="cut"), bare)], "random").equality != "different"


def test_data_that_come_without_a_loader_are_not_counted_and_that_is_said() -> None:
    judgement = judged([(FULL, replace(LIKE, passes=()))])
    assert judgement.equality == "equal"
    assert "trains and evaluates without a DataLoader, so the samples" in judgement.reason


@pytest.mark.parametrize(
    ("passes", "lines", "equality", "reason"),
    [
        pytest.param(
            (),
            (),
            "inconclusive",
            "trains and evaluates without a DataLoader, so the samples that it trains and evaluates on were not "
            "counted. No metric tells what its evaluation does.",
            id="no loader",
        ),
        pytest.param((), ("val acc 0.9",), "equal", "trains and evaluates without a DataLoader", id="but a metric"),
        pytest.param(EPOCHS[1::2], (), "equal", "trains without a DataLoader", id="only for evaluation"),
        pytest.param(EPOCHS[::2], (), "inconclusive", "evaluates without a DataLoader", id="only for training"),
    ],
)
def test_data_that_are_not_seen_are_not_said_to_be_none(
    passes: tuple[Pass, ...], lines: tuple[str, ...], equality: str, reason: str
) -> None:
    run = replace(record(), passes=EPOCHS, lines=lines)
    judgement = judged([(run, replace(run, side="rewritten", passes=passes))])
    assert (judgement.equality, reason in judgement.reason) == (equality, True)


def test_early_stopping_excuses_no_tenth_of_a_training() -> None:
    pairs = [
        (replace(a, losses=a.losses * (1 + at)), replace(b, losses=b.losses[:4]))
        for at, (a, b) in enumerate(seeded(noise=0.01))
    ]
    judgement = judged(pairs, "random")
    assert judgement.equality == "different"
    assert judgement.reason.startswith("The original has 40 to 160 losses, the rewritten 4.")


def test_losses_of_a_flood_of_lines_are_not_counted() -> None:
    flood = replace(FULL, lines=("x" * 250, "val acc 0.9") * 1000)
    assert judged([(flood, replace(LIKE, lines=flood.lines[2:]))]).equality == "equal"


def test_far_fewer_losses_are_not_excused_by_early_stopping() -> None:
    pairs = seeded(noise=0.01)
    pairs[0] = (record(losses=pairs[0][0].losses[:-1]), pairs[0][1])
    pairs[1] = (pairs[1][0], record("rewritten", pairs[1][1].losses[:5], seed=1))
    judgement = judged(pairs, "random")
    assert (judgement.equality, "39 to 40 losses, the rewritten 5" in judgement.reason) == ("different", True)


def test_losses_that_ignore_the_seed_were_not_computed_from_it() -> None:
    pairs = seeded(noise=0.01)
    replayed = [(before, replace(pairs[0][1], offset=before.offset)) for before, _ in pairs]
    judgement = judged(replayed, "random")
    assert judgement.equality == "different"
    assert judgement.reason.startswith("The rewritten script has the same losses with every seed")


def test_a_metric_that_ignores_the_seed_was_not_computed_from_it() -> None:
    judgement = by_metric(scored([(before, 0.915) for before, _ in ALIKE]))
    assert judgement.reason.startswith("val acc is the same with every seed in the rewritten script")
    assert judgement.equality == "different"


# Precision.


@pytest.mark.parametrize(
    ("choices", "equality"),
    [
        pytest.param({}, "different", id="farther than the formats explain"),
        pytest.param({"tolerance": 0.1}, "non-inferior", id="within another tolerance"),
        pytest.param({"redrawn": True}, "non-inferior", id="other random numbers"),
    ],
)
def test_tolerance_of_first_losses(choices: dict[str, object], equality: str) -> None:
    pairs = [
        Pair(replace(a, losses=(1.0, *a.losses)), replace(b, losses=(1.05, *b.losses))) for a, b in seeded(noise=0.01)
    ]
    plan = replace(Plan(Path("a.py"), Path("b.py"), "precision"), **choices)  # type: ignore[arg-type]
    control = replace(pairs[0].original, losses=(1.0, *pairs[0].rewritten.losses[1:]))
    assert judge(plan, Comparison(tuple(pairs), control), {}).equality == equality


# Speed.


def on_gpu(before: Gpu | None, after: Gpu | None) -> Judgement:
    pairs = timed((10, 5), (10.1, 5), (9.9, 5), (10, 5.1))
    return judged([(replace(a, gpu=before), replace(b, gpu=after)) for a, b in pairs])


@pytest.mark.parametrize(
    ("before", "after", "speed", "reason"),
    [
        pytest.param(Gpu(), Gpu(), "faster", "Speed is that of whole runs.", id="undisturbed"),
        pytest.param(None, None, "faster", "Speed is that of whole runs.", id="no GPU"),
        pytest.param(
            Gpu(foreign=1, foreign_part=0.5),
            Gpu(),
            "inconclusive",
            "computed on the GPU during runs of the original alone",
            id="others",
        ),
        pytest.param(
            Gpu(foreign=1, foreign_part=0.5),
            Gpu(foreign=2, foreign_part=1.0),
            "faster",
            "do not trust the times",
            id="others on both sides",
        ),
        pytest.param(
            Gpu(), Gpu(foreign=1), "faster", "Speed is that of", id="a record that may count the run's own process"
        ),
        pytest.param(
            Gpu(),
            Gpu(throttled=("thermal",)),
            "inconclusive",
            "held back (thermal) during runs of the rewritten",
            id="hot",
        ),
        pytest.param(
            Gpu(throttled=("power",)), Gpu(throttled=("power",)), "faster", "Speed is that of", id="both at full power"
        ),
        pytest.param(
            Gpu(), Gpu(throttled=("power",)), "faster", "Speed is that of", id="its own work reaches the cap on power"
        ),
        pytest.param(
            Gpu(),
            Gpu(throttled=("power brake",)),
            "inconclusive",
            "held back (power brake) during runs of the rewritten",
            id="power that the machine takes away",
        ),
    ],
)
def test_a_gpu_that_was_disturbed_on_one_side(before: Gpu | None, after: Gpu | None, speed: str, reason: str) -> None:
    judgement = on_gpu(before, after)
    assert (judgement.speed, reason in judgement.reason) == (speed, True)


def test_work_that_goes_on_in_processes_left_behind_was_not_timed() -> None:
    pairs = [(a, replace(b, left_running=1)) for a, b in timed((10, 5), (10.1, 5), (9.9, 5), (10, 5.1))]
    assert judged(pairs).speed == "inconclusive"
    assert judged([(replace(a, left_running=1), b) for a, b in pairs]).speed == "faster"


def test_scalars_of_time_may_differ_from_run_to_run() -> None:
    runs = [replace(record(), scalars=(Scalar("seconds/epoch", 0, value),)) for value in (1.0, 2.0)]
    assert judged([(runs[0], replace(runs[1], side="rewritten"))]).equality == "equal"


def test_a_metric_alone_is_no_proof_of_equal_bits() -> None:
    pairs = [
        (replace(a, parameters=()), replace(a, side="rewritten", parameters=())) for a, _ in scored(ALIKE, losses=False)
    ]
    assert judged(pairs, "bitwise").equality == "non-inferior"


def test_runs_that_are_not_steady_are_said_to_be() -> None:
    drifting = tuple(0.1 * at + 0.01 * at**2 for at in range(40))
    pairs = [(a, replace(b, times=drifting)) for a, b in timed((10, 5), (10, 5))]
    assert "Runs of the rewritten script are not steady" in judged(pairs).reason


@pytest.mark.parametrize(
    ("original", "rewritten", "sentence"),
    [
        pytest.param(1.1, 42.3, "The rewritten script's process took 42.3 s longer to end than the script", id="later"),
        pytest.param(42.3, 1.1, "The original script's process took 42.3 s longer to end than the script", id="sooner"),
        pytest.param(42.3, 42.3, "", id="both as late"),
        pytest.param(0.1, 0.9, "", id="less than a second"),
    ],
)
def test_a_process_that_ends_late_is_named(original: float, rewritten: float, sentence: str) -> None:
    pairs = [
        (replace(a, wall_seconds=12.0 + original), replace(b, wall_seconds=12.0 + rewritten))
        for a, b in timed((10, 10), (10, 10))
    ]
    reason = judged(pairs).reason
    assert ("longer to end" in reason) is bool(sentence)
    assert sentence in reason


def test_a_second_more_at_the_end_of_a_long_run_is_not_named() -> None:
    pairs = [(a, replace(b, wall_seconds=b.wall_seconds + 2.0)) for a, b in timed((100, 100), (100, 100))]
    assert "longer to end" not in judged(pairs).reason


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        pytest.param(
            34.0, "In the only pair of runs the rewritten script took 3.00 times as long as the original", id="longer"
        ),
        pytest.param(
            4.0, "In the only pair of runs the rewritten script was 2.00 times as fast as the original", id="shorter"
        ),
        pytest.param(10.1, "In the only pair of runs the rewritten script took as long as the original", id="the same"),
    ],
)
def test_what_a_single_pair_shows_is_said(seconds: float, sentence: str) -> None:
    judgement = judged(timed((10, seconds)))
    assert judgement.speed == "inconclusive"
    assert f"{sentence}: one pair shows no spread" in judgement.reason


def test_a_single_pair_that_was_disturbed_is_told_too() -> None:
    pairs = [(a, replace(b, gpu=Gpu(foreign=1, foreign_part=0.5))) for a, b in timed((10, 22))]
    reason = judged(pairs).reason
    assert "took 2.00 times as long" in reason
    assert "their times cannot be compared" in reason


def test_a_single_pair_of_runs_that_were_cut_is_said_to_be_one() -> None:
    cut = [(replace(a, ended="cut"), replace(b, ended="cut")) for a, b in timed((10, 22))]
    assert "the rewritten script, as far as it was run, took 2.00 times as long" in judged(cut).reason
    assert "the rewritten script, extrapolated to its own length, took" in judged(cut, length=400).reason


@pytest.mark.parametrize(
    ("run", "limits"),
    [
        pytest.param(record("rewritten"), "", id="nothing stands out"),
        pytest.param(
            record("rewritten", seconds=10, startup=7),
            "75 % of the rewritten script's time passes before its first backward call.",
            id="start",
        ),
        pytest.param(
            replace(
                record("rewritten"),
                waits=tuple(0.1 * at for at in range(40)),
                passes=(Pass(0, 10, 4, 40, 40, 40),),
            ),
            "The rewritten script waits for data in 40 % of the time.",
            id="data",
        ),
        pytest.param(
            replace(record("rewritten"), passes=(Pass(0, 5, 0, 40, 40, 40), Pass(5, 10, 0, 4, 4, 0))),
            "The rewritten script spends 50 % of the time of an epoch in evaluating.",
            id="evaluation",
        ),
    ],
)
def test_what_limits_the_rewritten_script(run: Run, limits: str) -> None:
    assert judged([(record(), run)]).limits == limits


def test_figures_of_both_sides_are_told() -> None:
    judgement = judged(timed((10, 5), (10, 5)))
    assert judgement.original is not None
    assert judgement.rewritten is not None
    assert (judgement.original.run_seconds, judgement.rewritten.run_seconds) == (12.0, 7.0)
    assert judgement.over_tf32 is None


def test_processes_left_running_are_counted() -> None:
    judgement = judged([(record(), replace(record("rewritten"), left_running=3))])
    assert judgement.left_running == 3


# Failures.


@pytest.mark.parametrize(
    ("seconds", "noise"),
    [
        pytest.param([10.0], None, id="one pair tells nothing"),
        pytest.param([10.0, 10.0, 10.0], 0.0, id="always the same, the last without another"),
        pytest.param([10.0, 10.5, 10.5, 10.0], 10.5 / 10 - 1, id="the two of a block, whichever is longer"),
    ],
)
def test_the_originals_of_a_block_tell_the_noise(seconds: list[float], noise: float | None) -> None:
    judgement = judged(timed(*((each - 2.0, 8.0) for each in seconds)))
    assert judgement.noise == (None if noise is None else pytest.approx(noise))


@pytest.mark.parametrize(
    ("outcome", "problem", "reason"),
    [
        pytest.param("crashed", "ended with an exception", "ended with an exception.", id="in the run's own words"),
        pytest.param("crashed", "", "ended by an exception.", id="crashed"),
        pytest.param("exited", "", "ended with an exit status other than 0.", id="exited"),
        pytest.param("killed", "was ended by SIGKILL", "was ended by SIGKILL.", id="killed"),
        pytest.param(
            "vanished",
            "",
            "left before its end without a trace (os._exit?). Only a script that comes to its end can be judged.",
            id="vanished",
        ),
        pytest.param("out-of-memory", "", "ran out of memory. The original does not.", id="out of memory"),
        pytest.param(
            "timed-out", "", "did not end in time. If it needs longer, --timeout gives it more time.", id="timed out"
        ),
        pytest.param("interrupted", "", "was interrupted.", id="interrupted"),
    ],
)
def test_each_failure_has_its_own_sentence(outcome: Outcome, problem: str, reason: str) -> None:
    failed = Run("rewritten", 0, outcome, problem, (), 1.0)
    judgement = judge_failure(Plan(Path("a.py"), Path("b.py")), failed, None, 2, {})
    assert judgement.reason == f"The rewritten script {reason}"
    interrupted = outcome == "interrupted"
    assert (judgement.run, judgement.exit_code, judgement.interrupted) == (
        outcome,
        130 if interrupted else 2,
        interrupted,
    )


@pytest.mark.parametrize(
    ("outcome", "problem", "line", "blamed"),
    [
        pytest.param("out-of-memory", "ran out of memory", "CUDA out of memory", ("compile",), id="out of memory"),
        pytest.param("killed", "was ended by SIGBUS", "", ("loader-workers",), id="by the words for a signal"),
        pytest.param("interrupted", "was interrupted", "CUDA out of memory", (), id="nobody for an interruption"),
    ],
)
def test_memory_and_signals_are_blamed_too(outcome: Outcome, problem: str, line: str, blamed: tuple[str, ...]) -> None:
    plan = replace(BLAMING, signatures=(("compile", ("out of memory$",)), ("loader-workers", ("SIGBUS",))))
    failed = Run("rewritten", 0, outcome, problem, (line,), 1.0)
    if outcome == "out-of-memory":
        failed = replace(failed, problem="needed more than there is")
    assert judge_failure(plan, failed, None, 0, {}).blamed == blamed


def test_out_of_memory_on_both_sides_is_nobodys() -> None:
    failed = Run("original", 0, "out-of-memory", "ran out of memory", (), 1.0)
    judgement = judge_failure(BLAMING, failed, replace(failed, side="rewritten"), 0, {})
    assert judgement.reason == (
        "The original script ran out of memory. The rewritten script ran out of memory, too. "
        "A smaller batch needs less memory."
    )
