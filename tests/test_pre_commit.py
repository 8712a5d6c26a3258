"""The hooks under the real pre-commit."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.conftest import NAIVE, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))

COMMAND = f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m autotune_rewrite "$@"\n'
"""What pip would put on the path."""


@pytest.fixture
def commit(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run pre-commit in a repository with one naive script."""
    repository = tmp_path / "project"
    repository.mkdir()
    (repository / "train.py").write_text(NAIVE)
    (repository / "notes.txt").write_text("import torch\n")
    # As published, but for the environment, which is this one: nothing is downloaded.
    configuration = {"repos": [{"repo": "local", "hooks": [{**hook, "language": "system"} for hook in HOOKS]}]}
    (repository / ".pre-commit-config.yaml").write_text(json.dumps(configuration))
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "torchfast").write_text(COMMAND)
    (commands / "torchfast").chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=repository, env=environment, capture_output=True, text=True, check=False, timeout=300
        )

    assert run("git", "init", "-q").returncode == 0
    assert run("git", "add", ".").returncode == 0
    return run


def test_the_check_hook_fails_and_changes_nothing(
    commit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    ended = commit("pre-commit", "run", "torchfast-check", "--all-files")

    assert ended.returncode == 1
    assert "exit code: 1" in ended.stdout
    assert "train.py:8:10 loader-pin" in ended.stdout
    assert (tmp_path / "project" / "train.py").read_text() == NAIVE


NOTEBOOK = {
    "cells": [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [NAIVE]}],
    "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.mark.parametrize(
    ("files", "written"),
    [
        pytest.param({}, {"train.py"}, id="a script"),
        pytest.param({"nb.ipynb": json.dumps(NOTEBOOK)}, {"train.py", "nb.ipynb"}, id="a notebook"),
        pytest.param(
            {"old/train.py": NAIVE, "torchfast.toml": 'exclude = ["old/"]\n'}, {"train.py"}, id="what is excluded stays"
        ),
        pytest.param(
            {"torchfast.toml": 'level = "precision"\n'}, {"train.py"}, id="both hooks have one level, whatever is set"
        ),
        pytest.param(
            {"train.py": f"# torchfast: skip-file\n{NAIVE}", "other.py": NAIVE}, {"other.py"}, id="a file is left alone"
        ),
        pytest.param(
            {"train.py": "import proj.run\n", "proj/__init__.py": "", "proj/run.py": NAIVE},
            {"proj/run.py"},
            id="a module of a package",
        ),
    ],
)
def test_both_hooks_pass_once_what_they_wrote_is_added(
    commit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, files: dict[str, str], written: set[str]
) -> None:
    project = tmp_path / "project"
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    assert commit("git", "add", ".").returncode == 0

    first = commit("pre-commit", "run", "--all-files")
    changed = commit("git", "diff", "--name-only").stdout.split()

    assert first.returncode == 1, first.stdout
    assert "files were modified by this hook" in first.stdout
    assert set(changed) == written
    assert commit("git", "add", ".").returncode == 0
    second = commit("pre-commit", "run", "--all-files")
    assert second.returncode == 0, second.stdout
    assert second.stdout.count("Passed") == len(HOOKS)


def test_the_rewrite_hook_names_what_was_not_in_the_commit(
    commit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / "train.py").write_text("import part\n")
    (project / "part.py").write_text(NAIVE)
    assert commit("git", "add", ".").returncode == 0

    first = commit("pre-commit", "run", "--files", "train.py")

    assert first.returncode == 1
    assert re.search(
        r"^part\.py: \d+ changes written \(not named, but imported for train\.py\)", first.stdout, re.MULTILINE
    )


def test_the_hooks_are_as_pre_commit_wants_them() -> None:
    command = [
        str(Path(sys.executable).with_name("pre-commit")),
        "validate-manifest",
        str(ROOT / ".pre-commit-hooks.yaml"),
    ]

    subprocess.run(command, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("hook", [hook["id"] for hook in HOOKS])
def test_a_hook_installs_from_a_clone(
    commit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, hook: str
) -> None:
    clone = tmp_path / "clone"
    assert commit("git", "clone", "-q", str(ROOT), str(clone)).returncode == 0

    ended = commit("pre-commit", "try-repo", str(clone), hook, "--all-files", "--verbose")

    assert ended.returncode == 1, ended.stderr
    assert "loader-pin" in ended.stdout


OWN: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
"""What is run at each commit to this project."""


def test_the_hooks_of_this_project_download_nothing() -> None:
    assert [repository["repo"] for repository in OWN] == ["local"]
    assert {hook["language"] for hook in OWN[0]["hooks"]} == {"system"}
    subprocess.run(
        [Path(sys.executable).with_name("pre-commit"), "validate-config", ROOT / ".pre-commit-config.yaml"], check=True
    )


@pytest.mark.parametrize("hook", OWN[0]["hooks"], ids=lambda hook: str(hook["id"]))
def test_a_hook_of_this_project_is_among_what_must_hold(hook: dict[str, Any]) -> None:
    entry = hook["entry"].removesuffix(" --force-exclude").removeprefix("python -m autotune_rewrite ")
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()

    assert any(entry in line for line in lines)
    command = shlex.split(hook["entry"])[0]
    assert shutil.which(command, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") is not None
