"""What the passes of a loop keep for a meter, by which names it is told that, and where."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_updates import DeferredUpdates

CODE = """\
import torch
from torch import nn
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
def f(model):
    m = Meter()
    for i, x in enumerate(torch.randn(8, 4, 4)):
        loss = model(x.cuda()).sum()
        {inside}
    return m.sum / m.count
f(nn.Linear(4, 2).cuda())
"""


@pytest.mark.parametrize(
    ("inside", "told", "beside", "names"),
    [
        pytest.param("m.update(loss.item())", "loss.item()", [], ("value",), id="a number"),
        pytest.param("m.update(loss.item(), 3)", "loss.item()", [], ("value",), id="beside a constant"),
        pytest.param("m.update(loss.item(), len(x))", "loss.item()", ["len(x)"], ("value", "n"), id="beside a length"),
        pytest.param("m.update(loss.item(), n=len(x))", "loss.item()", ["len(x)"], ("value", "n"), id="by a keyword"),
        pytest.param("n = len(x)\n        m.update(loss.item(), n)", "loss.item()", ["n"], (), id="a name is taken"),
    ],
)
def test_what_is_kept_for_a_meter(inside: str, told: str, beside: list[str], names: tuple[str, ...]) -> None:
    ((_, outcome),) = outcomes(script(CODE.format(inside=inside)))

    assert isinstance(outcome, DeferredUpdates)
    source = outcome.total.module.code
    assert (source(outcome.told), [source(each) for each in outcome.beside]) == (told, beside)
    assert (outcome.names, outcome.pending) == (names, "m_updates")
