"""Whole scripts of the kinds that 16 bits and captured graphs break, rewritten and run on the simulated CUDA device.

On a CPU the branch behind ``torch.cuda.is_available()`` never runs, so that equal losses there prove nothing of mixed
precision nor of compiling. Here each script of ``simulated`` is rewritten at the farthest level and runs as published,
in bfloat16 and in float16, its compiled models captured and run as captured. What is left is left for the reason that
stands beside it: a rule that is too bold fails here, and so does one that has become timid. No gradient of theirs is so
large that the scaler of float16 skips the first steps, as it may: then losses would be those of other weights.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from behaviour import BFLOAT16, FIRST, FLOAT16, SEEDS, distances, judge

from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.run import run_script

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify.plan import Side
    from autotune_rewrite.verify.records import Run

SIMULATED = Path(__file__).with_name("simulated")
RULES = "DEFAULT,amp,compile"
"""The two by name as well: on scripts as short as these neither pays, and they are to act all the same."""
WRITES = "rewrites"
ITERATIONS = 12
TIMEOUT = 300.0
"""Seconds for one run, where the machine is busy."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script, and what the two rules that change most make of it: ``WRITES``, or why they leave its sites."""

    name: str
    amp: str
    compile: frozenset[str]
    """Of several models, each."""

    @property
    def place(self) -> Path:
        """Relative to the folder that it runs in: a file of its own, or ``train.py`` of a project."""
        return Path("train.py") if (SIMULATED / self.name).is_dir() else Path(f"{self.name}.py")

    def copied_to(self, folder: Path) -> Path:
        """Copies it, alone or with its project; the folder that it can be run in."""
        if self.place.name == "train.py":
            return shutil.copytree(SIMULATED / self.name, folder)
        folder.mkdir()
        shutil.copy(SIMULATED / self.place, folder)
        return folder


def script(name: str, *, amp: str = WRITES, compiles: str = WRITES) -> Script:
    """A script with the words for its sites, one for each way in which models are treated."""
    return Script(name, amp, frozenset(compiles.split()))


SCRIPTS = (
    script("accumulation", compiles="compiles-nothing"),
    script("checkpoints", compiles="compiles-nothing"),
    script("ctc", amp="breaks-in-16-bits"),
    script("dataparallel", compiles="data-parallel"),
    script("dcgan_parallel", amp="breaks-in-16-bits", compiles="graph-break"),
    script("detection"),
    script("distillation", compiles="compiles-nothing"),
    script("dqn", amp="breaks-in-16-bits"),
    script("early_stopping"),
    script("few_shot", compiles="nothing-to-gain"),
    script("functional_parallel", amp="data-parallel", compiles="data-parallel"),
    script("gcn", amp="breaks-in-16-bits"),
    script("lstm_adam", compiles="recurrent-model"),
    script("lstm_lm", amp="gradients-read", compiles="recurrent-model"),
    script("memory_bank", amp="breaks-in-16-bits"),
    script("mixture_density"),
    script("point_cloud"),
    script("ppo", amp="breaks-in-16-bits", compiles="not-called"),
    script("running_best"),
    script("segnet", amp="older-torch"),
    script("seq2seq", compiles="recurrent-model"),
    script("style", amp="breaks-in-16-bits", compiles="no-cuda"),
    script("text_cnn", compiles="dynamic-shapes"),
    script("transformer_mask"),
    script("two_optimizers", compiles=f"{WRITES} nothing-to-gain"),
    script("unseen_model", amp="unknown-model", compiles="unknown-model"),
    script("vae_conv", compiles="graph-break"),
    script("vae_legacy", compiles="inductor-fault"),
    script("warmup"),
    script("wgan_gp", amp="double-backward", compiles=f"{WRITES} double-backward"),
)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, forked: None) -> None:  # noqa: ARG001 - a way to run
    """Threads would fight over the cores, and warnings hide what a script says last."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")


def test_every_script_is_run() -> None:
    entries = [path for path in SIMULATED.iterdir() if path.suffix == ".py" or (path / "train.py").exists()]
    assert {each.name for each in SCRIPTS} == {path.stem for path in entries}


def run(folder: Path, place: Path, side: Side, capability: str, seed: int = 0) -> Run:
    """One run on the simulated device, in a copy of the current folder."""
    plan = Plan(
        place,
        place,
        device="simulated",
        capability=capability,
        iterations=ITERATIONS,
        timeout=TIMEOUT,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = run_script(plan, Turn(side, seed))
    assert (done.outcome, done.problem) == ("ok", ""), "\n".join(done.output)
    return done


def found(report: dict[str, Any], rule: str) -> set[str]:
    """What a rule did at its sites: ``WRITES``, or the code of the reason."""
    findings = [finding for finding in report["findings"] if finding["rule"] == rule]
    return {finding["code"] or finding["status"] for finding in findings}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_trains_as_before(script: Script, torchfast: Callable[..., Any], tmp_path: Path) -> None:
    published = script.copied_to(tmp_path / "published")
    rewritten = script.copied_to(tmp_path / "rewritten")
    report = json.loads(torchfast("rewrite", rewritten, "--select", RULES, "--apply", "--format", "json").out)
    assert (found(report, "amp"), found(report, "compile")) == ({script.amp}, set(script.compile))

    before = run(published, script.place, "original", BFLOAT16)
    assert before.losses
    promises = {finding["promise"] for finding in report["findings"] if finding["status"] == WRITES}
    for capability in (BFLOAT16, FLOAT16):
        after = run(rewritten, script.place, "rewritten", capability)
        assert len(after.losses) == len(before.losses)
        if promises <= {"bitwise"}:
            assert (after.losses, after.parameters) == (before.losses, before.parameters)
        elif max(distances(before.losses, after.losses)) > FIRST:
            others = [run(published, script.place, "original", BFLOAT16, seed) for seed in range(1, SEEDS)]
            verdict = judge([before.losses, *(other.losses for other in others)], after.losses)
            assert verdict.word == "within", str(verdict)
