"""Where a random number says how large what a model is given is."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.drawn_sizes import drawn_size

HEAD = """\
import random
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(3, 3)
data = torch.randn(100, 100, 3)
"""


def drawn(statements: str) -> list[str]:
    """The draws that decide about the size of what the model is given."""
    known = script(f"{HEAD}{statements}\n")
    calls = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) in {"model", "self.net"}]
    found = (drawn_size(known.flow, known.module, each) for each in calls)
    return [ast.unparse(each) for each in found if each is not None]


LOOP = "for x in data:\n    "


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param(
            f"{LOOP}n = random.randint(2, 9)\n    model(x[:, :n])", "random.randint(2, 9)", id="a slice as long"
        ),
        pytest.param(
            f"{LOOP}n = torch.randint(2, 9, (1,)).item()\n    y = x[:n]\n    model(y.float())",
            "torch.randint(2, 9, (1,)).item()",
            id="a number of torch's, and names between",
        ),
        pytest.param(
            "for i in range(9):\n    n = max(5, int(np.random.normal(70, 5)))\n    model(data[i:i + n])",
            "np.random.normal(70, 5)",
            id="a piece as long, wherever it starts",
        ),
        pytest.param(
            f"{LOOP}a, b = random.randint(0, 4), 9\n    model(x[a:b])", "random.randint(0, 4)", id="a piece to the end"
        ),
        pytest.param(
            f"{LOOP}rows = torch.randperm(9)[:np.random.randint(1, 5)]\n    model(x[rows])",
            "np.random.randint(1, 5)",
            id="as many rows",
        ),
        pytest.param(
            f"{LOOP}size = random.choice([256, 320])\n    model(F.interpolate(x, size=size))",
            "random.choice([256, 320])",
            id="images are resized",
        ),
        pytest.param(
            f"{LOOP}model(torch.stack([x for _ in range(random.randint(1, 4))]))",
            "random.randint(1, 4)",
            id="a list as long",
        ),
        pytest.param(
            "def sample(rows, count):\n    return torch.randn(rows, count, 3)\n"
            "for _ in range(9):\n    points = sample(4, np.random.randint(100, 500))\n    model(points)",
            "np.random.randint(100, 500)",
            id="a function makes as many",
        ),
        pytest.param(
            f"{LOOP}n = random.randint(2, 9)\n    model(torch.distributions.Normal(x, x).sample(torch.Size([n])))",
            "random.randint(2, 9)",
            id="as many samples of a distribution",
        ),
        pytest.param(
            "def piece(i):\n    n = random.randint(3, 7)\n    return data[i:i + n]\nfor i in range(9):\n    model(piece(i))",
            "random.randint(3, 7)",
            id="a function draws it",
        ),
        pytest.param(
            "def pieces():\n    while True:\n        yield data[:random.randint(1, 5)]\nfor x in pieces():\n    model(x)",
            "random.randint(1, 5)",
            id="a generator draws it",
        ),
        pytest.param(
            f"def step(x):\n    model(x)\n{LOOP}step(x[:random.randint(1, 5)])",
            "random.randint(1, 5)",
            id="it is given to the function that trains",
        ),
        pytest.param(
            "class Trainer:\n    def __init__(self, net, span):\n        self.net, self.span = net, span\n"
            "    def fit(self):\n        for x in data:\n            n = random.randint(*self.span)\n"
            "            self.net(x[:, :n])\nTrainer(model, (3, 9)).fit()",
            "random.randint(*self.span)",
            id="in a method",
        ),
    ],
)
def test_a_random_number_says_how_large_it_is(statements: str, expected: str) -> None:
    assert drawn(statements) == [expected]


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(f"{LOOP}model(x)", id="nothing is drawn"),
        pytest.param(f"n = random.randint(2, 9)\n{LOOP}model(x[:, :n])", id="it is drawn once"),
        pytest.param(f"{LOOP}i = random.randint(0, 9)\n    model(x[:, i:i + 32])", id="a crop of one size"),
        pytest.param(f"{LOOP}i = random.randint(0, 9)\n    j = i + 32\n    model(x[:, i:j])", id="by two names"),
        pytest.param(
            f"{LOOP}i = random.randint(0, 9)\n    model(data[i * 16:(i + 1) * 16])", id="a batch by its number"
        ),
        pytest.param(f"{LOOP}model(data[random.randint(0, 9)])", id="an item"),
        pytest.param(f"{LOOP}rows = np.random.randint(0, 9, 32)\n    model(data[rows])", id="as many rows each time"),
        pytest.param(f"{LOOP}share = np.random.beta(1, 1)\n    model(share * x)", id="a factor"),
        pytest.param(
            f"{LOOP}a = random.randint(0, 4)\n    x[:, :a] = x[:, :a] * 2\n    model(x)", id="a part is changed"
        ),
        pytest.param(f"{LOOP}t = random.randint(0, 9)\n    model(x + torch.full((3,), t))", id="a value"),
        pytest.param(f"{LOOP}n = random.randint(1, 9)\n    model(x * x[:n].mean())", id="a mean"),
        pytest.param(f"{LOOP}for _ in range(random.randint(1, 9)):\n        model(x)", id="passes"),
        pytest.param(f"{LOOP}model(x)\n    print(x[:random.randint(1, 9)])", id="another use"),
        pytest.param(
            f"def f(n):\n    return f(n - 1)\n{LOOP}model(f(random.randint(1, 3)))", id="a function that calls itself"
        ),
    ],
)
def test_it_has_one_size(statements: str) -> None:
    assert drawn(statements) == []
