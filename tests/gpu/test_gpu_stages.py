"""The stages, as far as they go without a GPU: what they plan, and what they do on the simulated device."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from autotune_rewrite.verify.records import Gpu, Run
from tests.gpu import calls, contributions, crashes, rivals, speed, stages, tuning
from tests.gpu.__main__ import cli
from tests.gpu.calls import CallError, alone
from tests.gpu.judging import compared
from tests.gpu.prepare import ROOT, PrepareError, prepare
from tests.gpu.running import NAIVE, Extent, Made, Prepared, of_fork
from tests.gpu.scripts import BY_NAME, DISSECTED, SCRIPTS
from tests.gpu.setting import Setting
from tests.gpu.tasks import Hung, Ledger, carry_out
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
    @pytest.mark.slow
    def test_every_script_is_there_in_every_form(self, folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        assert set(manifest["scripts"]) == {path.parent.name for path in FIXTURES.glob("*/naive.py")}
        for name, variants in manifest["scripts"].items():
            assert {"default", "bf16", "fp16", "bitwise"} <= variants.keys()
            assert variants["bitwise"]["promise"] == "bitwise"
            texts = {path.stem for path in (folder / "scripts" / name).glob("*.py")}
            assert variants.keys() | {NAIVE} <= texts

    @pytest.mark.slow
    @pytest.mark.parametrize("name", DISSECTED)
    def test_rules_that_are_alone_change_alone(self, name: str, folder: Path) -> None:
        variants = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["scripts"][name]
        rules = set(variants["default"]["rules"])
        alone = {each.removeprefix("only-") for each in variants if each.startswith("only-")}
        assert alone - {"compile"} == rules - {"compile"}  # a rival, too, where it would not pay
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


BATCHES = {
    "jpeg_resnet": ("--samples", "--val-samples", 256, 10240, 2048),
    "mnist_feedforward": ("--samples", "--test-samples", 64, 60000, 10000),
    "mnist_cnn": ("--samples", "--test-samples", 64, 60000, 10000),
    "unet_segmentation": ("--train-images", "--val-images", 16, 4000, 400),
    "text_lstm": ("--train-lines", "--test-lines", 64, 40000, 10000),
    "tabular_mlp": ("--rows", "--rows", 256, 200_000, 200_000),
}
"""The options of the sizes, and the naive scripts' defaults: of a batch, and of the two sizes."""


@pytest.mark.parametrize("purpose", ["smoke", "measured", "whole", "dissected"])
@pytest.mark.parametrize("name", BATCHES)
def test_the_last_batches_of_an_epoch_are_smaller_as_those_of_real_data_are(name: str, purpose: str) -> None:
    script = BY_NAME[name]
    if purpose == "dissected" and script.dissected is None:
        pytest.skip("it is not taken apart")
    length = script.dissected.length if purpose == "dissected" and script.dissected else getattr(script, purpose)
    given = dict(zip(length.arguments[::2], length.arguments[1::2], strict=True))
    train, evaluate, batch, many, few = BATCHES[name]
    size = int(given.get("--batch-size", batch))
    counts = [int(given.get(option, default)) for option, default in ((train, many), (evaluate, few))]
    sizes = [each for each in length.data if each.isdecimal()]
    assert [str(each) for each in dict.fromkeys(counts)] == sizes[: len(set(counts))], "what is made is what is read"
    if name == "tabular_mlp":
        counts = [int(0.8 * counts[0]), counts[1] - int(0.8 * counts[1])]
    if name == "mnist_cnn":
        counts = [int(0.8 * counts[0]), counts[0] - int(0.8 * counts[0]), counts[1]]
    rests = [count % size for count in counts]
    assert all(rests)
    assert rests[0] > 1, "batch norm needs several"
    assert name != "jpeg_resnet" or rests[0] >= 16, "batch norm over few pictures is another training"
    epochs = {"mnist_feedforward": 5, "mnist_cnn": 5, "text_lstm": 5, "tabular_mlp": 10}.get(name, 0)
    assert int(given.get("--epochs", epochs)) * math.ceil(counts[0] / size) == length.backwards


