"""Which expressions are a copy of a model."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.copied import Origin, origin

HEAD = """\
import copy
import torch
from torch import nn
net = nn.Linear(1, 1)
twin = copy.deepcopy(net)
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("net", Origin.OTHER),
        ("twin", Origin.COPY),
        ("twin.cuda().eval()", Origin.COPY),
        ("copy.deepcopy(net).to('cuda')", Origin.COPY),
        ("torch.optim.swa_utils.AveragedModel(net)", Origin.COPY),
        ("other = twin\nother", Origin.COPY),
        ("other = net\nother = twin\nother", Origin.UNKNOWN),
        ("one, other = net, copy.deepcopy(net)\nother", Origin.COPY),
        ("net, twin = twin, net\nnet", Origin.UNKNOWN),
        ("twin if x else net", Origin.UNKNOWN),
        ("twin if x else None", Origin.COPY),
        ("nets = [twin]\nnets[0]", Origin.UNKNOWN),
        ("for each in (net, twin):\n    pass\neach", Origin.UNKNOWN),
        ("unbound", Origin.UNKNOWN),
        ("def make():\n    return net\nmake()", Origin.UNKNOWN),
        ("class T:\n    def __init__(self, of):\n        self.ema = copy.deepcopy(of)\nT(net).ema", Origin.COPY),
        ("class T:\n    ema = None\nT.ema = net\nT.ema = twin\nT.ema", Origin.UNKNOWN),
        ("def use(a):\n    answer = a\nuse(twin)\nuse(net)\nuse", Origin.UNKNOWN),
    ],
)
def test_what_an_expression_comes_from(body: str, found: Origin) -> None:
    facts = script(HEAD + body + "\n")
    last = facts.module.tree.body[-1]
    assert isinstance(last, ast.Expr)

    assert origin(facts.flow, last.value) is found


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ("use(twin)\n", Origin.COPY),
        ("use(net)\n", Origin.OTHER),
        ("use(net)\nuse(twin)\n", Origin.UNKNOWN),
        ("", Origin.UNKNOWN),
        ("use(twin)\nelsewhere(use)\n", Origin.UNKNOWN),
    ],
)
def test_a_parameter_comes_from_all_calls(calls: str, found: Origin) -> None:
    facts = script(f"{HEAD}def use(a):\n    answer = a\n{calls}")
    (read,) = (each for each in facts.module.nodes(ast.Name) if each.id == "a")

    assert origin(facts.flow, read) is found


def test_a_name_of_the_function_around() -> None:
    facts = script(
        f"{HEAD}def outer():\n    twin = net\n    def inner():\n        answer = twin\n    inner()\nouter()\n"
    )
    read = [each for each in facts.module.nodes(ast.Name) if each.id == "twin" and isinstance(each.ctx, ast.Load)]

    assert [origin(facts.flow, each) for each in read] == [Origin.OTHER]
