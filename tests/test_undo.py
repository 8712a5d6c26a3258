"""Changes that are taken back, changes as a patch, and changes that are asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import NAIVE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Answer

    Run = Callable[..., Answer]

BITWISE = ("--level", "bitwise")
NOTHING = "Error: nothing to take back: nothing was written from this directory, or it was taken back before\n"


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


# --- undo -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [("rewrite", ".", "--apply"), ("check", ".", "--fix"), ("check", ".", "--add-ignores")],
    ids=["rewritten", "fixed", "commented"],
)
def test_what_was_written_is_taken_back_once(torchfast: Run, naive: Path, command: tuple[str, ...]) -> None:
    other = naive.with_name("other.py")
    other.write_bytes(NAIVE.replace("\n", "\r\n").encode())
    before = {path: path.read_bytes() for path in (naive, other)}
    naive.chmod(0o750)
    torchfast(*command, *BITWISE)
    assert all(path.read_bytes() != data for path, data in before.items())

    answer = torchfast("undo")

    assert (answer.code, sorted(answer.err.splitlines())) == (0, ["other.py: taken back", "train.py: taken back"])
    assert {path: path.read_bytes() for path in before} == before
    assert naive.stat().st_mode & 0o777 == 0o750
    again = torchfast("undo")
    assert (again.code, again.err) == (2, NOTHING)


def test_what_was_changed_since_stays(torchfast: Run, naive: Path) -> None:
    other = naive.with_name("other.py")
    other.write_text(NAIVE)
    torchfast("rewrite", ".", "--apply", *BITWISE)
    edited = f"{naive.read_text()}print('done')\n"
    written = other.read_text()
    naive.write_text(edited)

    answer = torchfast("undo")

    assert (answer.code, answer.err) == (
        2,
        f"Error: {naive}: was changed since it was written: nothing is taken back\n",
    )
    assert (naive.read_text(), other.read_text()) == (edited, written)


def test_where_the_user_took_one_back_the_rest_is(torchfast: Run, naive: Path) -> None:
    other = naive.with_name("other.py")
    other.write_text(NAIVE)
    torchfast("rewrite", ".", "--apply", *BITWISE)
    naive.write_text(NAIVE)

    assert torchfast("undo").code == 0
    assert (naive.read_text(), other.read_text()) == (NAIVE, NAIVE)


def test_what_writes_nothing_forgets_nothing(torchfast: Run, naive: Path) -> None:
    torchfast("rewrite", naive.name, "--apply", *BITWISE)
    torchfast("rewrite", naive.name, "--apply", *BITWISE)

    assert torchfast("undo").code == 0
    assert naive.read_text() == NAIVE


@pytest.mark.usefixtures("naive")
def test_without_anything_written_there_is_nothing_to_take_back(torchfast: Run) -> None:
    torchfast("rewrite", "train.py")

    answer = torchfast("undo")

    assert (answer.code, answer.err) == (2, NOTHING)


# --- patches ----------------------------------------------------------------------------------------------------------


def as_notebook(text: str) -> bytes:
    cell: dict[str, object] = {
        "cell_type": "code",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        "source": text,
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(("git", "apply", "-p0", "changes.patch"), id="git apply"),
        pytest.param(("patch", "-p0", "--binary", "-i", "changes.patch"), id="patch"),
    ],
)
@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("train.py", NAIVE.encode(), id="a script"),
        pytest.param("a script.py", NAIVE.replace("\n", "\r\n").encode(), id="CRLF and a blank"),
        pytest.param("latin.py", f"# coding: latin-1\n# é\n{NAIVE}".encode("latin-1"), id="Latin-1"),
        pytest.param("end.py", NAIVE.rstrip("\n").encode(), id="no newline at the end"),
        pytest.param("nb.ipynb", as_notebook(NAIVE), id="a notebook"),
    ],
)
def test_a_patch_is_taken_by_other_tools(
    torchfast: Run, naive: Path, tool: tuple[str, ...], name: str, data: bytes
) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not there")
    naive.unlink()
    script = naive.with_name(name)
    script.write_bytes(data)

    answer = torchfast("rewrite", name, "--patch", "changes.patch", *BITWISE)

    assert (answer.code, answer.err) == (
        0,
        "changes.patch: written; `git apply -p0` or `patch -p0` takes it\n",
    )
    assert script.read_bytes() == data
    subprocess.run(tool, cwd=naive.parent, check=True, capture_output=True)
    patched = script.read_bytes()
    script.write_bytes(data)
    torchfast("rewrite", name, "--apply", *BITWISE)
    assert script.read_bytes() == patched != data


def test_where_nothing_changes_no_patch_is_written(torchfast: Run, naive: Path) -> None:
    naive.write_text("import torch\n")

    assert torchfast("rewrite", naive.name, "--patch", "changes.patch").err == "nothing was written\n"
    assert not naive.with_name("changes.patch").exists()


def test_a_patch_that_cannot_be_written_is_a_fault(torchfast: Run, naive: Path) -> None:
    answer = torchfast("rewrite", naive.name, "--patch", "missing/changes.patch")

    assert (answer.code, answer.err) == (
        2,
        "Error: missing/changes.patch: not written: no such file or directory\n",
    )


# --- asking -----------------------------------------------------------------------------------------------------------


def asked(torchfast: Run, answers: str, *arguments: str) -> Answer:
    return torchfast("rewrite", "train.py", "--interactive", *BITWISE, *arguments, stdin=answers.encode())


PINNED = NAIVE.replace("num_workers=2)", "num_workers=2, pin_memory=True)")
ORDER = ("loader-pin", "h2d-non-blocking", "h2d-non-blocking", "zero-grad-none")
"""In which changes are asked for."""


@pytest.mark.parametrize(
    ("answers", "number", "expected"),
    [
        pytest.param("y\nn\nn\nn\n", 4, PINNED, id="one"),
        pytest.param("y\nq\n", 2, PINNED, id="none of the rest"),
        pytest.param("maybe\n?\nY\nq\n", 2, PINNED, id="asked again"),
        pytest.param("n\nn\nn\nn\n", 4, NAIVE, id="none"),
        pytest.param("a\n", 1, None, id="all"),
    ],
)
def test_what_is_wanted_is_written(
    torchfast: Run, naive: Path, answers: str, number: int, expected: str | None
) -> None:
    if expected is None:
        expected = torchfast("rewrite", "-", *BITWISE, stdin=NAIVE.encode()).out

    answer = asked(torchfast, answers)

    assert answer.code == 0
    assert naive.read_text() == expected
    shown = [line.partition(" ")[0] for line in answer.out.splitlines() if line.endswith("  [bitwise]")]
    assert tuple(shown[:number]) == ORDER[:number]
    assert answer.out.count("--- train.py\n+++ train.py\n") == number
    assert ("y: make this change" in answer.out) == ("?" in answers)


def test_each_change_is_shown_alone(torchfast: Run, naive: Path) -> None:
    lines = asked(torchfast, "n\nq\n").out.splitlines()

    changed = [line for line in lines if line.startswith(("+ ", "+l"))]
    assert naive.read_text() == NAIVE
    assert changed == [
        "+loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True)",
        "+        images = images.to(device, non_blocking=True)",
        "+        labels = labels.to(device)",
    ]


def test_without_an_answer_nothing_is_written(torchfast: Run, naive: Path) -> None:
    naive.with_name("other.py").write_text(NAIVE)

    answer = torchfast("rewrite", ".", "--interactive", *BITWISE, stdin=b"y\ny\ny\ny\n")

    assert answer.err.endswith("\ninterrupted: nothing was written\n")
    assert answer.code == 130
    assert {path.read_text() for path in naive.parent.glob("*.py")} == {NAIVE}


def test_changes_of_a_notebook_are_not_asked_for(torchfast: Run, naive: Path) -> None:
    book = naive.with_name("nb.ipynb")
    book.write_bytes(as_notebook(NAIVE))

    answer = torchfast("rewrite", book.name, "--interactive", stdin=b"a\n")

    assert (answer.code, answer.err.splitlines()[0]) == (
        2,
        "nb.ipynb: a notebook: changes are asked for in scripts only",
    )
    assert book.read_bytes() == as_notebook(NAIVE)


def test_what_follows_from_a_change_that_is_not_wanted_is_not_asked_for(torchfast: Run, naive: Path) -> None:
    naive.write_text(PROBABILITIES)
    arguments = ("rewrite", "train.py", "--interactive", "--select", "bce-logits,amp")

    without = torchfast(*arguments, stdin=b"n\n")

    assert without.code == 0
    assert naive.read_text() == PROBABILITIES
    assert "amp  left: " in without.out
    assert torchfast(*arguments, stdin=b"y\ny\n").code == 0
    assert "autocast" in naive.read_text()


PROBABILITIES = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(model.parameters())
for images in torch.randn(4, 256, 1024).cuda():
    optimizer.zero_grad()
    loss = criterion(model(images), torch.ones(256, 1).cuda())
    loss.backward()
    optimizer.step()
"""