@pytest.mark.slow  # all scripts have to be rewritten in all forms before anything is planned
@pytest.mark.xdist_group("gpu")
class TestPlans:
    @pytest.mark.parametrize("number", stages.STAGES)
    def test_tasks_have_names_of_their_own_and_estimates(self, number: int, cuda: Setting) -> None:
        tasks = stages.STAGES[number].tasks(cuda)
        assert len({task.key for task in tasks}) == len(tasks) > 5
        assert all(task.seconds > 0 for task in tasks)

    def test_the_first_stage_takes_half_a_call(self, cuda: Setting) -> None:
        assert sum(stages.rounds(1, cuda)) <= stages.CALL / 2

    def test_the_first_four_stages_fit_three_calls(self, cuda: Setting) -> None:
        assert stages.planned(cuda) <= stages.CALLS * stages.CALL

    def test_one_call_has_the_first_stage_and_a_round_of_the_first_scripts(self, cuda: Setting) -> None:
        first = list(dict.fromkeys(task.key.split("/")[0] for task in speed.tasks(cuda) if task.round == 0))
        assert set(first) == {script.name for script in SCRIPTS}
        assert set(first[: len(stages.SHORT)]) == set(stages.SHORT)
        assert stages.short(cuda) <= stages.CALL

    def test_the_first_round_has_a_pair_of_each_script_before_an_expert_compiles(self, cuda: Setting) -> None:
        tasks = [task for task in speed.tasks(cuda) if task.round == 0]
        texts = [tuple(task.key.split("/")[:2]) for task in tasks]
        for script in SCRIPTS:
            compiles = Prepared(cuda).compiles(script.name, "default")
            assert (script.name, NAIVE) in texts
            assert (script.name, "default, cold" if compiles else "default") in texts
        assert texts[-1] == ("gpt", "expert, cold")
        assert len(texts) == len(set(texts)) == 3 * len(SCRIPTS)
        generated = stages.STAGES[2].generating + 2 * stages.CHECKING
        assert generated + sum(task.seconds for task in tasks) <= 2 * stages.CALL

    def test_a_cold_run_of_the_first_round_is_made_once(self, cuda: Setting) -> None:
        first = [task for task in speed.tasks(cuda) if task.key.endswith(", cold/0")]
        assert [task.key for task in first] == [task.key for task in speed.tasks(cuda) if task.key.endswith(", cold/0")]
        assert not any(task.serves for task in first)

    def test_what_the_first_round_has_compiled_is_not_compiled_again_in_the_same_call(self, cuda: Setting) -> None:
        again = next(task for task in speed.tasks(cuda) if task.key.startswith("gpt/default, cold/") and task.serves)
        folder = cuda.scratch / "kernels" / "gpt-default"
        folder.mkdir(parents=True)
        (folder / speed.MADE).touch()
        assert again.run(1000.0) is None

    def test_what_compiles_runs_cold_before_its_first_round(self, cuda: Setting) -> None:
        for module, labels in ((speed, {"default", "expert"}), (rivals, {"default", "torch.compile alone"})):
            tasks = module.tasks(cuda)
            cold = [at for at, task in enumerate(tasks) if ", cold/" in task.key and task.serves]
            assert {task.key.split("/")[1].removesuffix(", cold") for task in (tasks[at] for at in cold)} == labels
            for at in cold:
                served = [other for other, task in enumerate(tasks) if task.key in tasks[at].serves]
                assert len(served) == (speed.ROUNDS - 1 if module is speed else rivals.ROUNDS)
                assert at < min(served)
                warm = tasks[min(served)].seconds
                assert tasks[at].seconds > warm

    def test_kernels_that_a_machine_has_are_not_made_again(self, cuda: Setting) -> None:
        def names(module: Any) -> dict[str, str]:
            found = (task.key.rpartition("/") for task in module.tasks(cuda) if ", cold/" in task.key and task.serves)
            return {text: name for text, _, name in found}

        cold = "gpt/default, cold"
        assert names(speed)[cold] != names(speed)[cold], "on a new machine"
        folder = cuda.scratch / "kernels" / "gpt-default"
        folder.mkdir(parents=True)
        (folder / speed.NAME).write_text("1a2b3c4d", encoding="utf-8")
        assert names(speed)[cold] == names(rivals)[cold] == "1a2b3c4d"
        (folder / speed.MADE).touch()
        assert names(speed)[cold] == "1a2b3c4d"
        assert cold not in names(rivals)

    def test_nothing_that_compiles_is_measured_before_its_kernels_are_there(self, cuda: Setting) -> None:
        warm = {task.key: task for task in speed.tasks(cuda)}
        assert warm["gpt/default/1"].run(1000.0) is None
        assert warm["gpt/expert/1"].run(1000.0) is None

    def test_rounds_follow_one_another_so_that_a_call_that_ends_early_has_all_scripts(self, cuda: Setting) -> None:
        for module in (speed, contributions, rivals):
            rounds = [task.round for task in module.tasks(cuda)]
            assert rounds == sorted(rounds)

    def test_texts_are_measured_beside_each_other_in_another_order_each_round(self, cuda: Setting) -> None:
        orders: dict[tuple[str, str], list[str]] = {}
        for task in speed.tasks(cuda):
            script, label, number = task.key.split("/")
            if label in (NAIVE, "default", "expert") and number != "0":
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


