"""Arrays of NumPy's by which tensors are indexed."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.array_indices import array_indices

HEAD = """\
import numpy as np
import torch
from torch import nn

net = nn.Linear(4, 2).cuda()
for x in torch.randn(10, 8, 4):
    y = net(x.cuda())
    order = np.random.permutation(8)
    y.mean().backward()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("a = y[order]", [("order", 1)], id="once"),
        pytest.param("a = y[order] + y[:, 0][order]", [("order", 2)], id="twice"),
        pytest.param("y[order, 0] = 1", [("order", 1)], id="with a number"),
        pytest.param("a = x[order]", [], id="of a tensor on the host"),
        pytest.param("a = y[x]", [], id="a tensor"),
        pytest.param("a = order[order]", [], id="of an array"),
    ],
)
def test_which_arrays_are_an_index(body: str, expected: list[tuple[str, int]]) -> None:
    found = array_indices(script(f"{HEAD}    {body}\n"))

    assert [(each.name.id, each.uses) for each in found] == expected
