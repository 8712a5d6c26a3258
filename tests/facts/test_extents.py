from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.extents import elements
from codemods.facts.cost.worth import worth

BEFORE = """
import numpy as np
import torch
from torchvision.datasets import MNIST
N = 50
x = torch.randn(N, 4)
y = torch.randint(10, (N,))
train_set = MNIST("data")
"""


def count(made: str) -> int | None:
    """The elements of what is made, at the most."""
    asked = script(f"{BEFORE}z = {made}\n")
    last = asked.module.tree.body[-1]
    assert isinstance(last, ast.Assign)
    return elements(asked.flow, worth(asked).constants, last.value)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("x", 200, id="by its name"),
        pytest.param("torch.zeros((3, 4))", 12, id="sizes together"),
        pytest.param("y.float().unsqueeze(1)", 50, id="methods that keep the elements"),
        pytest.param("x.view(-1, 2, 2)", 200, id="regrouped"),
        pytest.param("x.reshape(-1, 3)", 201, id="regrouped, rounded up"),
        pytest.param("x[:10]", 200, id="a part of rows is no more than all"),
        pytest.param("-x * 2 + torch.randn(4)", 200, id="of the same size, or of a row's"),
        pytest.param("torch.randn(N, 1) * torch.randn(N)", 2500, id="of each with each"),
        pytest.param("x @ torch.randn(4, 7)", 350, id="a product of matrices"),
        pytest.param("torch.sin(x)", 200, id="a function of each element"),
        pytest.param("torch.linspace(0, 1, 30).unsqueeze(-1)", 30, id="a row of numbers"),
        pytest.param("torch.arange(2, 10, 2)", 4, id="a range"),
        pytest.param("torch.tensor([[0.0, 1.0], [1.0, 0.0]])", 4, id="lists of numbers"),
        pytest.param("torch.from_numpy(np.random.rand(20, 3)).float()", 60, id="of an array"),
        pytest.param("torch.as_tensor(np.random.normal(size=(20, 3)))", 60, id="of an array with a size by its name"),
        pytest.param("(y > 5).long()", 50, id="compared"),
        pytest.param("train_set.data.float() / 255", 60000 * 784, id="all images of a known data set"),
        pytest.param("train_set.targets", 60000, id="their labels"),
    ],
)
def test_how_many_elements_there_are_at_the_most(made: str, expected: int) -> None:
    assert count(made) == expected


@pytest.mark.parametrize(
    "made",
    ["torch.load('x.pt')", "x.sum()", "x[y]", "np.load('x.npy')", "torch.randn(n)", "x.foo()", "train_set.classes",
     "torch.arange(0, 10, 0)", "torch.randint(10)", "z + 1", "x.T", "torch.stack([x, x])"],
)  # fmt: skip
def test_of_others_it_is_not_known(made: str) -> None:
    assert count(made) is None
