"""What another device rounds otherwise in the last bit, and no more."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.rounded import is_continuous, is_inexact, of_number

PRODUCTS = {
    "a constant": ("torch.arange(n) / 8", "torch.arange(n)"),
    "what is counted to": ("torch.arange(n) / n", "torch.arange(n)"),
    "a part of what is counted to": ("torch.arange(n - 1) / (n // 2)", "torch.arange(n - 1)"),
    "a logarithm": ("-math.log(x) * torch.arange(n)", "torch.arange(n)"),
    "a base": ("10 ** torch.arange(n)", "torch.arange(n)"),
    "what may be a tensor": ("torch.arange(n) / x", None),
    "what something else is computed of": ("torch.arange(len(x)) * x", None),
    "another operation": ("torch.arange(n) // 2", None),
}


@pytest.mark.parametrize(("code", "other"), PRODUCTS.values(), ids=PRODUCTS)
def test_what_a_number_is_applied_to(code: str, other: str | None) -> None:
    found = script(f"import math, torch\ndef f(n, x):\n    answer = {code}\n    return answer\n")
    (node,) = (each.value for each in found.module.nodes(ast.Assign))
    assert isinstance(node, ast.BinOp)
    inner = of_number(found, node)

    assert (inner and ast.unparse(inner)) == other


@pytest.mark.parametrize(
    ("code", "inexact", "continuous"),
    [
        pytest.param("a * b", False, False, id="rounded alike"),
        pytest.param("a / b", True, False, id="a division"),
        pytest.param("a ** b", True, True, id="a power"),
        pytest.param("torch.exp(a)", True, True, id="a function"),
        pytest.param("a.view(2)", False, False, id="nothing computed"),
    ],
)
def test_which_parts_round_otherwise(code: str, *, inexact: bool, continuous: bool) -> None:
    part = ast.parse(code, mode="eval").body
    assert isinstance(part, (ast.BinOp, ast.Call))

    assert (is_inexact(part), is_continuous([part])) == (inexact, continuous)
