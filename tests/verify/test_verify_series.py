"""How many runs there are, and of which length: looks, and the time budget. No process is started."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite import verify as verifier
from autotune_rewrite.verify import Judgement, Plan, Progress, verify
from autotune_rewrite.verify.records import Run

if TYPE_CHECKING:
    from autotune_rewrite.verify.plan import Turn


@dataclass(slots=True)
class Script:
    """What both scripts do: so many iterations, each of so many seconds, after a start of 2 seconds."""

    iterations: int = 100
    seconds: float = 0.01
    faster: float = 1.0
    """How many times as fast an iteration of the rewritten script is."""
    noise: tuple[float, ...] = (0.0,)
    """Seconds that pairs take longer, on the rewritten side alone."""
    runs: list[tuple[Turn, int, float]] = field(default_factory=list)
    """Turn, iterations and seconds of each run."""

    def run(self, plan: Plan, turn: Turn, seconds: float | None = None, _: object = None) -> Run:
        """One run, ended by what comes first."""
        each = self.seconds / (self.faster if turn.side == "rewritten" else 1.0)
        limits = [self.iterations, plan.iterations or self.iterations]
        if seconds is not None:
            limits.append(max(1, int((seconds - 2) / each)))
        iterations = min(limits)
        late = self.noise[turn.offset % len(self.noise)] if turn.side == "rewritten" else 0.0
        whole = 2 + iterations * each + late
        self.runs.append((turn, iterations, whole))
        return Run(
            side=turn.side,
            offset=turn.offset,
            outcome="ok",
            problem="",
            output=(),
            wall_seconds=whole,
            ended="finished" if iterations == self.iterations else "cut",
            times=tuple(2 + at * each for at in range(iterations)),
            losses=(1.0,) * iterations,
            parameters=("digest",),
            script_seconds=whole,
        )


def judged(monkeypatch: pytest.MonkeyPatch, script: Script, **choices: object) -> Judgement:
    monkeypatch.setattr(verifier, "probe", lambda _: {})
    monkeypatch.setattr(verifier, "run_script", script.run)
    monkeypatch.setattr(Plan, "check", lambda _: None)
    plan = replace(Plan(Path("a.py"), Path("b.py"), "bitwise"), **choices)  # type: ignore[arg-type]
    return verify(plan)


def test_half_of_the_pairs_are_enough_where_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(faster=3.0)
    judgement = judged(monkeypatch, script)
    assert (judgement.speed, judgement.pairs, len(script.runs), judgement.sized) == ("faster", 4, 8, "")
    assert judgement.whole is not None
    assert judgement.whole.confidence == pytest.approx(0.9706)


def test_all_pairs_are_run_where_half_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(noise=(1.0, -1.0, 0.5))
    judgement = judged(monkeypatch, script)
    assert (judgement.speed, judgement.pairs, len(script.runs)) == ("inconclusive", 8, 16)


@pytest.mark.parametrize(("pairs", "looks"), [(8, (4, 8)), (12, (6, 12)), (4, (4,)), (6, (6,)), (1, (1,))])
def test_there_are_two_looks_at_most(pairs: int, looks: tuple[int, ...]) -> None:
    assert Plan(Path("a.py"), Path("b.py"), pairs=pairs).looks == looks


def test_one_look_has_the_whole_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    judgement = judged(monkeypatch, Script(faster=3.0), pairs=6)
    assert judgement.pairs == 6
    assert judgement.whole is not None
    assert judgement.whole.confidence == 0.95


def test_fewer_pairs_are_run_where_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(noise=(0.0, 1.0, 0.5))  # 3 to 4 seconds a run
    judgement = judged(monkeypatch, script, time_budget=30.0)
    assert (judgement.pairs, len(script.runs)) == (4, 8)
    assert judgement.sized == "Fewer pairs were run to keep to the time budget of 30 s."


def test_long_runs_are_cut_and_extrapolated_to_their_own_length(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=1000, faster=2.0)  # 12 and 7 seconds
    judgement = judged(monkeypatch, script, time_budget=60.0)
    assert judgement.sized == "Runs were cut to 550 iterations to keep to the time budget of 60 s."
    assert [iterations for _, iterations, _ in script.runs] == [1000, 1000] + [550] * 8
    assert sum(seconds for *_, seconds in script.runs[2:]) <= 60
    assert (judgement.basis, judgement.speed) == ("extrapolated", "faster")


def test_runs_without_end_are_cut_after_their_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=10**6, faster=2.0)
    judgement = judged(monkeypatch, script, time_budget=60.0)
    assert sum(seconds for *_, seconds in script.runs) <= 1.5 * 60
    assert {iterations for _, iterations, _ in script.runs[2:]} == {550}
    assert (judgement.basis, judgement.pairs) == ("cut", 4)


def test_iterations_that_were_asked_for_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=10**6)
    judged(monkeypatch, script, iterations=3000, time_budget=200.0)
    assert {iterations for _, iterations, _ in script.runs} == {3000}


def test_progress_knows_how_many_runs_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(faster=3.0)
    monkeypatch.setattr(verifier, "probe", lambda _: {})
    monkeypatch.setattr(verifier, "run_script", script.run)
    monkeypatch.setattr(Plan, "check", lambda _: None)
    seen: list[Progress] = []
    verify(Plan(Path("a.py"), Path("b.py")), seen.append)
    assert [(each.number, each.total) for each in seen] == [(number, 16) for number in range(1, 9)]
    assert [each.side for each in seen] == [turn.side for turn, *_ in script.runs]
