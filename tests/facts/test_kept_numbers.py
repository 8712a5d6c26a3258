"""Which attributes of models only ever hold numbers without a graph."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.kept_numbers import holds_numbers_alone


def holds(body: str, *, behind: str = "") -> bool:
    """What is found of ``queue`` in a model whose forward has these lines between the layer and its return."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    found = script(
        f"""import torch
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("queue", torch.zeros(8, 4))
    def forward(self, x):
        y = self.layer(x)
{lines}        return y
net = Net()
net(torch.randn(2, 4)).sum().backward()
{behind}"""
    )
    return holds_numbers_alone(found.flow, found.modules, "queue")


@pytest.mark.parametrize(
    "body",
    [
        "self.queue = y.detach()",
        "self.queue = torch.cat([self.queue[len(y):], y.detach()])",
        "k = y.detach()\nself.queue = torch.cat([self.queue, k])[-8:]",
        "k = F.normalize(y.detach(), dim=1)\nself.queue = torch.cat([self.queue, k])",
        "self.queue = 0.9 * self.queue + 0.1 * y.detach()",
        "self.queue += y.detach().mean(0)",
        "self.queue[:2] = y.data",
        "self.queue.mul_(0.9).add_(y.detach())",
        "self.queue = self.queue.roll(2, 0)",
        "self.queue = y.argmax(1)",
        "q = self.queue\ny = y @ q.T",
        "y = torch.mm(y, self.queue.T)",
    ],
)
def test_has_no_graph(body: str) -> None:
    assert holds(body)


@pytest.mark.parametrize(
    "body",
    [
        "self.queue = y",
        "self.queue = torch.cat([self.queue, y])",
        "k = y.detach()\nk = y\nself.queue = torch.cat([self.queue, k])",
        "k = y.detach()\nk += y\nself.queue = torch.cat([self.queue, k])",
        "k = y.detach()\nk.add_(y)\nself.queue = torch.cat([self.queue, k])",
        "self.queue = 0.9 * self.queue + 0.1 * y",
        "self.queue += y.mean(0)",
        "self.queue[:2] = y",
        "self.queue.add_(y)",
        "self.queue.mul_(0.9).add_(y)",
        "self.queue.add_(other=y)",
        "q = self.queue\nq[:2] = y",
        "q = self.queue\nq += y",
        "fill(self.queue, y)",
        "self.queue, other = y, y.detach()",
        "for self.queue in y:\n    pass",
        "setattr(self, 'queue', y)",
        "self.queue = self.layer(y.detach())",
        "self.queue = torch.zeros(8, 4, requires_grad=True)",
        "self.queue = F.relu_(y.detach())",
    ],
)
def test_may_have_one(body: str) -> None:
    assert not holds(body)


def test_others_may_give_it_one() -> None:
    assert not holds("self.queue = y.detach()", behind="net.queue = net.layer(torch.ones(2, 4))\n")
