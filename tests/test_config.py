from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite import target
from autotune_rewrite.catalogue import GROUPS, RULES
from autotune_rewrite.config import ConfigError, Options, settings
from autotune_rewrite.errors import FileError
from autotune_rewrite.target import Target
from codemods.codemod import Choices, Promise

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("file", "text", "known", "below"),
    [
        pytest.param("requirements.txt", "torch>=2.1\n", (2, 1), None, id="lower bound"),
        pytest.param("requirements.txt", "torch==2.3.1\n", (2, 3), None, id="pinned"),
        pytest.param("requirements.txt", "torch==1.7.1+cu110\n", (1, 7), None, id="pinned to a local build"),
        pytest.param("requirements.txt", "torch==2.*\n", (2, 0), None, id="any of a major version"),
        pytest.param("requirements.txt", "torch~=1.13.0\n", (1, 13), None, id="compatible release"),
        pytest.param("requirements.txt", "torch>=1.7,<2.0\n", (1, 7), (2, 0), id="both bounds"),
        pytest.param("requirements.txt", "torch<2\n", None, (2, 0), id="an upper bound guarantees nothing"),
        pytest.param("requirements.txt", "torch\n", None, None, id="any version guarantees nothing"),
        pytest.param("requirements.txt", "torch!=2.0.0\n", None, None, id="an exclusion guarantees nothing"),
        pytest.param("requirements.txt", "torch @ https://a.b/torch-2.0.whl\n", None, None, id="an address"),
        pytest.param("requirements.txt", "torch >= 2.1  # why\n", (2, 1), None, id="comment"),
        pytest.param("requirements.txt", "torch>=2.1; python_version > '3.9'\n", (2, 1), None, id="marker"),
        pytest.param("requirements.txt", "torch==2.1.0 --hash=sha256:00\n", (2, 1), None, id="hash"),
        pytest.param("requirements.txt", "torchvision>=0.9\ntorch-geometric>=2\n", None, None, id="other packages"),
        pytest.param("requirements-gpu.txt", "torch>=2.2\n", (2, 2), None, id="another requirements file"),
        pytest.param("requirements.txt", "torch>=two\n", None, None, id="no version"),
        pytest.param("pyproject.toml", "[project]\ndependencies = ['torch>=2.1']\n", (2, 1), None, id="dependency"),
        pytest.param(
            "pyproject.toml",
            "[project.optional-dependencies]\ntrain = ['torch>=2.2', 'numpy']\n",
            (2, 2),
            None,
            id="optional dependency",
        ),
        pytest.param(
            "pyproject.toml",
            "[dependency-groups]\ntrain = ['torch>=2.2', {include-group = 'a'}]\n",
            (2, 2),
            None,
            id="dependency group",
        ),
        pytest.param("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '^1.12'\n", (1, 12), None, id="Poetry"),
        pytest.param(
            "pyproject.toml",
            "[tool.poetry.dependencies]\ntorch = {version = '2.1.*'}\n",
            (2, 1),
            None,
            id="Poetry table",
        ),
        pytest.param("pyproject.toml", "project = 'torch'\n", None, None, id="no project table"),
        pytest.param("pyproject.toml", "torch = = \n", None, None, id="broken TOML"),
        pytest.param("environment.yml", "dependencies:\n  - pytorch=1.13.1=py3.8_0\n", (1, 13), None, id="conda build"),
        pytest.param("environment.yml", "dependencies:\n  - pytorch::pytorch>=2.0\n", (2, 0), None, id="conda channel"),
        pytest.param("environment.yml", "dependencies:\n  - pip:\n    - torch==2.1\n", (2, 1), None, id="pip in conda"),
        pytest.param("environment.yml", "dependencies:\n  - pytorch-cuda=12.1\n", None, None, id="conda's CUDA"),
        pytest.param("uv.lock", "[[package]]\nname = 'torch'\nversion = '2.6.0'\n", (2, 6), None, id="uv"),
    ],
)
def test_the_target_is_what_the_requirements_beside_the_script_guarantee(
    tmp_path: Path, file: str, text: str, known: tuple[int, int] | None, below: tuple[int, int] | None
) -> None:
    write(tmp_path / file, text)

    assert target.find(tmp_path) == Target(known, below)


def test_the_weakest_of_several_requirements_counts(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "torch>=2.1\n")
    write(tmp_path / "requirements-old.txt", "torch==1.13\n")

    assert target.find(tmp_path).known == (1, 13)


def test_a_requirement_without_a_bound_makes_the_target_unknown(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "torch>=2.1\n")
    write(tmp_path / "environment.yml", "dependencies:\n  - pytorch\n")

    assert target.find(tmp_path).known is None


