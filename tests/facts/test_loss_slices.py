"""From which statements of a loop is a loss computed."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.loss_slices import LossSlices

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(4, 4)
weight = nn.Parameter(torch.ones(4))
def double(x):
    return x * 2
"""


def sliced(body: str) -> list[str] | None:
    """The statements by which ``loss`` is computed at the end of a loop over ``x`` and ``y``."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}for x, y in data:\n{lines}    answer(loss)\n")
    loop = known.module.tree.body[-1]
    assert isinstance(loop, ast.For)
    (loss,) = loop.body[-1].value.args  # type: ignore[attr-defined]
    found = LossSlices(known.flow, known.module, loop).of(loss)
    return None if found is None else [known.module.code(each) for each in sorted(found, key=lambda each: each.lineno)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("loss = model(x).mean()", ["loss = model(x).mean()"], id="one statement"),
        pytest.param(
            "out = model(x)\nother = model(y)\nloss = out.mean()",
            ["out = model(x)", "loss = out.mean()"],
            id="not the others",
        ),
        pytest.param(
            "out = model(x)\nloss = F.mse_loss(y, out.detach())",
            ["loss = F.mse_loss(y, out.detach())"],
            id="what is detached ends",
        ),
        pytest.param(
            "out = model(x)\nloss = F.mse_loss(y, out.data)",
            ["loss = F.mse_loss(y, out.data)"],
            id="its data ends, too",
        ),
        pytest.param(
            "a, b = model(x)\nloss = double(x=b)", ["a, b = model(x)", "loss = double(x=b)"], id="through a function"
        ),
        pytest.param(
            "loss = model(x)\nloss = loss.mean()",
            ["loss = model(x)", "loss = loss.mean()"],
            id="a name that is bound again",
        ),
        pytest.param(
            "loss = (weight * x[:, 1:]).sum()", ["loss = (weight * x[:, 1:]).sum()"], id="parameters and parts"
        ),
        pytest.param("loss = unseen(x)", None, id="a function that is not seen"),
        pytest.param("loss = x.unseen()", None, id="a method that is not known"),
        pytest.param("outs = [model(x)]\nloss = outs[0]", None, id="a list"),
        pytest.param("loss = 0\nloss += model(x).mean()", None, id="something is added"),
        pytest.param("if len(x):\n    loss = model(x).mean()", None, id="a branch"),
        pytest.param("loss = model(x).mean() if len(x) else 0", None, id="a choice"),
        pytest.param("loss = out = model(x).mean()", None, id="two names"),
        pytest.param("x.out = model(x)\nloss = x.out", None, id="an attribute"),
    ],
)
def test_which_statements(body: str, expected: list[str] | None) -> None:
    assert sliced(body) == expected
