"""Whole scripts on a simulated CUDA device, where mixed precision, compile, pinning and workers are switched on.

On a CPU they are all off, so that equal losses prove nothing of them. All rules are asked for by name, since most of
these scripts are too small for some of them to pay. Each rewritten script has to follow the original in bfloat16
(capability 9.0) and in float16 with a gradient scaler that scales (7.0).

**The bound.** Of the curves of losses, smoothed over 8 iterations, the rewritten script's may be no farther from the
original's than ``Simulated.bound``, and the first loss, before any training, may differ by a hundredth of itself, which
is the rounding of a forward pass in 16 bits. No bound is larger than what chance does: the distance of the farthest two
of three runs of the original that differ in their seeds alone, which a slow test measures. Where the batches are the
same it is at most a fifth of that; rounding was seen to take a tenth to a hundredth. Runs are cut within the first
epoch, since workers that stay shuffle the second one in another order, after which the losses of two runs are no longer
those of the same batches.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from autotune_rewrite.cli import cli
from autotune_rewrite.verify.plan import Plan, Side, Turn
from autotune_rewrite.verify.run import run_script
from codemods.catalogue import RULES
from tests.scripts import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autotune_rewrite.verify.records import Run

FIXTURES = Path(__file__).parent.parent / "fixtures"
SMOOTHED = 8
FIRST = 1e-2
"""What the first loss may differ by, as a part of itself."""


SEEDS = 3
BFLOAT16, FLOAT16 = "9.0", "7.0"
"""The capabilities that lead to one type or the other."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """A fixture and how close its rewritten script stays to the original."""

    name: str
    bound: float
    """Of the distance of the smoothed curves."""
    iterations: int = 24
    same_batches: bool = True
    """Whether the promise is of the same random numbers: not where workers augment, each with numbers of its own."""
    arguments: tuple[str, ...] | None = None
    """Of the script; None: those that keep it short."""

    @property
    def folder(self) -> Path:
        """Where the scripts stand."""
        return FIXTURES / self.name


SHORT_EPOCHS = ("--size", "32", "--samples", "240", "--val-samples", "80", "--batch-size", "8", "--lr", "0.003")
SCRIPTS = (
    Simulated("digits_cnn", 0.02),
    # Adadelta at its rate of 1 makes much of little: after 12 iterations rounding alone has moved the curve by a tenth.
    Simulated("digits_args", 0.02, iterations=12),
    Simulated("digits_trainer", 0.01),
    Simulated("digits_feedforward", 0.02),
    # Its weights are drawn after both models have their layout, and so are others.
    Simulated("digits_gan", 0.1, same_batches=False),
    Simulated("text_transformer", 0.005),
    Simulated("series_lstm", 0.01),
    Simulated("digits_finetune", 0.1, same_batches=False),
    Simulated("mnist_feedforward", 0.01),
    Simulated("mnist_cnn", 0.02),
    Simulated("tabular_mlp", 0.005),
    Simulated("gpt", 0.005),
    # Rounding grows from step to step: twice as far, it would be all that is seen.
    Simulated("text_lstm", 0.01),
    Simulated("unet_segmentation", 0.02),
    Simulated(
        "jpeg_resnet",
        0.3,
        iterations=16,
        same_batches=False,
        arguments=SHORT_EPOCHS,
    ),
)
BY_NAME = {script.name: script for script in SCRIPTS}
ARGUMENTS = {fixture.name: fixture.arguments for fixture in ALL}
ALWAYS = {
    BFLOAT16: frozenset({"digits_cnn", "series_lstm", "text_transformer"}),
    FLOAT16: frozenset({"digits_cnn", "digits_gan", "digits_trainer", "series_lstm", "text_transformer"}),
}
"""Convolutions, recurrent layers and attention, two optimizers, a class that trains; the rest is run with the slow tests."""


def in_both_forms() -> Iterator[Any]:
    """Each fixture with each capability."""
    for script in SCRIPTS:
        for capability, form in ((BFLOAT16, "bfloat16"), (FLOAT16, "float16")):
            # The original runs once: runs of one fixture share a worker of pytest.
            marks = [pytest.mark.xdist_group(script.name)]
            if script.name not in ALWAYS[capability]:
                marks.append(pytest.mark.slow)
            yield pytest.param(script, capability, id=f"{script.name}-{form}", marks=marks)


EVERYTHING = ("--select", ",".join(RULES))
"""Rules that are asked for by name act whether or not they pay."""


@functools.cache
def original(script: Simulated, offset: int = 0) -> Run:
    """The script as it was published; it computes in 32 bits, whatever the capability."""
    return run(script, script.folder / "fast.py", "original", BFLOAT16, offset)


def run(script: Simulated, rewritten: Path, side: Side, capability: str, offset: int = 0) -> Run:
    """One run on the simulated device, cut within the first epoch."""
    plan = Plan(
        original=script.folder / "naive.py",
        rewritten=rewritten,
        iterations=script.iterations,
        device="simulated",
        script_directory=script.folder,
        capability=capability,
        arguments=ARGUMENTS[script.name] if script.arguments is None else script.arguments,
    )
    return run_script(plan, Turn(side, offset))


def smoothed(losses: Sequence[float]) -> list[float]:
    """The means of consecutive losses."""
    return [sum(losses[at : at + SMOOTHED]) / SMOOTHED for at in range(len(losses) - SMOOTHED + 1)]


def distance(one: Run, other: Run) -> float:
    """The farthest that the smoothed curves of two runs are apart; infinite where one of them is not a number."""
    pairs = zip(smoothed(one.losses), smoothed(other.losses), strict=True)
    return max((abs(a - b) if math.isfinite(a - b) else math.inf) for a, b in pairs)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None) -> None:  # noqa: ARG001 - a way to run
    """Scripts write checkpoints and images where they are started; threads would fight over the cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_every_fixture_is_run() -> None:
    assert set(BY_NAME) == {path.parent.name for path in FIXTURES.glob("*/naive.py")}


