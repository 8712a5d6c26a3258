"""Loops over the blocks of a model, and why these are not computed once more."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.block_loops import block_loops

TEXT = """\
import torch
from torch import nn
from lib import Attention

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = {part}
    def forward(self, x):
        return self.part(x)

class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList({blocks})
    def forward(net, x):
        for block in net.blocks:
            x = block(x)
        return x

model = Net(6)
for x in data:
    model(x).sum().backward()
"""
SIX = "[Block() for _ in range(depth)]"


@pytest.mark.parametrize(
    ("part", "blocks", "expected"),
    [
        pytest.param("nn.Linear(4, 4)", SIX, None, id="a linear layer"),
        pytest.param("nn.Linear(4, 4, True)", SIX, None, id="a bias"),
        pytest.param("nn.Sequential(nn.Linear(4, 4), nn.GELU())", SIX, None, id="layers in a row"),
        pytest.param("nn.BatchNorm1d(4)", SIX, "runs-twice", id="statistics"),
        pytest.param("nn.Sequential(nn.Linear(4, 4), nn.ReLU(True))", SIX, "runs-twice", id="in place"),
        pytest.param("nn.utils.spectral_norm(nn.Linear(4, 4))", SIX, "runs-twice", id="spectral norm"),
        pytest.param("Attention(4)", SIX, "runs-twice", id="a layer that is not seen"),
        pytest.param("nn.Linear(4, 4)", "[Block(), Block(), Block()]", "nothing-to-gain", id="three"),
        pytest.param(
            "nn.Linear(4, 4)", "[Block(), Block(), Block(), nn.ReLU()]", "nothing-to-gain", id="of several classes"
        ),
        pytest.param("nn.Linear(4, 4)", "[Block() for _ in names]", None, id="of one class"),
        pytest.param(
            "nn.Linear(4, 4)", "[Block() if each else nn.ReLU() for each in names]", "unknown-blocks", id="of two"
        ),
    ],
)
def test_why_not(part: str, blocks: str, expected: str | None) -> None:
    (found,) = block_loops(script(TEXT.format(part=part, blocks=blocks)))

    assert found.this == "net"
    assert (found.why_not and found.why_not.code) == expected
