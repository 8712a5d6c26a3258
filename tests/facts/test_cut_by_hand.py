from __future__ import annotations

import ast

from probe import script

from codemods.facts.data.cut_by_hand import Ahead, ahead, cut_loops
from codemods.facts.reason import Reason

SCRIPT = """
import torch
x, y = torch.randn(100, 4), torch.zeros(100)
for epoch in range(2):
    for rows in torch.randperm(100).split(10):
        a, b = x[rows].view(-1, 4).cuda(), {}
"""


def found(second: str) -> list[tuple[str, list[str], Ahead | Reason]]:
    """Of each loop its head, what it cuts batches from, and how that gets to the device before it."""
    asked = script(SCRIPT.format(second))
    return [
        (ast.unparse(loop).splitlines()[0], [each.tensor.id for each in cuts], ahead(asked, loop, cuts))
        for loop, cuts in cut_loops(asked)
    ]


def test_the_outermost_loop_and_all_that_it_cuts() -> None:
    ((head, names, how),) = found("y[rows].cuda()")

    assert (head, names) == ("for epoch in range(2):", ["x", "y"])
    assert how == Ahead(("x", "y"), ".cuda()", 500 * 8)


def test_what_it_only_computes_is_not_cut() -> None:
    ((_, names, _),) = found("torch.zeros(10).cuda()")

    assert names == ["x"]


def test_why_it_stays() -> None:
    ((_, _, reason),) = found("y[rows].to('cuda')")

    assert isinstance(reason, Reason)
    assert reason.code == "script-decides"
