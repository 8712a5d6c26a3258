"""Whole scripts: the rewrite is the golden one, the report is the golden one, and the verifier finds both alike.

``python tests/regenerate_fixtures.py`` writes the golden files anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.verify import Plan, verify
from tests.scripts import ALL, FIXTURES, Fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from autotune_rewrite.verify.records import Run
    from tests.conftest import Answer

    Trained = Callable[..., dict[str, list[str]]]

RECORDER = Path(__file__).parent / "record_training.py"


@pytest.fixture(params=ALL, ids=lambda script: script.name)
def script(request: pytest.FixtureRequest) -> Fixture:
    """Each of the fixtures."""
    assert isinstance(request.param, Fixture)
    return request.param


@pytest.fixture
def within(torchfast: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    """The tool in the folder of a fixture, so that reports name the script alone."""

    def run(script: Fixture, *arguments: str) -> Answer:
        monkeypatch.chdir(script.folder)
        return torchfast(*arguments)

    return run


@pytest.fixture(scope="session")
def trained(forking: Callable[[Path], Path]) -> Trained:
    """What the recorder tells of a script."""
    return partial(recorded, forking(RECORDER))


def recorded(
    recorder: Path, path: Path, arguments: tuple[str, ...], record: Path, start: str = "fork"
) -> dict[str, list[str]]:
    """Run a script under the recorder, away from the fixtures.

    Returns:
        The digests of all losses and final parameters and the names of all workers.
    """
    command = [sys.executable, str(recorder), "--start", start, str(record), str(path), *arguments]
    done = subprocess.run(command, cwd=record.parent, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    digests: dict[str, list[str]] = json.loads(record.read_text(encoding="utf-8"))
    return digests


def test_every_folder_with_a_naive_script_is_tested() -> None:
    assert {script.name for script in ALL} == {path.parent.name for path in FIXTURES.glob("*/naive.py")}


def test_scripts_about_the_same_digits_generate_them_alike() -> None:
    one, other = (FIXTURES / name / "make_data.py" for name in ("mnist_feedforward", "mnist_cnn"))
    assert one.read_bytes() == other.read_bytes()


def test_rewrite_is_the_golden_one(within: Callable[..., Answer], script: Fixture, tmp_path: Path) -> None:
    output = tmp_path / "rewritten.py"
    done = within(script, "rewrite", "naive.py", "--output", str(output))
    assert done.code == 0, done.err
    assert output.read_bytes().decode() == script.text("fast.py")


def test_second_pass_changes_nothing(within: Callable[..., Answer], script: Fixture, tmp_path: Path) -> None:
    output = tmp_path / "rewritten.py"
    done = within(script, "rewrite", "fast.py", "--output", str(output))
    assert done.code == 0, done.err
    assert output.read_bytes().decode() == script.text("fast.py")
    assert within(script, "check", "fast.py").code == 0


def test_report_is_the_golden_one(within: Callable[..., Answer], script: Fixture) -> None:
    done = within(script, "check", "naive.py")
    assert done.code == 1, done.err
    assert done.out == script.text("report.txt")


ROUNDS = "sdpa"
"""The rule by whose changes fixtures round otherwise on a CPU."""


@pytest.mark.usefixtures("forked")
def test_both_versions_are_verified_to_train_alike_bit_for_bit(
    within: Callable[..., Answer], script: Fixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, home = script.folder / "fast.py", None
    if script.rounds:
        fast, home = tmp_path / "fast.py", script.folder
        assert within(script, "rewrite", "naive.py", "--ignore", ROUNDS, "--output", str(fast)).code == 0
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    paths = script.folder / "naive.py", fast
    plan = Plan(
        *paths,
        promise="bitwise",
        pairs=1,
        device="cpu",
        arguments=script.arguments,
        full=True,
        script_directory=home,
    )
    runs: list[Run] = []

    judgement = verify(plan, on_run=runs.append)

    assert (judgement.run, judgement.equality, judgement.losses) == ("ok", "equal", script.backwards), judgement.reason
    assert judgement.reason.startswith("Every loss and every final parameter is equal bit for bit.")
    one, other = runs
    assert len(set(one.losses)) > script.backwards * 0.9, "the losses hardly change: nothing is learnt"
    assert one.lines == other.lines


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("script", [each for each in ALL if each.rounds], ids=lambda script: script.name)
def test_attention_in_one_call_trains_alike_but_for_rounding(
    script: Fixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    paths = script.folder / "naive.py", script.folder / "fast.py"
    plan = Plan(*paths, pairs=1, device="cpu", arguments=script.arguments, iterations=20)
    runs: list[Run] = []

    verify(plan, on_run=runs.append)

    # As losses differ, the verifier also asks whether the original agrees with itself.
    pair = {run.side: run.losses for run in runs if run.kind == "pair"}
    one, other = pair["original"], pair["rewritten"]
    assert len(one) >= 20
    assert other == pytest.approx(one, rel=1e-5)


@pytest.fixture(scope="module")
def gan_without_workers(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What an epoch of the GAN computes as it was published."""
    record = tmp_path_factory.mktemp("gan") / "naive.json"
    return trained(FIXTURES / "digits_gan" / "naive.py", ("--n_epochs", "1"), record)


@pytest.mark.xdist_group("gan_workers")
@pytest.mark.parametrize("start", ["fork", "spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_workers_bring_the_same_batches(
    start: str,
    within: Callable[..., Answer],
    trained: Trained,
    gan_without_workers: dict[str, list[str]],
    tmp_path: Path,
) -> None:
    """By the rule of workers alone: with all of them its images are in memory."""
    fast_script = tmp_path / "digits_gan" / "fast.py"
    fast_script.parent.mkdir()
    (tmp_path / "data").symlink_to(FIXTURES / "data")
    gan = next(script for script in ALL if script.name == "digits_gan")
    within(gan, "rewrite", "naive.py", "--select", "loader-workers", "--output", str(fast_script))
    fast = trained(fast_script, ("--n_epochs", "1", "--n_cpu", "1"), tmp_path / "fast.json", start)
    assert len(fast.pop("workers")) == 1
    assert len(fast["losses"]) == 2 * 24
    assert {**fast, "workers": []} == gan_without_workers


def test_either_version_resumes_from_the_checkpoint_of_the_other(trained: Trained, tmp_path: Path) -> None:
    naive, fast = (FIXTURES / "digits_finetune" / f"{name}.py" for name in ("naive", "fast"))
    short = ("--batch-size", "300")  # 5 iterations an epoch
    for script in (naive, fast):
        trained(script, (*short, "--epochs", "1", "--checkpoint", script.stem), tmp_path / "first.json")

    resumed = {
        (script.stem, checkpoint): trained(
            script, (*short, "--epochs", "2", "--resume", checkpoint), tmp_path / "second.json"
        )
        for script, checkpoint in ((naive, "fast"), (fast, "naive"))
    }

    assert len(resumed["fast", "naive"]["losses"]) == 5
    assert resumed["fast", "naive"] == resumed["naive", "fast"]
