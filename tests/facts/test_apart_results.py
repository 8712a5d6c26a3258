"""Whether several results of one call of a model may be differentiated one after the other."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.apart_results import differentiated_apart

HEAD = """\
import torch
from torch import nn, optim
class Twins(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, x):
        return self.one(x), self.other(x)
critic = Twins()
first, second = optim.Adam(critic.one.parameters()), optim.Adam(critic.other.parameters())
"""
LOOP = "for x in torch.randn(9, 8, 4):\n"


def found(text: str) -> str:
    """The call that is named, as it is written."""
    known = script(HEAD + text)
    calls = [
        (module, call)
        for module in known.modules
        for call in module.nodes(ast.Call)
        if ast.unparse(call.func) in {"critic", "self.critic"}
    ]
    result = differentiated_apart(known.flow, known.modules, calls, known.whole.graph_uses.only_reads)
    return "" if result is None else ast.unparse(result[1])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            LOOP + "    a, b = critic(x)\n    la, lb = a.square().mean(), b.abs().mean()\n"
            "    la.backward()\n    lb.backward()\n",
            id="each has its backward",
        ),
        pytest.param(
            "def step(optimizer, loss):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
            "def losses(x):\n    a, b = critic(x)\n    a = a.squeeze()\n    return a.square().mean(), b.square().mean()\n"
            + LOOP
            + "    la, lb = losses(x)\n    step(first, la)\n    step(second, lb)\n",
            id="a function returns two losses, and another one differentiates each",
        ),
        pytest.param(
            "def step(loss):\n    loss.backward()\n"
            + LOOP
            + "    a, b = critic(x)\n    step(a.mean())\n    step(b.mean())\n",
            id="each is given to a function that differentiates it",
        ),
        pytest.param(
            "import elsewhere\n"
            + LOOP
            + "    a, b = critic(x)\n    a.mean().backward()\n    elsewhere.step(b.mean())\n"
            "    critic.one(x).mean().backward()\n",
            id="one is given to code that is not seen",
        ),
    ],
)
def test_results_that_may_be_differentiated_apart(text: str) -> None:
    assert found(text) == "critic(x)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOP + "    a, b = critic(x)\n    (a.mean() + b.mean()).backward()\n", id="one backward"),
        pytest.param(
            LOOP + "    a, b = critic(x)\n    loss = a.mean() + b.mean()\n    loss.backward()\n"
            "    c, d = critic(-x)\n    fake = c.mean() - d.mean()\n    fake.backward()\n",
            id="each call has one backward for all its results",
        ),
        pytest.param(
            LOOP + "    a, b = critic(x)\n    loss = a.mean()\n    loss.backward()\n    print(b.detach().mean())\n"
            "    critic.one(x).mean().backward()\n",
            id="one of them is only looked at",
        ),
        pytest.param(
            "import tensorboardX\nwriter = tensorboardX.SummaryWriter()\n"
            + LOOP
            + "    a, b = critic(x)\n    loss = a.mean()\n    loss.backward()\n    writer.add_scalar('b', b.mean())\n"
            "    critic.one(x).mean().backward()\n",
            id="one of them is only written to a log",
        ),
        pytest.param(
            "class Log:\n    def log(self, value):\n        if isinstance(value, torch.Tensor):\n"
            "            value = value.item()\n        print(value)\nlog = Log()\n"
            + LOOP
            + "    a, b = critic(x)\n    loss = a.mean()\n    loss.backward()\n    log.log(b.mean())\n"
            "    critic.one(x).mean().backward()\n",
            id="one of them is printed by a class of the project",
        ),
        pytest.param(
            LOOP + "    a = critic(x)[0].mean()\n    a.backward()\n    b = critic(x)[1].mean()\n    b.backward()\n",
            id="each has a call of its own",
        ),
    ],
)
def test_results_that_have_one_backward(text: str) -> None:
    assert found(text) == ""
