"""Whether a backward may keep a model's graph where another one before it has not."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.retained import retained_at_times

HEAD = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
other = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
for epoch in range(3):
    for x in data:
        one, two = model(x).sum(), other(x).sum()
"""


def kept(body: str) -> str | None:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    known = script(HEAD + lines)
    found = retained_at_times(known.flow, known.modules, known.iterations, known.models[0].value)
    return None if found is None else ast.unparse(found)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("one.backward()", id="never"),
        pytest.param("one.backward(retain_graph=False)\none.backward(None, False)", id="never, as is said"),
        pytest.param("one.backward(retain_graph=True)\none.backward()", id="the first one always does"),
        pytest.param("torch.autograd.grad(one, x, None, True)\none.backward()", id="the first one is a function"),
        pytest.param("two.backward(retain_graph=True)\none.backward()", id="of another model"),
        pytest.param(
            "if epoch:\n    one.backward(retain_graph=True)\nelse:\n    one.backward(retain_graph=True)",
            id="in both branches",
        ),
        pytest.param(
            "for each in one, one:\n    each.backward(retain_graph=True)\none.backward()", id="in a loop, and after it"
        ),
    ],
)
def test_it_is_never_kept_or_always_at_first(body: str) -> None:
    assert kept(body) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "if epoch:\n    one.backward(retain_graph=True)\none.backward()",
            "one.backward(retain_graph=True)",
            id="in a branch",
        ),
        pytest.param(
            "one.backward()\nmodel(x).sum().backward(retain_graph=True)",
            "model(x).sum().backward(retain_graph=True)",
            id="after another one",
        ),
        pytest.param("one.backward(retain_graph=epoch > 1)", "one.backward(retain_graph=epoch > 1)", id="by a test"),
        pytest.param("one.backward(**options)", "one.backward(**options)", id="it is not seen"),
        pytest.param(
            "if epoch:\n    torch.autograd.grad(one, x, retain_graph=True)\none.backward()",
            "torch.autograd.grad(one, x, retain_graph=True)",
            id="by a function in a branch",
        ),
        pytest.param(
            "one.backward()\n\ndef probe(x):\n    return torch.autograd.grad(model(x).sum(), x, retain_graph=True)",
            "torch.autograd.grad(model(x).sum(), x, retain_graph=True)",
            id="outside the iteration",
        ),
        pytest.param(
            "one.backward()\nloss.backward(retain_graph=True)", "loss.backward(retain_graph=True)", id="of anything"
        ),
    ],
)
def test_it_is_kept_after_it_was_not(body: str, expected: str) -> None:
    assert kept(body) == expected
