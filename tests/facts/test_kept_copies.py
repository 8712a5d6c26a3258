"""Which copies to the host are only kept in lists, or counted."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.kept_copies import kept_copies

CODE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
def f(data):
    kept, hits = [], 0
    for i, (x, y) in enumerate(data):
        there = y.cuda()
        out = model(x.cuda()).argmax(1)
{inside}
    return kept, hits
f([(torch.randn(4, 4), torch.zeros(4))] * 9)
"""


def found(inside: str) -> list[tuple[str, str]]:
    """What is copied, and what is done with it."""
    lines = "".join(f"        {each}\n" for each in inside.splitlines())
    known = script(CODE.format(inside=lines))
    return [(ast.unparse(call), use.text) for call, use in kept_copies(known.flow, known.module)]


@pytest.mark.parametrize(
    ("inside", "copied"),
    [
        pytest.param("kept += out.tolist()", "out.tolist()", id="added"),
        pytest.param("kept.extend(out.detach().cpu().tolist())", "out.detach().cpu().tolist()", id="by extend()"),
        pytest.param("kept += out.data.cpu().numpy().tolist()", "out.data.cpu().numpy().tolist()", id="by an array"),
    ],
)
def test_lists_that_are_kept(inside: str, copied: str) -> None:
    assert found(inside) == [(copied, "its items are kept in a list in each iteration")]


@pytest.mark.parametrize(
    ("inside", "copied"),
    [
        pytest.param("hits += out.cpu().eq(y).sum()", "out.cpu()", id="by a method"),
        pytest.param("hits += (out.cpu() == y).sum().item()", "out.cpu()", id="by an operator, and its number"),
        pytest.param("hits = hits + (out.data.to('cpu') == y).sum()", "out.data.to('cpu')", id="written out"),
    ],
)
def test_counts_on_the_host(inside: str, copied: str) -> None:
    assert found(inside) == [(copied, "it is compared and counted on the host in each iteration")]


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("kept += y.tolist()", id="a list of what was on the host"),
        pytest.param("if i % 100 == 0:\n    kept += out.tolist()", id="at times"),
        pytest.param("if len(y) > 3:\n    kept += out.tolist()", id="under a condition"),
        pytest.param("kept += out.tolist()[:2]", id="a part of a list"),
        pytest.param("kept = out.tolist()", id="nothing is added"),
        pytest.param("hits += out.eq(there).sum()", id="it is compared there"),
        pytest.param("hits += y.cpu().eq(y).sum()", id="what was on the host is compared"),
        pytest.param("hits += out.cpu().ne(y).sum(0)", id="something else is added"),
        pytest.param("hits += out.cpu().eq(y)", id="no sum"),
        pytest.param("hits = out.cpu().eq(y).sum()", id="no count"),
        pytest.param("hits += (out.cpu() > y).sum()", id="another comparison"),
    ],
)
def test_what_is_no_such_copy(inside: str) -> None:
    assert found(inside) == []
