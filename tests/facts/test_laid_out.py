from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.laid_out import LaidOut, is_grouped

TRAINING = """\
import torch
from torch import nn


class Wide(nn.Conv2d):
    def __init__(self, **options):
        super().__init__(3, 8, 3, **options)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {}

    def forward(self, x):
        return self.layer(x)


model = Net()
model(torch.randn(2, 3, 8, 8)).sum().backward()
"""


def why_not(layer: str) -> str | None:
    found = script(TRAINING.format(layer))
    (trained,) = found.trained_models
    reason = LaidOut(found.flow, trained.model).why_not()
    return None if reason is None else reason.text.partition(" (")[0]


@pytest.mark.parametrize(
    ("layer", "because"),
    [
        ("nn.Conv2d(3, 8, 3)", None),
        ("nn.Conv2d(3, 8, 3, groups=1)", None),
        ("nn.Conv2d(3, 9, 3, groups=n)", "its convolutions may have groups, which may be slower so in 16 bits"),
        ("nn.Conv2d(3, 9, 3, groups=3)", "its convolutions have groups, which may be slower so in 16 bits"),
        ("nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8))", "torch.nn.GroupNorm() lays images out as before"),
        ("nn.Conv3d(3, 8, 3)", "torch.nn.Conv3d() has weights of five dimensions, which have another layout"),
        ("Wide()", "the convolution Wide may have groups, which may be slower so in 16 bits"),
        ("nn.Parameter(torch.zeros(8, 1, 1))", None),
        ("nn.Parameter(torch.zeros((8, 1, 1)))", None),
        ("nn.Parameter(0.1 * torch.randn(1, 8, 1, 1))", None),
        ("nn.Parameter(torch.zeros(8))", None),
        (
            "nn.Parameter(torch.zeros(1, 1, 1, 1, 8))",
            "a tensor of the model is not seen to have four dimensions at most: five have another layout",
        ),
        (
            "nn.Parameter(read())",
            "a tensor of the model is not seen to have four dimensions at most: five have another layout",
        ),
        (
            "nn.Parameter(torch.zeros(*s))",
            "a tensor of the model is not seen to have four dimensions at most: five have another layout",
        ),
    ],
)
def test_which_layers_keep_the_layout(layer: str, because: str | None) -> None:
    assert why_not(layer) == because


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("nn.Conv2d(4, 4, 3)", False),
        ("nn.Conv2d(4, 4, 3, 1, 0, 1, 1)", False),
        ("nn.Conv2d(4, 4, 3, 1, 0, 1, 4)", True),
        ("nn.Conv2d(4, 4, 3, groups=read())", True),
        ("nn.Conv2d(*sizes)", True),
        ("nn.Conv2d(4, 4, 3, **options)", True),
    ],
)
def test_whether_a_convolution_may_have_groups(call: str, *, expected: bool) -> None:
    found = script(f"from torch import nn\nlayer = {call}\n")
    (made,) = [each for each in found.module.nodes(ast.Call) if ast.unparse(each.func) == "nn.Conv2d"]

    assert is_grouped(found.flow, made) is expected
