"""What the command line says of itself: help, what the tab key offers, and what there is in the place of a wrong word."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from autotune_rewrite import cli as package
from autotune_rewrite.cli import COMMANDS, cli
from autotune_rewrite.cli.completing import LEVELS
from autotune_rewrite.cli.helping import GROUPS, WIDTH, Explained
from autotune_rewrite.rewriting import config
from tests.conftest import NAIVE, ROOT, Answer
from tests.test_cli import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., Answer]

EXPLAINED: dict[str, Explained] = {
    name: command for name in COMMANDS if isinstance(command := cli.get_command(click.Context(cli), name), Explained)
}
EXAMPLES = [(name, line) for name, command in EXPLAINED.items() for line, _ in command.examples]


# --- help -----------------------------------------------------------------------------------------------------------


def test_commands_with_many_options_are_explained() -> None:
    assert {"rewrite", "check", "verify", "profile"} <= set(EXPLAINED)
    assert {name for names in package.GROUPS.values() for name in names} == set(COMMANDS)


@pytest.mark.parametrize("name", EXPLAINED)
def test_every_option_stands_in_the_group_that_names_it(torchfast: Run, name: str) -> None:
    said = torchfast(name, "--help").out
    options = {
        max(each.opts, key=len).removeprefix("--")
        for each in EXPLAINED[name].params
        if isinstance(each, click.Option) and not each.hidden
    }

    assert options <= {option for names in GROUPS.values() for option in names}
    for title, names in GROUPS.items():
        body = re.split(r"^\S", said.partition(f"\n{title}:\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
        there = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", body, re.MULTILINE))
        assert there == {*names} & {*options, "help"}


def test_every_name_in_a_group_is_an_option() -> None:
    there = {
        option.removeprefix("--") for command in EXPLAINED.values() for each in command.params for option in each.opts
    }

    assert {option for names in GROUPS.values() for option in names} <= there | {"help"}


@pytest.mark.parametrize("width", [80, 100, 200])
def test_help_is_no_wider_than_the_terminal(torchfast: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in ("rewrite", "check", "verify"):
        lines = torchfast(name, "--help").out.splitlines()

        assert max(map(len, lines)) <= max(min(width, WIDTH), 88)  # the names of the formats are one word


@pytest.mark.parametrize(("name", "line"), [pytest.param(*each, id=each[1]) for each in EXAMPLES])
def test_an_example_is_a_command_line(naive: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: str) -> None:
    monkeypatch.chdir(naive.parent)
    words = shlex.split(re.sub(r'^eval "\$\((.*)\)"$', r"\1", line).partition(" | ")[0])

    assert words[:2] == ["torchfast", name]
    assert EXPLAINED[name].make_context(name, words[2:]).params


# --- the tab key ----------------------------------------------------------------------------------------------------


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is offered at the end of a line, by the words that bash and zsh hand over."""
    from click.shell_completion import BashComplete

    words = line.split(" ")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    return [each.partition(",")[2] for each in BashComplete(cli, {}, "torchfast", "").complete().split()]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        pytest.param("torchfast che", ["check"], id="a command"),
        pytest.param("torchfast check --level ", ["bitwise", "random", "precision"], id="levels"),
        pytest.param("torchfast check --fail-on ne", ["never"], id="what fails"),
        pytest.param("torchfast check --format g", ["github", "gitlab"], id="formats"),
        pytest.param("torchfast rewrite --amp b", ["bf16"], id="forms of mixed precision"),
        pytest.param("torchfast rewrite --compile-mode r", ["reduce-overhead"], id="modes of compiling"),
        pytest.param("torchfast rewrite --select loader-pi", ["loader-pin"], id="a rule"),
        pytest.param("torchfast rewrite --select D", ["DEFAULT"], id="a group of rules"),
        pytest.param("torchfast rewrite --ignore amp,loader-pi", ["amp,loader-pin"], id="one rule more"),
        pytest.param("torchfast rewrite --ignore amp,amp", ["amp,amp-migrate"], id="no rule twice"),
        pytest.param("torchfast explain loader-pi", ["loader-pin"], id="a rule's page"),
        pytest.param("torchfast completion ", ["bash", "zsh", "fish"], id="shells"),
        pytest.param("torchfast verify --device s", ["simulated"], id="devices"),
    ],
)
def test_names_are_offered(monkeypatch: pytest.MonkeyPatch, line: str, names: list[str]) -> None:
    assert offered(line, monkeypatch) == names


