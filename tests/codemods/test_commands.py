"""Rules as LibCST commands."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from libcst.codemod import CodemodContext, SkipFile

from codemods import commands
from codemods.codemod import Codemod, Finding, Promise
from codemods.editing.values import AddArgument, Edit, Remove

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.script import Script

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    name for name in vars(commands) if name.endswith("Command") and vars(commands)[name].__module__ == commands.__name__
)
COMMANDS.remove("RuleCommand")


class Marks(Codemod):
    """Passes ``new=1`` to every call.

    Why it is faster: it is not.
    """

    promise = Promise.BITWISE
    needs_cuda = False
    gain = "none"
    examples = ()

    def find(self, script: Script) -> Iterator[Finding]:
        module = script.module
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                edits: list[Edit] = [AddArgument(module, node, "new", "1")]
                if isinstance(node.func, ast.Name) and node.func.id == "crossing":
                    # The call is gone where its statement is removed: the finding has to be dropped.
                    edits.append(Remove(module, module.statement(node)))
                yield self.rewrites(module, node, "unmarked", *edits)


MarksCommand = commands.command(Marks)


def run(text: str | bytes) -> cst.Module:
    return MarksCommand(CodemodContext(filename="train.py")).transform_module(cst.parse_module(text))


def test_a_command_rewrites_what_its_rule_finds() -> None:
    assert run("import torch\nf(a)  # one\ncrossing()\n").code == "import torch\nf(a, new=1)  # one\ncrossing()\n"


def test_encoding_mark_and_newlines_stay() -> None:
    text = "\ufeff# -*- coding: utf-8 -*-\r\nimport torch\r\nf('é')"
    assert run(text.encode()).bytes == text.replace("'é'", "'é', new=1").encode()


TRAINING = """\
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    optimizer.zero_grad()
    model(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


def test_a_file_without_torch_is_skipped() -> None:
    with pytest.raises(SkipFile, match="does not mention torch"):
        run("f(a)\n")


def test_a_file_that_libcst_reads_and_python_does_not_is_skipped() -> None:
    with pytest.raises(SkipFile, match="bytes"):
        run("import torch\nx = b'é'\n")


def test_a_command_is_named_and_described_by_its_rule() -> None:
    assert MarksCommand.__name__ == "MarksCommand"
    assert MarksCommand.DESCRIPTION == "Passes ``new=1`` to every call."


@pytest.mark.parametrize("name", COMMANDS)
def test_the_commands_of_the_rules_are_importable_by_their_name(name: str) -> None:
    command = getattr(commands, name)
    assert (command.__name__, command.__module__) == (name, "codemods.commands")
    assert f"{command.rule.__name__}Command" == name


def test_the_tool_runs_a_command_over_a_file(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    (tmp_path / ".libcst.codemod.yaml").write_bytes((ROOT / ".libcst.codemod.yaml").read_bytes())
    tool = [sys.executable, "-m", "libcst.tool", "codemod", "-x", "codemods.commands.ZeroGradNoneCommand", "train.py"]
    done = subprocess.run(
        tool,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert script.read_text() == TRAINING.replace("zero_grad()", "zero_grad(set_to_none=True)")
