"""How near a search comes to the best of all combinations in the time of few runs: no script runs here, time is drawn."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from worlds import MARKS, OPTIONS, World

from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.tune.trials import Records
from autotune_rewrite.tune.tuned import Tuning
from autotune_rewrite.verify.judgement import SAME, Judgement, speed_word
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.records import Run
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from autotune_rewrite.verify.plan import Side

RUN = 5.0
"""Seconds of a run, whatever it trains: what it takes to start is most of it."""


@dataclass
class Noisy(World):
    """Pairs of runs take time, and their ratios vary."""

    noise: float = 0.02
    """Standard deviation of a ratio's logarithm."""
    draw: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - a world, not a secret
    now: float = 0.0

    def monotonic(self) -> float:
        """Seconds, in the place of the clock's."""
        return self.now

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        judgement, _ = super().__call__(plan, probe=probe)
        assert judgement.whole is not None
        pairs = max(1, min(plan.pairs, 4, int(plan.time_budget / (2 * RUN))))
        self.now += pairs * 2 * RUN
        ratios = [judgement.whole.estimate * self.draw.lognormvariate(0.0, self.noise) for _ in range(pairs)]
        whole = Ratio.of(ratios, [1.0] * pairs)
        one = Run("original", 0, "ok", "", (), RUN, times=(1.0, 2.0), ended="finished", busy_seconds=RUN, in_turns=True)
        sides: tuple[Side, Side] = ("original", "rewritten")
        runs = [replace(one, side=side, offset=number) for number in range(pairs) for side in sides]
        told = replace(judgement, whole=whole, speed=speed_word(whole), pairs=pairs, of_pairs=tuple(ratios))
        return told, runs


FACTORS = (0.9, 1.0, 1.0, 1.1, 1.3)
WORLDS = [dict(zip(MARKS, factors, strict=True)) for factors in itertools.product(FACTORS[1:], repeat=len(MARKS))]


@pytest.mark.parametrize(
    ("budget", "near"),
    [
        pytest.param(180.0, 0.9, id="seventeen pairs in all"),
        pytest.param(400.0, 0.95, id="thirty-nine pairs in all"),
    ],
)
def test_few_runs_find_what_is_within_the_noise_of_the_best(
    naive: Path, monkeypatch: pytest.MonkeyPatch, budget: float, near: float
) -> None:
    parts = read_project(str(naive))
    worlds = random.Random(1).sample(WORLDS, 40)  # noqa: S311 - worlds, not secrets
    missed: list[dict[str, float]] = []
    useless: list[int] = []
    for number, factors in enumerate(worlds):
        world = Noisy(factors, draw=random.Random(number))  # noqa: S311 - the same
        for module in ("tuned", "trials", "verified"):
            monkeypatch.setattr(f"autotune_rewrite.tune.{module}.time", world)
        result = Tuning(parts, OPTIONS, Plan(naive, naive), world, lambda _: None, budget, Records(None)).end()

        text = result.changes.texts[0] if result.changes is not None else naive.read_text()
        best = 10.0
        for factor in factors.values():
            best /= max(1.0, factor)
        if world.time(text, factors) > best * SAME[1]:
            missed.append(factors)
        useless.append(sum(mark in text for rule, mark in MARKS.items() if factors[rule] <= 1.0))
        assert world.time(text, factors) <= 10.0, "never slower than the original"
        assert world.now <= budget + 2 * RUN

    assert len(missed) <= (1 - near) * len(worlds), missed
    assert sum(useless) <= 0.25 * len(worlds), "changes that gain nothing, and were kept as nothing showed that"
