"""Which numbers are given a name for a sum alone."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.readings import reading
from codemods.facts.training.added_by_name import named

HEAD = """\
import torch
model = torch.nn.Linear(4, 4).cuda()
"""


def lines(text: str, depth: int) -> str:
    return "".join(f"{' ' * 4 * depth}{each}\n" for each in text.split("\n"))


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("v = loss.item()\ntotal += v", "total", id="it is added"),
        pytest.param("v = loss.item()\ntotal = total + 2 * v", "total", id="it is added, scaled"),
        pytest.param("v = loss.item() / 3\nif x.dim():\n    total += v", "total", id="it is added at times"),
        pytest.param("v = loss.item()\ntotal += v\nv = 3\nprint(v)", "total", id="its name is another's later"),
        pytest.param("v = loss.item()\ntotal += v\nprint(v)", None, id="it is shown, too"),
        pytest.param("v = loss.item()\nif x.dim():\n    v = 0\ntotal += v", None, id="it may be another number"),
        pytest.param("v = loss.item()\nv += 1\ntotal += v", None, id="it grows before"),
        pytest.param("v = loss.item()\ntotals.append(v)", "totals", id="it is appended"),
        pytest.param("v = loss.item()\ntotals.insert(0, v)", None, id="it is kept"),
        pytest.param("v = loss.item()\ntotal += len(x)", None, id="something else is added"),
        pytest.param("v = n = loss.item()\ntotal += v", None, id="it has two names"),
        pytest.param("v = loss.item()\ntotal += v\nloss /= 3", None, id="the tensor is written to"),
        pytest.param("w = loss.data\nv = loss.item()\nw.mul_(2)\ntotal += v", None, id="its memory is written to"),
        pytest.param("v = loss.item()\ntorch.distributed.all_reduce(loss)\ntotal += v", None, id="others write to it"),
        pytest.param("v = loss.item()\ntotal += v\ndef show():\n    print(v)", None, id="another function reads it"),
        pytest.param("v = loss.item()\nv += v", None, id="it is added to itself"),
        pytest.param("v = loss.detach().item()\ntotal += v", "total", id="another view of it"),
        pytest.param("v = last.item()\ntotal += v", None, id="it is of another pass"),
        pytest.param("v = last.view(()).item()\ntotal += v", None, id="a view is of another pass"),
        pytest.param("v = last.square().item()\ntotal += v", "total", id="it is computed anew"),
    ],
)
def test_what_a_name_adds(inside: str, expected: str | None) -> None:
    text = f"{HEAD}def train(data):\n    total, totals, last = 0.0, [], model(torch.ones(4).cuda()).sum()\n    for x in data:\n        loss = model(x).sum()\n"
    known = script(f"{text}{lines(inside, 2)}    return total\n")
    (loop,) = known.module.nodes(ast.For)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith(".item"))
    one = reading(known.flow, known.module, call)
    assert one is not None

    found = named(known.flow, loop, one)

    assert (found and found.total) == expected


def test_a_name_that_is_global_may_be_read_anywhere() -> None:
    text = "def train(data):\n    global v\n    s = 0.0\n    for x in data:\n        v = model(x).sum().item()\n        s += v\n"
    known = script(HEAD + text)
    (loop,) = known.module.nodes(ast.For)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith(".item"))
    one = reading(known.flow, known.module, call)
    assert one is not None

    assert named(known.flow, loop, one) is None
