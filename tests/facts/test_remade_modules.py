"""Modules that a model makes anew in each forward pass."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.remade_modules import remade_modules

TEXT = """\
import torch
from torch import nn


class Range(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.values = torch.arange(size).float()COPY

    def forward(self, x):
        return x * self.values


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 4
        self.range = Range(4)

    def forward(self, x, size):
        return MAKE


net = Net().cuda()
for x in torch.randn(10, 8, 4):
    net(x.cuda(), 4).mean().backward()
"""
COPY, MAKE = ".cuda()", "Range(self.size)(x)"


def found(copy: str = COPY, make: str = MAKE, old: str = "", new: str = "") -> list[tuple[int, int, str]]:
    known = script(TEXT.replace("COPY", copy).replace("MAKE", make).replace(old, new))
    return [(each.call.lineno, each.copy.lineno, each.class_.name) for each in remade_modules(known)]


@pytest.mark.parametrize(
    "make", [MAKE, "Range(4)(x)", "x if self.size > 5 else Range(size=self.size * 2)(x)", "nn.ReLU()(Range(4)(x))"]
)
def test_each_pass_makes_it(make: str) -> None:
    assert found(make=make) == [(21, 8, "Range")]


@pytest.mark.parametrize("copy", [".to('cuda')", ".to('cuda' if torch.cuda.is_available() else 'cpu')"])
def test_its_constructor_copies(copy: str) -> None:
    assert found(copy) == [(21, 8, "Range")]


@pytest.mark.parametrize(
    ("copy", "make"),
    [
        pytest.param(COPY, "self.range(x)", id="the constructor makes it"),
        pytest.param(COPY, "Range(size)(x)", id="it depends on what the model is given"),
        pytest.param(COPY, "Range(len(x))(x)", id="it depends on the batch"),
        pytest.param(COPY, "nn.Linear(4, 4).cuda()(x)", id="a layer of a library"),
        pytest.param("", MAKE, id="nothing is copied"),
        pytest.param(".to('cpu')", MAKE, id="it stays on the host"),
        pytest.param(".cuda()\n        self.fc = nn.Linear(4, 4)", MAKE, id="it has weights, which are drawn"),
        pytest.param(".cuda() + torch.randn(4).cuda()", MAKE, id="numbers are drawn"),
    ],
)
def test_nothing_is_made_again(copy: str, make: str) -> None:
    assert found(copy, make) == []


def test_what_is_no_module() -> None:
    assert found(old="class Range(nn.Module)", new="class Range") == []


def test_another_method_than_forward() -> None:
    assert found(old="def forward(self, x, size)", new="def other(self, x, size)") == []
