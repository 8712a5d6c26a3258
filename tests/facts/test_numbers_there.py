"""Numbers that are copied to a device where they could be filled in."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.numbers_there import numbers_there

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")


class Data(Dataset):
    def __getitem__(self, i):
        return {item}


class Loss(nn.Module):
    def forward(self, x):
        return x + {made}


loss = Loss()
for x in torch.randn(10, 8, 2):
    loss(x.to(device)).mean().backward()
for x in DataLoader(Data()):
    pass
"""
NUMBER = "torch.tensor(0.5, device=device)"


def found(text: str) -> list[int]:
    return [each.call.lineno for each in numbers_there(script(text))]


@pytest.mark.parametrize("made", [NUMBER, "torch.tensor([0.5], device=x.device)", "torch.as_tensor(1, device='cuda')"])
def test_each_forward_pass_copies_a_number(made: str) -> None:
    assert found(HEAD.format(item=1, made=made)) == [15]


def test_each_pass_of_a_loop_copies_a_number() -> None:
    assert found(HEAD.format(item=1, made=1) + f"for _ in range(9):\n    {NUMBER}\n") == [24]


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("torch.tensor(0.5)", id="no device is given"),
        pytest.param("torch.tensor(0.5, device='cpu')", id="it stays on the host"),
        pytest.param("torch.tensor([0.5, 1], device=device)", id="several numbers"),
        pytest.param("torch.tensor(0.5, device=device, requires_grad=True)", id="gradients are asked for"),
        pytest.param("torch.tensor(0.5, **{'device': device})", id="arguments that are not seen"),
        pytest.param("torch.scalar_tensor(0.5, device=device)", id="it is filled in there"),
        pytest.param("math.tensor(0.5, device=device)", id="another function"),
    ],
)
def test_no_number_is_copied(made: str) -> None:
    assert found(HEAD.format(item=1, made=made)) == []


def test_items_of_data_sets_are_not_made_there() -> None:
    assert found(HEAD.format(item=NUMBER, made=1)) == []


def test_what_runs_once_is_no_site() -> None:
    assert found(HEAD.format(item=1, made=1) + NUMBER + "\n") == []


def test_without_a_gpu_nothing_is_copied() -> None:
    assert found(HEAD.format(item=1, made=NUMBER).replace("cuda", "cpu")) == []
