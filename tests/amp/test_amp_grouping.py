"""Which backwards are parts of one training iteration."""

from __future__ import annotations

import ast

import pytest
from iteration import looped, script

from codemods.amp.grouping import groups
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.loss_regions import Phases

LOSS, STEP = "model(x).mean().backward()", "optimizer.step()"


def grouped(text: str) -> list[tuple[list[int], list[str]]]:
    """The lines of the backwards of each group below the head, and what steps in its iteration."""
    known = script(text)
    first = len(known.module.text.splitlines()) - len(text.splitlines())
    return [
        (
            [each.call.lineno - first for each in group],
            [ast.unparse(each.node) for each in iteration.of(EventKind.STEP)],
        )
        for group, iteration in groups(known, Phases(known))
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(looped(LOSS, STEP), [([2], [STEP])], id="one"),
        pytest.param(looped(LOSS, "other(x).sum().backward()", STEP), [([2, 3], [STEP])], id="two of one loop"),
        pytest.param(looped(LOSS, STEP) * 2, [([2], [STEP]), ([5], [STEP])], id="two loops, one after the other"),
        pytest.param(
            f"for epoch in range(3):\n    for x in torch.randn(6, 16, 8).cuda():\n        {LOSS}\n    {STEP}\n",
            [([3], [STEP])],
            id="the loop around it steps",
        ),
        pytest.param(
            "for epoch in range(3):\n"
            "    if epoch:\n"
            "        for x in torch.randn(6, 16, 8).cuda():\n"
            f"            {LOSS}\n"
            f"    {STEP}\n",
            [([4], [STEP])],
            id="the loop around a branch with it steps",
        ),
        pytest.param(looped(LOSS), [([2], [])], id="nothing steps"),
        pytest.param(looped("model(x)"), [], id="no backward"),
    ],
)
def test_which_backwards_belong_together(text: str, expected: list[tuple[list[int], list[str]]]) -> None:
    assert grouped(text) == expected


def test_a_function_that_is_called_in_two_loops_is_one_group() -> None:
    text = f"def train(x):\n    {LOSS}\n    {STEP}\n" + looped("train(x)") * 2

    assert grouped(text) == [([2], [STEP])]


def test_where_nothing_steps_the_innermost_loop_is_the_iteration() -> None:
    known = script(f"for epoch in range(3):\n    for x in torch.randn(6, 16, 8).cuda():\n        {LOSS}\n")
    ((_, iteration),) = groups(known, Phases(known))

    assert ast.unparse(iteration.owner).startswith("for x in")
