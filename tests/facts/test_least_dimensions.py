from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.least_dimensions import least_dimensions

START = """\
import numpy as np
import torch
from einops import repeat
from torch import nn
from torch.nn.utils.rnn import pad_sequence

kept_of_module = torch.ones(4, 4)

class Layer(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.register_buffer("triangle", torch.tril(torch.ones(length, length)))
        self.register_buffer("row", torch.tensor([True, False]))
        self.bias = nn.Parameter(torch.zeros(4, length, length))
        self.places = nn.Embedding(length, 4)
        self.drop = nn.Dropout(0.1)
        self.turned = torch.ones(2, 2)
        self.listed = [torch.ones(2, 2), torch.ones(2, 2)]

    def turn(self):
        self.turned = self.turned[0]

    def forward(self, x, rows, flag):
        B, T, C = x.shape
"""


def least(code: str, start: str = START) -> int:
    found = script(start + "".join(f"        {line}\n" for line in code.splitlines()))
    answer = next(each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")
    return least_dimensions(found.flow, found.module, answer)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("answer = rows", 0, id="nothing is known"),
        pytest.param("answer = rows == 0", 0, id="compared with a number"),
        pytest.param("answer = x < rows", 3, id="broadcast with what has three"),
        pytest.param("answer = ~(rows[:, None] & flag)", 2, id="a new dimension beside one"),
        pytest.param("answer = rows[:, None, None, :]", 4, id="two new ones"),
        pytest.param("answer = rows[..., :T, :T]", 2, id="cut at two sides"),
        pytest.param("answer = rows[None]", 1, id="a new one, perhaps alone"),
        pytest.param("answer = x[0, 1]", 1, id="items of items"),
        pytest.param("answer = x[rows]", 0, id="chosen by truth values, perhaps"),
        pytest.param("answer = x[:, rows]", 1, id="chosen of each"),
        pytest.param("answer = rows.unsqueeze(1)", 2, id="a new one behind another"),
        pytest.param("answer = rows.unsqueeze(-1)", 1, id="a new one at the end, perhaps alone"),
        pytest.param("answer = torch.unsqueeze(rows, -2)", 2, id="a new one before another"),
        pytest.param("answer = rows.unsqueeze(flag)", 1, id="a new one anywhere"),
        pytest.param("answer = rows.view(1, 1, T, T)", 4, id="laid out"),
        pytest.param("answer = rows.view(flag)", 0, id="laid out in a way that is not known"),
        pytest.param("answer = torch.zeros(*flag, T, T)", 2, id="sizes that are known in part"),
        pytest.param("answer = rows.tril()", 2, id="a part of a matrix"),
        pytest.param("answer = rows.transpose(-2, -1)", 2, id="turned"),
        pytest.param("answer = rows.transpose(0, -1)", 0, id="the first may be the last"),
        pytest.param("answer = rows.transpose(0, flag)", 1, id="turned round one of them"),
        pytest.param("answer = rows.mT", 2, id="a matrix that is turned"),
        pytest.param("answer = rows.T", 0, id="turned, whatever it has"),
        pytest.param("answer = x.data", 3, id="without its graph"),
        pytest.param("answer = x.bool().logical_not()", 3, id="element by element"),
        pytest.param("answer = torch.where(flag, x, 0.0)", 3, id="chosen element by element"),
        pytest.param("answer = torch.stack([x, x])", 4, id="stacked"),
        pytest.param("answer = torch.stack(rows)", 1, id="a stack of what is not known"),
        pytest.param("answer = torch.cat([rows, rows.tril()])", 0, id="joined with what is not known"),
        pytest.param("answer = rows.expand_as(x)", 3, id="as another"),
        pytest.param("answer = x.sum()", 0, id="an operator of which nothing is said"),
        pytest.param("answer = torch.full((T, T), 1.0)", 2, id="filled"),
        pytest.param("answer = torch.full(flag, 1.0)", 0, id="filled to sizes that are given"),
        pytest.param("answer = torch.zeros(size=(T, T))", 2, id="sizes by their name"),
        pytest.param("answer = torch.tensor([[1, 0], [1, 1]])", 2, id="lists in a list"),
        pytest.param("answer = torch.tensor([1, 0]).bool()", 1, id="a list"),
        pytest.param("answer = torch.tensor([True] * 5 + [False])[None]", 2, id="a list that is computed"),
        pytest.param("answer = torch.tensor(2 * 3)", 0, id="a number that is computed"),
        pytest.param("answer = torch.from_numpy(np.triu(np.ones((T, T)), k=1).astype('uint8'))", 2, id="of an array"),
        pytest.param("answer = np.ones((1, T, T)).astype('bool')", 3, id="an array"),
        pytest.param("answer = torch.eye(T)", 2, id="a unit matrix"),
        pytest.param("answer = pad_sequence(rows, batch_first=True) != 0", 2, id="padded"),
        pytest.param("answer = repeat(rows, 'j -> (b h) () j', b=B, h=4)", 3, id="repeated by a pattern"),
        pytest.param("answer = self.places(rows.unsqueeze(1))", 3, id="looked up"),
        pytest.param("answer = self.drop(x)", 3, id="a layer that keeps them"),
        pytest.param("answer = self.triangle[:T, :T] == 0", 2, id="a buffer"),
        pytest.param("answer = self.row", 1, id="a buffer that is a row"),
        pytest.param("answer = self.triangle[0]", 1, id="a row of a buffer"),
        pytest.param("answer = self.bias", 3, id="a parameter that is learnt"),
        pytest.param("answer = self.turned", 0, id="an attribute that loses one"),
        pytest.param("answer = self.listed[0]", 0, id="an item of a list"),
        pytest.param("answer = self.other", 0, id="an attribute that nothing gives"),
        pytest.param("answer = flag.mask", 0, id="an attribute of something else"),
        pytest.param("answer = kept_of_module", 2, id="a name of the module"),
        pytest.param("answer = x if flag else rows", 0, id="one of two"),
        pytest.param("answer = x if flag else None", 3, id="one, or nothing"),
        pytest.param("answer = flag or x", 0, id="the first that is true"),
        pytest.param("answer = x is rows", 0, id="a truth value"),
        pytest.param("answer = [each[:, None] for each in rows][0]", 0, id="a list that is made there"),
        pytest.param("answer = [x for x in rows][0]", 0, id="a name of a comprehension"),
    ],
)
def test_expressions(code: str, expected: int) -> None:
    assert least(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("rows = rows.unsqueeze(1)\nanswer = rows", 2, id="bound anew"),
        pytest.param("if flag:\n    rows = rows.unsqueeze(1)\nanswer = rows", 0, id="bound anew in one case"),
        pytest.param("if rows is not None:\n    rows = rows.unsqueeze(1)\nanswer = rows", 2, id="unless there is none"),
        pytest.param("if rows is None:\n    rows = x\nanswer = rows", 0, id="only where there is none"),
        pytest.param("if rows.dim() == 2:\n    rows = rows[:, None]\nanswer = rows", 0, id="others are as they were"),
        pytest.param("if rows.ndim < 2:\n    rows = rows[:, None]\nanswer = rows", 2, id="all others have more"),
        pytest.param("if not rows.dim() > 1:\n    raise ValueError\nanswer = rows", 2, id="all others are refused"),
        pytest.param("assert rows.dim() == 4\nanswer = rows", 4, id="asserted"),
        pytest.param("assert rows.dim() != 4\nanswer = rows", 0, id="asserted to be no such number"),
        pytest.param("assert rows is None or rows.dim() > 1\nanswer = rows", 2, id="asserted, if there is one"),
        pytest.param("assert flag and len(rows.shape) >= 3\nanswer = rows", 3, id="asserted beside something else"),
        pytest.param("assert flag or rows.dim() > 1\nanswer = rows", 0, id="asserted in one case"),
        pytest.param("N, L, S = rows.size()\nanswer = rows", 3, id="unpacked"),
        pytest.param("N, *L = rows.shape\nanswer = rows", 0, id="unpacked to as many as there are"),
        pytest.param("rows = x\nrows += flag\nanswer = rows", 3, id="added to in place"),
        pytest.param("rows = x\nfor each in flag:\n    rows = rows[0]\nanswer = rows", 0, id="fewer in each pass"),
        pytest.param("rows = x\nfor each in flag:\n    rows = rows[None]\nanswer = rows", 3, id="more in each pass"),
        pytest.param("one, rows = flag, x\nanswer = rows", 3, id="one of a tuple"),
        pytest.param("one, rows = flag\nanswer = rows", 0, id="one of what is not known"),
        pytest.param("*rows, one = x, x\nanswer = rows", 0, id="a list of the rest"),
    ],
)
def test_names(code: str, expected: int) -> None:
    assert least(code) == expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("", 0, id="nobody calls it"),
        pytest.param("Model()(x, x == 0)", 3, id="through two layers"),
        pytest.param("Model()(x, x[0, 0] == 0)", 1, id="a row"),
        pytest.param("Model()(x, None)\nModel()(x, x == 0)", 3, id="one, or none"),
        pytest.param("Model()(x, x == 0)\nModel()(x, x[0, 0])", 1, id="calls differ"),
        pytest.param("Model()(x)", 1 << 16, id="never any"),
        pytest.param("Model()(*x)", 0, id="arguments that cannot be told apart"),
        pytest.param("Model()(x, masks(x)[0])", 0, id="an item of a tuple"),
        pytest.param("one, other = masks(x)\nModel()(x, other)", 4, id="unpacked of what a function returns"),
        pytest.param("Model()(x, mask(x))", 4, id="what a function returns"),
        pytest.param("from library import run\nModel()(x, x)\nrun(Model().forward)", 0, id="it is handed out"),
    ],
)
def test_what_callers_give(calls: str, expected: int) -> None:
    code = """\
import torch
from torch import nn

def mask(x):
    return (x != 0).unsqueeze(1)

def masks(x):
    return x, (x != 0).unsqueeze(1)

class Inner(nn.Module):
    def forward(self, x, mask=None):
        answer = mask

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Inner() for _ in range(2)])

    def forward(self, x, mask=None):
        for layer in self.layers:
            layer(x, mask)

x = torch.randn(2, 3, 4)
"""
    found = script(code + calls + "\n")
    answer = next(each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert least_dimensions(found.flow, found.module, answer) == expected
