"""Which code needs gradients itself, whether or not it trains."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.uses import needs_gradients

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.start = nn.Parameter(torch.zeros(4))
    def forward(self, x):
        y = self.layer(x)
        {}
        return y
model = Net()
"""


def where(body: str, forward: str = "pass") -> str | None:
    """Where a function with this body needs gradients."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD.format(forward)}def run(x, y):\n{lines}")
    found = needs_gradients(known.flow, known.module.tree.body[-1])
    return None if found is None else ast.unparse(found)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param("x.requires_grad = True", "x.requires_grad", id="of its input"),
        pytest.param("x.requires_grad_()", "x.requires_grad_", id="of its input, by a call"),
        pytest.param("y.sum().backward()", "y.sum().backward", id="a backward"),
        pytest.param("print(x.grad)", "x.grad", id="a gradient is read"),
        pytest.param("g = torch.autograd.grad(y, x)", "torch.autograd.grad(y, x)", id="a gradient is computed"),
        pytest.param("y.register_hook(print)", "y.register_hook", id="a hook, which a tensor without graph refuses"),
        pytest.param("y.retain_grad()", "y.retain_grad", id="a gradient that is to be kept"),
        pytest.param("d = torch.zeros(4, requires_grad=True)", "torch.zeros(4, requires_grad=True)", id="a new tensor"),
        pytest.param(
            "d = torch.zeros(4, requires_grad=True).double()", "torch.zeros(4, requires_grad=True)", id="made longer"
        ),
        pytest.param("d = make(4, requires_grad=True).long()", "make(4, requires_grad=True)", id="of code not seen"),
        pytest.param("with torch.enable_grad():\n    pass", "torch.enable_grad()", id="they are switched on"),
        pytest.param("x = fgsm_attack(model, x)", "fgsm_attack(model, x)", id="an attack that is not seen"),
    ],
)
def test_code_that_needs_gradients(body: str, place: str) -> None:
    assert where(body) == place


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("print(model(x).argmax(1))", id="an evaluation"),
        pytest.param("d = torch.zeros(4, requires_grad=False)", id="the opposite"),
        pytest.param("d = torch.zeros(4, requires_grad=bool(x)).long()", id="integers have no gradients"),
        pytest.param("def attack(x):\n    return x\nattack(x)", id="an attack that is seen to need none"),
        pytest.param(
            "class Net(nn.Module):\n    def forward(self, x):\n        return x + 1\nperturbed = Net()\nperturbed(x)",
            id="a model of the project's, whatever its name",
        ),
        pytest.param("torch.func.grad(model)(x)", id="what switches them on for itself"),
    ],
)
def test_code_that_needs_none(body: str) -> None:
    assert where(body) is None


def test_code_that_it_calls_is_looked_into() -> None:
    known = script(
        "import attacks\ndef run(x):\n    attacks.change(x)\n", attacks="def change(x):\n    x.requires_grad_()\n"
    )
    found = needs_gradients(known.flow, known.module.tree.body[-1])

    assert found is not None
    assert ast.unparse(found) == "x.requires_grad_"


@pytest.mark.parametrize(
    ("forward", "place"),
    [
        pytest.param("y.register_hook(print)", "y.register_hook", id="a hook"),
        pytest.param("if y.requires_grad: y.register_hook(print)", None, id="a hook that is passed over without graph"),
        pytest.param("x.requires_grad_()", None, id="of the state that it starts with"),
        pytest.param("g = torch.autograd.grad(y.sum(), x)", "torch.autograd.grad(y.sum(), x)", id="a gradient"),
    ],
)
def test_what_a_model_needs_for_itself(forward: str, place: str | None) -> None:
    assert where("print(model(x))", forward) == place


_MASK = """\
import torch
def mask(size, needs=False):
    return torch.ones(size, requires_grad=needs)
def run(x):
    return x * mask(x.shape)
{}
"""


@pytest.mark.parametrize(
    ("otherwise", "place"),
    [
        pytest.param("", None, id="a parameter that is false wherever the function is called"),
        pytest.param("mask(4, needs=False)", None, id="and is given so"),
        pytest.param("mask(4, True)", "torch.ones(size, requires_grad=needs)", id="but is true elsewhere"),
        pytest.param("mask(4, x.training)", "torch.ones(size, requires_grad=needs)", id="but is not known elsewhere"),
        pytest.param("mask(4, **options)", "torch.ones(size, requires_grad=needs)", id="but may be given elsewhere"),
        pytest.param(
            "import runner\nrunner.start(mask)",
            "torch.ones(size, requires_grad=needs)",
            id="but somebody else may call it",
        ),
    ],
)
def test_gradients_that_a_parameter_asks_for(otherwise: str, place: str | None) -> None:
    known = script(_MASK.format(otherwise))
    found = needs_gradients(known.flow, known.module.tree.body[2])

    assert (None if found is None else ast.unparse(found)) == place
