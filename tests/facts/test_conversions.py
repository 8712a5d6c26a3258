"""What is known of the calls that make tensors of arrays."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.arrays import Arrays
from codemods.facts.data.conversions import Form, conversions
from codemods.facts.data.number_likes import is_number

HEAD = "import numpy as np\nimport torch\nfrom torch.utils.data import Dataset\n\n"


def converted(code: str) -> list[Form]:
    known = script(HEAD + code)
    return [each.form for each in conversions(known, Arrays(known.flow))]


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
    assert converted(code) == ([Form.COPYING] if expected else [])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param("np.load('x.npy')", True, id="a file"),
        pytest.param("np.zeros(3)", False, id="some numbers"),
        pytest.param("[np.zeros(3) for _ in range(9)]", True, id="a list of arrays"),
    ],
)
def test_what_may_be_large(data: str, *, expected: bool) -> None:
    assert converted(f"x = torch.tensor({data})") == ([Form.COPYING] if expected else [])


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("torch.tensor(a)", [Form.COPYING], id="a copy"),
        pytest.param("torch.as_tensor(a)", [Form.SHARING], id="as it is"),
        pytest.param("torch.Tensor(a)", [Form.LEGACY], id="the old class"),
        pytest.param("torch.FloatTensor(a)", [Form.LEGACY], id="the old class of a format"),
        pytest.param("torch.LongTensor(a)", [Form.LEGACY], id="the old class of integers"),
        pytest.param("torch.LongTensor(a).random_(8)", [], id="one size"),
        pytest.param("torch.Tensor(2, 3)", [], id="two sizes"),
        pytest.param("torch.from_numpy(a)", [], id="what takes arrays alone"),
        pytest.param("make(a)", [], id="what is not known"),
    ],
)
def test_which_constructor_it_is(call: str, expected: list[Form]) -> None:
    assert converted(f"for a in b:\n    x = {call}") == expected


def test_what_is_said_beside_the_data() -> None:
    known = script(HEAD + "for a in b:\n    x = torch.tensor(a, dtype=torch.float32, device='cpu')")
    (found,) = conversions(known, Arrays(known.flow))

    assert ast.unparse(found.data) == "a"
    assert {name: ast.unparse(node) for name, node in found.arguments.items()} == {
        "dtype": "torch.float32",
        "device": "'cpu'",
    }
    assert found.torch == "torch"


def test_a_file_that_is_taken_over_as_it_is_costs_nothing() -> None:
    assert converted("x = torch.as_tensor(np.load('x.npy'))") == []


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
    known = script(f"{HEAD}def make(x):\n    return torch.tensor({data})")
    given = known.module.tree.body[-1].body[0].value.args[0]  # type: ignore[attr-defined]

    assert is_number(Arrays(known.flow), known.flow, known.module, given) is expected
