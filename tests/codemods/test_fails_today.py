"""A script that fails before any change is left whole, with one line for each rule that would change it."""

from __future__ import annotations

from kit import check_leaves, check_silent

from codemods.loader_pin import LoaderPin
from codemods.zero_grad_none import ZeroGradNone

_CODE = """\
import torch
from torch import nn

model = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.randn(10, 2, 8, 4):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.data[0])
"""


def test_one_line_says_what_fails_and_where() -> None:
    because = "the script fails before any change; fix first: loss.data[0]: a loss has no dimensions, write .item() instead of .data[0]"  # fmt: skip
    check_leaves(ZeroGradNone, _CODE, because)


def test_a_rule_without_sites_says_nothing() -> None:
    check_silent(LoaderPin, _CODE)
