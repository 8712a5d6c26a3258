"""Which names lead to the same memory."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.memories import leading_to


def leading(body: str, *, is_list: bool = False) -> tuple[list[str], list[str]]:
    """What leads to the expression in the last line of a function's body."""
    lines = "".join(f"    {each}\n" for each in body.splitlines())
    found = script(f"import torch\nfrom torch import nn\n\nnet = nn.Linear(4, 4)\n\n\ndef f(x, d):\n{lines}")
    last = found.module.tree.body[-1]
    assert isinstance(last, ast.FunctionDef)
    statement = last.body[-1]
    assert isinstance(statement, ast.Expr)
    return leading_to(found.flow, statement, statement.value, is_list=is_list)


@pytest.mark.parametrize(
    ("body", "bound", "others"),
    [
        pytest.param("x", [], ["x"], id="a parameter"),
        pytest.param("v = x\nv", ["v"], ["x"], id="another name"),
        pytest.param("v = x[:4].view(-1).T\nv", ["v"], ["x"], id="a view of a view"),
        pytest.param("v = x.clone()\nv", ["v"], [], id="a copy"),
        pytest.param("v = x.detach()\nv", ["v"], [], id="another tensor without a graph"),
        pytest.param("v = net(x)\nv", ["v"], [], id="what a model returns"),
        pytest.param("v = other(x)\nv", ["v"], ["x"], id="what is not seen may return what it is given"),
        pytest.param("v = x + 1\nx = v[0]\nx", ["v", "x"], [], id="a parameter that is bound anew"),
        pytest.param("a, b = x.chunk(2)\na", ["a", "b"], ["x"], id="parts"),
        pytest.param("v = {'a': x, 'b': 1}\nv['a']", ["v"], ["x"], id="an item"),
        pytest.param("v = []\nw = v\nw.append(x)\nv[0]", ["v", "w"], ["x"], id="what was put in by another name"),
        pytest.param("v = [x]\nv", ["v"], [], id="a list is not what is in it"),
        pytest.param("v = []\nv += [x]\nv[0]", ["v"], ["x"], id="a list that is added to"),
        pytest.param("d.v = x\nd.v", ["d"], ["d", "x"], id="an attribute"),
        pytest.param("v = (lambda t: t[0])(x)\nv", ["v"], ["x"], id="what a lambda returns"),
        pytest.param("v = [x] + [d]\nv[0]", ["v"], ["d", "x"], id="lists that are joined"),
        pytest.param("v = x or -d\nv", ["v"], ["x"], id="one of two"),
    ],
)
def test_names_lead_to(body: str, bound: list[str], others: list[str]) -> None:
    assert leading(body) == (bound, others)


def test_what_a_list_takes_up_goes_into_none_of_the_tensors_beside_it() -> None:
    body = "rows, y = [], x + 1\nfound = {'x': y, 'rows': rows}\nfound['rows']"

    assert leading(body) == (["found", "rows", "y"], [])
    assert leading(body, is_list=True) == (["found", "rows"], [])


def test_nothing_is_known_of_a_statement_of_elsewhere() -> None:
    found = script("x = 1\n")

    assert leading_to(found.flow, ast.Pass(), ast.Name("x", ast.Load())) == ([], [])