def test_a_lock_says_more_than_the_requirement(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[project]\ndependencies = ['torch']\n")
    write(tmp_path / "uv.lock", "[[package]]\nname = 'torch'\nversion = '2.6.0'\n")

    assert target.find(tmp_path).known == (2, 6)


def test_requirements_count_up_to_the_project_root(tmp_path: Path) -> None:
    write(tmp_path / "requirements.txt", "torch>=2.1\n")
    write(tmp_path / "project/.git/HEAD", "")
    write(tmp_path / "project/examples/train.py", "")

    assert target.find(tmp_path / "project/examples").known is None

    write(tmp_path / "project/requirements.txt", "torch>=2.2\n")
    target.find.cache_clear()

    assert target.find(tmp_path / "project/examples").known == (2, 2)


def test_the_nearest_requirement_counts(tmp_path: Path) -> None:
    write(tmp_path / ".git/HEAD", "")
    write(tmp_path / "requirements.txt", "torch>=2.1\n")
    write(tmp_path / "old/requirements.txt", "torch==1.4\n")

    assert target.find(tmp_path / "old").known == (1, 4)


@pytest.mark.parametrize(
    ("given", "minimum", "allowed"),
    [
        pytest.param(Target(), (2, 4), True, id="unknown counts as 2.4"),
        pytest.param(Target(), (2, 5), False, id="unknown is not newer"),
        pytest.param(Target((1, 13)), (2, 0), False, id="known to be older"),
        pytest.param(Target((2, 0)), (2, 0), True, id="known to be new enough"),
        pytest.param(Target(None, (2, 0)), (2, 0), False, id="known to be before"),
        pytest.param(Target(None, (2, 0)), (1, 13), True, id="perhaps before"),
    ],
)
def test_a_minimum_is_held_against_the_target(given: Target, minimum: tuple[int, int], *, allowed: bool) -> None:
    assert given.allows(minimum) is allowed


@pytest.mark.parametrize(
    ("text", "version"), [("2.1", (2, 1)), ("2", (2, 0)), ("2.3.1", (2, 3)), ("1.13.1+cu117", (1, 13))]
)
def test_versions_are_read(text: str, version: tuple[int, int]) -> None:
    assert target.parse(text) == version


@pytest.mark.parametrize("text", ["", "two", "2.x", "2.1,", ">=2.1", "-2"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a torch version"):
        Options(target_torch=text)


def test_by_default_the_default_rules_run_at_the_farthest_level(tmp_path: Path) -> None:
    chosen = settings(tmp_path, Options())

    assert chosen.rules == GROUPS["DEFAULT"]
    assert chosen.level is Promise.PRECISION
    assert chosen.exempt == frozenset()


def test_selected_rules_are_exactly_those_that_run(tmp_path: Path) -> None:
    assert settings(tmp_path, Options(select=("loader-pin",))).rules == {"loader-pin"}
    assert settings(tmp_path, Options(select=("ALL",))).rules == set(RULES)


def test_ignoring_wins_over_selecting(tmp_path: Path) -> None:
    chosen = settings(tmp_path, Options(select=("DEFAULT",), ignore=("loader-pin",)))

    assert chosen.rules == GROUPS["DEFAULT"] - {"loader-pin"}


def test_configuration_counts_and_the_command_line_wins(tmp_path: Path) -> None:
    write(
        tmp_path / "pyproject.toml",
        "[tool.torchfast]\nselect = ['loader-pin']\nlevel = 'bitwise'\ntarget-torch = '2.1'\n",
    )

    chosen = settings(tmp_path / "src", Options(level="random"))

    assert chosen.rules == {"loader-pin"}
    assert chosen.level is Promise.RANDOM
    assert chosen.target == Target((2, 1))


def test_how_rules_rewrite_is_configured_and_the_command_line_wins(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.torchfast]\nworkers = 8\namp = 'bf16'\nmain-guard = false\n")

    configured = settings(tmp_path, Options()).choices
    chosen = settings(tmp_path, Options(workers=2, amp="fp16", main_guard=True)).choices

    assert configured == Choices(workers=8, main_guard=False, amp="bf16")
    assert chosen == Choices(workers=2, main_guard=True, amp="fp16")


def test_rules_know_whether_loaders_are_given_workers(tmp_path: Path) -> None:
    assert settings(tmp_path, Options()).choices.workers_are_given
    assert not settings(tmp_path, Options(ignore=("loader-workers",))).choices.workers_are_given
    assert settings(tmp_path, Options()).choices.batches_are_pinned
    assert not settings(tmp_path, Options(ignore=("loader-pin",))).choices.batches_are_pinned


def test_a_pyproject_without_the_table_does_not_hide_one_above(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", "[tool.torchfast]\nlevel = 'bitwise'\n")
    write(tmp_path / "src/pyproject.toml", "[project]\nname = 'torchfast-user'\n")

    assert settings(tmp_path / "src", Options()).level is Promise.BITWISE


@pytest.mark.parametrize(
    ("table", "message"),
    [
        pytest.param("selct = []", "unknown key 'selct'; did you mean 'select'?", id="key"),
        pytest.param("select = ['loader-pinn']", "unknown rule 'loader-pinn'; did you mean 'loader-pin'?", id="rule"),
        pytest.param("level = 'bitwize'", "unknown level 'bitwize'; did you mean 'bitwise'?", id="level"),
        pytest.param("select = 'loader-pin'", "select is not a list of rule names", id="no list"),
        pytest.param("ignore = [1]", "ignore is not a list of rule names", id="no names"),
        pytest.param("target-torch = 2.1", "target-torch is not a string", id="no string"),
        pytest.param("workers = '4'", "workers is not a number", id="no number"),
        pytest.param("workers = true", "workers is not a number", id="true is no number"),
        pytest.param("main-guard = 1", "main-guard is not true or false", id="no truth value"),
        pytest.param("amp = 'fp8'", "unknown form of mixed precision 'fp8'", id="form"),
        pytest.param("level = ", "is not TOML", id="no TOML"),
    ],
)
def test_a_fault_in_the_configuration_is_said_in_one_line(tmp_path: Path, table: str, message: str) -> None:
    write(tmp_path / "pyproject.toml", f"[tool.torchfast]\n{table}\n")

    with pytest.raises(FileError) as caught:
        settings(tmp_path, Options())

    assert caught.value.path == str(tmp_path / "pyproject.toml")
    assert message in caught.value.message
    assert "\n" not in str(caught.value)
