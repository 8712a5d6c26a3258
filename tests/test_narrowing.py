"""What `check` leaves out where only new findings, or those of a change, are asked for."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import NAIVE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Run = Callable[..., Answer]

RULES = ("--select", "loader-pin,zero-grad-none")


def found(torchfast: Run, *arguments: str) -> list[tuple[str, int]]:
    """The rules that rewrite something, and the lines."""
    said = json.loads(torchfast("check", ".", "--format", "json", *RULES, *arguments).out)["findings"]
    return [(each["rule"], each["line"]) for each in said if each["status"] == "rewrites"]


# --- baselines --------------------------------------------------------------------------------------------------------


@pytest.fixture
def baseline(torchfast: Run, naive: Path) -> Path:
    answer = torchfast("check", ".", *RULES, "--write-baseline", "known.json")
    assert (answer.code, answer.err) == (0, "known.json: 2 findings written\n")
    return naive.parent / "known.json"


def test_what_is_known_fails_no_check(torchfast: Run, baseline: Path) -> None:
    answer = torchfast("check", ".", *RULES, "--baseline", baseline.name)

    assert (answer.code, answer.out, answer.err) == (0, "", "note: known.json knows 2 findings\n")
    assert torchfast("check", ".", *RULES, "--baseline", baseline.name, "--quiet").err == ""


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        pytest.param(("import torch\n", "import torch\n\n\nprint(1)\n"), [], id="lines move"),
        pytest.param(("    for images", "    for  images"), [], id="another line is edited"),
        pytest.param(("batch_size=64", "batch_size=32"), [("loader-pin", 8)], id="its line is edited"),
        pytest.param(
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n        optimizer.zero_grad(set_to_none=False)\n",
            ),
            [("zero-grad-none", 18)],
            id="it comes once more",
        ),
    ],
)
def test_what_is_new_is_told(
    torchfast: Run, naive: Path, baseline: Path, edit: tuple[str, str], expected: list[tuple[str, int]]
) -> None:
    assert edit[0] in NAIVE
    naive.write_text(NAIVE.replace(*edit))

    assert found(torchfast, "--baseline", baseline.name) == expected


def test_the_file_is_known_from_anywhere(torchfast: Run, naive: Path, baseline: Path) -> None:
    folder = naive.parent / "src"
    folder.mkdir()
    naive.rename(folder / "train.py")

    assert len(found(torchfast, "--baseline", baseline.name)) == 2
    baseline.write_text(baseline.read_text().replace('"train.py"', '"src/train.py"'))
    assert found(torchfast, "--baseline", str(baseline)) == []


def test_what_is_known_and_gone_is_said(torchfast: Run, naive: Path, baseline: Path) -> None:
    naive.write_text(NAIVE.replace("set_to_none=False", ""))

    answer = torchfast("check", ".", *RULES, "--baseline", baseline.name)

    assert answer.code == 0
    assert answer.err.splitlines() == [
        "note: known.json knows 1 finding",
        "note: 1 finding of known.json is not there any more",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "no such file or directory; --write-baseline writes one", id="missing"),
        pytest.param("[]", "is no baseline; --write-baseline writes one", id="something else"),
        pytest.param('{"version": 2}', "a baseline of version 2, and this torchfast reads version 1", id="newer"),
    ],
)
@pytest.mark.usefixtures("naive")
def test_what_is_no_baseline_is_a_fault(torchfast: Run, tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)

    answer = torchfast("check", ".", "--baseline", str(path))

    assert (answer.code, answer.err) == (2, f"Error: {path}: {message}\n")


@pytest.mark.parametrize(
    "arguments",
    [("--fix", "--baseline", "a"), ("--diff", "--diff-base", "HEAD"), ("--baseline", "a", "--write-baseline", "b")],
)
@pytest.mark.usefixtures("naive")
def test_what_leaves_findings_out_goes_with_no_other(torchfast: Run, arguments: tuple[str, ...]) -> None:
    answer = torchfast("check", ".", *arguments)

    assert answer.code == 2
    assert answer.err.startswith("Error: --")


# --- git --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(naive: Path) -> Callable[..., None]:
    """Run git in a repository that has the script."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=naive.parent, check=True, capture_output=True)

    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "first")
    return git


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("import torch\n", "import torch\n\n", [], id="no finding's line"),
        pytest.param("batch_size=64", "batch_size=32", [("loader-pin", 8)], id="a finding's line"),
        pytest.param(
            "        optimizer.zero_grad(set_to_none=False)\n",
            "\n        optimizer.zero_grad(\n            set_to_none=False\n        )\n",
            [("zero-grad-none", 15)],
            id="a finding of several lines",
        ),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_was_changed_is_told(
    torchfast: Run, naive: Path, old: str, new: str, expected: list[tuple[str, int]]
) -> None:
    naive.write_text(NAIVE.replace(old, new))

    assert found(torchfast, "--diff-base", "HEAD") == expected


def test_what_others_changed_meanwhile_is_not_told(
    torchfast: Run, naive: Path, repository: Callable[..., None]
) -> None:
    repository("checkout", "-b", "work")
    naive.write_text(NAIVE.replace("set_to_none=False", "set_to_none = False"))
    repository("commit", "-am", "work")
    repository("checkout", "main")
    naive.write_text(NAIVE.replace("batch_size=64", "batch_size=32"))
    repository("commit", "-am", "meanwhile")
    repository("checkout", "work")

    assert found(torchfast, "--diff-base", "main") == [("zero-grad-none", 14)]


@pytest.mark.usefixtures("repository")
def test_all_of_a_new_file_is_told(torchfast: Run, naive: Path) -> None:
    (naive.parent / "new.py").write_text(NAIVE)

    assert found(torchfast, "--diff-base", "HEAD") == [("loader-pin", 8), ("zero-grad-none", 14)]


@pytest.mark.usefixtures("repository")
def test_a_revision_that_git_does_not_know_is_a_fault(torchfast: Run) -> None:
    answer = torchfast("check", "train.py", "--diff-base", "--help")

    assert (answer.code, answer.err) == (2, "Error: train.py: git knows no revision '--help' there\n")


@pytest.mark.usefixtures("naive")
def test_without_a_repository_there_is_no_change(torchfast: Run) -> None:
    answer = torchfast("check", "train.py", "--diff-base", "HEAD")

    assert (answer.code, answer.err) == (2, "Error: train.py: git knows no revision 'HEAD' there\n")
