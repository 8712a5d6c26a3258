"""Where a loop asks for gradients of what a model is given alone."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.input_gradients import of_inputs_alone

HEAD = """\
import argparse
import torch
from torch import nn
from torch.autograd import Variable

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 1)

    def forward(self, x):
        return self.second(self.first(x).relu())

parser = argparse.ArgumentParser()
parser.add_argument("--robust", action="store_true")
parser.add_argument("--attack", default="linf")
args = parser.parse_args()
model, other = Net().cuda(), Net().cuda()

"""
ATTACK = """\
def attack(net, x):
    for _ in range(10):
        x.requires_grad_()
        loss = net(x).sum()
        grad = torch.autograd.grad(loss, [x])[0]
        x = x.detach() + 0.01 * grad.sign()
    return x.detach()

"""
TRAINING = """\
for x in data:
    x = attack(model, x)
    model(x).sum().backward()
"""


def line_of(code: str) -> str | None:
    """The call that asks for gradients of the input of ``model`` alone."""
    known = script(HEAD + code)
    made = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "Net()")
    (model,) = known.flow.values(made)
    found = of_inputs_alone(known, model)
    return None if found is None else ast.unparse(found)


def test_an_attack_in_a_function() -> None:
    assert line_of(ATTACK + TRAINING) == "torch.autograd.grad(loss, [x])"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("        x.requires_grad_()", "        x.requires_grad = True", id="an attribute is set"),
        pytest.param(
            "        x.requires_grad_()", "        x = x.detach().requires_grad_()", id="at the end of an expression"
        ),
        pytest.param("        x.requires_grad_()", "        x = Variable(x, requires_grad=True)", id="a Variable"),
        pytest.param("        x.requires_grad_()", "        x = Variable(x.data, True)", id="a Variable, by position"),
        pytest.param("grad(loss, [x])", "grad(outputs=[loss], inputs=x)", id="by name"),
        pytest.param(
            "        grad = torch.autograd.grad(loss, [x])[0]",
            "        loss.backward(inputs=[x])\n        grad = x.grad",
            id="a backward that is told",
        ),
        pytest.param(
            "        grad = torch.autograd.grad(loss, [x])[0]",
            "        torch.autograd.backward(loss, inputs=x)\n        grad = x.grad",
            id="the function that is told",
        ),
        pytest.param("    for _ in range(10):", '    while args.attack == "linf":', id="by default"),
        pytest.param("for x in data:", "model = nn.DataParallel(model)\nfor x in data:", id="in a wrapper"),
    ],
)
def test_of_its_input_alone(old: str, new: str) -> None:
    code = ATTACK + TRAINING
    assert old in code
    assert line_of(code.replace(old, new)) is not None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    for _ in range(10):", "    if True:", id="once in an iteration"),
        pytest.param(
            "        grad = torch.autograd.grad(loss, [x])[0]",
            "        loss.backward()\n        grad = x.grad",
            id="a backward computes those of weights, compiled or not",
        ),
        pytest.param("grad(loss, [x])", "grad(loss, [x, *net.parameters()])", id="of its weights, too"),
        pytest.param("grad(loss, [x])", "grad(loss, list(net.parameters()))", id="of its weights"),
        pytest.param(
            "        x.requires_grad_()",
            "        x = net.second.weight\n        x.requires_grad_()",
            id="of a weight that has a name",
        ),
        pytest.param(
            "        x.requires_grad_()",
            "        x = [each.clone().requires_grad_() for each in net.parameters()]",
            id="of a list that may hold weights",
        ),
        pytest.param("        x.requires_grad_()", "        pass", id="nothing asks for gradients of it"),
        pytest.param("net(x).sum()", "other(x).sum()", id="of another model"),
        pytest.param("net(x).sum()", "other(net(x).detach()).sum()", id="the graph is cut"),
        pytest.param(
            "        x = x.detach()",
            "        net(x).sum().backward()\n        x = x.detach()",
            id="the loop trains, too",
        ),
        pytest.param(
            "        x = x.detach()",
            "        slopes = torch.autograd.grad(net(x).sum(), net.parameters())\n        x = x.detach()",
            id="the loop asks for those of weights, too",
        ),
        pytest.param(
            "    x = attack(model, x)", "    if args.robust:\n        x = attack(model, x)", id="off by default"
        ),
        pytest.param("    for _ in range(10):", "    net.requires_grad_(False)\n    for _ in range(10):", id="frozen"),
        pytest.param(
            "    for _ in range(10):",
            "    for each in net.parameters():\n        each.requires_grad = False\n    for _ in range(10):",
            id="each weight is frozen",
        ),
        pytest.param("    x = attack(model, x)\n", "", id="nothing calls it"),
    ],
)
def test_of_more_than_its_input(old: str, new: str) -> None:
    code = ATTACK + TRAINING
    assert old in code
    assert line_of(code.replace(old, new)) is None
