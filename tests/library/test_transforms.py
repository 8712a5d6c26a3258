"""The table of torchvision's transforms, held against the installed torchvision."""

from __future__ import annotations

import random

import pytest
import torch

from codemods.library.transforms import COMPOSERS, Size, transform, transforms

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")


@pytest.mark.parametrize("name", sorted(transforms() - {"Scale", "RandomSizedCrop"}))
def test_torchvision_has_it(name: str) -> None:
    """But for two that older ones had."""
    assert hasattr(v1, name) or hasattr(v2, name)


MADE = {
    "Resize": ((8, 8),),
    "CenterCrop": (8,),
    "RandomCrop": (8,),
    "RandomResizedCrop": (8,),
    "Grayscale": (),
    "Pad": (2,),
    "RandomHorizontalFlip": (),
    "ColorJitter": (),
    "GaussianBlur": (3,),
    "RandomErasing": (),
}


@pytest.mark.parametrize("name", MADE)
def test_what_it_does_to_sizes(name: str) -> None:
    made = getattr(v1, name)(*MADE[name])
    torch.manual_seed(0)
    random.seed(0)
    found = {tuple(made(torch.rand(3, side, side)).shape[-2:]) for side in (16, 24)}
    known = transform(name)

    assert known is not None
    assert (len(found) == 1) is (known.size in {Size.FIXED, Size.GIVEN})


def test_what_is_not_known() -> None:
    assert transform("Unknown") is None


@pytest.mark.parametrize("name", sorted(each for each in COMPOSERS if each.startswith("torchvision.")))
def test_composers_keep_what_they_are_made_with(name: str) -> None:
    inner = [v1.ToTensor()]

    assert list(getattr(v1, name.rpartition(".")[2])(inner).transforms) == inner
