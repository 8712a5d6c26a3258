"""What a model makes once, and copies to the device in each forward pass."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.constant_copies import constant_copies

NET = """
import torch
from torch import nn


class Waves(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.waves = torch.zeros(length, width)
        self.waves[:, 0::2] = torch.arange(length).sin()[:, None]
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(x + self.waves.to(x.device))


net = Waves(9, 4).cuda()
for x in torch.randn(10, 9, 4):
    net(x.cuda()).sum().backward()
"""
COPY = "self.waves.to(x.device)"


def found(text: str) -> list[tuple[str, int, int]]:
    return [(each.name, each.call.lineno, each.made.lineno) for each in constant_copies(script(text))]


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(COPY, id="to(device)"),
        pytest.param('self.waves.to(device="cuda")', id="by the name of the parameter"),
        pytest.param("self.waves.cuda()", id="cuda()"),
        pytest.param("self.waves[: x.size(0)].unsqueeze(0).cuda()", id="a part"),
        pytest.param("nn.Parameter(self.waves, requires_grad=False).cuda()", id="wrapped"),
    ],
)
def test_each_pass_copies_what_the_constructor_made(copy: str) -> None:
    assert found(NET.replace(COPY, copy)) == [("waves", 14, 9)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "self.waves = torch.zeros(length, width)",
            "self.register_buffer('waves', torch.zeros(length, width))",
            id="a buffer",
        ),
        pytest.param("torch.zeros(length, width)", "torch.zeros(length, width).cuda()", id="on the device already"),
        pytest.param("torch.zeros(length, width)", "nn.Parameter(torch.zeros(length, width))", id="a parameter"),
        pytest.param(
            "        return", "        self.waves = self.waves.to(x.device)\n        return", id="copied once"
        ),
        pytest.param("        return", "        self.waves += 1\n        return", id="another one in each pass"),
        pytest.param(
            "Waves(9, 4).cuda()\n", "Waves(9, 4).cuda()\nnet.waves = torch.ones(9, 4)\n", id="given from outside"
        ),
        pytest.param(COPY, "self.waves.to(torch.float64)", id="a number format"),
        pytest.param(COPY, 'self.waves.to("cpu")', id="the host"),
        pytest.param(COPY, "self.waves.to()", id="nowhere"),
        pytest.param(COPY, "(x * 2).to(x.device)", id="no attribute"),
        pytest.param("cuda()", "cpu()", id="no CUDA"),
        pytest.param("nn.Module", "object", id="no model"),
        pytest.param("    def forward", "    def score", id="no forward pass"),
    ],
)
def test_there_is_no_such_copy(old: str, new: str) -> None:
    assert old in NET
    assert found(NET.replace(old, new)) == []


INDEX = """
import numpy as np
import torch
from torch import nn


class Turn(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.order = np.argsort(np.arange(width)[::-1])

    def forward(self, x, weight=None):
        return x[:, self.order]


net = nn.Sequential(nn.Linear(4, 4), Turn(4)).cuda()
for x in torch.randn(10, 9, 4):
    net(x.cuda()).sum().backward()
"""


def test_an_array_is_copied_as_an_index() -> None:
    (copy,) = constant_copies(script(INDEX))

    assert (copy.name, copy.call.lineno, copy.made.lineno, copy.is_array) == ("order", 13, 10, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("np.argsort(np.arange(width)[::-1])", "torch.arange(width)", id="a tensor"),
        pytest.param("np.argsort(np.arange(width)[::-1])", "width - 1", id="a number"),
        pytest.param("return x[:, self.order]", "x[:, self.order] = 0", id="written to"),
        pytest.param("return x[:, self.order]", "return np.ones((4, 4))[:, self.order]", id="of an array"),
        pytest.param("return x", "self.order = self.order[::-1]\n        return x", id="it changes"),
        pytest.param(").cuda()\n", ")\n", id="on the host"),
    ],
)
def test_what_is_no_such_index(old: str, new: str) -> None:
    assert old in INDEX

    assert [
        *constant_copies(script(INDEX.replace(old, new).replace("x.cuda()", "x" if "cuda" in old else "x.cuda()")))
    ] == []
