"""Losses of probabilities, with the sigmoids before them; what is left of them and why is tested with the rule."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.precision.logits import losses_of_probabilities

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
x = torch.randn(4, 8)
y = torch.ones(4, 8)
"""


def found(body: str) -> list[tuple[int, int, int, str]]:
    """Of each group: how many losses it has, makers and sigmoids, and why it is left."""
    groups = losses_of_probabilities(script(HEAD + body))
    return [
        (len(each.calls), len(each.makers), len(each.sigmoids), each.why_not.code if each.why_not else "")
        for each in groups
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("F.binary_cross_entropy(torch.sigmoid(x), y)", [(1, 1, 1, "")], id="a function"),
        pytest.param(
            "f = nn.BCELoss()\nf(torch.sigmoid(x), y)\nf(x.sigmoid(), y)", [(2, 1, 2, "")], id="of one criterion"
        ),
        pytest.param(
            "net = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())\nF.binary_cross_entropy(net(x), y)\n"
            "nn.BCELoss()(net(x), y)",
            [(2, 2, 1, "")],
            id="of one model",
        ),
        pytest.param(
            "F.binary_cross_entropy(x.sigmoid(), y)\nF.binary_cross_entropy(torch.sigmoid(x), y)",
            [(1, 1, 1, ""), (1, 1, 1, "")],
            id="of nothing that is shared",
        ),
        pytest.param("F.binary_cross_entropy(x, y)", [(1, 1, 0, "unknown-probabilities")], id="no sigmoid"),
        pytest.param("F.cross_entropy(x, y)", [], id="another loss"),
    ],
)
def test_which_losses_change_together(body: str, expected: list[tuple[int, int, int, str]]) -> None:
    assert found(body) == expected


def test_a_layer_that_nothing_else_calls_is_idle() -> None:
    (losses,) = losses_of_probabilities(script(HEAD + "act = nn.Sigmoid()\nF.binary_cross_entropy(act(x), y)\n"))

    assert [each.lineno for each in losses.idle] == [6]
    assert losses.first[1].lineno == 7
