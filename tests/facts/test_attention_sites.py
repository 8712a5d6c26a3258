from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.attention_sites import attentions

START = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"


def lines(code: str) -> list[int]:
    found = script(START + code)
    return [each.softmax.lineno - 4 for each in attentions(found.flow, found.module)]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("y = F.softmax(q @ k, -1) @ v\n", id="one expression"),
        pytest.param("y = torch.einsum('ij,jd->id', [(q @ k).softmax(-1), v])\n", id="a factor in a list"),
        pytest.param("y = (q @ k if a else q).softmax(-1).float().matmul(v)\n", id="methods"),
        pytest.param("self.w = (q @ k).softmax(-1); y = self.w @ v\n", id="an attribute"),
        pytest.param("w = nn.Dropout(0.1)(nn.Softmax(-1)((q @ k).div(2))) * 2; y = w @ v\n", id="layers"),
        pytest.param("y = (w := (q @ k).softmax(-1)) @ v\n", id="a name within the expression"),
    ],
)
def test_a_softmax_between_two_products(code: str) -> None:
    assert lines(code) == [1]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("y = F.softmax(q @ k, -1)\n", id="no product after it"),
        pytest.param("y = F.softmax(e, -1) @ v\n", id="no product before it"),
        pytest.param("y = F.log_softmax(q @ k, -1) @ v\n", id="a logarithm"),
        pytest.param("y = F.softmax(q @ k, -1).argmax(-1); z = y @ v\n", id="only indices of it"),
        pytest.param(
            "def f(q):\n    return F.softmax(q @ q, -1) @ q if a else F.scaled_dot_product_attention(q, q, q)\n",
            id="the fused function in the same function",
        ),
    ],
)
def test_what_is_no_site(code: str) -> None:
    assert lines(code) == []


def test_the_fused_function_in_another_function_says_nothing() -> None:
    code = "def f(q):\n    return F.softmax(q @ q.mT, -1) @ q\n\ndef g(q):\n    return F.scaled_dot_product_attention(q, q, q)\n"

    assert lines(code) == [2]
    assert isinstance(script(START + code).module.tree, ast.Module)
