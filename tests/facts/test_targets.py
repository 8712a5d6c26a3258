"""Which statements of training run models that nobody trains."""

from __future__ import annotations

import ast

import pytest
from probe import script

HEAD = """\
import torch
from torch import nn
teacher, student = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
"""
STEP = """\
    loss = (student(x) - goal).pow(2).sum()
    loss.backward()
    optimizer.step()
"""


def found(body: str) -> list[tuple[list[str], str]]:
    """The statements of each region, and the code of the reason why it is left."""
    return [
        ([ast.unparse(each) for each in region.statements], region.why_not.code if region.why_not else "")
        for region in script(HEAD + body).evaluations
        if region.is_target
    ]


@pytest.mark.parametrize(
    ("body", "regions"),
    [
        pytest.param("    goal = teacher(x)\n", [(["goal = teacher(x)"], "")], id="in a loop"),
        pytest.param(
            "    goal = teacher(x)\n    more = teacher(-x)\n    goal = goal + more\n",
            [(["goal = teacher(x)", "more = teacher(-x)"], "")],
            id="neighbours together",
        ),
        pytest.param(
            "    goal = teacher(x)\n    print(step)\n    more = teacher(-x)\n    goal = goal + more\n",
            [(["goal = teacher(x)"], ""), (["more = teacher(-x)"], "")],
            id="not with what stands between",
        ),
        pytest.param(
            "    goal = teacher(x)\n    unused = student(x).detach()\n",
            [(["goal = teacher(x)", "unused = student(x).detach()"], "")],
            id="with a neighbour whose graph nobody uses",
        ),
        pytest.param("    with torch.no_grad():\n        goal = teacher(x)\n", [], id="without gradients already"),
        pytest.param("    goal = student(x)\n", [], id="what is trained"),
        pytest.param("    goal = teacher(student(x) @ x)\n", [], id="of what is trained"),
        pytest.param(
            "    for goal in teacher(x):\n        pass\n",
            [(["for goal in teacher(x):\n    pass"], "not-editable")],
            id="no statement of its own",
        ),
    ],
)
def test_in_training(body: str, regions: list[tuple[list[str], str]]) -> None:
    assert found(f"for step, x in enumerate(torch.randn(3, 8, 4)):\n{body}{STEP}") == regions


def test_in_a_function_that_training_calls() -> None:
    body = "def soften(net, x):\n    y = net(x)\n    return y.softmax(1)\n"
    step = f"for x in torch.randn(3, 8, 4):\n    goal = soften(teacher, x)\n{STEP}"

    assert found(body + step) == [(["y = net(x)"], "")]
    assert found(body + step.replace("(student(x)", "(soften(student, x)")) == []


def test_behind_a_loop_that_trains() -> None:
    assert found(f"goal = torch.ones(2)\nfor x in torch.randn(3, 8, 4):\n{STEP}print(teacher(x))\n") == []
