"""The table of torchvision's transforms, held against the installed torchvision."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from codemods.library.transforms import (
    COMPOSERS,
    Size,
    is_repeatable,
    keeps_8_bits,
    makes_tensors,
    transform,
    transforms,
)

v1 = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")


_OLD = frozenset({"Scale", "RandomSizedCrop"})


@pytest.mark.parametrize("name", sorted(transforms() - _OLD))
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


REPEATED = {
    "ToTensor": (),
    "PILToTensor": (),
    "Resize": (12,),
    "CenterCrop": (8,),
    "Pad": (2,),
    "Grayscale": (),
    "RandomCrop": (8,),
    "RandomHorizontalFlip": (),
    "ColorJitter": (0.5, 0.5),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_makes_the_same_of_an_image_each_time(name: str) -> None:
    """And draws nothing, whether or not that shows."""
    pixels = torch.randint(256, (3, 16, 16), dtype=torch.uint8)
    image = v1.ToPILImage()(pixels)
    made = getattr(v1, name)(*REPEATED[name])
    before = torch.get_rng_state()
    results = [
        v1.PILToTensor()(each) if not isinstance(each, torch.Tensor) else each for each in map(made, [image] * 9)
    ]
    is_same = all(torch.equal(results[0], each) for each in results) and torch.equal(before, torch.get_rng_state())

    assert is_repeatable(f"torchvision.transforms.{name}") is is_same


OF_8_BITS = {
    "Resize": (12,),
    "CenterCrop": (8,),
    "Pad": (2,),
    "RandomCrop": (8,),
    "RandomResizedCrop": (8,),
    "RandomRotation": (30,),
    "RandomAffine": (30,),
    "GaussianBlur": (3,),
    "RandomPosterize": (3,),
    "RandomSolarize": (99,),
    "RandomAdjustSharpness": (2,),
    "ColorJitter": (0.5, 0.5, 0.5, 0.2),
}


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("package", [v1, v2], ids=["v1", "v2"])
def test_images_of_8_bits_stay_such(package: Any, mode: str) -> None:
    """Of PIL's: what ``ToTensor`` makes of them are then the numbers of ``PILToTensor``, divided by 255."""
    image = v1.ToPILImage(mode)(torch.randint(256, (len(mode), 16, 16), dtype=torch.uint8))
    for name in {each for each in transforms() if keeps_8_bits(f"torchvision.transforms.{each}")} - _OLD:
        changed = getattr(package, name)(*OF_8_BITS.get(name, ()))(image)
        assert torch.equal(v1.ToTensor()(changed), v1.PILToTensor()(changed).float().div_(255)), name


def test_what_may_leave_other_images() -> None:
    for name in ("Lambda", "ToTensor", "ToPILImage", "ConvertImageDtype", "FiveCrop", "RandomErasing", "Normalize"):
        assert not keeps_8_bits(f"torchvision.transforms.{name}")
    assert not keeps_8_bits("albumentations.Resize")


def test_what_is_not_known_to_make_the_same_of_an_image() -> None:
    assert is_repeatable("torchvision.transforms.Lambda") is None
    assert is_repeatable("albumentations.Resize") is None
    assert makes_tensors("torchvision.transforms.v2.ToImage")
    assert not makes_tensors("torchvision.transforms.Resize")
