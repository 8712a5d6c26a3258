"""What is known of the calls that make tensors of arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.data.arrays import Arrays
from codemods.facts.data.conversions import is_large, is_repeated, maker
from codemods.facts.data.number_likes import is_number

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = "import numpy as np\nimport torch\nfrom torch.utils.data import Dataset\n\n"


def conversion(code: str) -> tuple[Script, ast.Call]:
    found = script(HEAD + code)
    (call,) = [each for each in found.module.nodes(ast.Call) if maker(found.flow, each)]
    return found, call


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("x = torch.tensor(a)", False, id="once"),
        pytest.param("for a in b:\n    x = torch.tensor(a)", True, id="in a loop"),
        pytest.param(
            "class Rows(Dataset):\n    def __getitem__(self, i):\n        return torch.tensor(a[i])",
            True,
            id="for each item of a data set",
        ),
        pytest.param("class Rows:\n    def load(self, i):\n        return torch.tensor(a[i])", False, id="in a method"),
    ],
)
def test_what_is_made_again_and_again(code: str, *, expected: bool) -> None:
    found, call = conversion(code)

    assert is_repeated(found.flow, found.loaders, found.module, call) is expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param("np.load('x.npy')", True, id="a file"),
        pytest.param("np.zeros(3)", False, id="some numbers"),
        pytest.param("[np.zeros(3) for _ in range(9)]", True, id="a list of arrays"),
    ],
)
def test_what_may_be_large(data: str, *, expected: bool) -> None:
    found, call = conversion(f"x = torch.tensor({data})")

    assert is_large(Arrays(found.flow), found.module, call, "torch.tensor") is expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param("x.shape[1:]", True, id="part of a size"),
        pytest.param("-len(x) * 2", True, id="a length"),
        pytest.param("1 if x else x.item()", True, id="a number either way"),
        pytest.param("np.ones(3).sum()", True, id="the sum of an array"),
        pytest.param("np.ones((3, 3)).sum(0)", False, id="sums of an array"),
        pytest.param("x", False, id="anything"),
        pytest.param("x.data", False, id="an attribute of anything"),
    ],
)
def test_what_is_a_number(data: str, *, expected: bool) -> None:
    found, call = conversion(f"def make(x):\n    return torch.tensor({data})")

    assert is_number(Arrays(found.flow), found.flow, found.module, call.args[0]) is expected
