"""Which models run a recurrent layer one step at a time, in a loop of Python's, and compute little else?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.cost.steps_by_hand import steps_by_hand

HEAD = """\
import torch
from torch import nn
from torchvision import models
from library import read
class Steps(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.words, self.cell, self.out = nn.Embedding(9, width), nn.LSTMCell(width, 64), nn.Linear(64, 9)
        self.deep = nn.ModuleList([nn.GRU(width, width) for _ in range(3)])
        {}
    def forward(self, x):
        state = x.new(len(x), self.width), torch.zeros(len(x), self.width)
        {}
        return state[0]
class Outer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.steps = Steps(width)
    def forward(self, x):
        for row in x:
            y = self.steps(row)
        return y
"""
CELL = "for t in range(len(x)): state = self.cell(self.words(x[t]), state)"


def is_stepped(more: str = "pass", forward: str = CELL, model: str = "Steps(read())") -> bool:
    known = script(f"{HEAD.format(more, forward)}model = {model}\n")
    (value,) = known.flow.values(known.module.tree.body[-1].value)  # type: ignore[attr-defined]
    return steps_by_hand(known, value)


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        pytest.param(CELL, True, id="a cell for each word"),
        pytest.param("while state.max() < 1: state = self.cell(x, state)", True, id="a cell until something holds"),
        pytest.param("for t in x: state = self.deep[0](t, state)[1]", True, id="a layer that takes a whole sequence"),
        pytest.param("state = self.deep[0](x)", False, id="a layer that is given a whole sequence"),
        pytest.param("for layer in self.deep: x = layer(x)[0]", False, id="each of several layers"),
        pytest.param("for i in range(3): x = self.deep[i](x)[0]", False, id="each of several layers, by its number"),
        pytest.param("for t in x: self.out(t)", False, id="a linear layer alone"),
    ],
)
def test_a_loop_of_python(forward: str, *, expected: bool) -> None:
    assert is_stepped(forward=forward) is expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(
            "self.norm = nn.Sequential(nn.LayerNorm(width), nn.Dropout(0.1), nn.ReLU())", True, id="light ones"
        ),
        pytest.param("self.start = nn.Conv2d(3, 512, 3)", False, id="a convolution"),
        pytest.param("self.start = nn.MultiheadAttention(512, 8)", False, id="attention"),
        pytest.param("self.start = models.resnet50()", False, id="a network of torchvision"),
        pytest.param("self.settings = read()", True, id="what is not known and is never used"),
    ],
)
def test_what_it_computes_beside(more: str, *, expected: bool) -> None:
    assert is_stepped(more) is expected


def test_a_layer_that_is_not_known() -> None:
    assert not is_stepped("self.start = read()", f"x = self.start(x)\n        {CELL}")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        pytest.param("Outer(8)", True, id="a model that has such a layer"),
        pytest.param("nn.LSTM(8, 8)", False, id="a layer of torch"),
    ],
)
def test_other_models(model: str, *, expected: bool) -> None:
    assert is_stepped(forward="state = self.cell(x, state)", model=model) is expected
