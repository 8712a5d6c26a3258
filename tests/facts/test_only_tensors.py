"""What is surely a tensor, whatever made it."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.only_tensors import is_only_tensor

HEAD = """\
import torch
from torch import nn
def train(net, batches, choose, t):
    criterion = nn.CrossEntropyLoss()
    for x in batches:
        y, z, other = net(x), net(-x), net(2 * x)
        loss = criterion(y, t)
        y_before = y
        best = z.argmax(dim=-1)
        z2 = z
        either = best if choose else z
        criterion(other, t)
        other = net(x)
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("y", True),
        ("t", True),
        ("z", False),
        ("other", False),
        ("best", True),
        ("either", False),
        ("loss", False),
        ("y.argmax(1)", True),
        ("(y.argmax(1) == t).sum()", True),
        ("y.max(1)[1]", True),
        ("y.max(1)", False),
        ("y.max()", True),
        ("y.topk(2)", False),
        ("(y > 0).float().mean()", True),
        ("z.argmax(1)", False),
        ("z.argmax(axis=1)", False),
        ("z.argmax(dim=1)", True),
        ("z.argmax(dim='x')", False),
        ("z.argmax(dim=choose)", False),
        ("z.max(dim=1)", False),
        ("(z.argmax(dim=1) == unknown).sum()", True),
        ("(unknown == z.argmax(dim=1)).sum()", True),
        ("(z.argmax(dim=1) is unknown)", False),
        ("(z == unknown).sum()", False),
        ("(0 < z.argmax(dim=1) < 3)", False),
    ],
)
def test_what_is_surely_a_tensor(expression: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{HEAD}        print({expression})\n")
    shown = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "print")

    assert is_only_tensor(known.flow, known.module, shown.args[0]) is expected
