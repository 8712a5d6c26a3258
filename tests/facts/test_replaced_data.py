"""Whether a model's forward replaces the data of a tensor, and whether it is called again before the backward."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.replaced_data import is_called_again, replaced_data

HEAD = """\
import torch
from torch import nn
class Powers(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.u = nn.Parameter(torch.ones(4), requires_grad=False)
        self.v = nn.Parameter(torch.ones(4), requires_grad=False)
    def iterate(self):
        {statement}
    def forward(self, x):
        self.iterate()
        return x @ (self.weight / self.u.dot(self.weight @ self.v))
net = Powers()
"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("self.u.data = self.weight.data @ self.v.data", True, id="another tensor"),
        pytest.param("self.u.data, self.v.data = (self.v.data, self.u.data)", True, id="two of them"),
        pytest.param("self.u.data.copy_(self.weight.data @ self.v.data)", True, id="a copy, unseen by autograd"),
        pytest.param("self.u = self.weight.detach() @ self.v", False, id="the attribute is another tensor"),
        pytest.param("self.weight.data *= 2", False, id="what is multiplied, as by a mask"),
        pytest.param("self.u.copy_(self.v)", False, id="a copy that autograd sees"),
        pytest.param("self.u.data.norm()", False, id="what is read"),
    ],
)
def test_what_replaces_data(statement: str, *, expected: bool) -> None:
    (model,) = script(HEAD.format(statement=statement)).models
    found = replaced_data(model)

    assert (None if found is None else ast.unparse(found[1])) == (statement if expected else None)


LOOP = "for x in torch.randn(9, 8, 4):\n"
BACKWARD = "    net(x).sum().backward()\n"
OTHERWISE = "    if len(x) > 3:\n        y.backward()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(LOOP + BACKWARD, False, id="one call"),
        pytest.param(LOOP + BACKWARD + BACKWARD, False, id="each call has its backward"),
        pytest.param(LOOP + "    (net(x).sum() - net(-x).sum()).backward()\n", True, id="two calls, one backward"),
        pytest.param(LOOP + "    y = net(x).sum()\n" + OTHERWISE + BACKWARD, True, id="a backward that may be missing"),
        pytest.param(
            LOOP + "    y = 0\n    for each in x:\n        y = y + net(each).sum()\n    y.backward()\n",
            True,
            id="calls of a loop, and a backward after it",
        ),
        pytest.param(
            LOOP + "    for each in x:\n        net(each).sum().backward()\n    net(x).sum().backward()\n",
            False,
            id="each call of a loop has its backward",
        ),
    ],
)
def test_whether_it_is_called_again(text: str, *, expected: bool) -> None:
    known = script(HEAD.format(statement="self.u.data = self.v.data") + text)
    calls = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "net"]

    assert is_called_again(known.iterations, calls) is expected
