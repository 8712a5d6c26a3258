"""What code outside of a class does to the tensors that its objects have."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.changed_attributes import is_changed

CODE = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * self.mask


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(4, 4))


net, other = nn.Sequential(Attention(), Attention()), Other()
average = nn.Sequential(Attention(), Attention())
"""


def changed(text: str) -> bool:
    known = script(CODE + text)
    return is_changed(known.flow, known.module.nodes(ast.ClassDef)[0], "mask")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("net[0].mask[:, :2] = 1", id="a part of it"),
        pytest.param("one = Attention()\none.mask = torch.ones(4, 4)", id="another one"),
        pytest.param("one = Attention()\none.mask.data.fill_(1)", id="by way of data"),
        pytest.param(
            "for name, m in net.named_modules():\n    if hasattr(m, 'mask'):\n        m.mask[:2] = 1", id="all"
        ),
        pytest.param(
            "for m in net.modules():\n    if isinstance(m, Attention):\n        m.mask.triu_(-2)", id="its kind"
        ),
        pytest.param(
            "for m in net.modules():\n    if isinstance(m, (nn.Linear, Attention)):\n        m.mask.fill_(1)",
            id="its kind among others",
        ),
        pytest.param("def widen(m):\n    m.mask.fill_(1)\nnet.apply(widen)", id="by a function that is applied"),
        pytest.param("for m in net.children():\n    setattr(m, 'mask', torch.ones(4, 4))", id="by setattr"),
        pytest.param("for b in net.buffers():\n    b.fill_(1)", id="all buffers"),
        pytest.param(
            "for n, b in net.named_buffers():\n    if 'mask' in n:\n        b[:, :2] = 1", id="by their names"
        ),
        pytest.param("state = net.state_dict()\nfor k in state:\n    state[k][..., :2] = 1", id="by the state"),
        pytest.param("net.state_dict()['0.mask'].zero_()", id="by a state without a name"),
        pytest.param("for k, v in net.state_dict().items():\n    v.fill_(1)", id="all of a state"),
        pytest.param(
            "for m in net.modules():\n    if isinstance(m, nn.Module) and hasattr(m, 'mask'):\n        m.mask.fill_(1)",
            id="of all modules",
        ),
        pytest.param("net[0].register_buffer('mask', torch.ones(4, 4))", id="as another buffer"),
    ],
)
def test_it_may_be_another_one(text: str) -> None:
    assert changed(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("print(net[0].mask[:2])", id="it is read"),
        pytest.param("other.mask.fill_(0)", id="that of another class"),
        pytest.param("setattr(other, 'mask', 3)\nsetattr(net[0], 'name', 3)", id="other attributes are set"),
        pytest.param(
            "for m in net.modules():\n    if isinstance(m, nn.Linear) and m.mask is not None:\n"
            "        m.mask.data.zero_()",
            id="of layers of PyTorch",
        ),
        pytest.param("for a, b in zip(average.buffers(), net.buffers()):\n    a.copy_(b)", id="an average of buffers"),
        pytest.param(
            "state = net.state_dict()\nfor k, v in average.state_dict().items():\n    state[k].mul_(0.9).add_(v)",
            id="an average of states",
        ),
        pytest.param("state = net.state_dict()\nstate['0.mask'] = 1", id="an item of the state is another"),
    ],
)
def test_it_stays_as_it_was_made(text: str) -> None:
    assert not changed(text)
