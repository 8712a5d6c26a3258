"""Whatever the program: no exception, a result that parses, a second pass that changes nothing."""

from __future__ import annotations

import ast
import warnings

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autotune_rewrite.errors import FileError
from autotune_rewrite.project import files
from autotune_rewrite.rewriting.batch import Done, alone, process_read
from autotune_rewrite.rewriting.config import Options
from tests.conftest import NAIVE, ROOT

PROGRAM = "/nowhere/program.py"
"""Beside no requirements, so that the torch it runs on is not known."""

SCRIPTS = [NAIVE, *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "fixtures").glob("*/naive.py")))]
LINES = sorted({line for script in SCRIPTS for line in script.splitlines()} - {""})
PIECES = [
    "for batch in loader:",
    "with torch.no_grad():",
    "loss.backward(); optimizer.step()",
    "if True: optimizer.zero_grad()",
    "model.eval()",
    "x = x.cuda()",
    "x, y = \\",
    "from torch import *",
    "from torch.utils.data import DataLoader as Loader",
    "loader = Loader(dataset, **kwargs)",
    "class Net(nn.Module):",
    "def train(loader, model, optimizer, device='cuda'):",
    "async def f(): pass",
    "match x:",
    "case [1, *rest]: pass",
    "@torch.no_grad()",
    "try:",
    "except* ValueError: pass",
    "# torchfast: ignore",
    "lambda: (yield)",
    "f'{loader!r:>{width}}'",
    "del (a), b",
    "\f",
    "\\",
]

several = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def process(data: bytes, *, check: bool = False) -> Done:
    (result,) = process_read(alone(files.decode(PROGRAM, data)), Options(), check=check)
    if isinstance(result, FileError):
        raise result
    return result


@st.composite
def mutated(draw: st.DrawFn) -> str:  # noqa: C901 - as many branches as there are mutations
    """One of the scripts with some lines gone, doubled, moved, indented otherwise, cut or from elsewhere."""
    lines = draw(st.sampled_from(SCRIPTS)).splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        match draw(st.sampled_from(["remove", "double", "move", "indent", "cut", "join", "foreign", "rename"])):
            case "remove" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(other, line)
            case "move":
                lines.insert(other, lines.pop(at))
            case "indent":
                lines[at] = draw(st.sampled_from(["", "    ", "\t", "        "])) + line.lstrip()
            case "cut":
                lines[at] = line[: draw(st.integers(0, len(line)))]
            case "join":
                lines[at] = f"{line}; {lines[other].strip()}"
            case "foreign":
                indentation = line[: len(line) - len(line.lstrip())]
                lines.insert(at, indentation + draw(st.sampled_from(PIECES + LINES)).lstrip(" "))
            case "rename":
                words = [word for word in line.replace("(", " ").replace(".", " ").split() if word.isidentifier()]
                if words:
                    new = draw(st.sampled_from(["loader", "model", "optimizer", "torch", "x", "DataLoader", "None"]))
                    lines[at] = line.replace(draw(st.sampled_from(words)), new)
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@st.composite
def generated(draw: st.DrawFn) -> str:
    """Lines of the scripts in any order, at the indentation that the line before asks for, or one less deep."""
    lines = ["import torch"]
    depth = 0
    for line in draw(st.lists(st.sampled_from(PIECES + LINES), max_size=25)):
        text = line.strip()
        depth = max(0, depth - draw(st.integers(0, 2)))
        lines.append("    " * depth + text)
        depth += text.endswith(":")
    if lines[-1].endswith(":"):
        lines.append("    " * depth + "pass")
    return "\n".join(lines) + "\n"


def hold(text: str) -> None:
    """Put a program through the whole tool twice."""
    data = text.encode()
    try:
        result = process(data).rewrite
    except FileError as error:
        assert "\n" not in str(error)
        assert "please report this" not in error.message
        return
    after = result.after
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the program
        ast.parse(after.removeprefix("\ufeff"))
    assert (after != text) == any(site.rewrites for site in result.sites)
    if after != text:  # else the second pass is the first
        assert process(after.encode()).rewrite.after == after
    check = process(data, check=True).rewrite
    assert check.sites == result.sites


@several
@given(mutated())
@example(SCRIPTS[0])
def test_a_mutated_script_is_rewritten_once_and_for_all(text: str) -> None:
    hold(text)


@several
@given(generated())
def test_a_generated_program_is_rewritten_once_and_for_all(text: str) -> None:
    hold(text)


@several
@given(st.text().map(lambda text: f"import torch\n{text}"))
def test_any_text_is_rewritten_or_refused(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    hold(text)


@several
@given(st.binary(max_size=200))
def test_any_bytes_are_rewritten_or_refused(data: bytes) -> None:
    try:
        done = process(data + b"\nimport torch\n")
    except FileError as error:
        assert error.path == PROGRAM
    else:
        assert done.rewrite.after == done.source.text
        assert done.source.encode(done.rewrite.after) == done.source.data


@several
@given(st.binary(max_size=200).filter(lambda data: b"torch" not in data and b"\0" not in data))
def test_without_torch_every_byte_comes_back(data: bytes) -> None:
    done = process(data)

    assert done.rewrite.after == done.rewrite.before == done.source.text
    assert done.source.encode(done.rewrite.after) == data
    assert done.rewrite.sites == ()
