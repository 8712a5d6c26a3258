"""Where what a model returns is kept until after its next call."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.outputs import kept_outputs

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))

class Distance(nn.Module):
    def forward(self, x, y):
        self.seen = {seen}
        return (x - y).square().mean()

model = Net().cuda()
criterion, distance = nn.MSELoss(), Distance()
best, total, outputs, losses = 0.0, 0, [], []
"""
BODY = HEAD.count("\n")


def kept(body: str, *, seen: str = "None") -> int | None:
    """The line, from the first one of the body on, where an output is kept."""
    found = script(HEAD.replace("{seen}", seen) + body)
    (trained,) = found.trained_models
    place = kept_outputs(found, trained.model.value)
    return None if place is None else place[1].lineno - BODY  # type: ignore[attr-defined]


def loop(*lines: str, before: str = "", after: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{before}for x in torch.randn(9, 4, 4).cuda():\n{body}{after}"


FINE = {
    "a loss of it, which is summed up": loop(
        "y = model(x)", "loss = criterion(y, x)", "loss.backward()", "total += loss"
    ),
    "a loss of it, which is collected": loop(
        "loss = F.mse_loss(model(x), x)", "loss.backward()", "losses.append(loss)"
    ),
    "a copy": loop("y = model(x)", "y.sum().backward()", "outputs.append(y.detach().clone())"),
    "what lies on the host": loop("y = model(x)", "y.sum().backward()", "outputs.append(y.detach().cpu())"),
    "what is computed of it": loop(
        "y = model(x)", "y.sum().backward()", "outputs.append(y.argmax(1))", "outputs.append(y * 2)"
    ),
    "its size": loop("y = model(x)", "y.sum().backward()", "outputs.append(y.shape)"),
    "a view that is read at once": loop("y = model(x)", "z = y.view(-1)[:2]", "z.sum().backward()"),
    "a name that both branches give it": loop(
        "if total:", "    y = model(x)", "else:", "    y = model(x) * 2", "y.sum().backward()"
    ),
    "a block in which it is computed": loop("with torch.autocast('cuda'):", "    y = model(x)", "y.sum().backward()"),
    "the last one, after the loop": loop("y = model(x)", "y.sum().backward()", after="print(y)\n"),
    "a number of it": loop("y = model(x)", "y.sum().backward()", "best = max(best, y.sum().item())"),
    "what a function does with it": loop(
        "show(model(x)).sum().backward()", before="def show(y):\n    print(y)\n    return y\n"
    ),
    "a loss of the project": loop("distance(model(x), x).backward()"),
    "a name of another function": loop(
        "y = model(x)",
        "y.sum().backward()",
        after="def test():\n    for x in torch.randn(9, 4):\n        y = model(x)\n        print(y.argmax(1))\n",
    ),
    "a comprehension over it": loop("y = [each.sum() for each in model(x)]", "sum(y).backward()"),
}
KEPT = {
    "a list": (loop("y = model(x)", "y.sum().backward()", "outputs.append(y)"), 4),
    "a list, detached": (loop("y = model(x)", "y.sum().backward()", "outputs.append(y.detach())"), 4),
    "a list that is extended": (loop("y = model(x)", "y.sum().backward()", "outputs += [y]"), 4),
    "an attribute": (loop("y = model(x)", "y.sum().backward()", "criterion.last = y[:2]"), 4),
    "an item": (loop("y = model(x)", "y.sum().backward()", "outputs[0] = y.view(-1)"), 4),
    "the next pass": (loop("y = model(x)", "(y - last).sum().backward()", "last = y", before="last = 0\n"), 5),
    "the next input": (
        loop("state = model(state)", "state.sum().backward()", before="state = torch.randn(4, 4).cuda()\n"),
        3,
    ),
    "the best": (
        loop("y = model(x)", "y.sum().backward()", "if y.sum() > best:", "    chosen = y", after="print(chosen)\n"),
        5,
    ),
    "another run before it is read": (
        loop("y = model(x)", "y.sum().backward()", after="z = model(x)\nprint(y)\n"),
        2,
    ),
    "a function that runs the model before it is read": (
        loop(
            "y = model(x)",
            "y.sum().backward()",
            "test()",
            "print(y)",
            before="def test():\n    print(model(x).sum())\n",
        ),
        4,
    ),
    "code that is not seen": (loop("y = model(x)", "y.sum().backward()", "visualize(y)"), 4),
    "a meter that is not seen": (
        loop(
            "y = model(x)", "y.sum().backward()", "meter.update(y)", before="from lib import Meter\nmeter = Meter()\n"
        ),
        6,
    ),
    "what a function returns": (
        loop(
            "outputs.append(step(x))", before="def step(x):\n    y = model(x)\n    y.sum().backward()\n    return y\n"
        ),
        6,
    ),
    "a comprehension": (
        loop(
            "model(x).sum().backward()", after="with torch.no_grad():\n    ys = [model(x) for x in torch.randn(9, 4)]\n"
        ),
        4,
    ),
    "a generator": (
        loop("model(x).sum().backward()", after="def ys(data):\n    for x in data:\n        yield model(x)\n"),
        5,
    ),
    "a global name": (
        loop("step(x)", before="def step(x):\n    global y\n    y = model(x)\n    y.sum().backward()\n"),
        3,
    ),
    "numbers that are collected": (loop("y = model(x)", "y.backward()", "losses.append(y.item())"), 4),
}


@pytest.mark.parametrize("body", FINE.values(), ids=FINE)
def test_nothing_is_kept_of(body: str) -> None:
    assert kept(body) is None


@pytest.mark.parametrize(("body", "line"), KEPT.values(), ids=KEPT)
def test_it_is_kept_for(body: str, line: int) -> None:
    assert kept(body) == line


def test_it_is_kept_by_a_loss_of_the_project() -> None:
    assert kept(loop("distance(model(x), x).backward()"), seen="x") == 15 - BODY
