"""Which tensors may hold 16-bit floats under autocast, and so after it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.precision.dtypes import Format, Formats
from codemods.facts.reach import is_model_call

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(4, 4)
"""


def known(body: str) -> tuple[Script, list[ast.stmt]]:
    found = script(HEAD + body)
    return found, found.module.tree.body[len(ast.parse(HEAD).body) :]


def formats(body: str) -> tuple[Formats, list[ast.stmt]]:
    found, statements = known(body)
    result = Formats(found.flow, lambda call: is_model_call(found.flow, call))
    result.run(statements)
    return result, statements


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("y", Format.NARROW),
        ("y * 2", Format.NARROW),
        ("y.view(-1)", Format.NARROW),
        ("torch.relu(y)", Format.NARROW),
        ("y[0]", Format.NARROW),
        ("y.float()", Format.OTHER),
        ("y.argmax(1)", Format.OTHER),
        ("y.max(1)[1]", Format.OTHER),
        ("y.max(1)[0]", Format.NARROW),
        ("y > 0", Format.OTHER),
        ("y.item()", Format.OTHER),
        ("y.shape", Format.OTHER),
        ("F.softmax(y, 1)", Format.OTHER),
        ("F.cross_entropy(y, x)", Format.OTHER),
        ("F.linear(x, x)", Format.NARROW),
        ("y + x", Format.NARROW),
        ("3", Format.OTHER),
    ],
)
def test_what_an_expression_holds_under_autocast(expression: str, expected: Format) -> None:
    found, statements = formats(f"y = model(x)\nz = {expression}\n")
    last = statements[-1]
    assert isinstance(last, ast.Assign)

    assert found.of(last.value) is expected


def test_what_a_pass_of_a_loop_leaves_for_the_next() -> None:
    found, _ = formats("y = x\nfor each in data:\n    z = y * 2\n    w = z + 1\n    y = model(each)\n")

    assert {found.names[each] for each in "zwy"} == {Format.NARROW}


def test_a_loop_that_swaps_what_its_names_hold_ends() -> None:
    found, _ = formats(
        "a = model(x).max(1)\nb = nn.LSTM(4, 4)(x)\nfor each in data:\n    c = a\n    a = b\n    b = c\nz = a[0]\n"
    )

    assert found.names["z"] is not Format.OTHER


def test_the_branches_of_an_if_are_joined() -> None:
    found, _ = formats("if c:\n    y = model(x)\nelse:\n    y = 0\nz = 1\n")

    assert (found.names["y"], found.names["z"]) == (Format.NARROW, Format.OTHER)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = model(x)\nz = y.detach().numpy()", "y.detach().numpy()"),
        ("y = model(x).float()\nz = y.numpy()", None),
        ("y = model(x)\nz = y.argmax(1).numpy()", None),
        ("y = model(x)\nz = y.tolist()", None),
    ],
)
def test_what_becomes_an_array(body: str, expected: str | None) -> None:
    found, statements = formats(body)
    call = found.leaves_torch(statements)

    assert (None if call is None else ast.unparse(call)) == expected


DEEP = "".join(f"def f{at}(t):\n    return f{at - 1}(t)\n" for at in range(1, 7))


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param(f"def f0(t):\n    return t * 2\n{DEEP}", Format.NARROW, id="through many functions"),
        pytest.param(f"def f0(t):\n    return t.float()\n{DEEP}", Format.OTHER, id="made wide by the last of them"),
        pytest.param(
            "def f6(t, n=3):\n    return f6(t, n - 1) * 2 if n else t\n", Format.NARROW, id="one that calls itself"
        ),
        pytest.param(
            "def f6(t, n=3):\n    return other(t, n) if n else t.float()\ndef other(t, n):\n    return f6(t, n - 1)\n",
            Format.OTHER,
            id="two that call each other",
        ),
    ],
)
def test_what_functions_of_the_project_return(functions: str, expected: Format) -> None:
    found, statements = formats(f"{functions}y = model(x)\nz = f6(y)\n")
    last = statements[-1]
    assert isinstance(last, ast.Assign)

    assert found.of(last.value) is expected


def test_the_elements_that_functions_return() -> None:
    found, _ = formats(
        "def f0(t):\n    return t, t.float()\n"
        + DEEP
        + "def again(t, n):\n    if n:\n        return again(t, n - 1)\n    return 1, t\n"
        "a, b = f6(model(x))\nc, d = again(model(x), 3)\n"
    )

    assert [found.names[each] for each in "abcd"] == [Format.NARROW, Format.OTHER, Format.OTHER, Format.NARROW]


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        pytest.param(f"def f0(t):\n    t.numpy()\n{DEEP}", "t.numpy()", id="in the last of many functions"),
        pytest.param("def f6(t):\n    f6(t)\n    t.numpy()\n", "t.numpy()", id="after a call of itself"),
        pytest.param("def f6(t):\n    f6(t)\n", None, id="a function that only calls itself"),
    ],
)
def test_what_becomes_an_array_in_functions(functions: str, expected: str | None) -> None:
    found, statements = formats(f"{functions}y = model(x)\nf6(y)\n")
    call = found.leaves_torch(statements)

    assert (None if call is None else ast.unparse(call)) == expected
