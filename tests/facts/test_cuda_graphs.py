"""What stands against running a compiled model as CUDA graphs, by its code and its place."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.models.cuda_graphs import why_not_replayed

HEAD = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))

model = Net().cuda()
"""
STEP = "optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()\n"
LOOP = f"for x in data:\n    {STEP}"
SGD = "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(SGD + LOOP, None, id="one call, one backward, one step"),
        pytest.param(
            SGD + f"def step(x):\n    {STEP}\nfor x in data:\n    step(x)\n", None, id="a step that is a function"
        ),
        pytest.param(
            "optimizer = torch.optim.SGD(model.one.parameters(), 0.1)\n" + LOOP,
            ("gradients-added", 15),
            id="gradients of a part alone are dropped",
        ),
        pytest.param(
            "optimizer = torch.optim.SGD([{'params': model.parameters()}], 0.1)\n" + LOOP,
            ("gradients-added", 15),
            id="groups of parameters are not followed",
        ),
        pytest.param(
            SGD + LOOP.replace("zero_grad()", "zero_grad(**options)"), ("gradients-added", 15), id="unknown arguments"
        ),
        pytest.param(
            SGD + LOOP.replace("optimizer.zero_grad()", "for p in model.parameters():\n        p.grad.zero_()"),
            ("gradients-added", None),
            id="gradients that are zeroed by hand",
        ),
        pytest.param(
            SGD
            + "def closure():\n    optimizer.zero_grad()\n    loss = model(data).sum()\n    loss.backward()\n    return loss\n"
            + "for _ in range(9):\n    optimizer.step(closure)\n",
            ("gradients-added", None),
            id="a step that calls back",
        ),
        pytest.param(SGD + f"{LOOP}    print(model(x).sum())\n", ("called-again", 18), id="a call after the step"),
        pytest.param(
            SGD + LOOP.replace("model(x).sum()", "model(nn.utils.rnn.pad_sequence(x)).sum()"),
            ("dynamic-shapes", None),
            id="sequences of their own lengths",
        ),
    ],
)
def test_why_not(body: str, expected: tuple[str, int | None] | None) -> None:
    found = script(HEAD + body)
    (trained,) = found.trained_models

    reason = why_not_replayed(found, trained)

    line = reason.places[0].lines[0] if reason is not None and reason.places else None
    assert (None if reason is None else (reason.code, line)) == expected
