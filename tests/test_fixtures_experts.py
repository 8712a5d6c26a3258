"""What was written by hand beside the naive scripts: by an expert, and for the frameworks that users might pick instead.

Experts draw the same distributions in another order, so that losses are not those of the same batches: they may be as far
from the naive script's as those of another seed, and no farther. ``tests/test_fixtures_simulated.py`` says how far that
is, and how distances are measured.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.verify.plan import Plan, Turn
from autotune_rewrite.verify.run import run_script
from tests.scripts import SIZED, Fixture
from tests.test_fixtures_simulated import BFLOAT16, BY_NAME, Simulated, distance, original, run

if TYPE_CHECKING:
    from pathlib import Path

CHANCE = {
    "mnist_feedforward": 0.105,
    "mnist_cnn": 0.15,
    "tabular_mlp": 0.054,
    "gpt": 0.16,
    "text_lstm": 0.062,
    "unet_segmentation": 0.2,
    "jpeg_resnet": 0.48,
}
"""How far the smoothed losses of three seeds of the naive script are apart."""
FRAMEWORKS = ("with_accelerate", "with_lightning")
LEARNT = 0.98
"""Of the mean of the first losses: below it lie those of a script that learns."""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: None) -> None:  # noqa: ARG001 - a way to run
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")  # to capture graphs would take most of the time


def sized() -> list[Simulated]:
    return [BY_NAME[fixture.name] for fixture in SIZED]


@pytest.mark.parametrize(
    "script",
    [pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(each.name)) for each in sized()],
)
def test_an_expert_trains_the_same_model(script: Simulated) -> None:
    before, after = original(script), run(script, script.folder / "expert.py", "rewritten", BFLOAT16)

    assert (after.outcome, after.problem) == ("ok", ""), after.output
    assert len(before.losses) == len(after.losses) == script.iterations
    assert distance(before, after) <= CHANCE[script.name]


@pytest.mark.slow
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("fixture", SIZED, ids=lambda fixture: fixture.name)
def test_a_framework_trains_the_same_model(fixture: Fixture, framework: str) -> None:
    path = fixture.folder / f"{framework}.py"
    plan = Plan(path, path, device="cpu", arguments=fixture.arguments)

    seen = run_script(plan, Turn("original", 0))

    assert (seen.outcome, seen.problem) == ("ok", ""), seen.output
    assert len(seen.losses) == fixture.backwards
    assert all(map(math.isfinite, seen.losses))
    tenth = fixture.backwards // 10
    assert sum(seen.losses[-tenth:]) < LEARNT * sum(seen.losses[:tenth])


def test_every_script_of_a_gpus_size_has_them_all() -> None:
    for fixture in SIZED:
        assert {"naive", "fast", "expert", *FRAMEWORKS} <= {path.stem for path in fixture.folder.glob("*.py")}
    assert CHANCE.keys() == {fixture.name for fixture in SIZED}
