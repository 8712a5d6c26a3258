"""The truths about the verifier: on a simulated device, and what is made of a real one's figures."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autotune_rewrite.verify import run as verifier
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.records import Gpu, Run
from tests.gpu import truths
from tests.gpu.setting import Setting
from tests.gpu.tasks import Ledger, Task, Values, carry_out
from tests.gpu.truths import bench, device, equality, outcomes, speed, texts, watching
from tests.gpu.truths.bench import Rounds, Truth, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SPENT = 1000.0
CALL = 500.0
"""Seconds that the whole stage may take in one call."""


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    started = tmp_path / "started"
    started.mkdir()
    monkeypatch.chdir(started)  # what runs are started in is copied for each
    return Setting(tmp_path / "prepared", tmp_path / "scratch", "simulated")


class Stage:
    def __init__(self, setting: Setting, path: Path) -> None:
        self.tasks = {task.key: task for task in truths.tasks(setting)}
        self.ledger = Ledger(path)

    def __call__(self, *keys: str) -> dict[str, Values]:
        """The lines of these tasks, which are carried out if they have none."""
        carry_out([self.tasks[key] for key in keys], self.ledger, time.monotonic() + SPENT)
        return {line["key"]: line for line in self.ledger.lines()}


@pytest.fixture
def stage(setting: Setting, tmp_path: Path, forked: None) -> Stage:  # noqa: ARG001 - a way to run
    return Stage(setting, tmp_path / "stage-5.jsonl")


def tasks_on(kind: Any) -> list[Task]:
    return truths.tasks(Setting(Path("prepared"), Path("scratch"), kind))


@pytest.mark.parametrize("kind", ["cuda", "simulated"])
def test_each_task_has_a_key_of_its_own(kind: str) -> None:
    keys = [task.key for task in tasks_on(kind)]
    assert len(set(keys)) == len(keys)


def test_all_truths_fit_into_one_call() -> None:
    found = tasks_on("cuda")
    assert sum(task.seconds for task in found) <= CALL
    pairs = speed.PAIRS_OF_TASK * sum(task.key.startswith("same ") for task in found)
    assert pairs == speed.PAIRS == 20


def test_what_is_timed_has_nothing_beside_it() -> None:
    timed = ("same", "slower", "overhead", "forks", "nvml", "out of memory")
    assert all(task.alone for task in tasks_on("cuda") if task.key.startswith(timed))


@pytest.mark.parametrize("name", [name for name in vars(texts) if name.isupper()])
def test_each_script_and_each_change_of_one_compiles(name: str) -> None:
    text = getattr(texts, name)
    if isinstance(text, tuple):
        of = texts.SPEED if name in ("MORE_PRODUCTS", "PAUSES") else texts.TRAINING
        text = texts.changed(of, text)
        assert text != of
    compile(text, name, "exec")


def test_a_change_that_finds_no_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        texts.changed(texts.SPEED, ("no such line", ""))


# --- on a simulated device ------------------------------------------------------------------------------------------


def test_results_are_judged_as_they_are_known_to_be(stage: Stage) -> None:
    line = stage("equality")["equality"]
    tf32 = "TF32 where bits are promised"  # whether a CPU computes otherwise then is its own matter
    assert {name: seen for name, seen in line["seen"].items() if name != tf32} == {
        "the same text": "equal",
        "labels rolled by one": "different",
        "labels rolled by one, where bits are promised": "different",
        "a learning rate ten times as large": "different",
        "bf16 autocast": "non-inferior",
    }
    assert (line["right"], line["wrong"], line["not_here"]) == (True, [], [tf32])
    figures = line["figures"]
    assert figures["labels rolled by one, where bits are promised"]["reason"].startswith("Under deterministic")
    assert (
        "The original repeats itself bit for bit." in figures["labels rolled by one, where bits are promised"]["reason"]
    )
    assert "no more than by luck" in figures["bf16 autocast"]["reason"]
    worse, low, high, margin = figures["bf16 autocast"]["worse"]
    assert low < worse < high < margin / 4, "so that another device's rounding does not decide"


def test_failures_have_their_words_and_leave_nothing(stage: Stage) -> None:
    lines = stage("outcomes", "out of memory")
    line = lines["outcomes"]
    assert {name: seen for name, seen in line["seen"].items() if isinstance(seen, str)} == {
        failure.name: failure.outcome for failure in outcomes.FAILURES
    }
    assert line["seen"]["processes that are left"] == 0
    assert line["started"] == 2 * len(outcomes.FAILURES), "each is two processes"
    assert line["not_here"] == ["device memory that is left"]
    figures = line["figures"]
    assert figures["an index out of range in an embedding"]["output"][-1].startswith("IndexError")
    assert "same dtype" in figures["number formats that do not fit"]["output"][-1]
    assert figures["killed by a signal"]["problem"].startswith("was ended by SIGKILL")
    assert all(figures[each.name]["seconds"] >= outcomes.TIMEOUT_HERE for each in outcomes.FAILURES if each.hangs)
    assert all(
        figures[failure.name]["iterations"] in (0, 20) for failure in outcomes.FAILURES if failure.text != texts.ENDLESS
    )
    memory = lines["out of memory"]
    assert memory["seen"]["more memory than there is"] == "out-of-memory"
    assert (line["right"], memory["right"]) == (True, True)


def test_losses_are_those_that_the_script_recorded(stage: Stage) -> None:
    line = stage("losses")["losses"]
    assert line["right"] is True
    assert f"{watching.BUFFER + 4} losses, in more than one buffer" in line["seen"]


def test_nothing_about_speed_memory_or_waiting_is_told_here(stage: Stage) -> None:
    lines = stage("same 1", "slower 1", "nvml", "nvml, not alone", "overhead", "forks")
    for line in lines.values():
        assert line["right"] is True, line
        known = [name for name in line["seen"] if name not in line["not_here"]]
        assert {line["seen"][name] for name in known if isinstance(line["seen"][name], str)} <= {"ok", "equal"}
    assert lines["slower 1"]["not_here"] == [
        name
        for where in ("device", "host")
        for name in (f"more work on the {where}", f"more work on the {where}: the ratio of iterations")
    ]


@pytest.mark.slow
def test_the_whole_stage(stage: Stage) -> None:
    lines = stage(*stage.tasks)
    assert len(lines) == len(stage.tasks)
    assert {key: line.get("wrong", line.get("failed")) for key, line in lines.items()} == {key: [] for key in lines}
    said = truths.summary(list(lines.values()))
    assert ", 0 WRONG, " in said[0]
    assert said[0].endswith("0 tasks failed.")
    assert "same, all 4 pairs: its results: expected equal, seen equal: right." in said
    assert not any(sentence.startswith("same 1") for sentence in said), "what is judged together is said once"


def test_a_file_that_was_cut_in_the_middle_of_a_line_is_gone_on_with(stage: Stage) -> None:
    stage("nvml", "nvml, not alone")
    path = stage.ledger.path
    path.write_bytes(path.read_bytes()[:-30])
    assert [line["key"] for line in stage.ledger.lines()] == ["nvml"]
    progress = carry_out(
        [stage.tasks[key] for key in ("nvml", "nvml, not alone")], stage.ledger, time.monotonic() + SPENT
    )
    assert (progress.before, [line["key"] for line in progress.done]) == (1, ["nvml, not alone"])
    assert [line["key"] for line in stage.ledger.lines()] == ["nvml", "nvml, not alone"]


def test_what_goes_wrong_in_one_task_is_told_and_costs_no_other(setting: Setting, tmp_path: Path) -> None:
    def work(folder: Path, _: float) -> Values:
        raise FileNotFoundError(folder.name)

    made = bench.Bench(setting)
    made.real = True  # nothing is forked
    ledger = Ledger(tmp_path / "ledger.jsonl")
    carry_out(
        [made.task("a, b", 1.0, work), Task("next", 1.0, lambda _: {"right": True})], ledger, time.monotonic() + 10.0
    )
    first, second = ledger.lines()
    assert (first["right"], first["failed"][-1], second["key"]) == (None, "FileNotFoundError: a-b\n", "next")
    assert truths.summary([first])[1] == "FAILED a, b: FileNotFoundError: a-b"


# --- what is made of a real device's figures ---------------------------------------------------------------------------


def run_of(side: Any, offset: int, iteration: float, *, start: float = 1.5, **more: Any) -> Run:
    """A run of 220 iterations of so many seconds."""
    count = 220
    times = tuple(start + iteration * (at + 1) for at in range(count))
    seconds = start + iteration * (count + 1)
    values = {
        "outcome": "ok",
        "problem": "",
        "output": (),
        "wall_seconds": seconds + 0.3,
        "ended": "finished",
        "times": times,
        "losses": tuple(2.0 - at / count for at in range(count)),
        "waits": (0.0,) * count,
        "import_seconds": 0.2,
        "script_seconds": seconds,
        "gpu": Gpu(utilization=60.0, energy=2000.0),
        "environment": {"cuda": True, "capability": "9.0"},
        **more,
    }
    return Run(side, offset, **values)


def pairs_of(before: float, after: float, count: int, **more: Any) -> list[Run]:
    noise = [1 + 0.002 * math.sin(3.0 * at) for at in range(2 * count)]
    return [
        run
        for at in range(count)
        for run in (
            run_of("original", at, before * noise[2 * at], **more),
            run_of("rewritten", at, after * noise[2 * at + 1], **more),
        )
    ]


PLAN = Plan(Path("original.py"), Path("rewritten.py"), promise="bitwise", pairs=4, device="cuda")


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        pytest.param(0.0070, [], id="nothing differs"),
        pytest.param(0.0062, ["its speed", "its iterations"], id="one side is faster by itself"),
        pytest.param(0.0080, ["its speed", "its iterations"], id="one side is slower by itself"),
    ],
)
def test_a_difference_between_equal_texts_is_wrong(after: float, wrong: list[str]) -> None:
    found = speed.same_truths(PLAN, pairs_of(0.007, after, 4))
    assert [truth.name for truth in found if truth.right is False] == wrong
    assert all(truth.right is not None for truth in found)


def test_a_difference_of_losses_between_equal_texts_is_wrong() -> None:
    runs = pairs_of(0.007, 0.007, 4)
    runs[-1] = replace(runs[-1], losses=(*runs[-1].losses[:-1], 0.5))
    found = speed.same_truths(PLAN, runs)
    assert [truth.name for truth in found if truth.right is False] == ["its results"]


@pytest.mark.parametrize("failed", [0, 3], ids=["the first run", "a later run"])
def test_a_run_that_fails_is_wrong_and_not_timed(failed: int) -> None:
    runs = pairs_of(0.007, 0.007, 2)
    runs[failed] = replace(runs[failed], outcome="crashed", problem="ended with an exception")
    found = {truth.name: truth for truth in speed.same_truths(replace(PLAN, pairs=2), runs)}
    assert (found["a script beside itself"].seen, found["a script beside itself"].right) == ("crashed", False)
    assert found["its speed"].right is None


@pytest.mark.parametrize(
    ("slept", "after", "right"),
    [
        pytest.param(0.00035, 0.00735, [True, True, True], id="as much slower as it sleeps"),
        pytest.param(0.00035, 0.00780, [True, True, False], id="slower by more than it sleeps"),
        pytest.param(0.00035, 0.00700, [True, False, False], id="not slower"),
    ],
)
def test_more_work_has_to_be_seen(slept: float, after: float, right: list[bool]) -> None:
    runs = pairs_of(0.007, after, 4, ended="cut")
    plan = replace(PLAN, iterations=220, length=speed.LENGTH)
    told_of = [{"product": 0.0, "slept": slept}] * 4
    found = speed.slower_truths("host", plan, runs[::2], runs[1::2], told_of)
    assert [truth.right for truth in found] == right


def lines_of(after: float) -> list[Values]:
    runs = pairs_of(0.007, after, 4)
    cut = pairs_of(0.007, 0.00735, 4, ended="cut")
    records = {"original": cut[::2], "device": cut[1::2], "host": cut[1::2]}
    figures = [{"product": 0.00035, "slept": 0.00035}] * 2
    lines: list[Values] = []
    for number in range(2):
        part = runs[4 * number : 4 * number + 4]
        of_part = told(speed.same_truths(replace(PLAN, pairs=2), part), runs=[bench.kept(run) for run in part])
        lines.append({"key": f"same {number + 1}", "device": "cuda", **of_part})
        half = {name: [bench.kept(run) for run in made[2 * number : 2 * number + 2]] for name, made in records.items()}
        lines.append(
            {
                "key": f"slower {number + 1}",
                "device": "cuda",
                **told([], runs=half, figures={"original": figures, "device": figures, "host": figures}),
            }
        )
    return lines


def test_what_several_tasks_have_measured_is_judged_together() -> None:
    same, slower = speed.joined(lines_of(0.007))
    assert (same["key"], slower["key"]) == ("same, all 4 pairs", "slower, all 4 rounds")
    assert (same["right"], slower["right"], same["not_here"], slower["not_here"]) == (True, True, [], [])
    assert slower["seen"]["more work on the host"]["word"] == "slower"
    assert slower["seen"]["more work on the device: the ratio of iterations"] == pytest.approx(1 / 1.05, abs=0.005)


def test_the_summary_says_what_is_wrong() -> None:
    said = truths.summary(lines_of(0.0062))
    assert said[0].startswith("8 truths right, 3 WRONG, 0 not to be told here; 0 tasks failed")
    wrong = [sentence for sentence in said if sentence.endswith("WRONG.")]
    assert len(wrong) == 3
    assert wrong[0].startswith(
        "same, all 4 pairs: its speed: expected neither faster nor slower, seen faster (iteration 1.1"
    )


def test_values_are_json_and_what_cannot_be_told_is_neither_right_nor_wrong() -> None:
    line = told([Truth("a", 1, math.inf, right=False), Truth("b", 1, None, right=None)], path=Path("x"))
    assert line == {
        "expected": {"a": 1, "b": 1},
        "seen": {"a": "inf", "b": None},
        "right": False,
        "wrong": ["a"],
        "not_here": ["b"],
        "path": "x",
    }
    assert told([Truth("b", 1, None, right=None)])["right"] is None


def test_rounds_end_where_the_next_would_not_end_in_time() -> None:
    end = time.monotonic() + 0.5
    done = []
    for number in Rounds(range(100), end):
        done.append(number)
        time.sleep(0.1)
    assert 1 <= len(done) < 5
    assert list(Rounds(range(3), time.monotonic() - 1.0))[:1] == [0], "one in any case: it raises by itself"


@pytest.mark.parametrize(
    ("allocated", "right"),
    [
        pytest.param(2**32, True, id="as known"),
        pytest.param(2**32 + 2**25, True, id="within one per cent"),
        pytest.param(2**32 + 2**27, False, id="three per cent more"),
        pytest.param(None, False, id="not told"),
    ],
)
def test_memory_is_held_against_what_the_script_holds(setting: Setting, allocated: int | None, right: bool) -> None:  # noqa: FBT001 - a parameter
    made = bench.Bench(replace(setting, device="cuda"))
    assert device._allocated(made, run_of("original", 0, 0.01, device_allocated=allocated)).right is right


def test_utilisation_and_energy_are_held_against_phases_and_idle_power(tmp_path: Path) -> None:
    run = run_of("original", 0, 0.04)
    phases = device.Phases(tmp_path / "phases.txt")
    assert [truth.right for truth in device._utilizations(run, phases)] == [None] * 3
    phases.path.write_text("busy 100.0\nidle 106.0\nen", encoding="utf-8")
    phases.gpus = {"busy": Gpu(utilization=97.0), "idle": Gpu(utilization=30.0)}
    assert [truth.right for truth in device._utilizations(run, phases)] == [True, False, True]
    assert device._energy(run, 100.0).right is True
    assert device._energy(run, 300.0).right is False
    assert device._energy(run, None).right is None
    assert device._energy(replace(run, gpu=Gpu(energy=20_000.0)), 100.0).right is False


# --- the way that is gone on a real device, with simulated children ---------------------------------------------------


@pytest.fixture
def pretended(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None) -> Stage:  # noqa: ARG001
    """The stage as if on CUDA: this process does all that it does there; its children are simulated and short."""
    run_script: Callable[..., Run] = verifier.run_script

    def run(plan: Plan, *arguments: Any, **options: Any) -> Run:
        words = tuple("simulated" if word == "cuda" else word for word in plan.arguments)
        made = run_script(replace(plan, device="simulated", arguments=words), *arguments, **options)
        seen = Gpu(utilization=40.0, energy=150 * made.wall_seconds)
        return replace(made, gpu=seen, device_allocated=2**20, environment={"cuda": True, "capability": "9.0"})

    monkeypatch.setattr(verifier, "run_script", run)
    smaller: Sequence[tuple[Any, str, Any]] = (
        (bench, "BESIDE", 1),
        (bench, "MOST", 100.0),
        (speed, "SIZE", 16),
        (speed, "ITERATIONS", 12),
        (speed, "PAIRS", 2),
        (speed, "PAIRS_OF_TASK", 1),
        (speed, "ROUNDS", 2),
        (speed, "ROUNDS_OF_TASK", 1),
        (speed, "MODELS", {"tiny": speed.TINY_MODEL}),
        (equality, "ITERATIONS", 120),
        (device, "HELD", 2**20),
        (device, "EDGE", 0.1),
        (device, "BUSY_SECONDS", 0.5),
        (device, "IDLE_SECONDS", 0.5),
        (outcomes, "BALLAST", 2**10),
        (outcomes, "TIMEOUT", outcomes.TIMEOUT_HERE),
        (watching, "LOSSES_PLAIN", 4100),
        (watching, "LOSSES_FEW", 5),
    )
    for module, name, value in smaller:
        monkeypatch.setattr(module, name, value)
    return Stage(replace(setting, device="cuda"), tmp_path / "stage-5.jsonl")


@pytest.mark.slow
def test_the_way_of_a_real_device_is_gone_to_its_end(pretended: Stage) -> None:
    lines = pretended(*(key for key in pretended.tasks if key != "verify"))
    assert {key: line["failed"] for key, line in lines.items() if "failed" in line} == {}
    assert len(lines) == len(pretended.tasks) - 1
    assert lines["losses"]["right"] is True
    assert lines["outcomes"]["wrong"] == []
    assert set(lines["equality"]["wrong"]) <= {"TF32 where bits are promised"}
    assert "what waits is refused" in lines["sync"]["wrong"], "and none refuses to wait"
    assert lines["nvml"]["seen"]["bytes allocated, within 1 %"] == 2**20
    assert set(lines["nvml"]["phases"]) == {"busy", "idle", "end"}
    assert lines["nvml, not alone"]["companion"] is False, "there is no GPU for it"
    assert lines["slower 1"]["seen"]["more work on the host"]["word"] == "inconclusive", "one round shows no spread"
    said = truths.summary(list(lines.values()))
    assert any(sentence.startswith("slower, all 2 rounds: more work on the host: expected slower") for sentence in said)