def test_the_levels_offered_are_those_that_there_are() -> None:
    assert LEVELS == config.LEVELS


@pytest.mark.parametrize("command", ["rewrite", "check", "verify", "profile", "facts", "config"])
def test_files_are_left_to_the_shell(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COMP_WORDS", f"torchfast {command} tr")
    monkeypatch.setenv("COMP_CWORD", "2")
    from click.shell_completion import BashComplete

    assert BashComplete(cli, {}, "torchfast", "").complete() == "file,tr"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_shell_is_given_calls_torchfast(torchfast: Run, shell: str) -> None:
    answer = torchfast("completion", shell)

    assert answer.code == 0
    assert f"_TORCHFAST_COMPLETE={shell}_complete" in answer.out
    found = shutil.which(shell)
    if found is not None:
        subprocess.run([found, "-n"], input=answer.out, text=True, check=True)


def test_bash_offers_rules_by_the_command_that_is_on_the_path(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    (tmp_path / "torchfast").write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m autotune_rewrite "$@"\n'
    )
    (tmp_path / "torchfast").chmod(0o755)
    line = (
        'eval "$(torchfast completion bash)"; COMP_WORDS=(torchfast explain loader-pi); COMP_CWORD=2; '
        '_torchfast_completion torchfast; echo "${COMPREPLY[@]}"'
    )

    ended = subprocess.run(
        [bash, "--norc", "-c", line],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.split() == ["loader-pin"]


# --- wrong words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["chek"], "unknown command 'chek'; did you mean 'check'?", id="a command that is near"),
        pytest.param(["frob"], "unknown command 'frob'; there is check, clean, ", id="a command that is not"),
        pytest.param(
            ["train.py"],
            "train.py is no command: `torchfast rewrite train.py` shows what would change",
            id="a file without a command",
        ),
        pytest.param(["check", "--levle", "x"], "No such option '--levle'", id="an option"),
        pytest.param(["explain", "loadr-pin"], "did you mean 'loader-pin'?", id="a rule"),
        pytest.param(["rewrite", "-m", "."], "no module . here", id="a directory as a module"),
        pytest.param(["rewrite", "--verify", "."], "take one script: name its file", id="a directory to be run"),
    ],
)
def test_a_wrong_word_is_answered_with_what_there_is(torchfast: Run, naive: Path, words: list[str], said: str) -> None:
    assert naive.read_text() == NAIVE

    answer = torchfast(*words)

    assert answer.code == 2
    assert said in answer.err


def test_without_a_path_the_current_directory_is_rewritten(torchfast: Run, naive: Path) -> None:
    assert naive.is_file()

    for words in (["rewrite"], ["rewrite", "."], ["rewrite", "./"]):
        answer = torchfast(*words)
        assert (answer.code, "+++ train.py" in answer.out) == (0, True)


def test_where_nothing_is_found_a_terminal_says_so(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("import torch\n")

    assert "no findings" in shown(tmp_path, "rewrite", "clean.py")
    assert shown(tmp_path, "rewrite", "clean.py", "--quiet") == ""


def test_no_command_is_hidden_from_the_help(torchfast: Run) -> None:
    said = torchfast("--help").out

    assert set(re.findall(r"^  ([a-z]+)  +\S", said, re.MULTILINE)) == set(COMMANDS)
