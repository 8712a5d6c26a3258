"""Targets of a binary cross entropy that are integers."""

from __future__ import annotations

import ast

import pytest
import torch
from probe import script

from codemods.facts.whole_targets import whole_target

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

criterion = nn.BCELoss()
logits = nn.BCEWithLogitsLoss()
real = 1
"""


def target(code: str) -> str | None:
    """What fills the target of the last call."""
    made = script(HEAD + code)
    found = whole_target(made.flow, made.module.tree.body[-1].value)  # type: ignore[attr-defined]
    return None if found is None else ast.unparse(found)


@pytest.mark.parametrize(
    "code",
    [
        "criterion(p, torch.full((n,), real))\n",
        "y = torch.full((n,), real, device=device)\ny.fill_(0)\ncriterion(p, y)\n",
        "y = torch.full((n,), fill_value=0).cuda()\nlogits(p, target=y)\n",
        "y = torch.full((n,), 1)\nF.binary_cross_entropy(p, y)\n",
    ],
)
def test_it_is_filled_with_an_integer(code: str) -> None:
    assert (target(code) or "").startswith("torch.full((n,), ")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("criterion(p, torch.full((n,), 1.0))\n", id="floats"),
        pytest.param("criterion(p, torch.full((n,), load()))\n", id="a number that is not known"),
        pytest.param("criterion(p, torch.full((n,), real, dtype=torch.float))\n", id="its format is said"),
        pytest.param("criterion(p, torch.full((n,), real, **how))\n", id="its format may be said"),
        pytest.param("criterion(p, torch.full((n,), real).float())\n", id="it is cast"),
        pytest.param("y = torch.full((n,), real)\ny = y.float()\ncriterion(p, y)\n", id="it is cast below"),
        pytest.param("y = torch.full((n,), real)\nif n:\n    y = load()\ncriterion(p, y)\n", id="one of two"),
        pytest.param("real = 0.9 if n else 1\ncriterion(p, torch.full((n,), real))\n", id="one of two numbers"),
        pytest.param("nn.MSELoss()(p, torch.full((n,), real))\n", id="another loss"),
        pytest.param("load()(p, torch.full((n,), real))\n", id="a loss that is not known"),
        pytest.param("criterion(p)\n", id="no target"),
        pytest.param("criterion(p, torch.zeros(n))\n", id="zeros"),
    ],
)
def test_targets_that_may_be_floats(code: str) -> None:
    assert target(code) is None


@pytest.mark.parametrize("loss", [torch.nn.BCELoss(), torch.nn.BCEWithLogitsLoss()])
def test_a_binary_cross_entropy_takes_no_integers(loss: torch.nn.Module) -> None:
    with pytest.raises(RuntimeError):
        loss(torch.full((4,), 0.5), torch.full((4,), 1))
    loss(torch.full((4,), 0.5), torch.full((4,), 1.0))
