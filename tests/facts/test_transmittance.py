"""Cumulative products of what is left."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.transmittance import products_of_rests

HEAD = """\
import numpy as np
import torch
def exclusive(x):
    return torch.roll(torch.cumprod(x, -1), 1, -1)
def other(x):
    return x.sum(-1)
x = torch.rand(4, 8)
"""


def found(statements: str) -> list[str]:
    known = script(f"{HEAD}{statements}\n")
    return [ast.unparse(each.func) for each in products_of_rests(known.flow, known.module.tree)]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param("torch.cumprod(1 - x, -1)", ["torch.cumprod"], id="a function"),
        pytest.param("(1.0 - x + 1e-10).cumprod(-1)", ["(1.0 - x + 1e-10).cumprod"], id="a method"),
        pytest.param(
            "torch.cumprod(torch.cat([torch.ones(4, 1), 1.0 - x], -1), -1)", ["torch.cumprod"], id="behind a first one"
        ),
        pytest.param("y = torch.cat([x[:1], 1 - x])\ntorch.cumprod(y, -1)", ["torch.cumprod"], id="by a name"),
        pytest.param("exclusive(1.0 - x + 1e-10)", ["exclusive"], id="in a function of the project"),
        pytest.param("other(1.0 - x)", [], id="another function"),
        pytest.param("torch.cumprod(x, -1)", [], id="other factors"),
        pytest.param("torch.cumsum(1 - x, -1)", [], id="a sum"),
        pytest.param("np.cumprod(1 - np.ones(3))", [], id="an array"),
        pytest.param("torch.cumprod(x * (1 - 0.5), -1)", [], id="a constant"),
    ],
)
def test_products_of_what_is_left(statements: str, expected: list[str]) -> None:
    assert found(statements) == expected
