"""Which lists of rows of what the device computes may hold tensors while a loop runs."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_rows import DeferredRows

CODE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
rows = []
for x in torch.randn(8, 4, 4):
    out = model(x.cuda())
    loss = out.sum()
    {inside}
print(rows)
"""


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("rows.append([loss.item(), out.max().item()])", "[[", id="lists"),
        pytest.param("rows.append((loss.item(), out.max().item()))", "[tuple(", id="tuples"),
        pytest.param("rows += [[loss.item()]]", "[[", id="lists that are added"),
        pytest.param("rows.append([loss.item(), 1])", "needed-each-step", id="a number beside it"),
        pytest.param("rows.append([loss.item(), float(loss)])", "needed-each-step", id="what float() makes a number"),
        pytest.param("rows.append([loss.item(), loss.item() * 2])", "needed-each-step", id="what is computed of it"),
        pytest.param("rows.append([loss.item(), *[1]])", "needed-each-step", id="what is unpacked"),
        pytest.param("rows.append([loss.item()]); rows.append((loss.item(),))", "needed-each-step", id="two sorts"),
        pytest.param("rows.append([loss.item()]); loss.data.zero_()", "needed-each-step", id="what is written to"),
        pytest.param("rows.append([model.bias[0].item()])", "unknown-number", id="a parameter, which steps change"),
    ],
)
def test_rows(inside: str, expected: str) -> None:
    (first, *_) = (each for _, each in outcomes(script(CODE.format(inside=inside))))

    if isinstance(first, DeferredRows):
        assert first.as_numbers[0].startswith(expected)
    else:
        assert isinstance(first, Reason)
        assert first.code == expected
