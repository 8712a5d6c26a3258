"""Which numbers a loop reads from the device in each pass, of which only few passes have a use."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.readings import reading
from codemods.facts.training.seldom_uses import seldom_uses
from codemods.facts.training.step_loops import step_loop

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
criterion = nn.CrossEntropyLoss()
shift = torch.tensor(0.5, requires_grad=True, device="cuda")
optimizer = torch.optim.SGD([*model.parameters(), shift], lr=0.1)
def halve(tensor):
    tensor.mul_(0.5)
def train(batches):
    shown = 0
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = criterion(model(x.cuda()) + shift, y.cuda())
        total = loss + 1
"""


def sunk(inside: str, after: str = "") -> list[str]:
    """The statements that may stand further down, each with what it may stand above."""
    body = "".join(f"        {each}\n" for each in inside.splitlines())
    known = script(f"{HEAD}{body}{after}train(nobody())\n")
    flow, module = known.flow, known.module
    (loop,) = (each for each in module.nodes(ast.For) if "enumerate" in ast.unparse(each.iter))
    calls = (each for each in module.nodes(ast.Call) if step_loop(flow, module, each) is loop)
    found = [one for each in calls if (one := reading(flow, module, each)) is not None]
    return [f"{ast.unparse(each.statement)} | {ast.unparse(each.anchor)}" for each in seldom_uses(flow, loop, found)]


@pytest.mark.parametrize(
    ("inside", "above"),
    [
        pytest.param("last = loss.item()\nif i % 9 == 0:\n    print(last)", "print(last)", id="a print"),
        pytest.param("last = float(loss)\nif i % 9 == 0:\n    print(last)", "print(last)", id="by float()"),
        pytest.param("last = loss.data.item()\nif i % 9 == 0:\n    print(last)", "print(last)", id="of its data"),
        pytest.param(
            "last = loss.item()\nloss.backward()\noptimizer.step()\nif i % 9 == 0:\n    print(i)\n    print(last)",
            "print(last)",
            id="below the step, with something before it",
        ),
        pytest.param(
            "last = {'loss': loss.item(), 'total': round(total.item(), 3)}\nif i % 9 == 0:\n    print(last)",
            "print(last)",
            id="several in a dictionary",
        ),
        pytest.param(
            "last = loss.item()\nif x.is_cuda:\n    if i % 9 == 0:\n        print(last)",
            "print(last)",
            id="under two conditions",
        ),
        pytest.param(
            "last = loss.item()\nif i % 9 == 0:\n    for _ in x:\n        print(last)",
            "for _ in x:\n    print(last)",
            id="in a loop of its own",
        ),
        pytest.param(
            "last = loss.item()\nif i == len(batches) - 1:\n    print(last)", "print(last)", id="in the last pass"
        ),
    ],
)
def test_it_may_stand_where_it_is_used(inside: str, above: str) -> None:
    (found,) = sunk(inside)

    assert found.split(" | ")[1] == above


@pytest.mark.parametrize(
    ("inside", "after"),
    [
        pytest.param("last = loss.item()\nprint(last)", "", id="each pass uses it"),
        pytest.param("last = loss.item()\nif i % 9 == 0:\n    print(last)", "    return last\n", id="it is returned"),
        pytest.param("last = loss.item()", "    return last\n", id="it is used after the loop alone"),
        pytest.param(
            "last = loss.item()\nif i % 9 == 0:\n    print(last)\nif i % 8 == 0:\n    print(last)",
            "",
            id="in two places",
        ),
        pytest.param("last = loss.item()\nloss *= 2\nif i % 9 == 0:\n    print(last)", "", id="the tensor is changed"),
        pytest.param(
            "kept = loss\nlast = loss.item()\nkept += 1\nif i % 9 == 0:\n    print(last)",
            "",
            id="the tensor is changed by another name",
        ),
        pytest.param(
            "kept = loss.detach()\nlast = loss.item()\nkept.mul_(2)\nif i % 9 == 0:\n    print(last)",
            "",
            id="the tensor is changed by what has its memory",
        ),
        pytest.param(
            "last = loss.item()\nloss = total\nif i % 9 == 0:\n    print(last)", "", id="the name is bound anew"
        ),
        pytest.param(
            "last = loss.item()\nhalve(loss)\nif i % 9 == 0:\n    print(last)", "", id="a function is given the tensor"
        ),
        pytest.param(
            "last = loss.item()\ntorch.distributed.all_reduce(loss.data)\nif i % 9 == 0:\n    print(last)",
            "",
            id="other processes write into the tensor",
        ),
        pytest.param(
            "last = shift.item()\nloss.backward()\noptimizer.step()\nif i % 9 == 0:\n    print(last)",
            "",
            id="the step changes it",
        ),
        pytest.param(
            "last = model.bias.sum().item()\noptimizer.step()\nif i % 9 == 0:\n    print(last)", "", id="of a parameter"
        ),
        pytest.param("last = loss.item(), next(x)\nif i % 9 == 0:\n    print(last)", "", id="something else is done"),
        pytest.param("if i % 9 == 0:\n    print(shown)\nshown = loss.item()", "", id="the next pass uses it"),
        pytest.param(
            "last = loss.item()\nif i % 9 == 0:\n    print(locals())\n    print(last)", "", id="all names are looked at"
        ),
        pytest.param(
            "last = loss.item()\ndef show():\n    print(last)\nif i % 9 == 0:\n    print(last)",
            "",
            id="a function within reads it",
        ),
    ],
)
def test_it_stays_where_it_is(inside: str, after: str) -> None:
    assert sunk(inside, after) == []
