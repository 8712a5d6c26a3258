"""Which calls write into a tensor that they are given."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.written_by_calls import writes_after

CODE = """\
import torch
import torch.distributed as dist
from torch import nn
def scaled(x, by=2):
    x.mul_(by)
    return x
def product(x, by=2):
    return x * by
def reduced(x):
    copy = x.clone()
    dist.all_reduce(copy)
    return copy
def all_reduced(*, x):
    view = x.detach()
    dist.all_reduce(view)
    return view
def again(x):
    return again(x) if x else x
for loss in torch.ones(3):
    scaled(loss)
    loss.item()
    {below}
"""


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        pytest.param("scaled(loss)", True, id="a function that writes in place"),
        pytest.param("scaled(loss.detach())", True, id="which is given a view"),
        pytest.param("product(scaled(x=loss))", True, id="which is called within another"),
        pytest.param("all_reduced(x=loss)", True, id="a function that has it written into"),
        pytest.param("dist.all_reduce(loss.data)", True, id="of other processes"),
        pytest.param("nn.init.zeros_(loss)", True, id="an initializer"),
        pytest.param("torch.add(3, 4, out=loss)", True, id="a result"),
        pytest.param("product(loss)", False, id="a function that does not"),
        pytest.param("again(loss)", False, id="a function that calls itself"),
        pytest.param("reduced(loss)", False, id="of a copy"),
        pytest.param("scaled(loss.clone())", False, id="a copy"),
        pytest.param("scaled(3, by=loss)", False, id="another argument"),
        pytest.param("pass", False, id="nothing below"),
    ],
)
def test_what_writes_into_a_tensor(below: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(CODE.format(below=below))
    (item,) = (each for each in known.module.nodes(ast.Attribute) if each.attr == "item")
    (loop,) = known.module.nodes(ast.For)

    assert bool([*writes_after(known.flow, loop, item, "loss")]) is expected
