"""What the configuration decides, seen from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Run = Callable[..., Answer]


def configure(naive: Path, text: str) -> None:
    (naive.parent / "torchfast.toml").write_text(text)


@pytest.mark.parametrize(
    ("fail_on", "code"), [("never", 0), ("bitwise", 1), ("precision", 1)], ids=["none", "the closest", "any"]
)
def test_findings_of_a_farther_promise_do_not_fail(torchfast: Run, naive: Path, fail_on: str, code: int) -> None:
    configure(naive, f"fail-on = '{fail_on}'\n")

    newest = ("--target-torch", "2.13")  # where workers may stay: other random numbers
    answer = torchfast("check", naive.name, "--format", "json", *newest)
    told = torchfast("check", naive.name, "--quiet", *newest).out.splitlines()

    levels = ("bitwise", "random", "precision")
    allowed = levels[: levels.index(fail_on) + 1] if fail_on in levels else ()
    found = [each for each in json.loads(answer.out)["findings"] if each["status"] == "rewrites"]
    assert answer.code == code
    assert [each["fails"] for each in found] == [each["promise"] in allowed for each in found]
    assert len({each["promise"] for each in found}) > 1
    assert sum("; does not fail]" in line for line in told) == len(
        {(each["line"], each["rule"]) for each in found if not each["fails"]}
    )


def test_the_command_line_says_what_fails(torchfast: Run, naive: Path) -> None:
    configure(naive, "fail-on = 'precision'\n")

    assert torchfast("check", naive.name, "--fail-on", "never").code == 0
    answer = torchfast("check", naive.name, "--fail-on", "bits")
    assert (answer.code, answer.err.startswith("Error: unknown promise to fail on 'bits'; ")) == (2, True)


def test_the_format_is_that_of_the_directory_in_which_it_runs(torchfast: Run, naive: Path) -> None:
    configure(naive, "output-format = 'json-lines'\n")

    lines = torchfast("check", naive.name).out.splitlines()

    assert {json.loads(line)["path"] for line in lines} == {"train.py"}
    assert torchfast("check", naive.name, "--format", "concise").out.startswith("train.py:8:10 loader-")


def test_a_format_that_there_is_not_is_a_fault(torchfast: Run, naive: Path) -> None:
    configure(naive, "output-format = 'jsn'\n")

    answer = torchfast("check", naive.name)

    path = naive.parent / "torchfast.toml"
    assert (answer.code, answer.err) == (2, f"Error: {path}: unknown output-format 'jsn'; did you mean 'json'?\n")


def test_rules_that_are_ignored_in_a_file_are_not_told_there(torchfast: Run, naive: Path) -> None:
    configure(naive, "select = ['loader-pin', 'zero-grad-none']\n[per-file-ignores]\n'tests/' = ['loader-pin']\n")
    (naive.parent / "tests").mkdir()
    (naive.parent / "tests" / "train.py").write_text(naive.read_text())

    lines = torchfast("check", ".", "--format", "json-lines").out.splitlines()

    found = [(each["path"], each["rule"]) for each in map(json.loads, lines)]
    assert sorted(found) == [
        ("tests/train.py", "zero-grad-none"),
        ("train.py", "loader-pin"),
        ("train.py", "zero-grad-none"),
    ]


def test_what_applies_is_shown_with_its_source(torchfast: Run, naive: Path) -> None:
    configure(naive, "select = ['loader-pin', 'amp']\nlevel = 'bitwise'\n[per-file-ignores]\n'train.py' = ['amp']\n")
    (naive.parent / "requirements.txt").write_text("torch==2.3.1\n")

    lines = torchfast("config", naive.name).out.splitlines()
    said = json.loads(torchfast("config", "--format", "json").out)

    path = naive.parent / "torchfast.toml"
    assert lines[0] == f'select = ["loader-pin", "amp"]  # {path}'
    assert f'level = "bitwise"  # {path}' in lines
    assert "workers = 4  # by default" in lines
    assert 'target-torch = "2.3"  # requirements.txt, line 1: torch==2.3.1' in lines
    assert lines[-1] == 'rules = ["loader-pin"]  # by select, ignore, per-file-ignores'
    assert said["rules"]["value"] == ["loader-pin", "amp"]
    assert said["level"] == {"value": "bitwise", "from": str(path)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("missing",), "Error: missing: no such file or directory\n", id="no file"),
        pytest.param(
            (), "Error: {path}: unknown key 'lvl'; did you mean 'level'?\n", id="a fault in the configuration"
        ),
    ],
)
def test_what_cannot_be_shown_is_a_fault(torchfast: Run, naive: Path, arguments: tuple[str, ...], message: str) -> None:
    configure(naive, "lvl = 'bitwise'\n")

    answer = torchfast("config", *arguments)

    assert (answer.code, answer.err) == (2, message.format(path=naive.parent / "torchfast.toml"))


# --- comments -----------------------------------------------------------------------------------------------------------


def test_what_is_found_is_left_alone_from_now_on(torchfast: Run, naive: Path) -> None:
    before = naive.read_text()

    written = torchfast("check", naive.name, "--add-ignores")
    after = torchfast("check", naive.name)

    assert (written.code, written.err) == (0, "train.py: 3 lines left alone\n")
    assert (after.code, after.out.count("ignored here")) == (0, 3)
    assert [
        line.partition("  # torchfast: ignore[")[0] for line in naive.read_text().splitlines()
    ] == before.splitlines()


def test_comments_are_written_into_the_cells_of_a_notebook(torchfast: Run, naive: Path) -> None:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": text}
        for text in ("%matplotlib inline\n", naive.read_text())
    ]
    book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path = naive.with_name("nb.ipynb")
    path.write_text(json.dumps(book))

    assert torchfast("check", path.name, "--add-ignores").err == "nb.ipynb: 3 lines left alone\n"

    assert torchfast("check", path.name).code == 0
    magic, program = (each["source"] for each in json.loads(path.read_text())["cells"])
    assert "".join(magic) == "%matplotlib inline\n"
    assert "".join(program).count("# torchfast: ignore[") == 3


@pytest.mark.parametrize("option", ["--fix", "--diff", "--diff-base=HEAD", "--write-baseline=a"])
@pytest.mark.usefixtures("naive")
def test_comments_are_written_alone(torchfast: Run, option: str) -> None:
    answer = torchfast("check", "train.py", "--add-ignores", option)

    assert (answer.code, answer.err.partition(" is about")[0]) == (2, "Error: --add-ignores")


@pytest.mark.parametrize(
    ("comment", "arguments", "notes"),
    [
        pytest.param("ignore[loader-pin]", (), 1, id="nothing is found there"),
        pytest.param("ignore", (), 1, id="nothing is found there by any rule"),
        pytest.param("ignore[loader-pin]", ("--select", "zero-grad-none"), 0, id="its rule does not run"),
        pytest.param("ignore", ("--select", "zero-grad-none"), 0, id="not all rules run"),
        pytest.param("ignore[loader-pin]", ("--quiet",), 0, id="quiet"),
    ],
)
def test_a_comment_that_leaves_nothing_alone_is_told(
    torchfast: Run, naive: Path, comment: str, arguments: tuple[str, ...], notes: int
) -> None:
    used = "num_workers=2)  # torchfast: ignore[loader-pin]"
    lines = naive.read_text().replace("num_workers=2)", used).splitlines()
    lines[0] += f"  # torchfast: {comment} why"
    naive.write_text("\n".join(lines) + "\n")

    told = [torchfast("check", naive.name, *arguments).err for _ in range(2)]  # the second comes from the cache

    note = f"note: train.py:1: '# torchfast: {comment}' is not needed: nothing is found there\n"
    assert [each.count(note) for each in told] == [notes, notes]
    assert [each.count("is not needed") for each in told] == [notes, notes]
