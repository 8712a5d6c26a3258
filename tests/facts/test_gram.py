"""Which products of matrices need 32 bits."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.gram import expanded_distances, is_gram, products

HEAD = "import torch\n"
N = "torch.nn.functional.normalize"


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
        pytest.param("d = (x ** 2).sum(1)\nreturn d.addmm_(x, y.t(), beta=1, alpha=-2)", 1, id="addmm in place"),
        pytest.param("d = (x ** 2).sum(1)\nreturn d.addmm_(1, -2, x, y.t())", 1, id="numbers before the matrices"),
        pytest.param("s = torch.mul(x, x).sum(1)\nreturn s - 2 * x @ y.t()", 1, id="squares by mul"),
        pytest.param("s = x.mul(x).sum(1)\nreturn s - 2 * x @ y.t()", 1, id="squares by the method mul"),
        pytest.param('s = torch.einsum("nd,nd->n", x, x)\nreturn s - 2 * x @ y.t()', 1, id="squares by einsum"),
        pytest.param("s = torch.linalg.vector_norm(x, dim=1) ** 2\nreturn s - 2 * x @ y.t()", 1, id="linalg"),
        pytest.param(
            "s = torch.linalg.vector_norm(x, dim=1, keepdim=True).square() + torch.linalg.norm(y, dim=1).square()\n"
            "return s - torch.inner(x, y).mul(2)",
            1,
            id="norms of linalg, and inner",
        ),
        pytest.param("s = torch.norm(input=x, dim=1).pow(2)\nreturn s - x.inner(y).mul_(2)", 1, id="inner as a method"),
        pytest.param(
            "from torch.linalg import norm\ns = norm(x, dim=1) ** 2\nreturn s - 2 * x @ y.t()", 1, id="a name"
        ),
        pytest.param(
            "s = x.square().sum(1)\nreturn s - torch.mul(torch.mm(x, y.t()), 2)", 1, id="doubled by torch.mul"
        ),
        pytest.param("n = x.norm(dim=1)\nreturn n ** 2 - 2 * x @ y.t()", 1, id="squares of norms with a name"),
        pytest.param("n = y.norm(dim=1)\nreturn n ** 2 * (2 * x @ x.t())", 0, id="norms of something else"),
        pytest.param("y = y.sum(1)\nreturn y ** 2 - 2 * x @ y.t()", 1, id="squares of a sum"),
        pytest.param(f"return 2 - 2 * {N}(x) @ {N}(y).t()", 1, id="of unit vectors"),
        pytest.param(f"x, y = {N}(x), {N}(y)\nreturn (2 - 2 * (x @ y.t())).sqrt()", 1, id="unit vectors of a name"),
        pytest.param("p = torch.mm(x, y.t())\nreturn 2.0 - p.mul(2)", 1, id="unit vectors, and mul"),
        pytest.param("return -2 * torch.inner(x, y) + 2", 1, id="unit vectors, 2 is added"),
        pytest.param("return 1 - 2 * x @ y.t()", 0, id="taken from 1"),
        pytest.param("return 2 * x @ y.t() - 2", 0, id="2 is taken off"),
        pytest.param("p = x @ x.t()\ns = torch.diag(p)\nreturn s[None] - 2 * p + s[:, None]", 1, id="the diagonal"),
        pytest.param("p = x @ x.t()\ns = p.diagonal()\nreturn s[None] - 2 * p + s[:, None]", 1, id="by a method"),
        pytest.param("s = x.pow(2).sum(1)\nreturn s - 2 * torch.nn.functional.linear(x, y)", 1, id="linear"),
        pytest.param(
            "s = torch.nn.functional.conv2d(x ** 2, y)\n"
            "p = torch.nn.functional.conv2d(input=x, weight=y)\nreturn s - 2 * p",
            1,
            id="at each position of an image",
        ),
        pytest.param("s = x.pow(2).sum(1)\nreturn s - 2 * torch.tensordot(x, y, 1)", 1, id="tensordot"),
        pytest.param("s = x.pow(2).sum(1)\nreturn torch.sub(s, x @ y.t(), alpha=2)", 1, id="doubled by sub"),
        pytest.param("x = x.detach()\nreturn x.detach().pow(2).sum(1) - 2 * x @ y.t()", 1, id="cut off"),
        pytest.param("s = x.pow(2).sum(1)\nreturn torch.sub(s, x @ y.t(), alpha=3)", 0, id="tripled by sub"),
        pytest.param("p = x @ x.t()\nreturn p - torch.diag(p)", 0, id="a diagonal, not doubled"),
        pytest.param("p = x @ x.t()\nreturn 2 * p - torch.diag(x)", 0, id="the diagonal of something else"),
        pytest.param("return (x ** 2).sum(1) - x @ y.t()", 0, id="not doubled"),
        pytest.param("return 2 * x @ y.t()", 0, id="no squares"),
        pytest.param("z = y ** 3\nreturn 2 * x @ y.t() + (z ** 2).sum()", 0, id="squares of something else"),
    ],
)
def test_distances_that_are_expanded(body: str, count: int) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}def f(x, y):\n{lines}")

    assert len(list(expanded_distances(known.flow, known.module, known.module.tree.body[-1]))) == count
