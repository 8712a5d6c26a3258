"""Scripts whose times are known by their texts, in the place of the verifier."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from intervals import HALF_WIDTH, speed_of

from autotune_rewrite.rewriting.config import Options
from autotune_rewrite.tune.tuned import FRESH
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.records import Run
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.ratio import Ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from autotune_rewrite.verify.plan import Plan

MARKS = {"loader-pin": "pin_memory", "h2d-non-blocking": "non_blocking", "zero-grad-none": "set_to_none=True"}
"""Words by which the change of a rule to ``NAIVE`` is seen."""
OPTIONS = Options(level="bitwise", select=tuple(MARKS))
CUDA = {"torch": "2.15.0", "cuda": True, "gpu": "a GPU", "capability": "9.0"}


@dataclass
class World:
    """How many times as fast each rule makes the script; answers as the verifier does."""

    factors: Mapping[str, float]
    crashing: str = ""
    """A rule with which the script does not run."""
    environment: Mapping[str, Any] = field(default_factory=lambda: CUDA)
    late: Mapping[str, float] = field(default_factory=dict)
    """How many times as fast they are in fresh runs, where that is otherwise."""
    interrupts: int = -1
    """The number of the plan that the user interrupts."""
    plans: list[Plan] = field(default_factory=list)

    def time(self, text: str, factors: Mapping[str, float]) -> float:
        seconds = 10.0
        for rule, mark in MARKS.items():
            if mark in text:
                seconds /= factors.get(rule, 1.0)
        return seconds

    def __call__(self, plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        del probe
        self.plans.append(plan)
        before, after = (plan.original_text or plan.original).read_text(), plan.rewritten.read_text()
        factors = {**self.factors, **self.late} if plan.seed >= FRESH else self.factors
        first, second = self.time(before, factors), self.time(after, factors)
        ratio = Ratio(first / second, first / second / HALF_WIDTH, first / second * HALF_WIDTH)
        if self.crashing and MARKS[self.crashing] in after:
            reason = "The rewritten script crashed."
            crashed = Judgement(
                "crashed", "not-checked", "not-checked", reason, "bitwise", side="rewritten", blamed=(self.crashing,)
            )
            return replace(crashed, environment=dict(self.environment)), []
        judgement = Judgement("ok", speed_of(ratio), "equal", "The same bits.", "bitwise", whole=ratio, basis="whole")
        judgement = replace(
            judgement,
            environment=dict(self.environment),
            interrupted=len(self.plans) - 1 == self.interrupts,
            original=Figures(first),
            rewritten=Figures(second),
        )
        return judgement, [Run("original", 0, "ok", "", (), first, times=(1.0, 2.0), ended="finished")]
