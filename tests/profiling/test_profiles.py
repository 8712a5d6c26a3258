"""What follows from the times of phases: shares, intervals, limits and words."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.profiling.limits import can_act, groups, limit
from autotune_rewrite.profiling.profiles import (
    Estimate,
    Operator,
    Part,
    Profile,
    Site,
    load,
    mean_of,
    parts_of,
    share_of,
)
from autotune_rewrite.report.profile import as_json, as_text
from codemods.catalogue import RULES
from codemods.codemod import Phase

if TYPE_CHECKING:
    from pathlib import Path

SHARES = {
    Phase.DATA: 0.6,
    Phase.COPIES: 0.05,
    Phase.FORWARD: 0.1,
    Phase.BACKWARD: 0.15,
    Phase.ZEROING: 0.01,
    Phase.OPTIMIZER: 0.04,
    Phase.OTHER: 0.05,
}
PROFILE = Profile(
    script="train.py",
    arguments=("--epochs", "3"),
    device="cuda",
    environment={"torch": "2.11.0", "cuda": True, "gpu": "NVIDIA H100", "capability": "9.0", "cpus": 16},
    warm_up=5,
    iterations=100,
    iteration=Estimate(0.02, 0.019, 0.021),
    parts=tuple(
        Part(phase, 0.02 * share, Estimate(share, share - 0.01, share + 0.01)) for phase, share in SHARES.items()
    ),
    computing=Estimate(0.25, 0.24, 0.26),
    evaluation=Part(Phase.EVALUATION, 0.01, Estimate(0.3)),
    passes=2,
    loaders=True,
    modules=True,
    on_device=True,
    overhead=0.001,
    watched=10,
    operators=(Operator("aten::mm", 4.0, 0.001, 0.002),),
    accumulation=0.2,
    busy=0.3,
    sites=(Site("train.py", 31, {"item": 1.0}, 1.0), Site("train.py", 40, {"bool": 0.1}, 0.0)),
)


def _part(phase: Phase, share: float, half: float) -> Part:
    return Part(phase, share, Estimate(share, share - half, share + half))


COMPUTING = (_part(Phase.FORWARD, 0.31, 0.01), _part(Phase.BACKWARD, 0.31, 0.01))


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(as_json(PROFILE)))

    assert load(path) == PROFILE


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        pytest.param("loader-workers", 1 / 0.4, id="all waiting for data goes"),
        pytest.param("h2d-non-blocking", 1 / 0.95, id="all copies go"),
        pytest.param("amp", 1 / 0.75, id="forward and backward go"),
        pytest.param("fused-optimizer", 1 / 0.96, id="the optimizer's step goes"),
        pytest.param("zero-grad-none", 1 / (1 - 0.01 - 0.2 * 0.15), id="zeros go, and what is added to them"),
        pytest.param("no-grad-eval", 1 / 0.7, id="evaluations go, out of all the time"),
        pytest.param("as-tensor", 1 / 0.35, id="data and other code go"),
    ],
)
def test_a_rule_gains_at_most_what_its_phases_take(rule: str, factor: float) -> None:
    found = limit(PROFILE, RULES[rule].phases)

    assert found is not None
    assert found.factor == pytest.approx(factor)


def test_what_was_not_told_apart_counts_whole() -> None:
    no_module = limit(replace(PROFILE, modules=False), {Phase.FORWARD, Phase.BACKWARD})
    no_operators = limit(replace(PROFILE, accumulation=None), {Phase.ZEROING, Phase.ACCUMULATION})
    both = limit(PROFILE, {Phase.BACKWARD, Phase.ACCUMULATION})

    assert no_module is not None
    assert no_module.share == pytest.approx(0.1 + 0.15 + 0.05)
    assert no_operators is not None
    assert no_operators.share == pytest.approx(0.01 + 0.15)
    assert both is not None
    assert both.share == pytest.approx(0.15)


def test_what_was_not_seen_has_no_limit() -> None:
    assert limit(replace(PROFILE, evaluation=None), {Phase.EVALUATION}) is None
    assert limit(replace(PROFILE, parts=()), {Phase.DATA}) is None
    assert groups(replace(PROFILE, parts=())) == ()


def test_rules_of_one_group_shorten_the_same_and_all_that_save_time_are_in_one() -> None:
    found = groups(PROFILE)

    saving = sorted(name for name, rule in RULES.items() if rule.phases)
    assert sorted(name for each in found for name in each.acting) == saving
    assert "grad-checkpoint" not in saving
    assert {RULES[name].phases for name in found[0].acting} == {frozenset(found[0].phases)}
    shares = [round(each.limit.share, 2) for each in found]
    assert shares == sorted(shares, reverse=True)


def test_what_acts_depends_on_the_device() -> None:
    cpu = replace(PROFILE, device="cpu")
    old = replace(PROFILE, environment={**PROFILE.environment, "capability": "7.5"})

    assert [can_act(PROFILE, need) for need in ("", "cuda", "bf16")] == [True, True, True]
    assert [can_act(old, need) for need in ("", "cuda", "bf16")] == [True, True, False]
    assert [can_act(cpu, need) for need in ("", "cuda", "bf16")] == [True, False, False]
    assert {name for each in groups(cpu) for name in each.idle} == {n for n, rule in RULES.items() if rule.needs_cuda}


def test_shares_add_up_and_phases_without_time_are_left_out() -> None:
    found = parts_of([[1.0, 0.0, 3.0], [2.0, 0.0, 4.0]], [Phase.DATA, Phase.COPIES, Phase.OTHER])

    assert [(each.phase, each.seconds, each.share.value) for each in found] == [
        (Phase.DATA, 1.5, 0.3),
        (Phase.OTHER, 3.5, 0.7),
    ]


def test_the_interval_of_a_share_holds_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(0)  # noqa: S311 - times, not secrets
    held = 0
    for _ in range(400):
        rest = [draw.uniform(0.5, 1.5) for _ in range(60)]
        data = [draw.expovariate(1.0) for _ in range(60)]
        found = share_of(data, [own + other for own, other in zip(data, rest, strict=True)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.5 <= found.high

    assert 0.91 <= held / 400 <= 0.985


def test_bursts_do_not_make_the_interval_too_narrow() -> None:
    """Four workers hand over four batches at once: every fourth iteration waits."""
    bursts = share_of([3.0, 0.0, 0.0, 0.0] * 15, [4.0, 1.0, 1.0, 1.0] * 15)

    assert bursts.value == pytest.approx(3 / 7)
    assert bursts.low is not None
    assert bursts.low <= 3 / 7 <= (bursts.high or 0)


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_iterations_have_no_interval(count: int) -> None:
    assert share_of([1.0] * count, [2.0] * count) == Estimate(0.5)
    assert mean_of([2.0] * count) == Estimate(2.0)


def test_an_interval_stays_between_none_and_all() -> None:
    found = share_of([0.0, 0.0, 9.0], [1.0, 1.0, 10.0])

    assert (found.low, found.high) == (0.0, 1.0)


def test_the_screen_says_it_in_words() -> None:
    text = as_text(PROFILE, block="#")

    assert text.startswith(
        "Waiting for data is 60 % of an iteration: without any of that, and all else as now, the script would\n"
        "be 2.50 times as fast."
    )
    for part in (
        "waiting for data        12.0 ms  60 % (59 to 61 %)  ##################\n",
        "    adding to gradients  0.600 ms                3 %\n",
        "1.33 times as fast  forward and loss, backward",
        "amp, channels-last, compile, cudnn-benchmark, tf32-matmul",
        "aten::mm  2.00 ms  4 times an iteration",
        "train.py:31  item 1    CUDA waited 1 times",
        "train.py:40  bool 0.1  CUDA did not wait",
        "by events in the device's stream",
        "lay 2 evaluations: 30 % of all the time that was seen",
        "the GPU was idle for 70 % of the time",
        "NVIDIA H100",
    ):
        assert part in text or part in " ".join(text.split()), part
    assert "only on CUDA" not in text
    assert "As long may be" not in text
    assert "very different" not in text


def test_an_evaluation_that_takes_most_of_the_time_is_told_first() -> None:
    little, much = (as_text(replace(PROFILE, evaluation=_part(Phase.EVALUATION, share, 0.1))) for share in (0.4, 0.6))

    assert "Between the iterations lay 2 evaluations: 40 %" not in "\n".join(little.splitlines()[:5])
    assert little.count("Between the iterations lay 2 evaluations: 40 %") == 1
    assert much.splitlines()[2].startswith("Between the iterations lay 2 evaluations: 60 %")
    assert much.count("Between the iterations") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"loaders": False}, "No DataLoader was read in these iterations", id="no loader"),
        pytest.param({"modules": False}, "No module was called before backward", id="no module"),
        pytest.param(
            {"parts": (_part(Phase.DATA, 0.5, 0.3), _part(Phase.OTHER, 0.4, 0.3)), "computing": None},
            "As long may be: other code.",
            id="another phase may be as long",
        ),
        pytest.param(
            {"computing": Estimate(0.62, 0.61, 0.63), "parts": (_part(Phase.DATA, 0.38, 0.01), *COMPUTING)},
            "Forward and loss, and backward are 62 % of an iteration",
            id="forward and backward together",
        ),
        pytest.param(
            {"iteration": Estimate(0.02, 0.01, 0.03)}, "Iterations took very different times", id="a noisy machine"
        ),
        pytest.param({"device": "cpu"}, "Only on CUDA: loader-workers", id="rules that cannot act"),
        pytest.param({"notes": ("Told.",)}, "\nTold.", id="what went wrong"),
        pytest.param(
            {"parts": (Part(Phase.WAITING, 1.0, Estimate(1.0)),), "computing": None},
            "would be any number of times as fast.\nRules that shorten it: defer-sync.",
            id="all of it",
        ),
    ],
)
def test_the_screen_says_what_limits_it(change: dict[str, Any], said: str) -> None:
    text = as_text(replace(PROFILE, **change))

    assert " ".join(said.split()) in " ".join(text.split())
