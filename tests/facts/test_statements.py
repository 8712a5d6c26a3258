"""What do the statements of a function do one after the other."""

from __future__ import annotations

import ast
from textwrap import indent

import pytest
from probe import script

from codemods.facts.cost.amounts import UNKNOWN
from codemods.facts.cost.execution import Execution
from codemods.facts.cost.statements import NotKnownError, Statements


def returned(body: str) -> object:
    """What a function returns that is given 3."""
    known = script(f"import torch\nfrom torch import nn\ndef f(x):\n{indent(body, '    ')}\n")
    (function,) = known.module.nodes(ast.FunctionDef)
    return Statements(known.flow, Execution(known)).run(function.body, {"x": 3})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("pass", None, id="nothing is returned"),
        pytest.param("return", None, id="nothing is returned expressly"),
        pytest.param("return x\nreturn 4", 3, id="the first return"),
        pytest.param("y = z = x\nreturn y + z", 6, id="several targets"),
        pytest.param("y: int = x\nreturn y", 3, id="an annotation"),
        pytest.param("a, (b, c) = 1, (2, x)\nreturn c", 3, id="unpacking"),
        pytest.param("x += 1\nreturn x", 4, id="an augmented number"),
        pytest.param("rows = [1]\nrows += [x]\nreturn rows", [1, 3], id="an augmented list"),
        pytest.param("rows = []\nrows.append(x)\nreturn rows", [3], id="a list that grows"),
        pytest.param("sizes = {}\nsizes['a'] = x\nreturn sizes['a']", 3, id="an item"),
        pytest.param("if x > 2:\n    x = 1\nelse:\n    x = 2\nreturn x", 1, id="a test that holds"),
        pytest.param("if x > 3:\n    x = 1\nelse:\n    x = 2\nreturn x", 2, id="a test that does not"),
        pytest.param("for i in range(3):\n    x += i\nreturn x", 6, id="a loop"),
        pytest.param("with torch.no_grad():\n    x = 5\nreturn x", 5, id="a with block"),
        pytest.param("if torch.rand(1) > 0:\n    x = 4\nreturn x", UNKNOWN, id="what is perhaps bound"),
        pytest.param("while x > 2:\n    x -= 1\nreturn x", UNKNOWN, id="what a loop binds that is not followed"),
        pytest.param("for i in torch.rand(3):\n    x = i\nreturn x", UNKNOWN, id="what is iterated over is not known"),
        pytest.param("a, b = torch.rand(2)\nreturn a", UNKNOWN, id="what is unpacked is not known"),
    ],
)
def test_what_a_function_returns(body: str, expected: object) -> None:
    assert returned(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("if torch.rand(1) > 0:\n    return 1\nreturn 2", id="it perhaps returns"),
        pytest.param("for i in range(3):\n    if i:\n        break\nreturn x", id="a loop perhaps ends"),
        pytest.param("rows = [1]\nrows[0] = x\nreturn rows", id="an item of a list is another one"),
        pytest.param("rows = [1]\nrows += torch.rand(2)\nreturn rows", id="a list grows by what is not known"),
        pytest.param("if torch.rand(1) > 0:\n    layer = nn.ReLU()\nreturn x", id="a layer is perhaps made"),
        pytest.param("rows = []\nif torch.rand(1) > 0:\n    rows.append(x)\nreturn rows", id="a list perhaps grows"),
    ],
)
def test_where_it_is_given_up(body: str) -> None:
    with pytest.raises(NotKnownError):
        returned(body)
