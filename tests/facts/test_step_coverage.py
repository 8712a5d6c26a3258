"""Whether each parameter that is zeroed gets a gradient before the next step."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.reason import HERE
from codemods.facts.training.step_coverage import MISSES, why_not_alike

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """\
for x in data:
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""


def why(body: str, head: str = HEAD) -> tuple[str, str] | None:
    """The reason's code and text for the first call of ``zero_grad``."""
    known = script(head + body)
    for call in known.module.nodes(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "zero_grad":
            reason = why_not_alike(known, call, known.flow.values(call.func.value))
            return None if reason is None else (reason.code, reason.text.removeprefix(f"{MISSES}: "))
    raise AssertionError(body)


def test_each_parameter_gets_a_gradient_in_each_iteration() -> None:
    assert why(LOOP) is None


UNSEEN = "no loss is seen that surely depends on the whole model before each step"
MISSED = {
    "a backward that is passed over": (LOOP.replace("    loss.b", "    if x.any():\n        loss.b"), UNSEEN),
    "a loss of something else": (LOOP.replace("model(x).sum()", "x.sum()"), UNSEEN),
    "a model that runs without gradients": (
        LOOP.replace(
            "    loss = model(x).sum()", "    with torch.no_grad():\n        y = model(x)\n    loss = y.sum()"
        ),
        UNSEEN,
    ),
    "a step before the backward": (LOOP.replace("    loss = ", "    optimizer.step()\n    loss = "), UNSEEN),
    "two optimizers": (
        "other = torch.optim.SGD(model.parameters())\n" + LOOP,
        f"another optimizer may update them, too ({HERE})",
    ),
    "parameters that are added": (
        "optimizer.add_param_group({'params': head.parameters()})\n" + LOOP,
        f"parameters are added later ({HERE})",
    ),
    "parameters that are frozen": (
        "model.requires_grad_(False)\n" + LOOP,
        f"parameters are frozen or unfrozen ({HERE})",
    ),
}


@pytest.mark.parametrize(("body", "because"), MISSED.values(), ids=MISSED)
def test_a_gradient_may_be_missed_with(body: str, because: str) -> None:
    assert why(body) == ("gradients-may-miss", because)


def test_the_parameters_have_to_be_known() -> None:
    head = HEAD.replace("model.parameters()", "chosen")

    assert why(LOOP, head) == ("gradients-may-miss", "its parameters are not known")


def test_a_zeroing_that_no_iteration_holds() -> None:
    assert why("optimizer.zero_grad()\n" + LOOP.replace("    optimizer.zero_grad()\n", "")) == (
        "unseen-step",
        "it is not part of a training iteration that can be seen",
    )


def test_who_looks_at_gradients_is_said_first() -> None:
    found = why(LOOP + "print(model.weight.grad)\n")

    assert found == ("gradients-read", f"a gradient is read outside the training iteration ({HERE})")
