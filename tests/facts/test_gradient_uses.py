"""Who would see that gradients are dropped."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.gradient_uses import GradientUse, first_use

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def use(early: str = "pass", late: str = "pass", below: str = "", **others: str) -> tuple[GradientUse, str, int] | None:
    """The first use of a gradient: before the backward, after it, or below the loop; and where."""
    known = script(
        f"""{HEAD}for x in data:
    optimizer.zero_grad()
    {early}
    loss = model(x).sum()
    loss.backward()
    {late}
    optimizer.step()
{below}""",
        **others,
    )
    calls = known.module.nodes(ast.Call)
    zeroing = next(each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr == "zero_grad")
    found = first_use(known, zeroing)
    return None if found is None else (found[0], found[1].path, found[2].lineno)  # type: ignore[attr-defined]


def test_nobody_looks() -> None:
    assert use() is None


def test_what_is_read_between_backward_and_step_is_there() -> None:
    assert use(late="print(model.weight.grad.norm())") is None


def test_read_before_it_is_computed_again() -> None:
    assert use(early="print(model.weight.grad.norm())") == (GradientUse.READ_EARLY, "train.py", 7)


@pytest.mark.parametrize(
    "statement",
    ["kept = [p.grad for p in model.parameters()]", "kept.append(model.weight.grad)", "kept = model.weight.grad"],
    ids=["a list", "append", "a name"],
)
def test_kept_by_reference(statement: str) -> None:
    assert use(late=statement) == (GradientUse.KEPT, "train.py", 10)


def test_a_part_of_a_buffer() -> None:
    assert use(late="model.weight.grad = buffer[2:4]") == (GradientUse.KEPT, "train.py", 10)


def test_kept_by_the_function_of_another_module() -> None:
    other = "def keep(model):\n    return [p.grad for p in model.parameters()]\n"

    assert use(late="other.keep(model)", below="import other", other=other) == (GradientUse.KEPT, "other.py", 2)


def test_a_graph_that_is_captured() -> None:
    assert use(below="graph = torch.cuda.CUDAGraph()") == (GradientUse.CAPTURED, "train.py", 12)


@pytest.mark.parametrize(
    "statement", ["print(model.weight.grad)", "getattr(model.weight, 'grad')"], ids=["an attribute", "by its name"]
)
def test_read_after_the_loop(statement: str) -> None:
    assert use(below=statement) == (GradientUse.READ_OUTSIDE, "train.py", 12)