def made(outcome: Any, seconds: float, foreign: int = 0) -> Made:
    run = Run("original", 0, outcome=outcome, problem="", output=(), wall_seconds=1.0, gpu=Gpu(foreign=foreign))
    return Made(run, seconds, 100.0)


class TestRuns:
    def test_a_run_that_was_ended_for_want_of_time_may_hang_or_not(self) -> None:
        assert made("interrupted", 100.0).result({}) is None
        short = made("timed-out", 99.0).result({"script": "gpt"})
        assert isinstance(short, Hung)
        assert (short.seconds, short.values["run"]["outcome"]) == (99.0, "timed-out")
        whole = made("timed-out", 100.0).result({"script": "gpt"})
        assert isinstance(whole, dict)
        assert (whole["script"], whole["run"]["outcome"]) == ("gpt", "timed-out")

    @pytest.mark.parametrize(("seen", "others"), [(0, 0), (1, 0), (3, 2)], ids=["unseen", "itself", "with others"])
    def test_a_fork_is_not_another_program(self, seen: int, others: int) -> None:
        gpu = of_fork(made("ok", 1.0, foreign=seen).run).gpu
        assert gpu is not None
        assert gpu.foreign == others


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


@pytest.mark.slow
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

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            pytest.param(["--only", "nosuch"], "--only nosuch: no such script was prepared", id="an unknown script"),
            pytest.param(["--prepared", "nowhere"], "nothing was prepared there", id="nothing prepared"),
            pytest.param(
                ["--out", "/dev/null/out"], "--out /dev/null/out: Not a directory", id="no folder for results"
            ),
            pytest.param(["--scratch", "/dev/null/s"], "--scratch /dev/null/s: Not a dir", id="no folder for data"),
            pytest.param(["--device", "cuda"], "finds no CUDA device here", id="no CUDA"),
        ],
    )
    def test_a_call_that_cannot_begin_says_why_in_one_line(
        self, options: list[str], said: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        monkeypatch.chdir(tmp_path)
        paths = ["--prepared", str(folder), "--out", str(tmp_path / "out"), "--scratch", str(tmp_path / "scratch")]
        done = CliRunner().invoke(cli, ["run", "--stage", "1", "--device", "simulated", *paths, *options])
        assert done.exit_code == 2
        (line,) = done.output.splitlines()
        assert said in line
        assert not list(tmp_path.glob("out/*"))

    def test_two_calls_do_not_write_into_one_folder(self, tmp_path: Path) -> None:
        with alone(tmp_path), pytest.raises(CallError, match="another call is writing"), alone(tmp_path):
            pytest.fail("both write")
        with alone(tmp_path):
            assert [path.name for path in tmp_path.iterdir()] == [".lock"]
        assert not list(tmp_path.iterdir())

    def test_scripts_of_another_commit_are_told(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        setting = Setting(folder, folder, "simulated")
        prepared = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["commit"]
        for here, told in ((prepared, 0), ("", 0), ("0123456789ab", 1)):
            monkeypatch.setattr(calls, "commit", lambda here=here: here)
            assert sum("was prepared from commit" in doubt for doubt in calls.doubts(setting)) == told

    @pytest.mark.parametrize(("size", "told"), [(2**26, 1), (2**35, 0)], ids=["64 MiB", "32 GiB"])
    def test_little_shared_memory_is_told(
        self, size: int, told: int, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tests.gpu.machine.shared_memory", lambda: {"bytes": size, "free_bytes": size})
        doubts = list(calls.doubts(Setting(folder, folder, "simulated")))
        assert sum("shared memory" in doubt for doubt in doubts) == told

    def test_data_that_cannot_be_generated_cost_no_other_script(self, simulated: Setting, tmp_path: Path) -> None:
        prepared = tmp_path / "prepared"
        prepare(prepared, only=(SMALL, MEASURED))
        maker = prepared / "scripts" / MEASURED / "make_data.py"
        maker.write_text("raise OSError('no space for it')\n", encoding="utf-8")
        setting = Setting(prepared, simulated.scratch, "simulated")
        ledger = Ledger(tmp_path / "stage-1.jsonl")
        wanted = [task for task in crashes.tasks(setting) if task.key in (f"{MEASURED}/naive", f"{SMALL}/naive")]

        progress = carry_out(wanted, ledger, time.monotonic() + 300, beside=2)

        assert [line["key"] for line in progress.done] == [f"{SMALL}/naive"]
        assert [line["key"] for line in progress.unfinished] == [f"{MEASURED}/naive"]
        assert progress.unfinished[0]["unfinished"].endswith("OSError: no space for it")
        assert ledger.keys() == {f"{SMALL}/naive"}

    def test_generating_data_keeps_to_the_time_that_is_left(self, simulated: Setting, tmp_path: Path) -> None:
        prepared = tmp_path / "prepared"
        prepare(prepared, only=(MEASURED,))
        maker = prepared / "scripts" / MEASURED / "make_data.py"
        maker.write_text("import time; time.sleep(100)\n", encoding="utf-8")
        made = Prepared(Setting(prepared, simulated.scratch, "simulated"))
        extent = Extent.of(BY_NAME[MEASURED].small)
        with pytest.raises(subprocess.TimeoutExpired, match="timed out after 0"):
            made.run(MEASURED, NAIVE, extent, seconds=0.5, most=100.0)

    def test_every_form_of_a_script_runs_and_keeps_its_promise(self, simulated: Setting, tmp_path: Path) -> None:
        results = tmp_path / "out"
        only = Setting(simulated.prepared, simulated.scratch, "simulated", frozenset({SMALL}))

        progress = stages.run(1, only, results, time.monotonic() + 300, lambda _: None)

        assert [line["run"]["outcome"] for line in progress.done] == ["ok"] * 6
        said = list(stages.said(1, results))
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

        carry_out(wanted, ledger, time.monotonic() + 300)

        said = list(crashes.summary(list(ledger.lines())))
        assert said[0] == "2 runs, 1 failed."
        assert said[1] == f"FAILED {SMALL}/default.py ended with an exception:"
        assert said[-1].endswith("RuntimeError: no kernel for this")

    def test_a_round_is_judged_as_the_verifier_judges(self, simulated: Setting, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "stage-2.jsonl")
        wanted: list[Task] = [task for task in speed.tasks(simulated) if task.key.startswith(MEASURED)]

        carry_out(wanted, ledger, time.monotonic() + 300)

        seen: dict[str, Any] = {one.label: one for one in compared(ledger.lines())}
        assert set(seen) == {"default", "expert", "tf32"}
        cold = [line for line in ledger.lines() if line["label"] == "default, cold"]
        assert [line["run"]["ended"] for line in cold] == ["finished"]
        assert seen["default"].compiling is not None
        for one in seen.values():
            assert (one.judgement.run, one.script) == ("ok", MEASURED), one.judgement.reason
            assert len(one.comparison.pairs) == (2 if one.label == "expert" else 1)
            assert one.judgement.rewritten is None, "nothing is timed there"
        assert seen["tf32"].judgement.equality == "equal"


TOLD: dict[str, Any] = {
    "pays": True,
    "reason": "",
    "rules": ["loader-workers"],
    "values": {},
    "is_complete": False,
    "parts": [],
    "not_measured": [],
    "failed": {},
    "everything": None,
    "exit_code": 0,
    "verification": {"ratios": {"run": {"estimate": 2.5, "low": 2.0, "high": 3.0, "confidence": 0.95}}},
}


@pytest.mark.xdist_group("gpu")
class TestTuning:
    def test_both_searches_fit_into_one_call(self, cuda: Setting) -> None:
        assert [task.key for task in tuning.tasks(cuda)] == list(tuning.TUNED)
        assert all(task.alone for task in tuning.tasks(cuda))
        assert stages.CHECKING + sum(stages.rounds(7, cuda)) <= stages.CALL

    def test_the_device_is_that_of_the_stage(self, cuda: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Prepared, "arguments", lambda _, name, extent, __: (name, *extent.arguments))
        called = tuning.command(Prepared(cuda), MEASURED, 255.0, 100.0)
        options = called[: called.index("--")]
        assert options[options.index("--device") + 1] == "cuda"
        assert options[options.index("--budget") + 1] == "255s"
        assert called[called.index("--") + 1] == MEASURED

    def test_without_libcst_it_is_to_be_tried_again(self, simulated: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tuning, "find_spec", lambda _: None)
        (task,) = tuning.tasks(simulated)
        result = task.run(60.0)
        assert isinstance(result, dict)
        assert result["unfinished"].startswith("libcst is neither installed nor in ")

    @pytest.mark.parametrize(
        ("out", "said"),
        [
            pytest.param(
                json.dumps(TOLD),
                f"{MEASURED}: kept loader-workers, 2.50 times as fast. The budget was spent before all was tried.",
                id="what pays",
            ),
            pytest.param(
                json.dumps({**TOLD, "pays": False, "reason": "No change gains.", "verification": None}),
                f"{MEASURED}: kept nothing. No change gains. The budget was spent before all was tried.",
                id="nothing pays",
            ),
            pytest.param("", f"FAILED {MEASURED}: no such file", id="the command fails"),
        ],
    )
    def test_what_the_command_tells_is_kept(
        self, simulated: Setting, monkeypatch: pytest.MonkeyPatch, out: str, said: str
    ) -> None:
        results = simulated.scratch / "out"
        monkeypatch.setattr(tuning, "command", lambda *_: [sys.executable, "tune"])
        done = subprocess.CompletedProcess([], 2, out, "Error:\nno such file\n")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

        stages.run(7, simulated, results, time.monotonic() + 300, lambda _: None)

        machine, line = Ledger(results / "stage-7.jsonl").lines()
        assert {"gpu", "packages"} <= machine.keys()
        assert line["script"] == MEASURED
        assert list(stages.said(7, results)) == [said]

    @pytest.mark.slow
    def test_a_search_on_the_cpu_goes_through(self, simulated: Setting) -> None:
        results = simulated.scratch / "out"
        progress = stages.run(7, simulated, results, time.monotonic() + 300, lambda _: None)
        (line,) = progress.done
        assert "output" not in line, line
        assert line["everything"] is not None or line["reason"]
