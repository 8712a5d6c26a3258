"""What in a model changes a whole number that it keeps, or the length of a list."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.counting import counted, lengthened

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.size = size
        self.at = 0
        self.share = 0.5
        self.table = torch.zeros(3)
        self.log, self.kept = [], []
        self.layers = nn.ModuleList()
    def forward(self, x):
        {line}
        return x
model = Net()
model.kept.clear()
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("self.at += 1", "self.at", id="in place"),
        pytest.param("self.at = self.at + 1", "self.at", id="by itself"),
        pytest.param("self.at = (self.at + len(x)) % self.size", "self.at", id="in a ring"),
        pytest.param("self.at = min(self.at + x.shape[0], 64)", "self.at", id="up to a limit"),
        pytest.param("self.at = x.size(0)", None, id="from something else"),
        pytest.param("self.at = self.at + x.mean()", None, id="plus a tensor"),
        pytest.param("self.at = self.at / 2", None, id="a fraction of itself"),
        pytest.param("self.share = self.share * 2", None, id="a fraction"),
        pytest.param("self.table = self.table + 1", None, id="a tensor"),
        pytest.param("self.table += 1", None, id="a tensor in place"),
        pytest.param("x.at = self.at + 1", None, id="of something else"),
    ],
)
def test_what_is_counted(line: str, expected: str | None) -> None:
    known = script(HEAD.format(line=line))
    forward = next(each for each in known.module.nodes(ast.FunctionDef) if each.name == "forward")
    found = counted(known.flow, forward.body[0])

    assert (None if found is None else ast.unparse(found)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("a = self.at + 1; b = a; c = b; d = c; e = d; self.at = e", "self.at", id="by many names"),
        pytest.param(
            "n = len(x)\n        while n < self.at: n = n + self.at\n        self.at = n",
            "self.at",
            id="by a name that is computed from itself",
        ),
        pytest.param(
            "n = len(x)\n        while n < self.at: n = (n + self.at) / 2\n        self.at = n", None, id="a fraction"
        ),
    ],
)
def test_what_is_counted_by_names(lines: str, expected: str | None) -> None:
    known = script(HEAD.format(line=lines))
    forward = next(each for each in known.module.nodes(ast.FunctionDef) if each.name == "forward")
    found = counted(known.flow, forward.body[-2])

    assert (None if found is None else ast.unparse(found)) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("self.log.append(x)", "self.log", id="by one"),
        pytest.param("self.log.extend([x, x])", "self.log", id="by several"),
        pytest.param("self.log.index(x)", None, id="it is read"),
        pytest.param("self.kept.append(x)", None, id="it is emptied elsewhere"),
        pytest.param("self.layers.append(x)", None, id="layers"),
        pytest.param("x.log.append(x)", None, id="of something else"),
    ],
)
def test_what_grows(line: str, expected: str | None) -> None:
    known = script(HEAD.format(line=line))
    forward = next(each for each in known.module.nodes(ast.FunctionDef) if each.name == "forward")
    (call,) = [each for each in ast.walk(forward) if isinstance(each, ast.Call)]
    found = lengthened(known.flow, call)

    assert (None if found is None else ast.unparse(found)) == expected


def test_a_list_that_a_method_makes_anew_does_not_grow() -> None:
    known = script(HEAD.format(line="self.log = []\n        self.log.append(x)"))
    (call,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "self.log.append(x)"]

    assert lengthened(known.flow, call) is None
