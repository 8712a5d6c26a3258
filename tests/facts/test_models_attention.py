from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.attention import Attention
from codemods.facts.models.attention_sites import attentions
from codemods.facts.reason import Reason

START = """\
import torch
import torch.nn.functional as F
from torch import nn

class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n, self.heads = n, 4
        self.first = nn.Dropout(0.1)
        self.keep = nn.Identity()
        self.spread = nn.Softmax(dim=1)
        self.mask = torch.tril(torch.ones(n, n))

    def forward(self, x, given):
        B, T, C = x.shape
        q, k, v = x.view(B, T, 3, self.heads, self.n).permute(2, 0, 3, 1, 4).unbind(0)
"""


def read(code: str) -> Attention | Reason:
    found = script(START + "".join(f"        {line}\n" for line in code.splitlines()))
    (site,) = attentions(found.flow, found.module)
    return site.attention


def attention(code: str) -> Attention:
    found = read(code)
    assert isinstance(found, Attention), found
    return found


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("/ self.n ** 0.5", []),
        ("* q.size(-1) ** -0.5", []),
        ("* self.n ** -0.25 / self.n ** 0.25", []),
        ("* q.size(-2) ** -0.5", ["q.size(-2) ** (-0.5)"]),
        ("/ v.size(-1) ** 0.5", ["v.size(-1) ** 0.5"]),
        ("* self.n ** 0.5", ["self.n ** 0.5"]),
        ("/ C ** 0.5", ["C ** 0.5"]),
        ("/ self.n ** 0.25 / C ** 0.25", ["self.n ** 0.25", "C ** 0.25"]),
        ("", ["1.0"]),
    ],
)
def test_scales_that_make_the_usual_one_are_none(scale: str, expected: list[str]) -> None:
    found = attention(f"y = (q @ k.mT {scale}).softmax(-1) @ v").scales

    assert [ast.unparse(each.node) for each in found] == expected


@pytest.mark.parametrize(
    ("mask", "is_causal"),
    [
        ("s.masked_fill(self.mask[:T, :T] == 0, -1e9)", True),
        ("s.masked_fill(self.mask == 0, float('-inf'))", True),
        ("torch.where(self.mask[:T, :T] == 1, s, -1e9)", True),
        ("s + torch.triu(torch.full((T, T), float('-inf')), 1)", True),
        ("s.masked_fill(self.mask[:T, :T] != 0, float('-inf'))", False),
        ("s.masked_fill(self.mask[:C, :C] == 0, float('-inf'))", False),
        ("s.masked_fill(given, float('-inf'))", False),
    ],
)
def test_a_triangle_of_as_many_keys_as_queries_is_causal(mask: str, is_causal: bool) -> None:  # noqa: FBT001 - expected
    assert attention(f"s = q @ k.mT\ns = {mask}\ny = s.softmax(-1) @ v").is_causal is is_causal


def test_lengths_that_are_not_known_are_not_equal() -> None:
    code = "k = torch.cat([given, k], 2)\ns = q @ k.mT\ns = s.masked_fill(self.mask[:T, :T] == 0, float('-inf'))\ny = s.softmax(-1) @ v"

    assert not attention(code).is_causal


def test_what_is_left_of_the_steps() -> None:
    found = attention("s = q @ k.mT\nw = self.keep(self.first(s.softmax(-1)))\ny = 2 * torch.matmul(w, v)")

    assert [each.lineno - 16 for each in found.gone] == [1, 2]
    assert ast.unparse(found.output) == "torch.matmul(w, v)"
    assert found.dropped is not None
    assert found.dropped.layer is not None
    assert found.runs_layers


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("w = self.first(self.first((q @ k.mT).softmax(-1)))\ny = w @ v", "other-attention"),
        ("w = F.dropout((q @ k.mT).softmax(-1), given)\ny = w @ v", "other-attention"),
        ("y = self.spread(q @ k.mT) @ v", "other-attention"),
        ("y = (q @ k.mT).float().softmax(-1) @ v", "other-attention"),
        ("w = (q @ k.mT).softmax(-1)\nif given:\n    y = w @ v", "weights-used"),
        ("s = q @ k.mT\ns = s.masked_fill(given, given)\ny = s.softmax(-1) @ v", "unknown-mask"),
        ("s = q @ k.mT\ns = s.masked_fill(given, -1e9)\ny = s.softmax(-1) @ v", "masked-rows"),
        ("y = (x[0] @ x[0].T).softmax(-1) @ x[0]", "nothing-to-gain"),
        ("y = v @ (q @ k.mT).softmax(-1)", "other-attention"),
    ],
)
def test_why_it_is_left(code: str, reason: str) -> None:
    found = read(code)

    assert isinstance(found, Reason)
    assert found.code == reason
