"""What is written on the host after a copy of it was queued."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.writes import why_written

HEAD = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(torch.zeros(8, 3), pin_memory=True)
for x in loader:
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(["y = x.cuda()", "x.mul_(2)"], 7, id="a method in place after it"),
        pytest.param(["y = x.cuda()", "x[0] = 0"], 7, id="an item after it"),
        pytest.param(["y = x.cuda()", "x += 1"], 7, id="an operator in place after it"),
        pytest.param(["y = x.cuda()", "torch.add(x, 1, out=x)"], 7, id="an out argument after it"),
        pytest.param(["y = x.cuda()", "a = x.numpy()", "a[0] = 0"], 8, id="an array that shares its memory"),
        pytest.param(["x.mul_(2)", "y = x.cuda()"], None, id="before it, in a loop that binds a new batch"),
        pytest.param(["y = x.cuda()", "x.squeeze_(0)"], None, id="a view in place"),
        pytest.param(["y = x.cuda()", "y.mul_(2)"], None, id="what was copied"),
    ],
)
def test_the_place_is_named(body: list[str], line: int | None) -> None:
    found = script(HEAD + "".join(f"    {each}\n" for each in body))
    (move,) = found.transfers

    reason = why_written(found.flow, move)

    lines = [each.lines for each in reason.places] if reason is not None else None
    assert lines == (None if line is None else [(line,)])
