from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.local_shapes import Shape, Shapes

START = """\
import torch
from einops import rearrange
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.heads = 4
        self.qkv = nn.Linear(dim, 3 * dim)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, other, flag):
        B, T, C = x.shape
"""


def shape(code: str) -> Shape | None:
    found = script(START + "".join(f"        {line}\n" for line in code.splitlines()))
    answer = next(each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")
    return Shapes(found.flow).of(found.module, answer)


LAID = "q = x.view(B, T, self.heads, -1)\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("answer = x", ("B", "T", "C"), id="unpacked"),
        pytest.param("answer = self.qkv(x)", ("B", "T", ""), id="a linear layer"),
        pytest.param("answer = self.drop(x)", ("B", "T", "C"), id="a layer that keeps sizes"),
        pytest.param(LAID + "answer = q.transpose(1, 2)", ("B", "self.heads", "T", ""), id="laid out and swapped"),
        pytest.param(LAID + "answer = q.permute(0, 2, 3, 1)", ("B", "self.heads", "", "T"), id="permuted"),
        pytest.param(LAID + "q = q * 2\nanswer = q", ("B", "T", "self.heads", ""), id="scaled"),
        pytest.param(LAID + "answer = q[0]", ("T", "self.heads", ""), id="an item"),
        pytest.param("q, k, v = x.split(C // 3, dim=2)\nanswer = k", ("B", "T", ""), id="a part"),
        pytest.param("q, k = x.view(B, T, 2, C).unbind(2)\nanswer = k", ("B", "T", "C"), id="unbound"),
        pytest.param("q, k = x[0], x\nanswer = q", ("T", "C"), id="one of a tuple"),
        pytest.param(
            "q, k = map(lambda t: rearrange(t, 'b n (h d) -> b h n d', h=4), x.chunk(2))\nanswer = k",
            ("",) * 4,
            id="by a pattern",
        ),
        pytest.param("answer = torch.arange(T) > 3", ("",), id="a range"),
        pytest.param("answer = other.reshape(B, 1, T)", ("B", "1", "T"), id="a size of 1"),
    ],
)
def test_sizes_that_the_code_says(code: str, expected: Shape) -> None:
    assert shape(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("answer = other", id="what is given"),
        pytest.param("answer = other.view(flag)", id="a size of all"),
        pytest.param("answer = x[:, 0]", id="a slice"),
        pytest.param("answer = x * other", id="perhaps broadcast"),
        pytest.param("if flag:\n    x = torch.cat([x, other], 1)\nanswer = x", id="another one in a branch"),
        pytest.param("x = flag(x)\nanswer = x", id="made by something unknown"),
        pytest.param("for each in other:\n    answer = x\n    x = x[0]", id="another one in the next pass"),
        pytest.param("answer = torch.cat([x, other], 1)", id="joined"),
    ],
)
def test_sizes_that_it_does_not(code: str) -> None:
    assert shape(code) is None


def test_a_size_whose_name_is_bound_twice_is_not_known() -> None:
    assert shape("n = 2\nn = n + 1\nanswer = other.view(B, n, 3)") == ("B", "", "3")
