"""How often the verifier is wrong: whole verifications of runs that are drawn, not made, with the noise of machines."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite import verify as verifier
from autotune_rewrite.verify import Judgement, Plan, verify
from autotune_rewrite.verify.records import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from autotune_rewrite.verify.plan import Turn

ITERATIONS = 12
LOSS = 40.0
"""Of which the seeds' standard deviation of 1 is a small part, as it is that of luck: where seeds move a loss by more than
5 %, they are taken to change the problem."""


@dataclass(slots=True)
class Machine:
    """Draws the records of runs: how long they take, and what their last losses are."""

    sd: float
    """Of the logarithm of a pair's ratio of times."""
    gain: float = 1.0
    """How many times as fast the rewritten script really is."""
    outliers: float = 0.02
    """How often something else makes a run up to half as long again."""
    drift: float = 0.1
    """By which part the machine gets slower or faster in the course of twenty runs."""
    memory: float = 0.3
    """How much of a run's noise stays for the next one."""
    worse: float = 0.0
    """By how much the rewritten script's last losses, or its metric, are worse, in standard deviations over the seeds."""
    metric: bool = False
    """Whether it prints a metric, with other random numbers on either side: nothing of a seed's luck is shared."""
    random: random.Random = field(default_factory=lambda: random.Random(20))  # noqa: S311 - noise, no secret
    _noise: float = 0.0
    _slope: float = 0.0
    _runs: int = 0
    _luck: dict[int, float] = field(default_factory=dict)

    def start(self) -> None:
        """A verification begins."""
        self._noise, self._runs = 0.0, 0
        self._slope = self.random.uniform(-self.drift, self.drift) / 20
        self._luck.clear()

    def run(self, _: Plan, turn: Turn, *__: object) -> Run:
        """The record of the next run."""
        self._runs += 1
        # A pair's ratio has the noise of two runs, less what they have in common.
        own = self.sd / math.sqrt(2 * (1 - self.memory))
        self._noise = self.memory * self._noise + self.random.gauss(0, own * math.sqrt(1 - self.memory**2))
        seconds = 10 * math.exp(self._noise + self._slope * self._runs)
        if self.random.random() < self.outliers:
            seconds *= self.random.uniform(1, 1.5)
        luck = self._luck.setdefault(turn.offset, self.random.gauss(0, 1))
        loss = LOSS + luck + self.random.gauss(0, 0.3)
        if turn.side == "rewritten":
            seconds /= self.gain
            loss += 0.0 if self.metric else self.worse
        score = 90 + self.random.gauss(0, 1) - (self.worse if turn.side == "rewritten" else 0) if self.metric else 0.0
        printed = ("Epoch 1: val acc 50.00 %", f"Epoch 2: val acc {score:.2f} %") if self.metric else ()
        return Run(
            side=turn.side,
            offset=turn.offset,
            outcome="ok",
            problem="",
            output=(),
            wall_seconds=seconds,
            ended="finished",
            times=tuple(seconds * at / ITERATIONS for at in range(ITERATIONS)),
            losses=(LOSS,) * (ITERATIONS - 1) + (loss,),
            script_seconds=seconds,
            lines=printed,
        )


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan that costs nothing to check."""
    monkeypatch.setattr(verifier, "probe", lambda _: {})
    monkeypatch.setattr(Plan, "check", lambda _: None)
    return Plan(tmp_path / "a.py", tmp_path / "b.py", "random", time_budget=math.inf)


def judgements(plan: Plan, machine: Machine, monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[Judgement]:
    """So many verifications on the machine, with another order of runs each."""
    monkeypatch.setattr(verifier, "run_script", machine.run)
    for seed in range(count):
        machine.start()
        yield verify(replace(plan, seed=seed))


def counts(fewer: int, more: int) -> pytest.MarkDecorator:
    """How many verifications: some always, and many where there is time."""
    return pytest.mark.parametrize("count", [fewer, pytest.param(more, marks=pytest.mark.slow)])


@counts(200, 5000)
@pytest.mark.parametrize("sd", [0.01, 0.03, 0.06, 0.12])
def test_of_the_same_against_itself_at_most_six_in_a_hundred_are_told_apart(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, sd: float, count: int
) -> None:
    words = Counter(each.speed for each in judgements(plan, Machine(sd), monkeypatch, count))
    print(f"{words['faster'] + words['slower']} of {count} told apart")
    assert words["faster"] + words["slower"] <= 0.06 * count, words


@counts(100, 2000)
@pytest.mark.parametrize(("sd", "least"), [(0.01, 0.9), (0.02, 0.9), (0.03, 0.75)])
def test_five_percent_are_found(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, sd: float, least: float, count: int
) -> None:
    machine = Machine(sd, gain=1.05, outliers=0.0, drift=0.02)
    words = Counter(each.speed for each in judgements(plan, machine, monkeypatch, count))
    print(f"{words['faster']} of {count} found")
    assert words["faster"] >= least * count, words
    assert words["slower"] == 0


@counts(100, 2000)
@pytest.mark.parametrize("sd", [0.01, 0.02])
def test_no_difference_is_said_where_there_is_none(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, sd: float, count: int
) -> None:
    machine = Machine(sd, outliers=0.0, drift=0.02)
    words = Counter(each.speed for each in judgements(plan, machine, monkeypatch, count))
    print(f"{words['no-difference']} of {count} without a difference")
    assert words["no-difference"] >= 0.8 * count, words


@counts(200, 5000)
@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(Machine(0.02, worse=0.9), id="losses"),
        pytest.param(Machine(0.02, worse=3.0, metric=True), id="a metric"),
    ],
)
def test_what_ends_worse_by_the_margin_seldom_passes(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, machine: Machine, count: int
) -> None:
    worse = judgements(replace(plan, margin=machine.worse), replace(machine), monkeypatch, count)
    words = Counter(each.equality for each in worse)
    print(f"{words['non-inferior']} of {count} passed")
    assert words["non-inferior"] <= 0.05 * count, words


@counts(100, 2000)
@pytest.mark.parametrize(
    ("machine", "margin"),
    [
        pytest.param(Machine(0.02), None, id="losses, margin by seeds"),
        pytest.param(Machine(0.02), 0.9, id="losses"),
        pytest.param(Machine(0.02, metric=True), 3.0, id="a metric, margin of three standard deviations"),
    ],
)
def test_what_ends_no_worse_passes(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, machine: Machine, margin: float | None, count: int
) -> None:
    found = list(judgements(replace(plan, margin=margin), replace(machine), monkeypatch, count))
    words = Counter(each.equality for each in found)
    print(f"{words['non-inferior']} of {count} passed")
    assert words["non-inferior"] >= 0.8 * count, words
    assert {each.summary.name for each in found if each.summary is not None} == {
        "val acc" if machine.metric else "the mean of the last tenth of the losses"
    }
