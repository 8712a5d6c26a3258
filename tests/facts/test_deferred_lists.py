"""Which lists of what the device computes may hold tensors while a loop runs."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_lists import DeferredList

CODE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
{before}
for x in torch.randn(8, 4, 4):
    loss = model(x.cuda()).sum()
    {inside}
print(losses)
"""


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        pytest.param("losses = []", "losses.append(loss.item())", None, id="losses"),
        pytest.param("losses = [0.0]", "losses.append(loss.item())", "unknown-number", id="a list with an item"),
        pytest.param("losses = []", "losses.append(float(loss))", "needed-each-step", id="floats, perhaps of integers"),
        pytest.param(
            "losses = []\nmodel = torch.compile(model, mode='max-autotune')",
            "losses.append(loss.item())",
            "captured",
            id="code writes over its results",
        ),
    ],
)
def test_lists(before: str, inside: str, expected: str | None) -> None:
    ((_, outcome),) = outcomes(script(CODE.format(before=before, inside=inside)))

    assert (outcome.code if isinstance(outcome, Reason) else None) == expected
    assert isinstance(outcome, (Reason, DeferredList))
