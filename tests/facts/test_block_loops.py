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


def in_dictionary(made: str, part: str = "nn.Linear(4, 4)", blocks: str = SIX, after: str = "") -> str:
    """The script whose blocks are held by a dictionary of layers."""
    held = made.format(blocks=f"nn.ModuleList({blocks})")
    text = TEXT.format(part=part, blocks=blocks).replace("net.blocks", "net.parts.h")
    return text.replace(f"self.blocks = nn.ModuleList({blocks})", f"self.parts = nn.ModuleDict({held}){after}")


@pytest.mark.parametrize(
    "made", ["dict(wte=nn.Embedding(9, 4), h={blocks})", "{{'wte': nn.Embedding(9, 4), 'h': {blocks}}}"]
)
@pytest.mark.parametrize(
    ("part", "blocks", "expected"),
    [
        pytest.param("nn.Linear(4, 4)", SIX, None, id="blocks of one class"),
        pytest.param("nn.BatchNorm1d(4)", SIX, "runs-twice", id="statistics"),
        pytest.param(
            "nn.Linear(4, 4)",
            "[Block() if each else nn.ReLU() for each in names]",
            "unknown-blocks",
            id="of two classes",
        ),
    ],
)
def test_blocks_in_a_dictionary_of_layers(made: str, part: str, blocks: str, expected: str | None) -> None:
    (found,) = block_loops(script(in_dictionary(made, part, blocks)))

    assert found.this == "net"
    assert (None if found.why_not is None else found.why_not.code) == expected


@pytest.mark.parametrize(
    ("made", "after"),
    [
        pytest.param("dict(blocks={blocks})", "", id="of another name"),
        pytest.param("layers", "", id="that is not seen"),
        pytest.param("dict(h={blocks})", "\n        net.parts.h = others", id="that is given others later"),
        pytest.param("dict(h=nn.Sequential(*{blocks}))", "", id="in a row"),
    ],
)
def test_no_list_of_blocks_in_a_dictionary(made: str, after: str) -> None:
    assert not [*block_loops(script(in_dictionary(made, after=after)))]
