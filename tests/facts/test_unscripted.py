from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.candidates import Wanted
from codemods.facts.models.unscripted import keeps_its_name, scripted_models, why_kept, why_not_compiled

TRAINING = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        return self.second(self.first(x).relu())


{}
for x in torch.randn(4, 16, 8).cuda():
    model(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("model = torch.jit.script(Net().cuda())", ["torch.jit.script"]),
        ("model = torch.jit.trace(Net().cuda(), torch.zeros(1, 8).cuda())", ["torch.jit.trace"]),
        ("model = Net().cuda()\nother = torch.jit.script(Net().cuda())", []),
        ("model = Net().cuda()", []),
    ],
)
def test_which_models_train_as_torchscript(made: str, expected: list[str]) -> None:
    found = script(TRAINING.format(made))

    assert [ast.unparse(call.func) for _, call in scripted_models(found)] == expected


@pytest.mark.parametrize(
    ("made", "kept", "left"),
    [
        ("model = torch.jit.script(Net().cuda())", None, None),
        ("model = torch.jit.script(Net().cuda(), None)", "unknown-arguments", None),
        ("model = torch.jit.script(Net())", None, "no-name"),
    ],
)
def test_why_it_stays(made: str, kept: str | None, left: str | None) -> None:
    found = script(TRAINING.format(made))
    ((trained, call),) = scripted_models(found)
    stays, not_compiled = why_kept(found, trained, call), why_not_compiled(found, trained, call, lambda _: Wanted())

    assert (stays and stays.code) == kept
    assert kept is not None or (not_compiled is None) is (left is None)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("model = Net().cuda()\nmodel = torch.jit.script(model)", True),
        ("net = Net().cuda()\nmodel = torch.jit.script(net)", False),
        ("model = torch.jit.script(Net().cuda())", False),
    ],
)
def test_which_statements_only_make_it(made: str, *, expected: bool) -> None:
    found = script(TRAINING.format(made))
    ((_, call),) = scripted_models(found)

    assert keeps_its_name(found.module, call) is expected
