from __future__ import annotations

from probe import script

from codemods.facts.data.on_device import Residence, residence, tensor_sets
from codemods.facts.reason import Reason

SCRIPT = """
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset
from torchvision.datasets import MNIST
device = torch.device("cuda")
x = torch.randn(1000, 8)
data = {}
loader = {}
for a in loader:
    a = a[0].to(device)
"""
LOADER = "DataLoader(data, batch_size=64)"


def found(data: str, loader: str = LOADER) -> list[Residence | Reason]:
    """Of each data set of tensors how it gets to the device, or why it does not."""
    asked = script(SCRIPT.format(data, loader))
    return [residence(asked, asked.module, call, value) for call, value in tensor_sets(asked)]


def test_what_moves_it_and_how_large_it_is() -> None:
    (one,) = found("TensorDataset(x, x[:500])")

    assert isinstance(one, Residence)
    assert (one.move, one.size) == (".to(device)", 2 * 8 * 8000)
    assert [each.batches is None for each in one.reads] == [False]


def test_a_loader_may_have_a_sampler_of_batches_already() -> None:
    sampler = "BatchSampler(RandomSampler(data), 64, drop_last=False)"
    (one,) = found("TensorDataset(x)", f"DataLoader(data, batch_size=None, sampler={sampler})")

    assert isinstance(one, Residence)
    assert [each.batches for each in one.reads] == [None]


def test_numbers_of_32_bits_of_images_that_were_decoded_once() -> None:
    made = 'MNIST("data", transform=transforms.ToTensor())'
    code = f"from torchvision import transforms\nimages = {made}\n"
    text = SCRIPT.replace("x = ", f"{code}x = ").replace("DataLoader,", "DataLoader, default_collate,")
    asked = script(text.format("TensorDataset(*default_collate(list(images)))", LOADER))
    ((call, value),) = tensor_sets(asked)
    one = residence(asked, asked.module, call, value)

    assert isinstance(one, Residence)
    assert one.size == 60_000 * (28 * 28 * 4 + 8)


def test_one_that_no_loader_reads_is_no_question() -> None:
    assert found("TensorDataset(x)", "[x]") == []


def test_why_it_stays() -> None:
    (reason,) = found("TensorDataset(torch.load('x.pt').contiguous())")

    assert isinstance(reason, Reason)
    assert reason.code == "too-large"
