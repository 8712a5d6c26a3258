"""What is written, and what is said of it; what is left out."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import NAIVE, Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., Answer]

BITWISE = ("--level", "bitwise")
CHANGES = 4
"""That are made in ``NAIVE`` at this level."""

HELPER = """\
def train(model, loader, optimizer, device, criterion):
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=False)
        criterion(model(images.to(device)), labels.to(device)).backward()
        optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A script and the module that it imports, both with sites."""
    train = NAIVE[: NAIVE.index("for epoch")].replace("import torch\n", "import torch\n\nfrom engine import train\n", 1)
    (tmp_path / "train.py").write_text(
        f"{train}for epoch in range(2):\n    train(model, loader, optimizer, device, nn.CrossEntropyLoss())\n"
    )
    (tmp_path / "engine.py").write_text(f"import torch\n\n\n{HELPER}")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_what_was_written_is_said(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", naive.name, "--apply", *BITWISE)

    assert answer.err == f"train.py: {CHANGES} changes written\n"
    assert answer.out.splitlines()[-1].startswith(f"{CHANGES} changes: {CHANGES} bitwise")


def test_that_nothing_was_written_is_said(torchfast: Run, naive: Path) -> None:
    torchfast("rewrite", naive.name, "--apply", *BITWISE)

    assert torchfast("rewrite", naive.name, "--apply", *BITWISE).err == "nothing was written\n"
    assert torchfast("rewrite", naive.name, *BITWISE).err == ""


@pytest.mark.parametrize("command", [("rewrite", "--apply"), ("check", "--fix")], ids=" ".join)
def test_quiet_says_nothing_of_what_goes_well(torchfast: Run, naive: Path, command: tuple[str, ...]) -> None:
    assert torchfast(command[0], naive.name, *command[1:], *BITWISE, "--quiet") == Answer(0, "", "")
    assert naive.read_text() != NAIVE


def test_a_quiet_rewrite_is_the_diff_alone(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", naive.name, *BITWISE, "--quiet")

    assert answer.out.startswith("--- train.py\n")
    assert all(line[:1] in "-+ @" for line in answer.out.splitlines())
    assert answer.err == ""


def test_a_quiet_check_is_the_findings_alone(torchfast: Run, naive: Path) -> None:
    answer = torchfast("check", naive.name, *BITWISE, "--quiet")

    assert all(line.startswith("train.py:") and "left: " not in line for line in answer.out.splitlines())
    assert (answer.code, answer.err) == (1, "")


@pytest.mark.parametrize("quiet", [(), ("--quiet",)], ids=["said", "said though quiet"])
def test_a_file_that_was_not_named_is_said_to_be_none(torchfast: Run, project: Path, quiet: tuple[str, ...]) -> None:
    answer = torchfast("rewrite", "train.py", "--apply", *BITWISE, *quiet)

    assert "engine.py: 3 changes written (not named, but imported for train.py)\n" in answer.err
    assert ("train.py: 1 change written\n" in answer.err) is not bool(quiet)
    assert "set_to_none=True" in (project / "engine.py").read_text()


def test_changes_that_are_not_committed_are_said_beside_it(torchfast: Run, project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "begin")
    with (project / "engine.py").open("a") as file:
        file.write("# to do\n")

    answer = torchfast("rewrite", "train.py", "--apply", *BITWISE)

    (line,) = [line for line in answer.err.splitlines() if line.startswith("engine.py")]
    assert line.endswith(" (not named, but imported for train.py), beside changes that are not committed")


def test_committed_files_and_files_that_are_named_need_no_words(torchfast: Run, project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "begin")
    committed = torchfast("rewrite", "train.py", "--apply", *BITWISE)
    git(project, "checkout", "-q", ".")
    (project / "engine.py").write_text(f"import torch\n\n\n{HELPER}# to do\n")
    named = torchfast("rewrite", ".", "--apply", *BITWISE)

    assert "not committed" not in committed.err + named.err
    assert "not named" not in named.err


def test_an_interrupt_says_what_was_written_before(
    torchfast: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune_rewrite.project import files

    replace = files.replace
    written: list[object] = []

    def interrupted(*arguments: object) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(arguments)
        replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "replace", interrupted)

    answer = torchfast("rewrite", "engine.py", "train.py", "--apply", *BITWISE)

    assert project.is_dir()
    assert answer.code == 130
    assert answer.err.splitlines()[-1] == "interrupted: 1 file written before"


# --- check ----------------------------------------------------------------------------------------------------------


def test_without_a_path_the_current_directory_is_checked(torchfast: Run, naive: Path) -> None:
    assert torchfast("check", *BITWISE, "-q").out == torchfast("check", naive.name, *BITWISE, "-q").out != ""


def test_check_shows_the_diff_and_fails(torchfast: Run, naive: Path) -> None:
    answer = torchfast("check", naive.name, "--diff", *BITWISE)

    assert answer.code == 1
    assert answer.out.startswith("--- train.py\n+++ train.py\n")
    assert "\ntrain.py:8:10 loader-pin  " in answer.out
    assert naive.read_text() == NAIVE


def test_check_fixes_and_passes(torchfast: Run, naive: Path) -> None:
    fixed = torchfast("check", naive.name, "--fix", *BITWISE)

    assert (fixed.code, fixed.err) == (0, f"train.py: {CHANGES} changes written\n")
    assert "pin_memory=True" in naive.read_text()
    assert torchfast("check", naive.name, *BITWISE).code == 0


def test_check_writes_what_rewrite_writes(torchfast: Run, naive: Path) -> None:
    rewritten = json.loads(torchfast("rewrite", naive.name, "--format", "json", *BITWISE).out)["diffs"]
    answer = json.loads(torchfast("check", naive.name, "--fix", "--format", "json", *BITWISE).out)

    assert (answer["diffs"], answer["written"]) == (rewritten, ["train.py"])


def test_check_may_exit_with_zero(torchfast: Run, naive: Path) -> None:
    said = torchfast("check", naive.name, *BITWISE)

    assert torchfast("check", naive.name, *BITWISE, "--exit-zero") == Answer(0, said.out, said.err)
    assert torchfast("check", "missing.py", "--exit-zero").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train.py", "--diff", "--fix"), "--diff, --fix and --profile exclude each other"),
        (("train.py", "--fix", "--profile", "p.json"), "--diff, --fix and --profile exclude each other"),
        (("-", "--fix"), "--fix needs a file, not standard input"),
    ],
    ids=str,
)
def test_what_check_cannot_follow_is_one_line(
    torchfast: Run, naive: Path, arguments: tuple[str, ...], message: str
) -> None:
    answer = torchfast("check", *arguments, stdin=b"")

    assert (answer.code, answer.out, answer.err) == (2, "", f"Error: {message}\n")
    assert naive.read_text() == NAIVE


def test_what_does_not_fail_the_check_is_marked(torchfast: Run, naive: Path) -> None:
    naive.write_text(NAIVE.replace("set_to_none=False", ""))

    checked = torchfast("check", naive.name, "--select", "zero-grad-none")
    rewritten = torchfast("rewrite", naive.name, "--select", "zero-grad-none")

    assert checked.code == 0
    assert "  [bitwise; does not fail]  " in checked.out
    assert "which does not fail the check" in checked.out.splitlines()[-1]
    assert "does not fail" not in rewritten.out


def test_a_gain_is_said_once(torchfast: Run, naive: Path) -> None:
    (naive.parent / "again.py").write_text(NAIVE)

    lines = [line for line in torchfast("check", ".", *BITWISE, "-q").out.splitlines() if " loader-pin " in line]

    assert [line.endswith("[bitwise]") for line in lines] == [False, True]


# --- what is left out -----------------------------------------------------------------------------------------------


def checked(torchfast: Run, *arguments: str) -> set[str]:
    return {line.partition(":")[0] for line in torchfast("check", *arguments, *BITWISE, "-q").out.splitlines()}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with scripts, some of which nobody wants to be told of."""
    for name in ("train.py", "vendor/train.py", "old/train_old.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(NAIVE)
    return tmp_path


EVERYTHING = {"train.py", "vendor/train.py", "old/train_old.py"}


@pytest.mark.parametrize(
    ("configured", "options", "left"),
    [
        pytest.param("", (), EVERYTHING, id="nothing is excluded"),
        pytest.param("", ("--exclude", "vendor/"), EVERYTHING - {"vendor/train.py"}, id="a directory"),
        pytest.param("", ("--exclude", "vendor/,*_old.py"), {"train.py"}, id="two patterns"),
        pytest.param('exclude = ["vendor"]', (), EVERYTHING - {"vendor/train.py"}, id="configured"),
        pytest.param(
            'exclude = ["vendor"]', ("--exclude", "*_old.py"), EVERYTHING - {"old/train_old.py"}, id="in its place"
        ),
        pytest.param('exclude = ["vendor"]', ("--extend-exclude", "*_old.py"), {"train.py"}, id="besides"),
        pytest.param(
            'exclude = ["old"]\nextend-exclude = ["vendor"]',
            ("--exclude", "*_no.py"),
            EVERYTHING - {"vendor/train.py"},
            id="what is configured besides stays",
        ),
    ],
)
def test_what_is_excluded_is_passed_over(
    torchfast: Run, tree: Path, configured: str, options: tuple[str, ...], left: set[str]
) -> None:
    (tree / "pyproject.toml").write_text(f"[tool.torchfast]\n{configured}\n")

    assert checked(torchfast, ".", *options) == left


def test_what_is_named_is_checked_unless_excluding_is_forced(torchfast: Run, tree: Path) -> None:
    named = ("train.py", "vendor/train.py", "--exclude", "vendor/")

    assert tree.is_dir()
    assert checked(torchfast, *named) == {"train.py", "vendor/train.py"}
    assert checked(torchfast, *named, "--force-exclude") == {"train.py"}


def test_patterns_are_relative_to_the_configuration(torchfast: Run, tree: Path) -> None:
    (tree / "pyproject.toml").write_text('[tool.torchfast]\nexclude = ["/train.py"]\n')

    assert checked(torchfast, ".") == EVERYTHING - {"train.py"}


def test_a_module_that_is_excluded_is_read_and_not_written(torchfast: Run, project: Path) -> None:
    before = (project / "engine.py").read_text()

    answer = torchfast("rewrite", "train.py", "--apply", *BITWISE, "--exclude", "engine.py")

    assert answer.err == "train.py: 1 change written\n"
    assert (project / "engine.py").read_text() == before


def test_patterns_that_are_no_list_are_a_fault(torchfast: Run, tree: Path) -> None:
    (tree / "pyproject.toml").write_text('[tool.torchfast]\nexclude = "vendor"\n')

    answer = torchfast("check", "train.py")

    assert answer.err == f"{tree / 'pyproject.toml'}: [tool.torchfast]: exclude is not a list of patterns\n"


# --- other first steps ----------------------------------------------------------------------------------------------


def test_arguments_of_a_script_need_verify(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", naive.name, "--", "--epochs", "2")

    said = "-- --epochs 2: a script's arguments are for --verify, which is not given"
    assert (answer.code, answer.out, answer.err) == (2, "", f"Error: {said}\n")


def test_a_module_may_be_named_to_rewrite(torchfast: Run, naive: Path) -> None:
    (naive.parent / "proj").mkdir()
    naive.rename(naive.parent / "proj" / "train.py")

    assert "proj/train.py:8:10 loader-pin" in torchfast("rewrite", "-m", "proj.train", *BITWISE).out
    assert torchfast("rewrite", "-m", "proj.test").err.startswith("Error: no module proj.test here: ")


def test_facts_of_a_script_whose_sites_lie_elsewhere_say_where(torchfast: Run, project: Path) -> None:
    (project / "main.py").write_text("import train\n")
    (project / "alone.py").write_text("print('torch')\n")

    answer = torchfast("facts", "main.py")

    said = "note: main.py has nothing of its own that a rule asks about"
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"{said}; name one of the modules that it imports: engine.py, train.py\n"
    assert torchfast("facts", "alone.py").err == f"{said.replace('main', 'alone')}\n"
