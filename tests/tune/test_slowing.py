"""What is correct and makes the whole slower is taken back: a verifier made for the purpose, and no script runs here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from intervals import HALF_WIDTH, speed_of
from worlds import MARKS

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.tune.verified import SLOWING, Verified, verified
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.records import Run
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from autotune_rewrite.verify.records import Environment

DEVICE: Environment = {"cuda": True, "capability": "9.0"}
FINE = Run("original", 0, "ok", "", (), 20.0, times=(1.0, 2.0), losses=(2.0, 1.0), ended="finished")


@dataclass
class World:
    """How many times as fast each rule makes a script."""

    factors: Mapping[str, float]
    interrupts: bool = False
    """Whether the user ends the search."""
    plans: list[Plan] = field(default_factory=list)

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        assert probe == plan.speed_only
        self.plans.append(plan)
        times = []
        for path in (plan.original_text or plan.original, plan.rewritten):
            text = path.read_text()
            times.append(10.0)
            for rule, mark in MARKS.items():
                times[-1] /= self.factors.get(rule, 1.0) if mark in text else 1.0
        factor = times[0] / times[1]
        ratio = Ratio(factor, factor / HALF_WIDTH, factor * HALF_WIDTH)
        reason = "They compute the same."
        judgement = Judgement("ok", speed_of(ratio), "equal", reason, "bitwise", whole=ratio, environment=DEVICE)
        return replace(judgement, interrupted=probe and self.interrupts), [FINE, replace(FINE, side="rewritten")]


def tried(naive: Path, world: World, *, slowing: bool = True, rules: Sequence[str] = tuple(MARKS)) -> Verified:
    options = Options(level="bitwise", select=tuple(rules))
    return verified(read_project(str(naive)), options, Plan(naive, naive), world, lambda _: None, slowing=slowing)


@pytest.mark.parametrize("rule", sorted(MARKS))
def test_the_change_that_makes_the_whole_slower_goes_and_the_rest_is_verified_again(naive: Path, rule: str) -> None:
    world = World({rule: 0.8})
    result = tried(naive, world)

    assert result.changes.rules == frozenset(MARKS) - {rule}
    assert result.judgement is not None
    ((left_out, why),) = result.judgement.left_out
    assert (left_out, why) == (rule, "Measured: it made the script take 1.25 times as long (1.23 to 1.27).")
    assert result.judgement.fit
    assert not world.plans[-1].speed_only
    assert {site.message for site in result.changes.sites if site.rule == rule} == {SLOWING}


def test_of_two_both_go(naive: Path) -> None:
    result = tried(naive, World({"loader-pin": 0.8, "zero-grad-none": 0.9}))

    assert result.changes.rules == {"h2d-non-blocking"}


def test_a_loss_that_gains_outweigh_stays(naive: Path) -> None:
    world = World({"loader-pin": 0.8, "zero-grad-none": 2.0})

    assert tried(naive, world).changes.rules == frozenset(MARKS)
    assert len(world.plans) == 1


def test_where_no_single_change_is_slower_for_certain_the_whole_is_not_fit(naive: Path) -> None:
    result = tried(naive, World(dict.fromkeys(MARKS, 0.99)))

    assert result.judgement is not None
    assert (result.judgement.fit, result.judgement.left_out) == (False, ())
    assert result.judgement.reason.endswith("No single change makes it slower for certain.")


def test_a_single_change_that_is_slower_needs_no_search(naive: Path) -> None:
    world = World({"zero-grad-none": 0.8})
    result = tried(naive, world, rules=["zero-grad-none"])

    assert (result.changes.rules, len(world.plans)) == (frozenset(), 1)


def test_the_search_keeps_to_the_time_budget(naive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World({"zero-grad-none": 0.8})

    class Clock:
        """Each comparison takes all the time that it may."""

        @staticmethod
        def monotonic() -> float:
            return sum(plan.time_budget for plan in world.plans if plan.speed_only)

    monkeypatch.setattr("autotune_rewrite.tune.slowing.time", Clock)
    tried(naive, world)

    assert [plan.time_budget for plan in world.plans if plan.speed_only] == [100.0] * 3


def test_a_search_that_the_user_ends_is_the_last(naive: Path) -> None:
    result = tried(naive, World({"zero-grad-none": 0.8}, interrupts=True))

    assert result.judgement is not None
    assert (result.judgement.interrupted, result.judgement.left_out) == (True, ())


def test_who_does_not_ask_for_it_is_told_that_it_is_slower(naive: Path) -> None:
    world = World({"zero-grad-none": 0.8})
    result = tried(naive, world, slowing=False)

    assert result.judgement is not None
    assert (result.judgement.speed, len(world.plans)) == ("slower", 1)
