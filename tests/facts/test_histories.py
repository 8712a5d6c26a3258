"""What training loops keep with a graph from one pass to the next."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.histories import histories

HEAD = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
from collections import deque
from seeing import Seen
total, losses, seen, last = 0, [], Seen(), deque(maxlen=3)
for x in torch.randn(3, 2, 4):
    loss = model(x).mean()
    loss.backward()
"""


def kept(text: str) -> list[tuple[str, str, str | None]]:
    """The name, what is to be detached, and the code of the reason against it."""
    found = histories(script(HEAD + text))
    return [(each.name, ast.unparse(each.tensor), each.why_not.code if each.why_not else None) for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("    total += loss", ("total", "loss", None), id="a sum"),
        pytest.param("    total = loss * 2 + total", ("total", "loss", None), id="the tensor of a product"),
        pytest.param("    total -= loss + loss", ("total", "loss + loss", None), id="a sum of tensors"),
        pytest.param("    losses.append(loss)", ("losses", "loss", None), id="a list"),
        pytest.param("    last.append(loss)", ("last", "loss", None), id="a queue"),
        pytest.param("    losses += [model(x)]", ("losses", "model(x)", None), id="the output of a model"),
        pytest.param("    seen.append(loss)", ("seen", "loss", "graph-escapes"), id="no list for certain"),
        pytest.param("    total += loss\n    total = 0", None, id="each pass forgets it"),
        pytest.param("    loss = loss.detach()\n    total += loss", None, id="it is detached"),
        pytest.param("    total += x.sum()", None, id="no model has computed it"),
        pytest.param("    losses += [1, loss]", None, id="a list of several"),
        pytest.param("    total += loss\ntotal.backward()", None, id="it is differentiated"),
        pytest.param("    total += loss\nprint(total)", ("total", "loss", "graph-shown"), id="it is printed"),
        pytest.param("    total += loss\nother(total)", ("total", "loss", "graph-escapes"), id="it is handed on"),
        pytest.param(
            "    if x.sum() > 0:\n        loss = some(x)\n    total += loss",
            ("total", "loss", "unknown-number"),
            id="it may be a number",
        ),
    ],
)
def test_what_is_kept(text: str, expected: tuple[str, str, str | None] | None) -> None:
    assert kept(text + "\n") == ([] if expected is None else [expected])
