"""Which tensors in 16 bits leave autocast where no name shows it."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.escapes import leak
from codemods.facts.reach import Reach

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.queue = torch.zeros(4, 8)
        self.outputs = []
        self.total = 0
        self.name = "net"
    def forward(self, x):
        y = self.layer(x)
        {}
        return y
model = Net()
for x in data:
    loss = model(x).sum()
    loss.backward()
"""


def leaks(body: str, after: str = "", **others: str) -> str | None:
    """What is read outside where the loss is computed under autocast."""
    known = script(HEAD.format(body) + after, **others)
    (statement,) = [each for each in known.module.nodes(ast.Assign) if ast.unparse(each).startswith("loss = ")]
    found = leak(Reach(known.flow), known.modules, known.module, [statement])
    return None if found is None else ast.unparse(found.node)


@pytest.mark.parametrize(
    ("body", "after", "expected"),
    [
        pytest.param("self.last = y", "model.last.numpy()", "model.last", id="an attribute"),
        pytest.param("self.last, self.first = y, x", "model.last.numpy()", "model.last", id="one of two"),
        pytest.param("self.last: torch.Tensor = y", "model.last.numpy()", "model.last", id="with its type"),
        pytest.param("self.total += y", "model.total.numpy()", "model.total", id="what it is added to"),
        pytest.param("self.queue += y", "model.queue.numpy()", None, id="a tensor of 32 bits that it is added to"),
        pytest.param("self.outputs.append(y)", "model.outputs[0].numpy()", "model.outputs", id="a list"),
        pytest.param("self.last = y", "", None, id="nobody reads it"),
        pytest.param("self.last = y", "model.last.float().numpy()", None, id="it is widened"),
        pytest.param("self.name = 'other'", "print(model.name)", None, id="a text"),
        pytest.param("self.width = x.size(-1)", "make(model.width)", None, id="a size"),
        pytest.param("self.width = x.shape[-1]", "make(model.width)", None, id="an item of a shape"),
        pytest.param("self.last = y[-1]", "make(model.last)", "model.last", id="an item of a tensor"),
        pytest.param("self.queue[:, 0:4] = y", "model.queue.numpy()", None, id="a part of a tensor of 32 bits"),
    ],
)
def test_what_the_code_keeps_and_others_read(body: str, after: str, expected: str | None) -> None:
    assert leaks(body, after) == expected


def test_a_hook_is_given_16_bits() -> None:
    assert leaks("pass", "model.layer.register_forward_hook(show)") == "model.layer.register_forward_hook(show)"
    assert leaks("pass", "model.layer.register_full_backward_hook(show)") is None


def test_another_module_reads_it() -> None:
    other = "def show(model):\n    return model.last.numpy()\n"

    assert leaks("self.last = y", "import other\nother.show(model)\n", other=other) == "model.last"


@pytest.mark.parametrize(
    ("body", "after", "remedy"),
    [
        pytest.param("self.last = y", "model.last.numpy()", "read model.last.float()", id="a tensor"),
        pytest.param(
            "self.outputs.append(y)",
            "model.outputs[0].numpy()",
            "convert what is put there with .float()",
            id="a list has no float()",
        ),
    ],
)
def test_what_can_be_done(body: str, after: str, remedy: str) -> None:
    known = script(HEAD.format(body) + after)
    (statement,) = [each for each in known.module.nodes(ast.Assign) if ast.unparse(each).startswith("loss = ")]
    found = leak(Reach(known.flow), known.modules, known.module, [statement])

    assert found is not None
    assert found.remedy == remedy
