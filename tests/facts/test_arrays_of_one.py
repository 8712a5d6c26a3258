"""Which arrays of one number are made of what a device computes."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.arrays_of_one import array_of_one

HEAD = """\
import torch
model = torch.nn.Linear(4, 4).cuda()
def run(other):
    for x in torch.randn(3, 8, 4):
        out = model(x.cuda())
        loss = out.square().mean()
        cost = other(out)
        cost.backward()
        loss.backward()
"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("loss.detach().cpu().numpy()", "loss", id="detached first"),
        pytest.param("loss.cpu().detach().numpy()", "loss", id="copied first"),
        pytest.param("loss.data.to('cpu').numpy()", "loss", id="as it was written once"),
        pytest.param("out.sum().cpu().numpy()", "out.sum()", id="of what is computed"),
        pytest.param("cost.detach().cpu().numpy()", "cost", id="what is differentiated has one number"),
        pytest.param("out.detach().cpu().numpy()", None, id="of many numbers"),
        pytest.param("x.sum().numpy()", None, id="on the host"),
        pytest.param("loss.item()", None, id="a number"),
        pytest.param("other.cpu().numpy()", None, id="of what is not known"),
    ],
)
def test_what_an_array_of_one_is_made_of(made: str, expected: str | None) -> None:
    known = script(f"{HEAD}        print({made})\n")
    (shown,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "print")
    call = shown.args[0]

    found = array_of_one(known.flow, known.module, call)

    assert (found and ast.unparse(found.tensor)) == expected
