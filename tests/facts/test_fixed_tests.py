"""Is a condition the same each time that code runs?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.fixed_tests import FixedTests

CODE = """\
import argparse
import os
import random
import torch
from torch import nn
from config import DEEP

args = argparse.ArgumentParser().parse_args()
WIDE = 3
turn = 0

class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.made()
        self.count = 0
        self.late = False

    def made(self):
        self.names = ["a", "b"]

    @property
    def current(self):
        return self.count > 3

    def turn(self):
        self.late = True

    def forward(self, x, flag=False, other=None, *rest):
        self.count += 1
        n = self.n + 1
        size = x.size(0)
        inner, outer = 3, size
        steps = 0
        steps += 1
        given: int = 3
        for i, name in enumerate(self.names):
            pass
        for part in x:
            pass
        with open("x") as file:
            pass
        answer = {}
        return x

def spin():
    global turn
    turn = turn + 1

for epoch in range(3):
    net = Net(3)
    net(torch.ones(2), other=epoch)
"""


def is_fixed(text: str) -> bool:
    known = script(CODE.format(text))
    (answer,) = (each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")
    return FixedTests(known.flow).holds(answer.value)


@pytest.mark.parametrize(
    "text",
    [
        *("True", "lambda: x", "self", "args.deep", "DEEP", "WIDE", "self.n > 3", "not self.names", "self.training"),
        *("isinstance(x, list)", "hasattr(x, 'a')", "len(self.names) - 1", "torch.is_grad_enabled()", "x.is_cuda"),
        *("os.environ.get('DEEP')", "self.names[0].startswith('a')", "f'{self.n}'", "(self.n, 3)", "i == self.n"),
        *("name", "flag", "flag is None", "n", "inner", "steps", "given", "x.dim() == 4", "[k for k in self.names]"),
        *("any(k for k in self.names if k)", "self.n if WIDE else 3", "{'a': self.n}['a']", "(m := self.n)"),
    ],
)
def test_fixed(text: str) -> None:
    assert is_fixed(text)


@pytest.mark.parametrize(
    "text",
    [
        *("x", "x.sum() > 0", "size", "outer", "self.count > 3", "self.late", "self.current", "random.random() < 0.5"),
        *("torch.rand(1) > 0.5", "epoch > 3", "turn", "other", "other is None", "part", "file", "len(x)", "rest"),
        *("self.turn()", "make()(x)", "any(k for k in self.names if x)", "[k for k in x]", "flag or size > 3"),
        *("x.names.index(3)", "await x"),
    ],
)
def test_not_fixed(text: str) -> None:
    assert not is_fixed(text)
