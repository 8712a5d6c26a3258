"""How often does a forward pass run a layer that the model keeps, and does the model's code multiply by more?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.layer_calls import LayerCalls

NET = """\
import torch
from torch import nn
from library import read
class Net(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.first = nn.Linear(8, 8)
        self.layers = self.make(3)
        self.prepare()
    def make(self, count):
        made = []
        for i in range(count):
            made.append(nn.Linear(8, 8))
        return nn.Sequential(*made)
    def prepare(self):
        for i in range(3):
            self.scale(torch.matmul(self.first.weight, self.layers[i].weight))
    def scale(self, weight):
        while weight.max() > 1:
            weight /= 2
    def forward(self, x):
        {}
        return x
model = Net(read())
{}
"""


def calls(forward: str, more: str = "") -> tuple[LayerCalls, ast.ClassDef]:
    known = script(NET.format(forward, more))
    (class_,) = known.module.nodes(ast.ClassDef)
    return LayerCalls(known), class_


@pytest.mark.parametrize(
    ("forward", "more", "expected"),
    [
        pytest.param("x = self.layers(self.first(x))", "", 1, id="methods that only the constructor runs"),
        pytest.param("x = self.first(self.first(x))", "", 2, id="one layer twice"),
        pytest.param("self.prepare()", "", None, id="one of them that a forward pass runs, too"),
        pytest.param("x = self.first(x)", "model.prepare()", None, id="one that other code runs"),
        pytest.param("x = self.first(x)", "model.apply(model.scale)", None, id="one that other code is given"),
        pytest.param("for part in self.modules(): part.training = False", "", 1, id="a loop over the layers"),
        pytest.param("x = x + sum(each.sum() for each in self.parameters())", "", 1, id="a loop over the parameters"),
        pytest.param("for part in self.first(x): x = x + part", "", None, id="a loop over what a layer returns"),
        pytest.param("for part in read().children(): x = part(x)", "", None, id="a loop over other layers"),
    ],
)
def test_how_often_a_layer_is_called(forward: str, more: str, expected: int | None) -> None:
    known, class_ = calls(forward, more)

    assert known.most(class_) == expected


@pytest.mark.parametrize(
    ("forward", "more", "expected"),
    [
        pytest.param("pass", "", False, id="it is only kept"),
        pytest.param("x = x.view(-1, self.settings.width)", "", False, id="a size that it has"),
        pytest.param("x = x * self.settings.scale + 1", "", False, id="a number that it has"),
        pytest.param("x = x[self.settings.first]", "", False, id="an index that it has"),
        pytest.param("if self.settings.deep: x = self.first(x)", "", False, id="a switch that it has"),
        pytest.param("x = self.first(x) if self.settings else x", "", False, id="whether it is there"),
        pytest.param("x = x + len(self.settings)", "", False, id="how much it holds"),
        pytest.param("print(f'{self.settings}')", "", False, id="it is shown"),
        pytest.param("x = self.settings(x)", "", True, id="it is called"),
        pytest.param("x = self.settings.block(x)", "", True, id="a part of it is called"),
        pytest.param("x = self.settings[0](x)", "", True, id="an item of it is called"),
        pytest.param("for part in self.settings: x = part(x)", "", True, id="it is gone through"),
        pytest.param("run = self.settings; x = run(x)", "", True, id="another name calls it"),
        pytest.param("x = (self.settings or self.first)(x)", "", True, id="one of two is called"),
        pytest.param("x = read(self.settings, x)", "", True, id="it is given to what is not known"),
        pytest.param("x = self.first(x)", "model.settings(1)", True, id="other code calls it"),
    ],
)
def test_what_may_be_a_layer(forward: str, more: str, *, expected: bool) -> None:
    known, class_ = calls(forward, more)

    assert known.may_run(class_, "settings") is expected
