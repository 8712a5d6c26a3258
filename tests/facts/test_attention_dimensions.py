from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.attention import Attention
from codemods.facts.models.attention_dimensions import dimensions
from codemods.facts.models.attention_sites import attentions

START = """\
import torch

def attend(q, k, v):
    {}

x = torch.randn(2, 4, 8, 16)
y = torch.randn(2, 8, 16)
"""
PRODUCTS = "return (q @ k.mT).softmax(-1) @ v"


@pytest.mark.parametrize(
    ("body", "call", "count"),
    [
        pytest.param(PRODUCTS, "attend(x, x, x)", 4, id="four of each"),
        pytest.param(PRODUCTS, "attend(x, print, print)", 4, id="four of one, with which the others are broadcast"),
        pytest.param(PRODUCTS, "attend(y, y, y)", 3, id="three of each"),
        pytest.param(PRODUCTS, "attend(y, y, print)", None, id="three of two, and perhaps two of the values"),
        pytest.param(PRODUCTS, "attend(x, y, y)", None, id="not as many of each"),
        pytest.param(
            "return torch.bmm(torch.bmm(q, k.mT).softmax(-1), v)", "", 3, id="operators that take three and no others"
        ),
        pytest.param("return torch.bmm(q, k.mT).softmax(-1) @ v", "", None, id="one of them takes others, too"),
        pytest.param(
            "w = torch.einsum('bhid,bhjd->bhij', q, k).softmax(-1)\n    return torch.einsum('bhij,bhjd->bhid', w, v)",
            "",
            4,
            id="letters of einsum",
        ),
        pytest.param(
            "w = torch.einsum('...id,...jd->...ij', q, k).softmax(-1)\n    return torch.einsum('...ij,...jd->...id', w, v)",
            "",
            None,
            id="an ellipsis of einsum",
        ),
    ],
)
def test_how_many_dimensions_the_operands_have(body: str, call: str, count: int | None) -> None:
    found = script(START.format(body) + call + "\n")
    (site,) = attentions(found.flow, found.module)

    assert isinstance(site.attention, Attention)
    assert dimensions(found.flow, site.attention) == count
