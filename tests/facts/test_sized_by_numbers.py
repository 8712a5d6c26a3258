"""Which tensors are as large as numbers say."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.sized_by_numbers import sized_by_numbers


def sized(statements: str) -> list[str]:
    known = script(f"import numpy as np\nimport torch\nimport torchvision\nx = torch.randn(3)\n{statements}\n")
    found = (sized_by_numbers(known.flow, each) for each in ast.walk(known.module.tree))
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        pytest.param("x.nonzero()", ["nonzero()"], id="a method"),
        pytest.param("torch.argwhere(x)", ["argwhere()"], id="a function"),
        pytest.param("torch.where(x > 0)", ["where()"], id="where of a condition alone"),
        pytest.param("torch.where(x > 0, x, 0)", [], id="where of two tensors"),
        pytest.param("torchvision.ops.nms(x, x, 0.5)", ["nms()"], id="boxes"),
        pytest.param("class A:\n    def nonzero(self): ...\nA().nonzero()", [], id="a method of the project"),
        pytest.param("np.nonzero(np.ones(3))", [], id="an array"),
        pytest.param("x[x > 0]", ["what a mask selects"], id="a condition"),
        pytest.param("x[:, x.gt(0)]", ["what a mask selects"], id="columns by a condition"),
        pytest.param("mask = x > 0\nmask = ~mask\nx[mask]", ["what a mask selects"], id="a name for a mask"),
        pytest.param("mask = x > 0\nmask = mask.long()\nx[mask]", [], id="a mask that becomes numbers"),
        pytest.param("x[x > 0] = 1", [], id="what is written to"),
        pytest.param("x[x is None]", [], id="no mask"),
        pytest.param("x[torch.arange(2)]", [], id="numbers of rows"),
        pytest.param("['a', 'b'][3 > 2]", [], id="a list"),
    ],
)
def test_what_is_as_large_as_numbers_say(statements: str, expected: list[str]) -> None:
    assert sized(statements) == expected
