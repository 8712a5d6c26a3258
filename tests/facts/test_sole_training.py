"""Which arm of a condition is the only code that trains."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.sole_training import is_sole_training

STEPS = """\
import torch
class Trainer:
    def train(self):
        loss = self.step()
        loss.backward()
    def step(self):
        return torch.zeros(1, requires_grad=True).sum()
def again():
    Trainer().train()
def unused():
    torch.zeros(1, requires_grad=True).sum().backward()
def other():
    torch.autograd.grad(torch.zeros(1, requires_grad=True).sum(), [])
"""
HEAD = "import torch\nfrom steps import Trainer, again, other, unused\n"


def sole(text: str) -> set[bool]:
    """Which arms of the first condition are the only code that trains: True for its body, False for the other one."""
    known = script(HEAD + text, steps=STEPS)
    first = known.module.nodes(ast.If)[0]
    return {each for each in (True, False) if is_sole_training(known.flow, known.entries, first, is_body=each)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("if flag:\n    Trainer().train()\nelse:\n    print(1)\n", {True}, id="the body"),
        pytest.param("if flag:\n    print(1)\nelse:\n    Trainer().train()\n", {False}, id="the other arm"),
        pytest.param("def main():\n    if flag:\n        again()\nmain()\n", {True}, id="in a function"),
        pytest.param("if flag:\n    if other:\n        again()\n", {True}, id="below another condition"),
        pytest.param("if flag:\n    again()\nelse:\n    Trainer().train()\n", set(), id="both"),
        pytest.param("if flag:\n    Trainer().train()\nagain()\n", set(), id="what follows, too"),
        pytest.param("if flag:\n    again()\nelse:\n    other()\n", set(), id="gradients without a backward"),
        pytest.param("if flag:\n    again()\nelse:\n    library.fit(x)\n", set(), id="a library trains"),
        pytest.param("if flag:\n    again()\nrun(unused)\n", set(), id="what is called elsewhere"),
        pytest.param("if flag:\n    Trainer().step()\n", set(), id="nothing trains"),
        pytest.param(
            "def f(n):\n    if n:\n        g(n)\ndef g(n):\n    f(n)\n    again()\ng(3)\n",
            set(),
            id="a circle, entered there",
        ),
        pytest.param(
            "def f(n):\n    if n:\n        g(n)\ndef g(n):\n    f(n)\n    again()\nf(3)\n", {True}, id="or here"
        ),
    ],
)
def test_which_arm_trains_alone(text: str, expected: set[bool]) -> None:
    assert sole(text) == expected
