"""The stages, as far as they go without a GPU: what they plan, and what they do on the simulated device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.gpu import contributions, crashes, rivals, speed, stages
from tests.gpu.judging import compared
from tests.gpu.prepare import ROOT, PrepareError, prepare
from tests.gpu.running import NAIVE, Prepared
from tests.gpu.scripts import DISSECTED, SCRIPTS
from tests.gpu.setting import Setting
from tests.gpu.tasks import Ledger, carry_out, fits
from tests.scripts import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gpu.tasks import Task

SMALL, MEASURED = "digits_feedforward", "tabular_mlp"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scripts, prepared once."""
    path = tmp_path_factory.mktemp("prepared")
    prepare(path)
    return path


@pytest.fixture
def cuda(folder: Path, tmp_path: Path) -> Setting:
    """For what is planned; nothing is run."""
    return Setting(folder, tmp_path, "cuda")


@pytest.fixture
def simulated(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """For what is run, in an empty directory."""
    (tmp_path / "started").mkdir()
    monkeypatch.chdir(tmp_path / "started")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Setting(folder, tmp_path, "simulated", frozenset({SMALL, MEASURED}))


@pytest.mark.xdist_group("gpu")
class TestPrepared:
    def test_every_script_is_there_in_every_form(self, folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        assert set(manifest["scripts"]) == {path.parent.name for path in FIXTURES.glob("*/naive.py")}
        for name, variants in manifest["scripts"].items():
            assert {"default", "bf16", "fp16", "bitwise"} <= variants.keys()
            assert variants["bitwise"]["promise"] == "bitwise"
            texts = {path.stem for path in (folder / "scripts" / name).glob("*.py")}
            assert variants.keys() | {NAIVE} <= texts

    @pytest.mark.parametrize("name", DISSECTED)
    def test_rules_that_are_alone_change_alone(self, name: str, folder: Path) -> None:
        variants = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["scripts"][name]
        rules = set(variants["default"]["rules"])
        assert {each for each in variants if each.startswith("only-")} == {f"only-{rule}" for rule in rules}
        for rule in rules:
            assert set(variants[f"only-{rule}"]["rules"]) <= {rule}
            assert rule not in variants[f"without-{rule}"]["rules"]

    def test_texts_that_are_not_golden_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fixtures = tmp_path / "fixtures"
        (fixtures / SMALL).mkdir(parents=True)
        (fixtures / "data").mkdir()
        (fixtures / "requirements.txt").write_text("torch\n")
        for name in ("naive.py", "fast.py"):
            text = (FIXTURES / SMALL / name).read_text(encoding="utf-8")
            (fixtures / SMALL / name).write_text(f"{text}\n" if name == "fast.py" else text, encoding="utf-8")
        monkeypatch.setattr("tests.gpu.prepare.FIXTURES", fixtures)
        with pytest.raises(PrepareError, match=r"fast.py: not what the tool makes of naive.py"):
            prepare(tmp_path / "prepared", only=(SMALL,))

    def test_a_folder_that_is_too_large_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tests.gpu.prepare.LARGEST", 1000)
        with pytest.raises(PrepareError, match="can be carried"):
            prepare(tmp_path / "prepared", only=(SMALL,))


@pytest.mark.xdist_group("gpu")
class TestPlans:
    @pytest.mark.parametrize("number", stages.STAGES)
    def test_tasks_have_names_of_their_own_and_estimates(self, number: int, cuda: Setting) -> None:
        tasks = stages.STAGES[number].tasks(cuda)
        assert len({task.key for task in tasks}) == len(tasks) > 5
        assert all(task.seconds > 0 for task in tasks)

    def test_the_first_stage_takes_less_than_three_minutes(self, cuda: Setting) -> None:
        assert fits(crashes.tasks(cuda), crashes.BESIDE) <= 180

    def test_the_first_four_stages_fit_three_calls(self, cuda: Setting) -> None:
        assert stages.planned(cuda) <= stages.CALLS * stages.CALL

    def test_one_call_has_the_first_stage_and_a_round_of_the_second(self, cuda: Setting) -> None:
        first = [task.key for task in speed.tasks(cuda) if task.key.endswith("/0")]
        assert {key.split("/")[0] for key in first} == {script.name for script in SCRIPTS}
        assert stages.short(cuda) <= stages.CALL

    def test_rounds_follow_one_another_so_that_a_call_that_ends_early_has_all_scripts(self, cuda: Setting) -> None:
        for module in (speed, contributions, rivals):
            rounds = [int(task.key.rpartition("/")[2]) for task in module.tasks(cuda)]
            assert rounds == sorted(rounds)

    def test_texts_are_measured_beside_each_other_in_another_order_each_round(self, cuda: Setting) -> None:
        orders: dict[tuple[str, str], list[str]] = {}
        for task in speed.tasks(cuda):
            script, label, number = task.key.split("/")
            if label in (NAIVE, "default", "expert"):
                orders.setdefault((script, number), []).append(label)
        assert all(sorted(order) == ["default", "expert", NAIVE] for order in orders.values())
        assert len(set(map(tuple, orders.values()))) > 2

    def test_every_rule_is_measured_alone_and_left_out(self, cuda: Setting) -> None:
        keys = {task.key for task in contributions.tasks(cuda)}
        for name in DISSECTED:
            for rule in Prepared(cuda).variants(name)["default"]["rules"]:
                assert {f"{name}/only-{rule}/0", f"{name}/without-{rule}/0"} <= keys

    def test_rivals_run_on_every_script(self, cuda: Setting) -> None:
        keys = {task.key for task in rivals.tasks(cuda)}
        for script in SCRIPTS:
            for rival in ("tf32", "with_accelerate", "with_lightning", "default"):
                assert f"{script.name}/{rival}/0" in keys


NOT_THERE = ("libcst", "nbformat", "pathspec", "platformdirs", "hypothesis", "yaml")
BLOCKED = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_THERE!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
sys.argv[:] = ["tests.gpu", *sys.argv[1:]]
import runpy
runpy.run_module("tests.gpu", run_name="__main__", alter_sys=False)
"""


@pytest.mark.xdist_group("gpu")
class TestOnTheSimulatedDevice:
    def test_what_runs_there_needs_no_libcst(self, folder: Path, tmp_path: Path) -> None:
        options = ["run", "--stage", "1", "--device", "simulated", "--only", SMALL, "--budget", "0"]
        paths = ["--prepared", str(folder), "--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", BLOCKED, *options, *paths]
        done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=ROOT, env=environment)
        assert done.returncode == 0, done.stderr
        assert "0 done now" in done.stdout
        (line,) = Ledger(tmp_path / "out" / "stage-1.jsonl").lines()
        assert line["key"] == "machine 1"
        assert line["packages"]["torch"]

    def test_every_form_of_a_script_runs_and_keeps_its_promise(self, simulated: Setting, tmp_path: Path) -> None:
        results = tmp_path / "out"
        only = Setting(simulated.prepared, simulated.scratch, "simulated", frozenset({SMALL}))

        progress = stages.run(1, only, results, 300, lambda _: None)

        assert [line["run"]["outcome"] for line in progress.done] == ["ok"] * 6
        said = stages.said(1, results)
        assert said[0] == "6 runs, 0 failed."
        assert any("bitwise equal over 20 losses" in sentence for sentence in said)
        assert not any(word in sentence for sentence in said for word in ("FARTHER", "DIVERGED", "DIFFER"))

    def test_a_crash_is_told_with_its_text(self, simulated: Setting, tmp_path: Path) -> None:
        prepared = tmp_path / "prepared"
        prepare(prepared, only=(SMALL,))
        script = prepared / "scripts" / SMALL / "default.py"
        script.write_text('raise RuntimeError("no kernel for this")\n', encoding="utf-8")
        setting = Setting(prepared, simulated.scratch, "simulated")
        ledger = Ledger(tmp_path / "stage-1.jsonl")
        wanted = [task for task in crashes.tasks(setting) if task.key in (f"{SMALL}/naive", f"{SMALL}/default")]

        carry_out(wanted, ledger, 300)

        said = list(crashes.summary(list(ledger.lines())))
        assert said[0] == "2 runs, 1 failed."
        assert said[1] == f"FAILED {SMALL}/default.py ended with an exception:"
        assert said[-1].endswith("RuntimeError: no kernel for this")

    def test_a_round_is_judged_as_the_verifier_judges(self, simulated: Setting, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "stage-2.jsonl")
        wanted: list[Task] = [task for task in speed.tasks(simulated) if task.key.startswith(MEASURED)]

        carry_out(wanted, ledger, 300)

        seen: dict[str, Any] = {one.label: one for one in compared(ledger.lines())}
        assert set(seen) == {"default", "expert", "tf32"}
        for one in seen.values():
            assert (one.judgement.run, one.script) == ("ok", MEASURED), one.judgement.reason
            assert len(one.comparison.pairs) == 1
            assert one.judgement.rewritten is None, "nothing is timed there"
        assert seen["tf32"].judgement.equality == "equal"
