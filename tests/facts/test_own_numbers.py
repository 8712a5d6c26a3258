"""Numbers of Python's own, integers and tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.devices.own_numbers import is_counted, is_integer, is_size, is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from codemods.facts.script import Script

HEAD = "import numpy as np\nimport torch\n\nx = torch.zeros(8, 4)\nn = x.size(0) * 2\nscale = np.load('a')\n"


def holds(fact: Callable[[Script, ast.expr], bool], code: str) -> bool:
    made = script(f"{HEAD}for i in range(9):\n    y = {code}\n")
    (statement,) = [each for each in made.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "y"]
    return fact(made, statement.value)


@pytest.mark.parametrize(
    ("code", "expected"),
    {
        "0.5": True,
        "-i / 2": True,
        "len(x)": True,
        "True": False,
        "scale": False,
        "i / scale": False,
        "x": False,
    }.items(),
)
def test_a_number_of_pythons_own(code: str, *, expected: bool) -> None:
    assert holds(is_counted, code) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    {
        "-3": True,
        "x.shape[0] // 2": True,
        "x.size(0)": True,
        "n": True,
        "-n": True,
        "0.5": False,
        "scale": False,
    }.items(),
)
def test_an_integer(code: str, *, expected: bool) -> None:
    assert holds(is_integer, code) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    {"3": True, "n": True, "x.size(0) + 1": True, "-3": False, "n - 1": False, "scale": False}.items(),
)
def test_a_size(code: str, *, expected: bool) -> None:
    assert holds(is_size, code) is expected


@pytest.mark.parametrize("fact", [is_integer, is_size])
@pytest.mark.parametrize(("step", "expected"), {"1": True, "n": True, "0.5": False, "scale": False}.items())
def test_what_is_counted_on(fact: Callable[[Script, ast.expr], bool], step: str, *, expected: bool) -> None:
    made = script(f"{HEAD}for i in range(9):\n    n = n + {step}\n    y = n\n")
    (statement,) = [each for each in made.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "y"]

    assert fact(made, statement.value) is expected


@pytest.mark.parametrize(("code", "expected"), {"x": True, "n": False, "scale": False}.items())
def test_a_tensor(code: str, *, expected: bool) -> None:
    assert holds(is_tensor, code) is expected
