"""Who may see that a tensor has no graph."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.graph_obstacles import GraphObstacles
from codemods.facts.training.seen_tensors import SeenTensors

HEAD = """\
import torch
from torch import nn
class Head(nn.Module):
    def forward(self, x):
        return x * 2
class Writing(nn.Module):
    def forward(self, x):
        x += 1
        return x
class Asking(nn.Module):
    def forward(self, x):
        return x if x.requires_grad else -x
model, head, writing, asking = nn.Linear(4, 4), Head(), Writing(), Asking()
def scaled(y):
    y.mul_(2)
    return y
def double(y):
    return y * 2
"""


def why(text: str) -> str | None:
    """The code of the reason that is found for the statement of the call ``model(…)``."""
    found = script(HEAD + text)
    (call,) = (each for each in found.module.nodes(ast.Call) if ast.unparse(each.func) == "model")
    uses = found.whole.graph_uses
    seen = SeenTensors(found.flow, uses, GraphObstacles(found.flow, found.modules, uses))
    reason = seen.why_seen(found.module, found.module.statement(call), [call])
    return reason and reason.code


@pytest.mark.parametrize(
    "text",
    [
        "y = model(x)\nprint(y.mean())\n",
        "y = model(x)\nz = y * 2\nz += 1\n",
        "y = model(x)\nz = head(y)\n",
        "y = model(x)\nz = double(y)\n",
        "y = {}\ny['a'] = model(x)\nprint(y['a'].sum())\n",
        "head.goal = model(x)\nprint(head.goal.sum())\n",
        "def through(x):\n    return model(x)\nprint(through(x).sum())\n",
        "def loss(x):\n    y = model(x).sum()\n    y.backward()\n    return y\n",
    ],
)
def test_nobody(text: str) -> None:
    assert why(text) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("y = model(x)\ny += 1\n", "graph-escapes"),
        ("y = model(x)\ny[0] = 1\n", "graph-escapes"),
        ("y = model(x)\nfor row in y:\n    row.zero_()\n", "graph-escapes"),
        ("y = model(x)\nz = scaled(y)\n", "graph-escapes"),
        ("y = model(x)\nz = writing(y)\n", "graph-escapes"),
        ("y = model(x)\nz = nn.Sequential(writing)(y)\n", "graph-escapes"),
        ("y = model(x)\nhead.goal = y\n", "graph-escapes"),
        ("head.goal = model(x)\nhead.goal[0] = 1\n", "graph-escapes"),
        ("head.goal = model(x)\nhead.goal.mul_(2)\n", "graph-escapes"),
        ("head.goal = model(x)\nprint(head.goal.grad_fn)\n", "graph-escapes"),
        ("def through(x):\n    global y\n    y = model(x)\n", "graph-escapes"),
        ("def through(x):\n    return model(x)\ny = through(x)\ny += 1\n", "graph-escapes"),
        ("def through(x):\n    return model(x)\n", "graph-escapes"),
        ("y = model(x)\nassert y.requires_grad\n", "needs-gradients"),
        ("y = model(x)\n(y * 2).retain_grad()\n", "needs-gradients"),
        ("y = model(x)\nz = asking(y)\n", "needs-gradients"),
    ],
)
def test_somebody(text: str, code: str) -> None:
    assert why(text) == code
