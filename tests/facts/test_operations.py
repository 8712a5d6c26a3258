"""Which of torch's operators a call runs, and which parts its result has."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.library.operations import Parts, operands, operation, parts
from codemods.library.operators import operator

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
x = torch.zeros(3, 3)
y = torch.zeros(3, 3)
pool = nn.MaxPool2d(2, return_indices=True)
class Own:
    def max(self, dim):
        return dim
own = Own()
"""


def call(code: str) -> tuple[Flow, ast.Call]:
    known = script(HEAD + code)
    return known.flow, known.module.tree.body[-1].value  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("x.add(y)", "add"),
        ("torch.add(x, y)", "add"),
        ("F.relu(x)", "relu"),
        ("unknown.add(y)", "add"),
        ("own.max(1)", None),
        ("np.add(x, y)", None),
        ("library(x)", None),
    ],
)
def test_the_operator_that_it_runs(code: str, name: str | None) -> None:
    assert operation(*call(code)) == (None if name is None else operator(name))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x.max()", Parts.ONE),
        ("x.max(1)", Parts.VALUES_FIRST),
        ("x.max(dim=1)", Parts.VALUES_FIRST),
        ("x.max(-1)", Parts.VALUES_FIRST),
        ("x.max(y)", Parts.ONE),
        ("x.max(unknown)", Parts.ONE_OR_VALUES_FIRST),
        ("torch.max(x, 1)", Parts.VALUES_FIRST),
        ("torch.max(x)", Parts.ONE),
        ("x.sort(1)", Parts.VALUES_FIRST),
        ("x.topk(2)", Parts.VALUES_FIRST),
        ("x.chunk(2)", Parts.ALIKE),
        ("x.sum(1)", Parts.ONE),
        ("x.unique()", Parts.ONE),
        ("x.unique(return_counts=True)", Parts.VALUES_FIRST),
        ("x.unique(return_counts=False)", Parts.ONE),
        ("pool(x)", Parts.VALUES_FIRST),
        ("nn.MaxPool2d(2)(x)", Parts.ONE),
        ("own.max(1)", Parts.ONE),
    ],
)
def test_the_parts_of_its_result(code: str, expected: Parts) -> None:
    assert parts(*call(code)) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x.add(y)", ["x", "y"]),
        ("torch.add(x, y)", ["x", "y"]),
        ("torch.add(input=x, other=y)", ["x", "y"]),
        ("x.sum()", ["x"]),
    ],
)
def test_what_it_is_given(code: str, expected: list[str]) -> None:
    assert [ast.unparse(each) for each in operands(*call(code))] == expected
