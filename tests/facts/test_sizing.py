"""Which arguments say how large a tensor or an array is."""

from __future__ import annotations

import ast
import importlib

import pytest
import torch
from probe import script

from codemods.library.sizing import functions, methods, sizes_given


def given(call: str) -> list[str]:
    head = "import random\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\nx = torch.ones(3)\n"
    known = script(f"{head}{call}\n")
    statement = known.module.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return [ast.unparse(each) for each in sizes_given(known.flow, statement.value)]


@pytest.mark.parametrize("name", sorted(functions()))
def test_the_functions_are_there(name: str) -> None:
    package, _, last = name.rpartition(".")

    assert callable(getattr(importlib.import_module(package), last))


@pytest.mark.parametrize("name", sorted(methods()))
def test_tensors_have_the_methods(name: str) -> None:
    assert callable(getattr(torch.Tensor, name))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("torch.randn(a, b)", ["a", "b"], id="all of them"),
        pytest.param("torch.full((a, b), c)", ["(a, b)"], id="the first of them"),
        pytest.param("torch.randint(a, b, (c,))", ["(c,)"], id="not the bounds"),
        pytest.param("np.random.choice(a, size=b)", ["b"], id="by its name"),
        pytest.param("random.sample(a, b)", ["b"], id="how many of a list"),
        pytest.param("F.interpolate(x, scale_factor=a)", ["a"], id="a factor"),
        pytest.param("x.view(a, b)", ["a", "b"], id="a method"),
        pytest.param("x.narrow(a, b, c)", ["c"], id="one of a method's"),
        pytest.param("x.add(a)", [], id="another method"),
        pytest.param("torch.distributions.Normal(x, x).sample((a, b))", ["(a, b)"], id="samples of a distribution"),
        pytest.param("torch.Size([a, b])", ["[a, b]"], id="a shape"),
        pytest.param("print(a)", [], id="another function"),
    ],
)
def test_sizes_that_are_given(call: str, expected: list[str]) -> None:
    assert given(call) == expected
