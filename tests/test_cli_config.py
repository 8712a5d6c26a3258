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