@pytest.mark.parametrize(("script", "capability"), list(in_both_forms()))
def test_losses_follow_the_original(script: Simulated, capability: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if capability == BFLOAT16:
        # To capture a graph takes most of a run's time, and it is the same one that float16 has captured.
        monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    before = original(script)
    after = run(script, rewritten(script, *EVERYTHING), "rewritten", capability)

    assert (before.outcome, before.problem) == ("ok", ""), before.output
    assert (after.outcome, after.problem) == ("ok", ""), after.output
    assert len(before.losses) == len(after.losses) == script.iterations
    if script.same_batches:
        assert after.losses[0] == pytest.approx(before.losses[0], rel=FIRST)
    assert distance(before, after) <= script.bound


def rewritten(script: Simulated, *options: str, prelude: str = "") -> Path:
    """What the tool makes of the script with some options, in the current folder."""
    path = Path.cwd() / "rewritten.py"
    arguments = ["rewrite", str(script.folder / "naive.py"), *options, "--output", str(path)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    path.write_text(prelude + path.read_text(encoding="utf-8"), encoding="utf-8")
    return path


@pytest.mark.xdist_group("digits_trainer")
@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_with_workers_alone_the_losses_are_equal_bit_for_bit(start: str) -> None:
    script = BY_NAME["digits_trainer"]
    prelude = f"import torch; torch.multiprocessing.set_start_method({start!r}, force=True)\n"
    # The simulated device steps as the CPU does, which rounds otherwise where it is fused.
    ignored = "dataset-materialize,fused-optimizer"
    path = rewritten(script, "--level", "bitwise", "--ignore", ignored, "--workers", "2", prelude=prelude)
    assert "num_workers=2" in path.read_text(encoding="utf-8")

    after = run(script, path, "rewritten", BFLOAT16)

    assert (after.outcome, after.problem) == ("ok", ""), after.output
    assert after.losses == original(script).losses


# What each fault does is silent: the script runs to its end.
BROKEN = (
    pytest.param(
        "series_lstm",
        "    scaler.unscale_(optimizer)\n",
        "",
        marks=pytest.mark.xdist_group("series_lstm"),
        id="scaled gradients are clipped",
    ),
    pytest.param(
        "digits_trainer",
        "self.scaler.step(self.optimizer)\n            self.scaler.update()",
        "self.optimizer.step()",
        marks=pytest.mark.xdist_group("digits_trainer"),
        id="scaled gradients are applied",
    ),
)


@pytest.mark.parametrize(("name", "right", "wrong"), BROKEN)
def test_a_wrong_rewrite_is_noticed(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    script = BY_NAME[name]
    text = rewritten(script, *EVERYTHING).read_text(encoding="utf-8")
    assert text.count(right) == 1
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(right, wrong), encoding="utf-8")

    after = run(script, broken, "rewritten", FLOAT16)

    assert (after.outcome, after.problem) == ("ok", ""), after.output
    assert after.losses[0] == pytest.approx(original(script).losses[0], rel=FIRST)
    assert distance(original(script), after) > script.bound


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_bounds_are_small_beside_what_chance_does(script: Simulated) -> None:
    runs = [original(script, offset) for offset in range(SEEDS)]
    chance = max(distance(one, other) for one, other in combinations(runs, 2))
    assert script.bound <= (chance / 5 if script.same_batches else chance)
