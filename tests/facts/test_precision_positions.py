"""Which positions, coordinates and targets take the 16 bits of a layer's output."""

from __future__ import annotations

import ast
import textwrap

import pytest
from probe import script

from codemods.facts.precision.positions import rounded_positions
from codemods.facts.reach import Reach, is_model_call

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def grid(h, w):
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack((xs, ys))


class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.conv = nn.Conv2d(3, 2, 3, padding=1)
        self.embedding = nn.Embedding(100, 8)
        self.norm = nn.LayerNorm(8)
        self.act = nn.ReLU()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("places", torch.arange(n))

    def forward(self, x, mask):
        h = self.fc(x)
        n = x.shape[1]
"""
TAIL = """\
        return h


net = Net(int(input()))
x, mask, y = torch.ones(2, 8, 8), torch.ones(2, 8, dtype=torch.long), torch.ones(2, 8) * 500
"""


def code(text: str) -> str | None:
    """The code that is rounded where the statements run."""
    found = script(text)
    statements = found.module.tree.body[-1:]
    hazard = rounded_positions(
        Reach(found.flow), lambda call: is_model_call(found.flow, call), found.module, statements
    )
    return None if hazard is None else ast.unparse(hazard.node)


def in_forward(*lines: str) -> str | None:
    """The same, where the lines are those of a model's forward, in which ``h`` is what a layer returns."""
    return code(HEAD + textwrap.indent("".join(f"{each}\n" for each in lines), " " * 8) + TAIL + "out = net(x, mask)\n")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["t = torch.arange(n).type_as(h)"], "torch.arange(n).type_as(h)", id="type_as"),
        pytest.param(["t = torch.arange(n).to(h)"], "torch.arange(n).to(h)", id="to a tensor"),
        pytest.param(["t = torch.arange(n).to(h.dtype)"], "torch.arange(n).to(h.dtype)", id="to its dtype"),
        pytest.param(["t = torch.arange(n).type(h.type())"], "torch.arange(n).type(h.type())", id="to its type"),
        pytest.param(["t = torch.arange(n, dtype=h.dtype)"], "torch.arange(n, dtype=h.dtype)", id="made so"),
        pytest.param(["d = h.dtype", "t = torch.arange(n, dtype=d)"], "torch.arange(n, dtype=d)", id="a name for it"),
        pytest.param(
            ["t = torch.linspace(-1, 1, n, dtype=h.dtype)"], "torch.linspace(-1, 1, n, dtype=h.dtype)", id="a linspace"
        ),
        pytest.param(["t = mask.cumsum(1).to(h.dtype)"], "mask.cumsum(1).to(h.dtype)", id="a mask that is added up"),
        pytest.param(
            ["t = (torch.arange(n) + 1)[None].type_as(h)"], "(torch.arange(n) + 1)[None].type_as(h)", id="shifted"
        ),
        pytest.param(["t = grid(n, n)[None].type_as(h)"], "grid(n, n)[None].type_as(h)", id="a function's coordinates"),
        pytest.param(
            ["ys, xs = torch.meshgrid(torch.arange(n), torch.arange(n))", "t = torch.stack([xs, ys]).to(h)"],
            "torch.stack([xs, ys]).to(h)",
            id="unpacked",
        ),
        pytest.param(["t = self.places[:n].type_as(h)"], "self.places[:n].type_as(h)", id="a buffer"),
        pytest.param(
            ["t = torch.from_numpy(np.arange(n)).to(h.dtype)"],
            "torch.from_numpy(np.arange(n)).to(h.dtype)",
            id="NumPy's",
        ),
        pytest.param(
            ["t = torch.arange(n).type_as(self.act(h))"], "torch.arange(n).type_as(self.act(h))", id="kept by ReLU"
        ),
        pytest.param(["t = torch.arange(n) + h"], "torch.arange(n) + h", id="integers are added to it"),
        pytest.param(["t = h - grid(n, n)"], "h - grid(n, n)", id="integers are taken from it"),
        pytest.param(
            ["p = torch.sigmoid(h) * 999", "t = p.floor().long()"], "p.floor()", id="a fraction of a large number"
        ),
        pytest.param(["t = (h * 1000).round()"], "(h * 1000).round()", id="rounded"),
        pytest.param(["t = ((h + 1) * (n - 1) / 2).floor()"], "((h + 1) * (n - 1) / 2).floor()", id="a pixel"),
        pytest.param(
            ["b, c, w = x.size()", "t = torch.floor(h.tanh() * w)"], "torch.floor(h.tanh() * w)", id="a pixel of a row"
        ),
    ],
)
def test_what_is_rounded(lines: list[str], expected: str) -> None:
    assert in_forward(*lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["t = torch.arange(n).type_as(x)"], id="the input has 32 bits"),
        pytest.param(["t = torch.arange(n).type_as(self.weight)"], id="a parameter has 32 bits"),
        pytest.param(["t = torch.arange(n).type_as(self.fc.weight)"], id="a layer's parameter has 32 bits"),
        pytest.param(["t = torch.arange(n).type_as(self.embedding(mask))"], id="embeddings have 32 bits"),
        pytest.param(["t = torch.arange(n).type_as(self.norm(h))"], id="a normalized layer has 32 bits"),
        pytest.param(["t = torch.arange(n).type_as(self.act(x))"], id="ReLU keeps the 32 bits of the input"),
        pytest.param(["t = torch.arange(n).type_as(x)", "x = self.fc(x)"], id="the name has 16 bits later"),
        pytest.param(["t = torch.arange(n).float() + h"], id="added in 32 bits"),
        pytest.param(["t = torch.arange(n, dtype=torch.float32) + h"], id="made in 32 bits"),
        pytest.param(["t = torch.arange(n).to(h.device)"], id="the device alone"),
        pytest.param(["t = torch.arange(200).type_as(h)"], id="few numbers"),
        pytest.param(["t = torch.zeros(n).type_as(h)"], id="zeros"),
        pytest.param(["t = torch.ones(n, n).tril().type_as(h)"], id="a triangular mask"),
        pytest.param(["t = (torch.arange(n)[None] < mask).type_as(h)"], id="a mask of positions"),
        pytest.param(["t = F.one_hot(torch.arange(n)).type_as(h)"], id="one-hot"),
        pytest.param(["t = torch.arange(n).float().sin().type_as(h)"], id="a sine of positions"),
        pytest.param(["t = (torch.arange(n) % 2).type_as(h)"], id="even and odd"),
        pytest.param(["t = F.softmax(h, -1).cumsum(-1).type_as(h)"], id="probabilities that are added up"),
        pytest.param(["t = (torch.sigmoid(h) * 255).long()"], id="colours"),
        pytest.param(["t = (x * 1000).long()"], id="a scaled input"),
        pytest.param(["t = (x * n).long()"], id="a pixel of the input's"),
        pytest.param(["t = (h * 16).long()"], id="few cells"),
        pytest.param(["t = h * n"], id="not cut off"),
        pytest.param(["t = (torch.sigmoid(h.float()) * 999).floor()"], id="computed in 32 bits"),
    ],
)
def test_what_is_not(lines: list[str]) -> None:
    assert in_forward(*lines) is None


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param("F.l1_loss(net(x, mask), y.type_as(net(x, mask)))", "y.type_as(net(x, mask))", id="a regression"),
        pytest.param("F.mse_loss(net(x, mask), y)", None, id="in its own format"),
        pytest.param("F.mse_loss(net(x, mask), y.type_as(x))", None, id="in the input's format"),
        pytest.param("F.mse_loss(net(x, mask), torch.ones(2, 8).type_as(net(x, mask)))", None, id="of ones"),
        pytest.param("F.mse_loss(net(x, mask), (y > 0).type_as(net(x, mask)))", None, id="of truth values"),
        pytest.param(
            "F.binary_cross_entropy_with_logits(net(x, mask), y.type_as(net(x, mask)))", None, id="probabilities"
        ),
    ],
)
def test_targets(loss: str, expected: str | None) -> None:
    assert code(f"{HEAD}{TAIL}loss = {loss}\n") == expected


LAYER = """\
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return self.fc(x) + torch.arange(x.shape[1]).type_as(LIKE)[:, None]


"""


@pytest.mark.parametrize(
    ("like", "expected"),
    [
        pytest.param("x", "torch.arange(x.shape[1]).type_as(x)", id="what comes before is not followed"),
        pytest.param("self.fc.weight", None, id="its parameter has 32 bits"),
    ],
)
@pytest.mark.parametrize(
    "called",
    [
        pytest.param("nn.Sequential(nn.Linear(8, 8), Layer())(x)", id="in a sequence"),
        pytest.param("nn.Sequential(*[Layer() for _ in range(3)])(x)", id="many"),
    ],
)
def test_layers_in_a_sequence(called: str, like: str, expected: str | None) -> None:
    assert code(f"{HEAD}{TAIL}{LAYER.replace('LIKE', like)}out = {called}\n") == expected
