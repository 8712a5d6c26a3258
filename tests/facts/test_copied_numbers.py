"""Lists of numbers that are copied to a device again and again."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.copied_numbers import copied_numbers

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")
n = 3


class Loss(nn.Module):
    def forward(self, x):
        return x / {made}


loss = Loss()
for x in torch.randn(10, 8, 2):
    loss(x.to(device)).mean().backward()
"""
NUMBERS = "torch.tensor([0.1, 0.2]).to(device)"
LOOP = "for x in torch.randn(10, 8, 2):\n    x = x.to(device) / {}\n"


def found(text: str) -> list[tuple[int, bool]]:
    return [(each.call.lineno, each.is_in_forward) for each in copied_numbers(script(text))]


@pytest.mark.parametrize(
    "made",
    [
        NUMBERS,
        "torch.Tensor([[0.1, -0.2]]).cuda()",
        "torch.tensor([1 / 2, 0.2], device=x.device)",
        "torch.tensor((0.1, 0.2)).view(1, 2).to(x.device)",
        "torch.from_numpy(np.array([0.1, 0.2]).astype(np.float32)).cuda()",
    ],
)
def test_each_forward_pass_copies_numbers(made: str) -> None:
    assert found(HEAD.format(made=made)) == [(12, True)]


def test_each_pass_of_a_loop_copies_numbers() -> None:
    assert found(HEAD.format(made="2") + LOOP.format(NUMBERS)) == [(19, False)]


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("torch.tensor([0.1, n]).to(device)", id="a number that has a name"),
        pytest.param("torch.tensor([0.1]).to(device)", id="one number"),
        pytest.param("torch.tensor([0.5, 0.5]).to(device)", id="one number, twice"),
        pytest.param("torch.tensor([0.1, 0.2])", id="on the host"),
        pytest.param('torch.tensor([0.1, 0.2]).to("cpu")', id="to the host"),
        pytest.param("torch.tensor([0.1, 0.2]).to(torch.float64)", id="in another number format"),
        pytest.param('torch.tensor([0.1, 0.2], device="cpu")', id="made on the host"),
        pytest.param("torch.tensor([x[0, 0], 0.2]).to(device)", id="of the batch"),
        pytest.param("torch.zeros(2, 3).to(device)", id="filled"),
        pytest.param("torch.from_numpy(np.eye(2).astype(np.float32)).cuda()", id="an identity"),
        pytest.param("torch.from_numpy(np.array([1, 0, 0, 1]).astype(np.float32)).cuda()", id="of an identity"),
    ],
)
def test_what_is_no_such_list(made: str) -> None:
    assert found(HEAD.format(made=made)) == []


def test_once_is_not_too_often() -> None:
    assert found(HEAD.format(made="2") + f"std = {NUMBERS}\n") == []


def test_a_script_without_cuda_copies_nothing() -> None:
    assert found(HEAD.format(made=NUMBERS).replace('"cuda"', '"cpu"')) == []
