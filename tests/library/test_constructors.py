"""What is built again is the same again, against torch and torchvision."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest
import torch
import torchvision  # type: ignore[import-untyped]
import torchvision.transforms.v2  # type: ignore[import-untyped]
from torch.utils import data

from codemods.library.constructors import computes_of_numbers, is_the_same_again, keeping, reading, reads_archives
from codemods.library.transforms import is_torchvisions

if TYPE_CHECKING:
    from collections.abc import Callable

_ITEMS = data.TensorDataset(torch.arange(9))
_MADE: dict[str, Callable[[], object]] = {
    "DataLoader": lambda: data.DataLoader(_ITEMS, 3, shuffle=True, num_workers=1),
    "TensorDataset": lambda: data.TensorDataset(torch.arange(3)),
    "Subset": lambda: data.Subset(_ITEMS, [0, 2]),
    "ConcatDataset": lambda: data.ConcatDataset([_ITEMS, _ITEMS]),
    "SequentialSampler": lambda: data.SequentialSampler(_ITEMS),
    "RandomSampler": lambda: data.RandomSampler(_ITEMS),
    "SubsetRandomSampler": lambda: data.SubsetRandomSampler([0, 1]),
    "BatchSampler": lambda: data.BatchSampler(data.SequentialSampler(_ITEMS), 2, drop_last=False),
}


@pytest.mark.parametrize("name", sorted(keeping()))
def test_building_draws_nothing(name: str) -> None:
    before = torch.random.get_rng_state()
    _MADE[name.rpartition(".")[2]]()

    assert torch.equal(torch.random.get_rng_state(), before)
    assert is_the_same_again(name)


def test_a_random_split_draws() -> None:
    before = torch.random.get_rng_state()
    data.random_split(_ITEMS, [4, 5])

    assert not torch.equal(torch.random.get_rng_state(), before)
    assert not is_the_same_again("torch.utils.data.random_split")


@pytest.mark.parametrize("name", sorted(reading()))
def test_data_sets_of_archives_write_nothing_into_themselves_where_they_are_read(name: str) -> None:
    class_ = getattr(torchvision.datasets, name.rpartition(".")[2])

    assert reads_archives(name)
    for method in (class_.__getitem__, class_.__len__):
        assert "self." not in "".join(part.split("=")[0] for part in _assignments(inspect.getsource(method)))


def _assignments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if " = " in line or "+=" in line]


def test_what_may_be_another_each_time() -> None:
    names = ("torch.randn", "torch.Generator", "builtins.open", "torchvision.datasets.ImageFolder", "time.time")
    assert not any(is_the_same_again(each) or computes_of_numbers(each) or reads_archives(each) for each in names)
    assert computes_of_numbers("builtins.range")


def test_transforms_of_torchvision_are_known() -> None:
    assert is_torchvisions("torchvision.transforms.RandomCrop")
    assert is_torchvisions("torchvision.transforms.v2.Resize")
    assert not is_torchvisions("albumentations.RandomCrop")
    assert not is_torchvisions("torchvision.transforms.Unknown")


@pytest.mark.parametrize("module", [torchvision.transforms, torchvision.transforms.v2])
def test_transforms_draw_nothing_when_they_are_made(module: object) -> None:
    before = torch.random.get_rng_state()
    for name, arguments in (
        ("RandomCrop", (8,)),
        ("RandomHorizontalFlip", ()),
        ("RandomErasing", ()),
        ("RandAugment", ()),
        ("ColorJitter", (0.1,)),
        ("RandomAffine", (10,)),
        ("AutoAugment", ()),
        ("RandomPerspective", ()),
        ("GaussianBlur", (3,)),
    ):
        getattr(module, name)(*arguments)

    assert torch.equal(torch.random.get_rng_state(), before)
