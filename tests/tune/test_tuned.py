"""From a script to what pays, with a verifier made for the purpose: no script runs here."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from worlds import CUDA, MARKS, OPTIONS, World

from autotune_rewrite.report import tune as report
from autotune_rewrite.report.tune_page import as_html
from autotune_rewrite.rewriting.batch import read_project
from autotune_rewrite.tune.trials import InterruptedByUserError, Records
from autotune_rewrite.tune.tuned import FRESH, Tuned, Tuning
from autotune_rewrite.verify.judgement import Judgement
from autotune_rewrite.verify.plan import Plan
from autotune_rewrite.verify.statistics.measurement import Figures
from autotune_rewrite.verify.statistics.seeds import Summary
from tests.conftest import NAIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune_rewrite.verify.records import Run


KILLED = Path(__file__).with_name("killed.py")


def tuned(naive: Path, world: World, records: Path | None = None, **choices: Any) -> Tuned:
    said: list[str] = []
    plan = Plan(naive, naive)
    parts = read_project(str(naive))
    return Tuning(parts, OPTIONS, plan, world, said.append, 600, Records(records), **choices).end()


def kept(result: Tuned) -> set[str]:
    assert result.changes is not None
    (done,) = result.changes.dones
    return {rule for rule, mark in MARKS.items() if mark in done.rewrite.after}


def test_what_pays_is_the_result(naive: Path) -> None:
    result = tuned(naive, World({"loader-pin": 1.5}))

    assert kept(result) == {"loader-pin"}
    assert result.confirmed is not None
    assert result.confirmed.speed == "faster"


def test_the_result_is_confirmed_with_other_seeds(naive: Path) -> None:
    world = World({"loader-pin": 1.5})
    tuned(naive, world)

    assert [plan.seed >= FRESH for plan in world.plans] == [False] * (len(world.plans) - 1) + [True]
    assert not world.plans[-1].speed_only


def test_nothing_is_changed_where_nothing_pays(naive: Path) -> None:
    result = tuned(naive, World({"loader-pin": 0.9}))

    assert (result.pays, result.reason) == (False, "No change gains anything beyond the noise.")


def test_what_only_looked_faster_is_not_the_result(naive: Path) -> None:
    result = tuned(naive, World({"loader-pin": 1.5}, late={"loader-pin": 1.0}))

    assert not result.pays
    assert "did not hold up in fresh runs" in result.reason


def test_what_crashes_is_left_out_and_the_rest_is_tuned(naive: Path) -> None:
    result = tuned(naive, World({"loader-pin": 1.5, "zero-grad-none": 2.0}, crashing="zero-grad-none"))

    assert kept(result) == {"loader-pin"}
    assert [rule for rule, _ in result.failed] == ["zero-grad-none"]


def test_what_cannot_act_here_is_kept_apart(naive: Path) -> None:
    world = World({"zero-grad-none": 1.5}, environment={"torch": "2.15.0", "cuda": False, "cpus": 2})

    result = tuned(naive, world)

    assert kept(result) == {"zero-grad-none"}
    assert result.not_measured == ("h2d-non-blocking", "loader-pin")


def test_it_is_written_all_the_same_where_that_is_asked_for(naive: Path) -> None:
    world = World({"zero-grad-none": 1.5}, environment={"torch": "2.15.0", "cuda": False, "cpus": 2})

    assert kept(tuned(naive, world, unmeasured=True)) == set(MARKS)


def test_a_script_with_nothing_to_change_is_not_run(naive: Path) -> None:
    naive.write_text("import torch\n")
    world = World({})

    assert tuned(naive, world).reason == "No rule has anything to change."
    assert world.plans == []


def test_an_original_that_fails_is_the_reason(naive: Path) -> None:
    def verify(plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        del plan, probe
        reason = "The original script ended with exit status 1."
        output = ("ValueError: boom",)
        return Judgement("crashed", "not-checked", "not-checked", reason, "bitwise", "original", output=output), []

    result = Tuning(
        read_project(str(naive)), OPTIONS, Plan(naive, naive), verify, lambda _: None, 600, Records(None)
    ).end()

    assert (result.pays, result.reason) == (False, "The original script ended with exit status 1.")
    assert "ValueError: boom" in report.as_text(result, "train.py", None)


@pytest.mark.parametrize("interrupts", range(6))
def test_what_was_interrupted_goes_on_from_its_records(naive: Path, tmp_path: Path, interrupts: int) -> None:
    whole = World({"loader-pin": 1.5, "zero-grad-none": 1.2})
    expected = kept(tuned(naive, whole))
    first = World(whole.factors, interrupts=interrupts)
    with pytest.raises(InterruptedByUserError):
        tuned(naive, first, tmp_path / "records")

    second = World(whole.factors)
    assert kept(tuned(naive, second, tmp_path / "records")) == expected
    assert len(second.plans) == len(whole.plans) - interrupts


def test_a_budget_that_one_comparison_spends_is_told(naive: Path, tmp_path: Path) -> None:
    records = tmp_path / "records"
    world = World({"loader-pin": 1.5})
    tuned(naive, world, records)
    lines = [json.loads(line) for line in records.read_text().splitlines() if line]
    records.write_text("\n".join(json.dumps({**line, "seconds": 350.0}) for line in lines))
    asked = len(world.plans)

    result = tuned(naive, world, records)

    assert (result.pays, len(world.plans)) == (False, asked)
    assert result.reason == "Everything together took 6 min: to tell changes apart takes about 24 min."
    told = report.as_json(result, "train.py", None, 1)
    assert ({part["answer"] for part in told["parts"]}, told["is_complete"]) == ({"not-told"}, False)
    assert "It is 1.50 times as fast" in " ".join(report.as_text(result, "train.py", None).split())


def test_what_was_killed_amid_a_trial_goes_on_from_its_records(naive: Path, tmp_path: Path) -> None:
    def command(records: str, seconds: float) -> list[str]:
        return [sys.executable, str(KILLED), str(naive), str(tmp_path / records), str(seconds)]

    with subprocess.Popen(command("some", 2.0), stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        begun = [next(killed.stdout) for _ in range(3)]
        killed.send_signal(signal.SIGKILL)
        assert killed.wait() == -signal.SIGKILL
    known = (tmp_path / "some").read_text()
    again, whole = (
        subprocess.run(command(records, 0.0), stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
        for records in ("some", "other")
    )

    assert begun == ["begins\n"] * 3
    assert whole[-2:] == ["kept loader-pin zero-grad-none", ""]
    assert again[-2:] == whole[-2:]
    assert again.count("begins") == whole.count("begins") - 2
    assert (tmp_path / "some").read_text().startswith(known)


class Clock:
    """Time that passes only where comparisons run, in the place of the module."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("times", "crashing", "reason"),
    [
        pytest.param(0.5, "loader-pin", "", id="comparisons that need less than their share"),
        pytest.param(1.2, "", "", id="comparisons whose last pair takes longer"),
        pytest.param(2.1, "", "to tell changes apart takes about", id="one that takes twice its share"),
        pytest.param(
            3.9, "loader-pin", "before everything together was known to run", id="one that takes four times its share"
        ),
    ],
)
def test_no_comparison_begins_after_the_budget_nor_gets_more_than_is_left(
    naive: Path, monkeypatch: pytest.MonkeyPatch, times: float, crashing: str, reason: str
) -> None:
    clock, world = Clock(), World({"loader-pin": 1.5, "zero-grad-none": 1.2}, crashing)
    for module in ("tuned", "trials", "verified"):
        monkeypatch.setattr(f"autotune_rewrite.tune.{module}.time", clock)

    def verify(plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        assert plan.time_budget <= 600 - clock.now
        clock.now += plan.time_budget * times
        return world(plan, probe=probe)

    parts = read_project(str(naive))
    result = Tuning(parts, OPTIONS, Plan(naive, naive), verify, lambda _: None, 600, Records(None)).end()

    assert result.pays == (not reason)
    assert reason in result.reason
    assert clock.now <= 600 * max(1, times)


def test_a_trial_that_all_that_is_left_ends_is_no_fault_of_its_change(
    naive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    for module in ("tuned", "trials", "verified"):
        monkeypatch.setattr(f"autotune_rewrite.tune.{module}.time", clock)
    world = World({"loader-pin": 1.5})

    def verify(plan: Plan, *, probe: bool) -> tuple[Judgement, Sequence[Run]]:
        if not plan.speed_only:
            clock.now += 10
            return world(plan, probe=probe)
        assert plan.timeout is not None
        clock.now += plan.timeout
        reason = "The rewritten script did not end."
        return Judgement("timed-out", "not-checked", "not-checked", reason, "bitwise", side="rewritten"), []

    parts = read_project(str(naive))
    found = Tuning(parts, OPTIONS, Plan(naive, naive), verify, lambda _: None, 200, Records(None)).end().found

    assert found is not None
    answers = [part.answer for part in found.parts]
    assert answers[0] == "failed"  # it took many times its share
    assert answers[-1] == "not-told"


def test_rules_are_tried_in_the_order_that_a_profile_gives(naive: Path) -> None:
    result = tuned(naive, World({"loader-pin": 1.5}), order=["zero-grad-none", "loader-pin"])

    assert result.found is not None
    assert [part.rule for part in result.found.parts] == ["zero-grad-none", "loader-pin", "h2d-non-blocking"]


# --- reports --------------------------------------------------------------------------------------------------------


@pytest.fixture
def result(naive: Path) -> Tuned:
    world = World({"loader-pin": 2.0, "zero-grad-none": 1.25}, environment={**CUDA, "capability": "9.0"})
    return tuned(naive, world)


def test_the_report_says_what_pays_and_what_does_not(result: Tuned) -> None:
    text = report.as_text(result, "train.py", report.Cost.of(result, 3.6))

    assert " ".join(text.split()).startswith(
        "train.py: 2 of 3 rules pay: 2.50 times as fast (2.46 to 2.54). The result computes the same, bit for bit."
    )
    assert "h2d-non-blocking" in text
    assert "dropped: no gain beyond the noise" in text
    assert "A run costs 0.004 in the place of 0.01, at 3.6 an hour." in text


def test_bars_lead_from_the_original_to_the_result(result: Tuned) -> None:
    assert [(name, round(part, 3)) for name, part, _ in report.bars(result)] == [
        ("original", 1.0),
        ("loader-pin", 0.5),
        ("zero-grad-none", 0.4),
    ]


def test_as_json_it_has_each_rule_and_the_changes(result: Tuned) -> None:
    told = json.loads(json.dumps(report.as_json(result, "train.py", None, 0)))

    assert told["rules"] == ["loader-pin", "zero-grad-none"]
    assert {part["rule"]: part["answer"] for part in told["parts"]} == {
        "h2d-non-blocking": "dropped",
        "loader-pin": "kept",
        "zero-grad-none": "kept",
    }
    assert "+loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)" in told["diff"]
    assert told["verification"]["speed"] == "faster"


HUNK = "@@ -5,13 +5,13 @@ loader-pin 2.00 x (1.97 to 2.03); zero-grad-none 1.25 x (1.23 to 1.27)"


def test_each_hunk_of_the_diff_has_its_rules_and_what_they_gain(result: Tuned) -> None:
    told = report.as_json(result, "train.py", None, 0)

    assert [line for line in told["diff"].splitlines() if line.startswith("@@")] == [HUNK]
    assert HUNK in report.as_text(result, "train.py", None)
    assert HUNK in report.as_markdown(result, "train.py", None)
    assert HUNK.rpartition("@@")[2].strip() in as_html(result, "train.py", None)


def test_a_hunk_has_no_more_than_the_rules_that_change_its_lines(naive: Path) -> None:
    naive.write_text(NAIVE.replace("for epoch", 9 * "print()\n" + "for epoch"))
    told = report.as_json(tuned(naive, World({"loader-pin": 2.0, "zero-grad-none": 1.25})), "train.py", None, 0)

    heads = [line.partition("@@ ")[2].partition("@@ ")[2] for line in told["diff"].splitlines() if "@@" in line]
    assert heads == ["loader-pin 2.00 x (1.97 to 2.03)", "zero-grad-none 1.25 x (1.23 to 1.27)"]


def test_memory_the_metric_with_its_margin_and_what_pays_back_the_start_are_told(result: Tuned) -> None:
    assert result.confirmed is not None
    assert (result.length, result.confirmed.original) == (2, Figures(10.0))
    confirmed = replace(
        result.confirmed,
        original=Figures(10.0, host_bytes=2**30),
        rewritten=Figures(4.0, host_bytes=2**29),
        break_even=120.5,
        summary=Summary(0.0, -0.01, 0.01, 0.02, name="accuracy", higher=True, original=0.9, rewritten=0.91),
    )
    known = replace(result, confirmed=confirmed, length=5000)

    for text in (report.as_text(known, "a", None), report.as_markdown(known, "a", None), as_html(known, "a", None)):
        words = " ".join(text.replace("\\", "").split())
        assert "Host memory: 1.00 GiB → 512 MiB." in words
        assert "Accuracy: 0.9 → 0.91 (margin 0.0200)." in words
        assert "The longer start is paid back after 121 iterations, of 5000 in a run of this script." in words
    told = report.as_json(known, "a", None, 0)
    assert {"name": "host memory", "original": "1.00 GiB", "result": "512 MiB"} in told["figures"]


def test_as_markdown_it_is_a_table_and_a_diff(result: Tuned) -> None:
    text = report.as_markdown(result, "train.py", None)

    assert "| :-- | --: | --: | :-- |" in text
    assert "```diff\n--- " in text


def test_where_nothing_pays_the_report_has_no_diff(naive: Path) -> None:
    nothing = tuned(naive, World({}))

    assert report.as_json(nothing, "train.py", None, 0)["diff"] == ""
    assert report.as_text(nothing, "train.py", None).startswith(
        "train.py: Nothing is changed. No change gains anything beyond the noise."
    )


def test_the_script_is_the_one_that_is_tested() -> None:
    assert all(mark not in NAIVE for mark in MARKS.values())
