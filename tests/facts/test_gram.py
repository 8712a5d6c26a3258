"""Which products of matrices need 32 bits."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.gram import expanded_distances, is_gram, products

HEAD = "import torch\n"


def grams(body: str) -> list[str]:
    """The Gram matrices in a function with this body."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}def f(x, y):\n{lines}")
    module, function = known.module, known.module.tree.body[-1]
    return [ast.unparse(node) for node, left, right in products(function) if is_gram(known.flow, module, left, right)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("x = x.view(3, -1)\nreturn x @ x.t()", ["x @ x.t()"], id="positions in one dimension"),
        pytest.param(
            "f = x.view(b, c, h * w)\nreturn f.bmm(f.transpose(1, 2))", ["f.bmm(f.transpose(1, 2))"], id="of a batch"
        ),
        pytest.param(
            "f = x.flatten(2)\ng = f.transpose(1, 2)\nreturn torch.bmm(f, g)", ["torch.bmm(f, g)"], id="both have names"
        ),
        pytest.param("return x @ x.t()", [], id="no positions"),
        pytest.param("x = x.view(3, -1)\nreturn x @ y.t()", [], id="of two tensors"),
        pytest.param("x = x.view(3, -1)\nreturn x @ x", [], id="not turned"),
    ],
)
def test_gram_matrices(body: str, expected: list[str]) -> None:
    assert grams(body) == expected


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param("return (x ** 2).sum(1) + (y ** 2).sum(1) - 2 * x @ y.t()", 1, id="in one expression"),
        pytest.param("p = torch.mm(x, y.t())\nreturn x.pow(2).sum(1) + y.pow(2).sum(1) - 2 * p", 1, id="by a name"),
        pytest.param("s = x.norm(dim=1) ** 2\nreturn s - 2.0 * torch.matmul(x, y.t())", 1, id="by norms"),
        pytest.param("s = (x * x).sum(1)\nreturn torch.addmm(s, x, y.t(), alpha=-2)", 1, id="addmm"),
        pytest.param("return (x ** 2).sum(1) - x @ y.t()", 0, id="not doubled"),
        pytest.param("return 2 * x @ y.t()", 0, id="no squares"),
        pytest.param("z = y ** 3\nreturn 2 * x @ y.t() + (z ** 2).sum()", 0, id="squares of something else"),
    ],
)
def test_distances_that_are_expanded(body: str, count: int) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}def f(x, y):\n{lines}")

    assert len(list(expanded_distances(known.flow, known.module, known.module.tree.body[-1]))) == count
