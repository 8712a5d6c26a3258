"""How many runs there are, and of which length: looks, and the time budget. No process is started."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite import verify as verifier
from autotune_rewrite.verify import Judgement, Plan, Progress, VerifyError, judge_again, turns, verify
from autotune_rewrite.verify.records import Pass, Run

if TYPE_CHECKING:
    from autotune_rewrite.verify.plan import Turn
    from autotune_rewrite.verify.records import Environment


@dataclass(slots=True)
class Script:
    """What both scripts do: so many iterations, each of so many seconds, after a start of 2 seconds."""

    iterations: int = 100
    seconds: float = 0.01
    faster: float = 1.0
    """How many times as fast an iteration of the rewritten script is."""
    slower: tuple[float, ...] = (1.0,)
    """How many times as long all takes that the machine does, in each run; the last one counts on."""
    noise: tuple[float, ...] = (0.0,)
    """Seconds that pairs take longer, on the rewritten side alone."""
    epoch: int = 0
    """Iterations of an epoch; 0: no loader is seen."""
    odd: frozenset[tuple[str, str]] = frozenset()
    """Kinds and sides of runs that have other bits."""
    ends: tuple[str, str, int] = ("", "", 0)
    """An outcome other than ok, and the side and offset of the run that has it."""
    busy: tuple[float, ...] = (1.0,)
    """The part of its time in which it waits for nothing but a processor, in each pair; the last one counts on."""
    host_bytes: int = 1
    in_turns: frozenset[str] = frozenset()
    """What becomes of the rewritten run where both are alive at once: ``odd`` bits, or another outcome than ok."""
    together: list[int] = field(default_factory=list)
    """The pairs whose runs were started in turns."""
    runs: list[tuple[Turn, int, float]] = field(default_factory=list)
    """Turn, iterations and seconds of each run."""
    plans: list[Plan] = field(default_factory=list)

    def run(self, plan: Plan, turn: Turn, seconds: float | None = None, _: object = None) -> Run:
        """One run, ended by what comes first."""
        each = self.seconds / (self.faster if turn.side == "rewritten" else 1.0)
        limits = [self.iterations, plan.iterations or self.iterations]
        if seconds is not None:
            limits.append(max(1, int(min(self.iterations, (seconds - 2) / each))))
        iterations = min(limits)
        late = self.noise[turn.offset % len(self.noise)] if turn.side == "rewritten" else 0.0
        busy = self.slower[min(len(self.runs), len(self.slower) - 1)]
        whole = busy * (2 + iterations * each + late)
        hangs = whole > plan.seconds_of_run
        whole = min(whole, plan.seconds_of_run)
        self.runs.append((turn, iterations, whole))
        self.plans.append(plan)
        outcome, side, offset = self.ends
        failed = outcome and (side, offset) == (turn.side, turn.offset)
        return Run(
            side=turn.side,
            offset=turn.offset,
            kind=turn.kind,
            outcome="timed-out" if hangs else outcome if failed else "ok",  # type: ignore[arg-type]
            problem="did not go well" if failed else "",
            output=(),
            wall_seconds=whole,
            ended="finished" if iterations == self.iterations else "cut",
            times=tuple(2 + at * each for at in range(iterations)),
            losses=(1.0,) * iterations,
            passes=self._passes(iterations, plan.batches),
            parameters=("odd" if (turn.kind, turn.side) in self.odd else "digest",),
            script_seconds=whole,
            busy_seconds=self.busy[min(turn.offset, len(self.busy) - 1)] * whole,
            host_bytes=self.host_bytes,
        )

    def run_in_turns(
        self, plan: Plan, turns: tuple[Turn, Turn], _: object = None, seconds: float | None = None
    ) -> tuple[Run, Run]:
        """A pair of runs that are alive at once."""
        self.together.append(turns[0].offset)
        runs = [replace(self.run(plan, turn, seconds), in_turns=True) for turn in turns]
        for each in self.in_turns:
            change = {"parameters": ("odd",)} if each == "odd" else {"outcome": each}
            runs = [replace(run, **change) if run.side == "rewritten" else run for run in runs]
        return runs[0], runs[1]

    def _passes(self, iterations: int, batches: int | None) -> tuple[Pass, ...]:
        """One batch an iteration."""
        length = min(self.epoch, batches or self.epoch)
        return tuple(
            Pass(float(start), start + 1.0, 0.0, done := min(length, iterations - start), 4 * done, done)
            for start in range(0, iterations if length else 0, length or 1)
        )


def judged(monkeypatch: pytest.MonkeyPatch, script: Script, **choices: object) -> Judgement:
    started(monkeypatch, script)
    plan = replace(Plan(Path("a.py"), Path("b.py"), "bitwise"), **choices)  # type: ignore[arg-type]
    return verify(plan)


def started(monkeypatch: pytest.MonkeyPatch, script: Script, environment: Environment | None = None) -> None:
    monkeypatch.setattr(verifier, "probe", lambda _: environment or {})
    monkeypatch.setattr(verifier, "run_script", script.run)
    monkeypatch.setattr(verifier, "run_in_turns", script.run_in_turns)
    monkeypatch.setattr(turns, "POSSIBLE", True)
    monkeypatch.setattr(Plan, "check", lambda _: None)


def kinds(script: Script) -> list[tuple[str, str, int]]:
    """What was run beside the pairs."""
    return [(turn.kind, turn.side, turn.offset) for turn, *_ in script.runs if turn.kind != "pair"]


def test_after_a_first_pair_that_is_equal_the_runs_of_a_pair_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(noise=(0.0, 0.3))
    judgement = judged(monkeypatch, script, pairs=8)
    assert (script.together, judgement.pairs, judgement.in_turns) == ([1, 2, 3, 4, 5, 6, 7], 8, 7)


def test_a_first_pair_that_waited_for_a_file_says_nothing_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(busy=(0.5, 1.0), noise=(0.0, 0.3))
    assert (judged(monkeypatch, script, pairs=8).in_turns, script.together) == (6, [2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize(
    ("script", "together", "in_turns"),
    [
        pytest.param(Script(), [0, 1, 2, 3], 4, id="both compute all the time"),
        pytest.param(Script(seconds=0.1, iterations=1000), [0, 0, 1, 2, 3], 4, id="they are too long, and cut"),
        pytest.param(Script(busy=(0.5, 0.5)), [0], 0, id="they wait: the pair is run again, one after the other"),
    ],
)
def test_where_earlier_pairs_took_turns_the_first_does(
    monkeypatch: pytest.MonkeyPatch, script: Script, together: list[int], in_turns: int
) -> None:
    judgement = judged(monkeypatch, script, pairs=4, takes_turns=True)
    assert (script.together, judgement.pairs, judgement.in_turns) == (together, 4, in_turns)


def test_a_device_that_is_known_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, Script())
    monkeypatch.delattr(verifier, "probe")
    known: Environment = {"torch": "2.15.0"}
    assert verify(Plan(Path("a.py"), Path("b.py")), environment=known).environment == known


@pytest.mark.parametrize(
    ("script", "choices", "environment"),
    [
        pytest.param(Script(odd=frozenset({("pair", "rewritten")})), {}, {}, id="what differs may read other files"),
        pytest.param(Script(busy=(0.5,)), {}, {}, id="what waits goes on waiting while it is stopped"),
        pytest.param(Script(host_bytes=2**60), {}, {}, id="two do not fit into memory"),
        pytest.param(Script(), {}, {"cuda": True, "capability": "7.5"}, id="a GPU computes on while it is stopped"),
        pytest.param(Script(), {"launcher": ("torchrun",)}, {}, id="workers of a launcher lead groups of their own"),
    ],
)
def test_one_run_follows_the_other_where(
    monkeypatch: pytest.MonkeyPatch, script: Script, choices: dict[str, object], environment: Environment
) -> None:
    started(monkeypatch, script, environment)
    verify(replace(Plan(Path("a.py"), Path("b.py"), "precision"), **choices))  # type: ignore[arg-type]
    assert script.together == []


@pytest.mark.parametrize(
    "what",
    [
        pytest.param("crashed", id="it fails, as it finds its port taken"),
        pytest.param("odd", id="it differs, as it reads what the other wrote"),
    ],
)
def test_a_pair_that_does_not_go_well_in_turns_is_run_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    script = Script(in_turns=frozenset({what}))
    judgement = judged(monkeypatch, script)
    assert (script.together, judgement.in_turns) == ([1], 0)
    assert (judgement.run, judgement.equality, judgement.speed) == ("ok", "equal", "no-difference")


def test_whoever_ends_a_pair_in_turns_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(in_turns=frozenset({"interrupted"}))
    judgement = judged(monkeypatch, script)
    assert (script.together, judgement.interrupted, judgement.pairs) == ([1], True, 1)


CHECK = [("check", "original", 0), ("check", "rewritten", 0)]
CUDA: Environment = {"cuda": True, "capability": "9.0"}


def test_bits_that_are_equal_over_two_epochs_need_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(epoch=50)
    assert (judged(monkeypatch, script).equality, kinds(script)) == ("equal", [])


def test_of_runs_that_are_cut_in_the_first_epoch_the_bits_of_a_second_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(iterations=10**5, epoch=10**4, faster=2.0)
    judgement = judged(monkeypatch, script, time_budget=60.0)
    assert (judgement.equality, kinds(script)) == ("equal", CHECK)
    ((_, iterations, _), plan), *_ = [
        (run, plan) for run, plan in zip(script.runs, script.plans, strict=True) if run[0].kind == "check"
    ]
    assert plan.batches is not None
    assert plan.batches < 10**4
    assert iterations == 2 * plan.batches


@pytest.mark.parametrize("seconds", [math.inf, 1e308], ids=["no limit", "more than can be counted"])
@pytest.mark.parametrize(
    "epoch", [200, 0], ids=["cut in the first epoch, which is cut for the look", "no loader is seen"]
)
def test_without_a_limit_of_time_the_look_at_the_bits_is_as_long_as_the_runs(
    monkeypatch: pytest.MonkeyPatch, epoch: int, seconds: float
) -> None:
    odd = frozenset({("pair", "rewritten"), ("control", "original")})
    script = Script(iterations=300, epoch=epoch, odd=odd if not epoch else frozenset())
    judgement = judged(monkeypatch, script, time_budget=seconds, iterations=150)
    assert (judgement.run, judgement.sized) == ("ok", "")
    assert {iterations for turn, iterations, _ in script.runs if turn.kind == "check"} == {150}


def test_an_original_that_repeats_itself_is_enough_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(odd=frozenset({("pair", "rewritten"), ("check", "rewritten")}))
    assert (judged(monkeypatch, script).equality, kinds(script)) == ("different", [("control", "original", 0)])


def test_on_cuda_deterministic_algorithms_tell_whose_bits_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    control = ("control", "original", 0)
    script = Script(odd=frozenset({("pair", "rewritten"), ("check", "rewritten")}), iterations=10)
    started(monkeypatch, script, CUDA)
    judgement = verify(Plan(Path("a.py"), Path("b.py"), "bitwise"))
    assert judgement.equality == "different"
    assert [kind for kind in kinds(script) if kind[0] != "tf32"] == [control, *CHECK, ("check", "original", 0)]
    script = Script(odd=frozenset({("pair", "rewritten"), ("control", "original")}), iterations=10)
    started(monkeypatch, script, CUDA)
    assert verify(Plan(Path("a.py"), Path("b.py"), "bitwise")).equality == "equal"
    assert [kind for kind in kinds(script) if kind[0] != "tf32"] == [control, *CHECK]


def test_the_changes_that_promise_the_same_bits_are_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(odd=frozenset({("pair", "rewritten")}))
    judgement = judged(monkeypatch, script, promise="random", bitwise=Path("c.py"))
    assert (judgement.equality, kinds(script)) == ("inconclusive", CHECK)  # these losses have no spread to judge by
    broken = Script(odd=frozenset({("pair", "rewritten"), ("check", "rewritten")}))
    different = judged(monkeypatch, broken, promise="random", bitwise=Path("c.py"))
    assert (different.equality, kinds(broken)) == ("different", [*CHECK, ("check", "original", 0)])


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        pytest.param(CUDA, 4, id="an H100 has it"),
        pytest.param({"cuda": True, "capability": "7.5"}, 0, id="a T4 has none"),
        pytest.param({"cuda": False}, 0, id="a CPU has none"),
    ],
)
def test_tf32_is_a_second_baseline(monkeypatch: pytest.MonkeyPatch, environment: Environment, count: int) -> None:
    script = Script(faster=3.0)
    started(monkeypatch, script, environment)
    judgement = verify(Plan(Path("a.py"), Path("b.py"), "bitwise"))
    assert kinds(script) == [("tf32", "original", offset) for offset in range(count)]
    assert (judgement.over_tf32 is not None) == bool(count)


@pytest.mark.parametrize(
    ("offset", "speed"),
    [
        pytest.param(2, "faster", id="after two pairs"),
        pytest.param(0, "not-checked", id="in the first"),
    ],
)
def test_after_an_interrupt_what_is_known_is_judged(monkeypatch: pytest.MonkeyPatch, offset: int, speed: str) -> None:
    script = Script(faster=3.0, ends=("interrupted", "original", offset))
    judgement = judged(monkeypatch, script)
    assert (judgement.interrupted, judgement.speed, judgement.pairs) == (True, speed, offset)
    assert script.runs[-1][0].side == "original"


def test_an_interrupt_between_runs_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, Script())

    def interrupted(_: Plan) -> Environment:
        raise KeyboardInterrupt

    monkeypatch.setattr(verifier, "probe", interrupted)
    judgement = verify(Plan(Path("a.py"), Path("b.py")))
    assert (judgement.run, judgement.interrupted, judgement.pairs, judgement.exit_code) == ("interrupted", True, 0, 130)


def test_a_whole_first_pair_is_kept_when_others_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    started(monkeypatch, Script(iterations=1000, faster=2.0))  # 12 and 7 seconds
    seen: list[Run] = []
    verify(Plan(Path("a.py"), Path("b.py"), "bitwise", time_budget=60.0), records=None, on_run=seen.append)
    assert [len(run.times) for run in seen] == [1000, 1000] + [312] * 8
    script = Script(iterations=30)  # shorter than the shortest cut
    judgement = judged(monkeypatch, script, time_budget=12.0)
    assert {iterations for _, iterations, _ in script.runs} == {30}
    assert (judgement.basis, judgement.pairs) == ("whole", 2)
    assert (
        judgement.sized == "Fewer pairs were run to keep to the time budget of 12 s, which their start alone exceeds."
    )


def test_a_run_that_fails_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(ends=("killed", "rewritten", 2))
    judgement = judged(monkeypatch, script)
    assert (judgement.run, judgement.side, judgement.pairs) == ("killed", "rewritten", 2)
    assert (script.runs[-1][0].side, script.runs[-1][0].offset) == ("rewritten", 2)


def test_at_full_length_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=1000, faster=2.0)
    judgement = judged(monkeypatch, script, time_budget=60.0, full=True)
    assert {iterations for _, iterations, _ in script.runs} == {1000}
    assert (judgement.basis, judgement.pairs) == ("whole", 3)


def test_records_are_judged_again_alike(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = Script(faster=3.0, epoch=50)
    started(monkeypatch, script)
    seen: list[Run] = []
    plan = Plan(Path("a.py"), Path("b.py"), signatures=(("amp", (r"same dtype",)),), not_measured=("loader-pin",))
    judgement = verify(plan, records=tmp_path / "records", on_run=seen.append)
    assert len(seen) == len(script.runs) == 8
    assert judge_again(tmp_path / "records") == judgement
    assert judge_again(tmp_path / "records", promise="training", margin=2.0).promise == "training"


def damaged(directory: Path, name: str, text: str | None) -> Path:
    path = directory / name
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        pytest.param("plan.json", None, "No such file or directory", id="no plan"),
        pytest.param("run-002.json", None, "No such file or directory", id="a run is missing"),
        pytest.param("run-002.json", "{", "not JSON: Expecting property name", id="a run is cut off"),
        pytest.param("run-001.json", "[]", "records of version 2 are read here, and this one has none", id="no record"),
        pytest.param("plan.json", '{"version": 1}', "and this one has 1", id="of another version"),
        pytest.param("plan.json", '{"version": 2}', "not a record of torchfast verify", id="something else"),
    ],
)
def test_damaged_records_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    started(monkeypatch, Script())
    verify(Plan(Path("a.py"), Path("b.py"), "bitwise"), records=tmp_path)
    path = damaged(tmp_path, name, text)
    with pytest.raises(VerifyError) as refused:
        judge_again(tmp_path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_four_pairs_are_enough_where_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(faster=3.0)
    judgement = judged(monkeypatch, script)
    assert (judgement.speed, judgement.pairs, len(script.runs), judgement.sized) == ("faster", 4, 8, "")
    assert judgement.whole is not None
    assert judgement.whole.confidence == pytest.approx(0.9867)


def test_all_pairs_are_run_where_fewer_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(noise=(1.0, -1.0, 0.5))
    judgement = judged(monkeypatch, script)
    assert (judgement.speed, judgement.pairs, len(script.runs)) == ("inconclusive", 32, 64)


def test_pairs_end_with_the_first_look_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=10, noise=(0.06, -0.06))  # of 2.1 seconds
    assert (judged(monkeypatch, script).speed, len(script.runs)) == ("no-difference", 64)
    steadier = Script(iterations=10, noise=(0.03, -0.03))
    assert (judged(monkeypatch, steadier).speed, len(steadier.runs)) == ("no-difference", 16)


@pytest.mark.parametrize(
    ("pairs", "looks"),
    [
        pytest.param(1, (1,), id="one pair"),
        pytest.param(4, (4,), id="as many as a first look has"),
        pytest.param(5, (5,), id="one pair more than a first look would have"),
        pytest.param(6, (4, 6), id="half as many again"),
        pytest.param(8, (4, 8), id="twice a first look"),
        pytest.param(20, (4, 8, 20), id="a last look that a budget cut"),
        pytest.param(32, (4, 8, 16, 32), id="as many as there are by default"),
    ],
)
def test_each_look_has_about_twice_the_pairs_of_the_last(pairs: int, looks: tuple[int, ...]) -> None:
    assert Plan(Path("a.py"), Path("b.py"), pairs=pairs).looks == looks


def test_one_look_has_the_whole_confidence(monkeypatch: pytest.MonkeyPatch) -> None:
    judgement = judged(monkeypatch, Script(faster=3.0), pairs=5)
    assert judgement.pairs == 5
    assert judgement.whole is not None
    assert judgement.whole.confidence == 0.95


def test_fewer_pairs_are_run_where_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(noise=(0.0, 1.0, 0.5))  # 3 to 4 seconds a run
    judgement = judged(monkeypatch, script, time_budget=30.0)
    assert (judgement.pairs, len(script.runs)) == (4, 8)
    assert judgement.sized == "Fewer pairs were run to keep to the time budget of 30 s."


def test_a_budget_that_was_enough_is_not_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    judgement = judged(monkeypatch, Script(faster=3.0), time_budget=40.0)
    assert (judgement.speed, judgement.pairs, judgement.sized) == ("faster", 4, "")


def test_long_runs_are_cut_and_extrapolated_to_their_own_length(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=1000, faster=2.0)  # 12 and 7 seconds
    judgement = judged(monkeypatch, script, time_budget=60.0)
    assert judgement.sized == "Runs were cut to 312 iterations to keep to the time budget of 60 s."
    assert [iterations for _, iterations, _ in script.runs] == [1000, 1000] + [312] * 8
    assert sum(seconds for *_, seconds in script.runs) <= 60
    assert (judgement.basis, judgement.speed) == ("extrapolated", "faster")


def test_runs_without_end_are_cut_after_their_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=10**6, faster=2.0)
    judgement = judged(monkeypatch, script, time_budget=60.0)
    assert sum(seconds for *_, seconds in script.runs) <= 60
    assert {iterations for _, iterations, _ in script.runs[2:]} == {175}
    assert (judgement.basis, judgement.pairs) == ("cut", 4)


@pytest.mark.parametrize(
    ("script", "choices"),
    [
        pytest.param(Script(slower=(1, 1, 4), noise=(0.0, 1.0)), {}, id="whole runs"),
        pytest.param(Script(slower=(1, 1, 4), noise=(0.0, 1.0), busy=(0.0,)), {}, id="one after the other"),
        pytest.param(Script(iterations=1000, slower=(1, 1, 3)), {}, id="runs that are cut"),
        pytest.param(Script(iterations=10**6, slower=(1, 1, 3)), {}, id="runs that are cut from the first"),
        pytest.param(Script(iterations=400, slower=(1, 1, 3)), {"full": True}, id="at full length"),
        pytest.param(Script(slower=(1, 1, 4)), {"iterations": 90}, id="at a length that was asked for"),
        pytest.param(Script(iterations=10**5, epoch=10**4, slower=(1, 1, 3)), {}, id="beside a look at the bits"),
        pytest.param(Script(noise=(0.0, 1.0)), {"speed_only": True}, id="where only speed is asked for"),
    ],
)
def test_no_pair_is_begun_that_would_not_fit_into_the_time(
    monkeypatch: pytest.MonkeyPatch, script: Script, choices: dict[str, object]
) -> None:
    judgement = judged(monkeypatch, script, time_budget=60.0, **choices)
    pairs = [seconds for turn, _, seconds in script.runs if turn.kind == "pair"]
    checks = [seconds for turn, _, seconds in script.runs if turn.kind != "pair"]
    assert sum(pairs) <= 60 + sum(pairs[-2:])
    assert sum(pairs[:-2]) <= 60
    assert not checks or sum(seconds for _, _, seconds in script.runs[: -len(checks)]) < 60
    assert sum(checks) <= 2 * 3 * 60 / 8
    assert judgement.run == "ok"


def test_a_run_that_takes_longer_than_all_the_time_that_is_left_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(slower=(1, 50), iterations=400)  # 6 seconds and 300
    judgement = judged(monkeypatch, script, time_budget=40.0)
    assert (judgement.run, judgement.side) == ("timed-out", script.runs[-1][0].side)
    assert sum(seconds for *_, seconds in script.runs) <= 40 + 40


@pytest.mark.parametrize("busy", [1.0, 0.0], ids=["in turns", "one after the other"])
def test_a_pair_that_the_time_ends_says_nothing_beside_others(monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
    script = Script(slower=(1,) * 7 + (50,), iterations=300, noise=(0.0, 2.0), busy=(busy,))
    judgement = judged(monkeypatch, script, time_budget=60.0)
    assert (judgement.run, judgement.pairs) == ("ok", 3)
    assert judgement.sized == "The time budget of 60 s was over before another pair of runs had ended."


def test_a_timeout_that_was_asked_for_is_that_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(noise=(0.0, 1.0))
    judged(monkeypatch, script, time_budget=30.0, timeout=600.0)
    assert {plan.timeout for plan in script.plans} == {600.0}


def test_iterations_that_were_asked_for_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=10**6)
    judged(monkeypatch, script, iterations=3000, time_budget=200.0)
    assert {iterations for _, iterations, _ in script.runs} == {3000}


def test_progress_knows_how_many_runs_there_are_until_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(iterations=10, noise=(0.03, -0.03), busy=(0.0,))
    started(monkeypatch, script)
    seen: list[Progress] = []
    verify(Plan(Path("a.py"), Path("b.py")), seen.append)
    assert [(each.number, each.total) for each in seen] == [(at, 8 if at <= 8 else 16) for at in range(1, 17)]
    assert [each.side for each in seen] == [turn.side for turn, *_ in script.runs]
