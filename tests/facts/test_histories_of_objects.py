"""What training loops keep with a graph in objects, and what is differentiated there later."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.histories import histories

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 1)
class Seen:
    def __init__(self):
        self.losses, self.total, self.last = [], 0, None
    def add(self, loss, n=1):
        self.total = self.total + loss * n
    def replace(self, loss):
        self.last = loss
    def summed(self):
        found = sum(self.losses)
        return found
seen = Seen()
for x in torch.randn(3, 2, 4):
    loss = model(x).mean()
    loss.backward()
"""


def kept(text: str) -> list[tuple[str, str]]:
    """What keeps a graph, and what is to be detached; each is left, as other code may train on it."""
    found = list(histories(script(HEAD + text)))
    assert all(each.why_not is not None and each.why_not.code == "graph-escapes" for each in found)
    return [(each.name, ast.unparse(each.tensor)) for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("    seen.losses.append(loss)", ("seen.losses", "loss"), id="a list"),
        pytest.param("    seen.total += loss * 2", ("seen.total", "loss"), id="a sum"),
        pytest.param("    seen.add(loss)", ("seen.add", "loss"), id="a method adds it up"),
        pytest.param("    seen.add(n=2, loss=loss)", ("seen.add", "loss"), id="a method that is given it by name"),
        pytest.param("    seen.add(loss.item())", None, id="a method is given a number"),
        pytest.param("    seen.replace(loss)", None, id="a method keeps the last one alone"),
        pytest.param("    with torch.no_grad(): seen.add(loss)", None, id="gradients are off"),
        pytest.param("    seen = Seen()\n    seen.add(loss)", None, id="each pass has an object of its own"),
        pytest.param("    seen.losses.append(loss)\nseen.summed().backward()", None, id="a method returns it"),
        pytest.param("    seen.add(loss)\nseen.total.backward()", None, id="what a method adds up is differentiated"),
        pytest.param(
            "    seen.losses.append(loss)\nfor each in seen.losses:\n    each.backward()", None, id="item by item"
        ),
        pytest.param(
            "    seen.losses.append(loss)\nseen.end = sum(seen.losses)\nseen.end.backward()", None, id="by a new name"
        ),
    ],
)
def test_what_is_kept(text: str, expected: tuple[str, str] | None) -> None:
    assert kept(text + "\n") == ([] if expected is None else [expected])
