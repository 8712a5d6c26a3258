"""Where what ``view`` joins is a map of one pixel."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.one_pixel import joins_one_pixel

NET = """\
import torch
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def __init__(self, widths, k=1):
        super().__init__()
        self.convolution = nn.Conv2d(3, widths[-1], 3)
        self.norm = nn.BatchNorm2d(widths[-1])
        self.pool = nn.AvgPool2d(8)
        self.wide = widths[-1]
        self.other = widths[0]
        {init}
    def forward(self, x):
        {forward}
model = Net([8, 16])
model(torch.randn(4, 3, 10, 10))
"""


def joins(forward: str, init: str = "pass") -> bool:
    known = script(NET.format(init=init, forward=forward.replace("\n", "\n        ")))
    calls = [each for each in known.module.nodes(ast.Call) if isinstance(each.func, ast.Attribute)]
    (view,) = (each for each in calls if ast.unparse(each.func).endswith(".view"))
    return joins_one_pixel(known.flow, view)


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param(
            "x = F.avg_pool2d(F.relu(self.norm(self.convolution(x))), 8)\nreturn x.view(-1, self.wide)", id="in one"
        ),
        pytest.param(
            "x = self.norm(x)\nx = F.relu(x)\nx = F.avg_pool2d(x, 8)\nreturn x.view(-1, self.wide)", id="by names"
        ),
        pytest.param("x = self.pool(self.convolution(x))\nreturn x.view(-1, self.wide)", id="of a convolution"),
    ],
)
def test_as_many_numbers_as_channels_are_one_pixel(forward: str) -> None:
    assert joins(forward)


@pytest.mark.parametrize(
    ("forward", "init"),
    [
        pytest.param("return self.pool(self.norm(x)).view(-1, self.other)", "pass", id="another number"),
        pytest.param(
            "return self.pool(self.norm(x)).view(-1, 4 * self.wide)", "pass", id="the number of several pixels"
        ),
        pytest.param("return self.pool(self.norm(x)).view(len(x), -1)", "pass", id="as many rows as images"),
        pytest.param("return self.norm(x).view(-1, self.wide)", "pass", id="no pooling"),
        pytest.param("return self.pool(x).view(-1, self.wide)", "pass", id="images of other channels"),
        pytest.param("return self.pool(x.flip(1)).view(-1, self.wide)", "pass", id="something else before"),
        pytest.param("return self.pool(self.norm(x)).view(-1, self.wide)", "self.wide = 3", id="a number that changes"),
        pytest.param(
            "return self.pool(self.norm(x)).view(-1, self.wide)",
            "widths = [3]\n        widths = [4]",
            id="a list that changes",
        ),
    ],
)
def test_another_number_may_be_several_pixels(forward: str, init: str) -> None:
    assert not joins(forward, init)
