"""Of which models an optimizer is given the parameters."""

from __future__ import annotations

import pytest
from probe import script, shown

from codemods.facts.models.optimized import given_parameters, models_given
from codemods.facts.reason import Reason

HEAD = """\
import torch
from torch import nn, optim
first, second = nn.Linear(1, 2), nn.Conv2d(1, 2, 3)
"""


def test_parameters_are_given_by_position_or_by_name() -> None:
    text = HEAD + "optim.SGD(first.parameters())\noptim.SGD(lr=1, params=first.parameters())\n"

    given = [given_parameters(each.call) for each in script(text).optimizers]

    assert all(each is not None for each in given)


@pytest.mark.parametrize(
    ("parameters", "models"),
    [
        ("first.parameters()", {"torch.nn.Linear()"}),
        ("[p for n, p in first.named_parameters() if p.requires_grad]", {"torch.nn.Linear()"}),
        ("list(first.parameters()) + list(second.parameters())", {"torch.nn.Linear()", "torch.nn.Conv2d()"}),
        (
            "[{'params': first.parameters(), 'lr': 1}, {'params': second.weight}]",
            {"torch.nn.Linear()", "torch.nn.Conv2d()"},
        ),
        ("[torch.zeros(3, requires_grad=True)]", None),
        ("[*first.parameters(), *somewhere.parameters()]", None),
    ],
)
def test_the_models_whose_parameters_are_given(parameters: str, models: set[str] | None) -> None:
    found = script(f"{HEAD}optim.SGD({parameters}, lr=0.1)\n")
    (made,) = found.optimizers
    given = given_parameters(made.call)
    assert given is not None

    of = models_given(found.flow, found.flow.values(given))

    assert (None if isinstance(of, Reason) else {shown(each) for each in of}) == models
