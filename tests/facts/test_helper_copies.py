"""Helpers that copy to a device, in each call, what a constructor made on the host."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.helper_copies import helper_copies

TEXT = """\
import numpy as np
import torch
from torch import nn


def extract(table, t):
    BIND
    return COPY[t].float()


class Diffusion:
    def __init__(self, betas):
        self.roots = MAKE

    def loss(self, model, x, t):
        OTHER
        return (model(extract(GIVEN, t) * x) - x).pow(2).mean()


class Ddim(Diffusion):
    def __init__(self, betas):
        self.roots = MAKE


model = nn.Linear(4, 4).cuda()
diffusion = Diffusion(np.linspace(0.1, 0.2, 10))
for x in torch.randn(10, 8, 4):
    t = torch.randint(10, (8, 1), device="cuda")
    diffusion.loss(model, x.cuda(), t).backward()
"""
PARTS = {
    "COPY": "torch.from_numpy(table).to(device=t.device)",
    "MAKE": "np.sqrt(np.cumprod(betas))",
    "GIVEN": "self.roots",
    "BIND": "pass",
    "OTHER": "pass",
    "for x in": "for x in",
}


def found(parts: dict[str, str]) -> list[tuple[int, str, int]]:
    text = TEXT
    for name, code in {**PARTS, **parts}.items():
        text = text.replace(name, code)
    return [(each.call.lineno, each.name, each.made.lineno) for each in helper_copies(script(text))]


@pytest.mark.parametrize(
    "copy",
    [
        PARTS["COPY"],
        "torch.from_numpy(table).float().cuda()",
        "torch.as_tensor(table, device=t.device)",
        "torch.tensor(table, dtype=torch.float32, device='cuda')",
    ],
)
def test_each_call_copies_a_table(copy: str) -> None:
    assert found({"COPY": copy}) == [(8, "table", 13)]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param("torch.linspace(0, 1, 10)", id="a tensor on the host"),
        pytest.param("torch.cumprod(torch.from_numpy(betas), 0)", id="one that is computed"),
        pytest.param("torch.tensor([0.5, 0.1])", id="one of numbers"),
    ],
)
def test_what_the_constructor_makes(make: str) -> None:
    assert found({"COPY": "table.to(t.device)", "MAKE": make}) == [(8, "table", 13)]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"GIVEN": "x.cpu()"}, id="it is given no attribute"),
        pytest.param({"GIVEN": "self.roots[:5]"}, id="a part of one"),
        pytest.param({"MAKE": "torch.linspace(0, 1, 10).cuda()"}, id="it is on the device already"),
        pytest.param({"MAKE": "nn.Linear(4, 4)"}, id="a model"),
        pytest.param({"OTHER": "self.roots = x.cpu().numpy()"}, id="other code sets it, too"),
        pytest.param({"OTHER": "self.roots[0] = 1"}, id="other code writes to it"),
        pytest.param({"BIND": "table = table[:9]"}, id="the parameter is given something else"),
        pytest.param({"COPY": "torch.from_numpy(table).to('cpu')"}, id="it stays on the host"),
        pytest.param({"COPY": "torch.from_numpy(table)"}, id="it is not copied"),
        pytest.param({"COPY": "load(table).to(t.device)"}, id="what another function makes of it is"),
        pytest.param({"for x in": "if x := "}, id="it is called once"),
    ],
)
def test_nothing_is_copied_again(parts: dict[str, str]) -> None:
    assert found(parts) == []


def test_without_a_gpu_nothing_is_copied() -> None:
    assert [*helper_copies(script("def f(table):\n    return table.to(x.device)\n"))] == []
