"""Probabilities that 16 bits round to 1, on their way to a logarithm."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.saturation import log_of_rest, makes_probabilities, rounds_probabilities
from codemods.facts.reach import Reach, is_model_call

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(8, 4)
gate = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid())
x = torch.randn(2, 8)
"""


def of(body: str) -> tuple[bool, bool, str]:
    """Whether the body makes probabilities, whether it rounds them, and the logarithm of what they leave of 1."""
    known = script(HEAD + body)
    reach, count = Reach(known.flow), len(ast.parse(HEAD).body)
    nodes = known.module.tree.body[count:]

    def calls_model(call: ast.Call) -> bool:
        return is_model_call(known.flow, call)

    hazard = log_of_rest(reach, calls_model, known.module, nodes)
    return (
        makes_probabilities(reach, known.module, nodes),
        rounds_probabilities(reach, calls_model, known.module, nodes),
        ast.unparse(hazard.node) if hazard is not None else "",
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("p = torch.sigmoid(model(x))", (True, True, ""), id="a function"),
        pytest.param("p = model(x).sigmoid()", (True, True, ""), id="a method"),
        pytest.param("p = gate(x)", (True, True, ""), id="a layer"),
        pytest.param("p = torch.sigmoid(model(x).float())", (True, False, ""), id="of 32 bits"),
        pytest.param("p = torch.softmax(model(x), 1)", (True, False, ""), id="softmax is computed in 32 bits"),
        pytest.param("p = model(x).tanh()", (False, False, ""), id="no probabilities"),
        pytest.param("p = gate(x)\nq = torch.log(1 - p)", (True, True, "torch.log(1 - p)"), id="the rest"),
        pytest.param(
            "a = torch.tanh(model(x))\nq = torch.log(1 - a ** 2 + 1e-6)",
            (False, False, "torch.log(1 - a ** 2 + 1e-06)"),
            id="the rest of a square",
        ),
        pytest.param(
            "a = model(x).tanh()\nq = torch.log(2 * (1 - a.pow(2)) + 1e-6)",
            (False, False, "torch.log(2 * (1 - a.pow(2)) + 1e-06)"),
            id="the rest of a power",
        ),
        pytest.param(
            "a = nn.Tanh()(model(x))\nq = torch.log1p(-a.pow(2))",
            (False, False, "torch.log1p(-a.pow(2))"),
            id="the rest of a square, of one more",
        ),
        pytest.param(
            "a = torch.tanh(model(x))\nq = torch.log(1 - torch.square(a.float()))",
            (False, False, "torch.log(1 - torch.square(a.float()))"),
            id="the rest of what was rounded before",
        ),
        pytest.param(
            "a = torch.tanh(model(x).float())\nq = torch.log(1 - a ** 2)", (False, False, ""), id="a square of 32 bits"
        ),
        pytest.param("a = torch.cos(model(x))\nq = torch.log(1 - a ** 2)", (False, False, ""), id="no tanh"),
        pytest.param("p = gate(x)\nq = torch.log(p)", (True, True, ""), id="the probability itself"),
    ],
)
def test_probabilities(body: str, expected: tuple[bool, bool, str]) -> None:
    assert of(body) == expected
