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
        pytest.param("answer = x.mT", ("B", "C", "T"), id="turned"),
        pytest.param(LAID + "q = q * 2\nanswer = q", ("B", "T", "self.heads", ""), id="scaled"),
        pytest.param(LAID + "answer = q[0]", ("T", "self.heads", ""), id="an item"),
        pytest.param("q, k, v = x.split(C // 3, dim=2)\nanswer = k", ("B", "T", "C // 3"), id="a part"),
        pytest.param("q, k, v = x.split(C // 3, dim=2)\nanswer = v", ("B", "T", ""), id="the last part may be smaller"),
        pytest.param("q, *k = x.split(C // 3, dim=2)\nanswer = q", ("B", "T", ""), id="there may be one part alone"),
        pytest.param("q, k = x.split([C // 3, C], dim=2)\nanswer = q", ("B", "T", ""), id="parts of several sizes"),
        pytest.param("q, k = x.view(B, T, 2, C).unbind(2)\nanswer = k", ("B", "T", "C"), id="unbound"),
        pytest.param("answer = x[:, 0]", ("B", "C"), id="an item of each"),
        pytest.param("answer = x[:, :T, None]", ("B", "", "1", "C"), id="a slice and a new dimension"),
        pytest.param("x += other\nanswer = x", ("B", "T", "C"), id="added to in place"),
        pytest.param("answer = x + 1", ("B", "T", "C"), id="a number more"),
        pytest.param("answer = x + x[0]", ("",) * 3, id="broadcast"),
        pytest.param("answer = x[0] < x", ("",) * 3, id="compared with what has more"),
        pytest.param("answer = x[0] < other", None, id="compared with what is not known"),
        pytest.param("answer = x[0] == 0", ("T", "C"), id="compared with a number"),
        pytest.param("answer = torch.cat([x, x], 1)", ("",) * 3, id="joined"),
        pytest.param("answer = torch.stack([x, x])", ("",) * 4, id="stacked"),
        pytest.param("answer = x.unsqueeze(1)", ("",) * 4, id="a dimension more"),
        pytest.param("answer = torch.zeros(B, T)", ("B", "T"), id="filled"),
        pytest.param("answer = x.view((B, -1))", ("B", ""), id="sizes in a tuple"),
        pytest.param("q, k = x[0], x\nanswer = q", ("T", "C"), id="one of a tuple"),
        pytest.param(
            "q, k = map(lambda t: rearrange(t, 'b n (h d) -> b h n d', h=4), x.chunk(2))\nanswer = k",
            ("",) * 4,
            id="by a pattern",
        ),
        pytest.param(
            "answer = rearrange(other, 'b (h d) ... -> b h (...) d', h=4)",
            ("",) * 4,
            id="a pattern that joins the rest",
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
        pytest.param("answer = x * other", id="perhaps broadcast"),
        pytest.param("if flag:\n    x = torch.cat([x, other], 1)\nanswer = x", id="another one in a branch"),
        pytest.param("x = flag(x)\nanswer = x", id="made by something unknown"),
        pytest.param("for each in other:\n    answer = x\n    x = x[0]", id="another one in the next pass"),
        pytest.param("answer = torch.cat([x, other], 1)", id="joined with something unknown"),
        pytest.param("answer = rearrange(other, 'b ... c -> b c ...')", id="by a pattern that leaves the rest"),
        pytest.param("x @= other\nanswer = x", id="a product in place"),
        pytest.param("answer = x[flag]", id="an item by what may be a mask"),
        pytest.param("answer = x.squeeze(1)", id="a dimension goes where it is 1"),
    ],
)
def test_sizes_that_it_does_not(code: str) -> None:
    assert shape(code) is None


def test_a_size_whose_name_is_bound_twice_is_not_known() -> None:
    assert shape("n = 2\nn = n + 1\nanswer = other.view(B, n, 3)") == ("B", "", "3")


ASKED = """\
import torch
from torch import nn

def halves(x):
    return x[:1], x[1:]

def joined(x):
    return joined(x)

def widened(x, by):
    B, T, C = x.shape
    return x.view(B, T, by, -1)

def asked(x, more=None):
    answer = x
    return answer

"""


def given(code: str) -> Shape | None:
    found = script(ASKED + code)
    answer = next(each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")
    return Shapes(found.flow).of(found.module, answer)


@pytest.mark.parametrize(
    ("code", "count"),
    [
        pytest.param("asked(torch.randn(2, 3, 4))", 3, id="its only caller says it"),
        pytest.param("asked(widened(torch.randn(2, 3, 4), 2))", 4, id="a function of the project made it"),
        pytest.param("one, other = halves(torch.randn(2, 3))\nasked(other)", 2, id="one of several results"),
        pytest.param("asked(torch.randn(2, 3))\nasked(torch.randn(4, 3))", 2, id="callers agree"),
        pytest.param("asked(torch.randn(2, 3))\nasked(torch.randn(4, 3, 2))", None, id="callers do not agree"),
        pytest.param("asked(torch.randn(2, 3))\nprint(map(asked, [1]))", None, id="others may call it"),
        pytest.param("asked(*[torch.randn(2, 3)])", None, id="arguments that cannot be told apart"),
        pytest.param("asked(joined(torch.randn(2, 3)))", None, id="a result of itself"),
        pytest.param("", None, id="nobody calls it"),
    ],
)
def test_how_many_sizes_others_give(code: str, count: int | None) -> None:
    assert given(code) == (None if count is None else ("",) * count)
