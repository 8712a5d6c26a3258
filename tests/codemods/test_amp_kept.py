"""What objects keep of a forward pass in 16 bits, and where something else has an attribute of the same name."""

from __future__ import annotations

import pytest
from kit import check_leaves, run

from codemods.rules.amp import Amp

SCRIPT = """\
from collections import namedtuple

import torch
from torch import nn
from torchvision import datasets

Sample = namedtuple("Sample", ["data", "queue"])


class Memory:
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(512, 512)
        self.register_buffer("queue", torch.zeros(512, 64))
        self.table = {}

    def forward(self, x, memory):
        y = self.body(x)
        KEEPS
        return y


memory = Memory()
digits = datasets.MNIST(".")
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.rand(4, 16, 512).cuda():
    optimizer.zero_grad()
    loss = model(x, memory).square().mean()
    loss.backward()
    optimizer.step()
    READS


def look(sample):
    show(sample.data)
"""


def _code(keeps: str, reads: str, *, unknown: bool = False) -> str:
    code = SCRIPT if unknown else SCRIPT[: SCRIPT.index("\n\ndef look")]
    return code.replace("KEEPS", keeps).replace("READS", reads)


@pytest.mark.parametrize(
    ("keeps", "reads"),
    [
        pytest.param("self.queue[:, 0:16] = y.T", "show(model.queue)", id="a slice of a buffer keeps the format"),
        pytest.param("self.queue[0] = y.mean(0)[:64]", "show(model.queue)", id="a row of a buffer keeps the format"),
        pytest.param(
            "self.data = y", "for p in model.parameters():\n        p.data.clamp_(-1, 1)", id="that of a parameter"
        ),
        pytest.param("self.data = y", "show(digits.data)", id="that of a data set"),
        pytest.param("self.queue = y", "show(Sample._make(rows).queue)", id="the field of a named tuple"),
    ],
)
def test_an_attribute_is_that_of_its_class(keeps: str, reads: str) -> None:
    assert "torch.autocast" in run(Amp, _code(keeps, reads)).after


@pytest.mark.parametrize(
    ("keeps", "reads", "read"),
    [
        pytest.param("memory.state = y", "show(memory.state)", "memory.state", id="of an object that is handed in"),
        pytest.param("self.queue = y.T", "show(model.queue)", "model.queue", id="a buffer that is replaced"),
        pytest.param('self.table["y"] = y', "show(model.table)", "model.table", id="an item of a dictionary"),
        pytest.param(
            "self.state = y\n        memory.state = 0 * y", "show(model.state)", "model.state", id="of two classes"
        ),
    ],
)
def test_what_is_kept_in_16_bits_is_not_read_outside(keeps: str, reads: str, read: str) -> None:
    code = _code(keeps, reads)
    line = code[: code.index("show(")].count("\n") + 1

    what = f".{read.partition('.')[2]} may be kept in 16 bits, and is read outside of autocast"
    remedy = "convert what is put there with .float()" if read == "model.table" else f"read {read}.float()"
    check_leaves(Amp, code, f"{what}: {remedy} (line {line})")


def test_what_is_not_known_is_not_said_to_have_float() -> None:
    code = _code("self.data = y", "pass", unknown=True)
    line = code[: code.index("show(")].count("\n") + 1

    what = ".data may be kept in 16 bits, and is read outside of autocast, if sample is what keeps it"
    check_leaves(Amp, code, f"{what} (line {line})")
