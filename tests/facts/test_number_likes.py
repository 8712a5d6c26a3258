"""Which expressions are surely no arrays."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.arrays import Arrays
from codemods.facts.data.number_likes import is_list, is_number, is_tensor

HEAD = """\
import argparse
import random
import numpy as np
import torch
args = argparse.ArgumentParser().parse_args()
a = np.zeros(3)
class Own:
    def size(self):
        return a
    def item(self):
        return a
own = Own()
"""


def known(expression: str, before: str = "") -> tuple[bool, bool, bool]:
    """Whether it is a number, a list, and a tensor."""
    found = script(f"{HEAD}{before}\n{expression}\n")
    node = found.module.tree.body[-1].value  # type: ignore[attr-defined]
    flow = found.flow
    return is_number(Arrays(flow), flow, found.module, node), is_list(flow, node), is_tensor(flow, node)


@pytest.mark.parametrize(
    "expression",
    [
        *("1", "-1", "1 + 2", "args.size", "len(x)", "int(x)", "x.shape", "x.shape[0]", "x.size(0)", "x.item()"),
        *("a.mean()", "random.random()", "1 if x else 2"),
    ],
)
def test_numbers(expression: str) -> None:
    assert known(expression)[0]


@pytest.mark.parametrize(
    "expression", ["x", "a", "a + 1", "x.mean()", "own.size()", "own.item()", "a.mean(0)", "1 if x else a", "max(a)"]
)
def test_what_may_be_no_number(expression: str) -> None:
    assert not known(expression)[0]


def in_function(expression: str, body: str) -> bool:
    """Whether it is a number at the end of a function."""
    lines = "".join(f"    {each}\n" for each in (*body.splitlines(), expression))
    found = script(f"{HEAD}def f(x, many):\n{lines}")
    function = found.module.tree.body[-1]
    node = function.body[-1].value  # type: ignore[attr-defined]
    return is_number(Arrays(found.flow), found.flow, found.module, node)


@pytest.mark.parametrize(
    ("expression", "body", "expected"),
    [
        pytest.param("dim", "batch, dim = x.shape", True, id="one of a shape"),
        pytest.param("dim", "batch, dim = x.size()", True, id="one of a size"),
        pytest.param("dim", "batch, dim = many", False, id="one of what is not known"),
        pytest.param("size[0] // 2", "size = x.shape[-2:]", True, id="of a part of a shape"),
        pytest.param("size[0]", "size = x.shape\nsize = size[1:]", True, id="of a part of itself"),
        pytest.param("size[0]", "size = size[1:]\nsize = many", False, id="of what is not known in the end"),
        pytest.param("many[0]", "", False, id="of a parameter"),
        pytest.param("1 / many", "for i in range(many):\n    pass", True, id="it is counted to"),
        pytest.param("1 / x.n", "for i in range(x.n):\n    pass", True, id="an attribute is counted to"),
        pytest.param("1 / many", "for i in range(len(many)):\n    pass", False, id="its length is counted to"),
    ],
)
def test_numbers_of_functions(expression: str, body: str, *, expected: bool) -> None:
    assert in_function(expression, body) is expected


def test_a_name_that_only_counts() -> None:
    assert known("i", "for i in range(3):\n    pass")[0]
    assert not known("i", "for i in range(3):\n    pass\ni = a")[0]


def parameter(signature: str, body: str = "x") -> bool:
    found = script(f"{HEAD}class Rows(torch.utils.data.Dataset):\n    def __getitem__({signature}):\n        {body}\n")
    owner = found.module.tree.body[-1]
    node = owner.body[0].body[-1].value  # type: ignore[attr-defined]
    return is_number(Arrays(found.flow), found.flow, found.module, node)


def test_a_parameter_that_is_said_to_be_a_number_or_is_an_index() -> None:
    assert parameter("self, x")
    assert parameter("self, i, x: int = 0")
    assert parameter("self, i, x: list[int] = ()")
    assert not parameter("self, i, x=None")
    assert not parameter("self, i, x: int = 0", "x = load(); x")


@pytest.mark.parametrize(
    ("expression", "is_one"),
    [("[1]", True), ("(a, a)", True), ("[b for b in a]", True), ("pair", True), ("a", False), ("{1}", False)],
)
def test_lists(expression: str, is_one: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert known(expression, "pair = [a, a]")[1] is is_one


@pytest.mark.parametrize(
    ("expression", "is_one"),
    [
        ("torch.zeros(3)", True),
        ("t", True),
        ("t.cuda()", True),
        ("t.max(1)", False),
        ("t.chunk(2)", False),
        ("a", False),
        ("x", False),
    ],
)
def test_tensors(expression: str, is_one: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert known(expression, "t = torch.zeros(3, 3)")[2] is is_one


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        pytest.param("s, n = 0.0, 0\n    s += x.item() * x.shape[0]\n    n += len(x)", True, id="sums of numbers"),
        pytest.param("s = 1\n    n = 2\n    s = s * 2 + n", True, id="numbers that are computed of each other"),
        pytest.param("s = n = 0\n    s += x", False, id="what may be an array is added"),
        pytest.param("n = 1\n    for s in x:\n        pass", False, id="what a loop goes through"),
        pytest.param("n, s = x", False, id="a part of what may be arrays"),
    ],
)
def test_a_name_that_is_given_numbers(body: str, is_one: bool) -> None:  # noqa: FBT001 - the expectation itself
    found = script(f"{HEAD}def f(x):\n    {body}\n    return s / n\n")
    (returned,) = (each for each in found.module.nodes(ast.Return) if ast.unparse(each) == "return s / n")

    assert returned.value is not None
    assert is_number(Arrays(found.flow), found.flow, found.module, returned.value) is is_one
