"""Tensors that are the same in each pass of a loop, and names that get several values in turn."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.invariants import names_of
from codemods.facts.training.constant_values import ConstantValues, parts

TOP = """\
import torch
from torch import nn
from torch.autograd import Variable
use_cuda = torch.cuda.is_available()
net = nn.Linear(4, 1)
def grid(a, b):
    rows, columns = torch.meshgrid(a, b)
    return rows.transpose(0, 1), columns * 2
def shifted(a, b=net.weight):
    return a + b
def weighed(a):
    return a * net.weight
def one():
    return torch.ones(1)
class Grid:
    def of(self, a):
        return a + self.b
    b = net.weight
grids = Grid()
"""
TURNS = "y = torch.ones(2)\nif use_cuda:\n    y = y.cuda()\n"


def of(body: str) -> tuple[ConstantValues, ast.stmt]:
    """What is known of the first loop, and the last assignment to ``answer`` in it, or its first one."""
    found = script(TOP + "for i in range(3):\n" + "".join(f"    {each}\n" for each in body.splitlines()))
    loop = found.module.nodes(ast.For)[0]
    statements = [each for each in found.module.nodes(ast.Assign) if loop in found.module.ancestors(each)]
    asked = [each for each in statements if any(name.id == "answer" for name in names_of(each))]
    return ConstantValues(found, found.module, loop), (asked or statements)[-1 if asked else 0]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("torch.ones(2)", True, id="filled"),
        pytest.param("-torch.ones(2)[0] * 3 > 1", True, id="computed with numbers"),
        pytest.param("torch.stack([torch.ones(2)])", True, id="joined"),
        pytest.param("Variable(torch.ones(2)).view(-1).sqrt()", True, id="through methods"),
        pytest.param("torch.ones(2), torch.zeros(3)", True, id="two of them"),
        pytest.param("torch.FloatTensor([1])", True, id="numbers in an old constructor"),
        pytest.param("torch.FloatTensor(2).fill_(1)", True, id="filled by an old constructor"),
        pytest.param("torch.FloatTensor(2)", False, id="what was in memory"),
        pytest.param("torch.ones(2, out=net.bias)", False, id="in other memory"),
        pytest.param("torch.randn(2)", False, id="random"),
        pytest.param("torch.ones(2).normal_()", False, id="random by a method"),
        pytest.param("net.weight * 2", False, id="of weights"),
        pytest.param("grid(torch.ones(2), torch.ones(3))", True, id="by a function of the project"),
        pytest.param("grid(torch.ones(2), net.weight)", False, id="by a function that is given weights"),
        pytest.param("weighed(torch.ones(2))", False, id="by a function that reads weights"),
        pytest.param("shifted(torch.ones(2))", False, id="by a function that has weights by default"),
        pytest.param("grids.of(torch.ones(2))", False, id="by a method"),
        pytest.param("one()", False, id="by a function that is given nothing"),
        pytest.param("1 + 2", False, id="a number"),
        pytest.param("[torch.ones(2)]", False, id="a list"),
    ],
)
def test_what_makes_tensors_of_numbers(code: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    values, statement = of(f"answer = {code}")

    assert isinstance(statement, ast.Assign)
    assert values.makes_tensors(statement.value) is expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("answer = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(3)), -1)", id="a grid"),
        pytest.param("answer = torch.ones(4)[None, 1:3]", id="a part"),
        pytest.param("answer = torch.stack(grid(torch.ones(2), torch.ones(3)))", id="by a function of the project"),
        pytest.param("y = torch.ones(2)\nanswer = torch.cat((y, -y))", id="of a name"),
        pytest.param(f"{TURNS}answer = y + 1", id="of a name with several values"),
        pytest.param("answer = torch.ones(2)\nanswer = answer.float()", id="several values"),
    ],
)
def test_what_is_the_same(body: str) -> None:
    values, statement = of(body)

    assert values.why_statement_varies(statement) is None
    assert values.why_read_between() is None


@pytest.mark.parametrize(
    ("body", "because"),
    [
        pytest.param(
            "answer = torch.cat([net.weight, torch.ones(1, 4)])",
            "it is not known whether 'net.weight' is the same in each pass of the loop",
            id="of weights",
        ),
        pytest.param(
            "answer = torch.stack(grid(torch.ones(2), net.weight))",
            "it is not known whether 'net.weight' is the same in each pass of the loop",
            id="by a function that is given weights",
        ),
        pytest.param("answer = torch.ones(4)[i:]", "'i' changes from one pass of the loop to the next", id="a part"),
        pytest.param(
            "if i:\n    y = torch.ones(2)\n    y = y * 2\nanswer = torch.ones(2) * y",
            "'y' changes from one pass of the loop to the next",
            id="only made at times",
        ),
        pytest.param(
            "answer = torch.ones(2)\nif i:\n    answer = answer * 2",
            "'i' changes from one pass of the loop to the next",
            id="computed at times",
        ),
        pytest.param(
            "if (n := i):\n    y = 2\ny = torch.ones(2)\nanswer = y * 2",
            "'y' changes from one pass of the loop to the next",
            id="a name of the test",
        ),
        pytest.param(
            "answer = torch.ones(2)\nif i:\n    continue\nanswer = answer * 2",
            "the pass may end before 'answer' gets its last value",
            id="passes that end early",
        ),
        pytest.param(
            "print(answer)\nanswer = torch.ones(2)\nanswer = answer * 2",
            "'answer' is read before it is made",
            id="read before",
        ),
        pytest.param(
            "answer = torch.ones(2)\ndef show():\n    print(answer)\nanswer = answer * 2",
            "a function reads 'answer'",
            id="read at any time",
        ),
        pytest.param(
            "answer = torch.ones(2)\nanswer = answer * 2\ndef change():\n    global answer\n    answer = 3",
            "'answer' is given another value elsewhere",
            id="written at any time",
        ),
    ],
)
def test_what_varies(body: str, because: str) -> None:
    reason = (found := of(body))[0].why_statement_varies(found[1])

    assert reason is not None
    assert reason.text.startswith(because)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("torch.stack([torch.ones(2)])", True, id="joined"),
        pytest.param("torch.ones(2).cuda()", False, id="only filled and copied"),
    ],
)
def test_what_computes(code: str, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    values, statement = of(f"answer = {code}")

    assert isinstance(statement, ast.Assign)
    assert values.computes(statement.value) is expected


def test_what_is_read_between() -> None:
    values, statement = of("answer = torch.ones(2)\nprint(answer)\nanswer = answer * 2")
    reason = values.why_statement_varies(statement) or values.why_read_between()

    assert reason is not None
    assert reason.text.startswith("'answer' is read before it gets its last value")


def test_the_first_to_give_a_value() -> None:
    values, statement = of("answer = torch.ones(2)\nanswer = answer * 2")

    assert not values.is_first(statement)


def test_parts_of_lists() -> None:
    given = ast.parse("[a, (b, 1)]", mode="eval").body

    assert [ast.unparse(each) for each in parts(given)] == ["a", "b", "1"]
