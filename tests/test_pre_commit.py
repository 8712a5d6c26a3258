"""The hooks under the real pre-commit."""

from __future__ import annotations

import json
import os
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


def test_the_rewrite_hook_writes_and_then_both_pass(
    commit: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    first = commit("pre-commit", "run", "torchfast-rewrite", "--all-files")
    written = (tmp_path / "project" / "train.py").read_text()

    assert first.returncode == 1
    assert "files were modified by this hook" in first.stdout
    assert "pin_memory=True" in written
    assert commit("git", "add", ".").returncode == 0
    assert commit("pre-commit", "run", "torchfast-rewrite", "--all-files").returncode == 0
    assert commit("pre-commit", "run", "torchfast-check", "--all-files").returncode == 0


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
