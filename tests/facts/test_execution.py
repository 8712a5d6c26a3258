"""What does code come to where each name has one value."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.amounts import UNKNOWN, Built, Layer
from codemods.facts.cost.execution import Execution
from codemods.facts.cost.statements import NotKnownError

HEAD = """\
import torch
from torch import nn
def scaled(x, by=2, *rest):
    return x * by + sum(rest)
def down(x):
    return x if x == 0 else down(x - 1)
def endless(x):
    return endless(x + 1)
def counted():
    count = 0
    for i in range(100000):
        count += 1
    return count
class Net(nn.Module):
    expansion = 4
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, self.widened(width))
    def widened(self, width):
        return width * self.expansion
    @staticmethod
    def halved(width):
        return width // 2
class Row(nn.Sequential):
    def __init__(self, width):
        super().__init__(nn.ReLU(), nn.Linear(width, 1))
"""


def value(expression: str) -> object:
    known = script(f"{HEAD}{expression}\n")
    return Execution(known).of(known.module.tree.body[-1].value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("scaled(3)", 6, id="a default"),
        pytest.param("scaled(3, 4)", 12, id="by position"),
        pytest.param("scaled(3, by=4)", 12, id="by name"),
        pytest.param("scaled(*[3, 4])", 12, id="unpacked"),
        pytest.param("scaled(**{'x': 3, 'by': 4})", 12, id="unpacked by name"),
        pytest.param("scaled(3, 4, 5, 6)", 23, id="further arguments"),
        pytest.param("down(5)", 0, id="a function that calls itself"),
        pytest.param("[x for x in range(4) if x > 1]", [2, 3], id="a comprehension with a test"),
        pytest.param("{'a': 3}['a']", 3, id="an item"),
        pytest.param("1 < 2 < 3 and not 0", True, id="comparisons"),
        pytest.param("scaled(torch.rand(1))", UNKNOWN, id="an argument that is not known"),
    ],
)
def test_what_an_expression_comes_to(expression: str, expected: object) -> None:
    assert value(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("endless(1)", id="calls within calls without an end"),
        pytest.param("counted()", id="more steps than are followed"),
        pytest.param("scaled(*torch.rand(2))", id="arguments that are not known"),
        pytest.param("[x for x in torch.rand(2)]", id="a comprehension over what is not known"),
    ],
)
def test_where_it_is_given_up(expression: str) -> None:
    with pytest.raises(NotKnownError):
        value(expression)


def test_names_of_a_function_have_the_values_that_are_given() -> None:
    known = script("def f(width):\n    return width * 2\n")
    (end,) = known.module.nodes(ast.Return)

    assert end.value is not None
    assert Execution(known).value(end.value, {"width": 4}) == 8


def test_a_model_asks_its_own_methods_and_class() -> None:
    net = value("Net(3)")

    assert isinstance(net, Built)
    assert isinstance(net.attributes["layer"], Layer)
    assert net.attributes["layer"].arguments == [3, 12]
    assert value("Net(3).halved(6)") == 3


def test_what_a_base_is_given_are_its_layers() -> None:
    row = value("Row(3)")

    assert isinstance(row, Built)
    assert [each.name for each in row.attributes.values()] == ["torch.nn.ReLU", "torch.nn.Linear"]
