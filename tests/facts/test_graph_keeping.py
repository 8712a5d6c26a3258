"""Which statements of a loop may keep a graph, and of which tensor."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.collecting import collected
from codemods.facts.training.graph_keeping import KeptGraph

HEAD = """\
import torch
from torch import nn
model, total, seen = nn.Linear(4, 1), 0, object()
for x in torch.randn(3, 2, 4):
    loss = model(x).mean()
"""


def kept(statement: str) -> KeptGraph:
    """What the last statement of the loop keeps."""
    found = script(f"{HEAD}    {statement}\n")
    loop = found.module.tree.body[-1]
    assert isinstance(loop, ast.For)
    last = loop.body[-1]
    inner = last.body[0] if isinstance(last, ast.With) else last
    what = collected(inner, loop)
    assert what is not None
    return KeptGraph(found, loop, inner, what)


@pytest.mark.parametrize(
    ("statement", "carries"),
    [
        pytest.param("total += loss", True, id="a loss"),
        pytest.param("seen.total += loss", True, id="a loss in an object"),
        pytest.param("total += loss.item()", False, id="a number"),
        pytest.param("seen.losses.append(loss.detach())", False, id="no graph"),
    ],
)
def test_whether_a_graph_is_kept(statement: str, *, carries: bool) -> None:
    assert kept(statement).carries() is carries


@pytest.mark.parametrize(
    ("statement", "root", "written", "tensor"),
    [
        pytest.param("total += loss * x.size(0) / 2", "total", "total", "loss", id="the tensor of a product"),
        pytest.param("total += loss * loss", "total", "total", "loss * loss", id="a product of tensors"),
        pytest.param("total['a'].append(loss)", "total", "total['a']", "loss", id="an item"),
        pytest.param("seen.losses.append(loss)", "", "seen.losses", "loss", id="an attribute"),
    ],
)
def test_what_is_kept(statement: str, root: str, written: str, tensor: str) -> None:
    found = kept(statement)

    assert (found.root, found.written, ast.unparse(found.innermost())) == (root, written, tensor)


def test_gradients_are_off() -> None:
    assert kept("with torch.no_grad(): total += loss").is_without_gradients()
