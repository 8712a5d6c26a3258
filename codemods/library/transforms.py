"""torchvision's transforms: whether they draw random numbers, and what they do to the size of an image."""

from __future__ import annotations

import enum
from typing import NamedTuple

TRANSFORMS = (
    "torchvision.transforms.",
    "timm.data.",
    "albumentations.",
    "imgaug.",
    "kornia.augmentation.",
    "monai.transforms.",
)
"""Packages of transforms."""
COMPOSERS = frozenset(
    f"torchvision.transforms.{name}" for name in ("Compose", "RandomApply", "RandomChoice", "RandomOrder")
) | {"albumentations.Compose", "albumentations.OneOf", "albumentations.SomeOf", "albumentations.Sequential"}
"""Those that are made with a list of others, which they have in their attribute ``transforms``."""


class Size(enum.Enum):
    """The size of a transformed image."""

    KEPT = "kept"
    """As large as it was, or larger or smaller by a fixed amount."""
    FIXED = "fixed"
    """Of one size, whatever it was."""
    GIVEN = "given"
    """Of one size where both sides are given."""
    OTHER = "other"
    """Another, or it depends."""


class Transform(NamedTuple):
    """What is known of a transform."""

    size: Size
    draws: bool


_TABLE = """
kept   -      ToTensor PILToTensor ToPILImage ToImage ToDtype ConvertImageDtype Normalize Grayscale Pad RGB Identity
    LinearTransformation ToPureTensor
kept   draws  ColorJitter AutoAugment RandAugment TrivialAugmentWide AugMix GaussianBlur GaussianNoise JPEG
    ElasticTransform MixUp CutMix RandomGrayscale RandomHorizontalFlip RandomVerticalFlip RandomAffine
    RandomPerspective RandomErasing RandomAdjustSharpness RandomAutocontrast RandomEqualize RandomInvert
    RandomPosterize RandomSolarize RandomChannelPermutation RandomPhotometricDistort
fixed  -      CenterCrop FiveCrop TenCrop
fixed  draws  RandomCrop RandomResizedCrop RandomSizedCrop
given  -      Resize Scale
other  -      Compose Lambda
other  draws  RandomApply RandomChoice RandomOrder RandomRotation RandomIoUCrop RandomResize RandomShortestSize
    RandomZoomOut ScaleJitter
"""


def transform(name: str) -> Transform | None:
    """The transform of torchvision of that name, such as ``Resize``, in either version; None where none is known."""
    return _TRANSFORMS.get(name)


_IN_MODULES = ("torchvision.transforms.", "torchvision.transforms.v2.")
_REPEATABLE = frozenset(
    {"ToTensor", "PILToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "Normalize", "Resize", "CenterCrop", "Pad"}
    | {"Grayscale", "ToPILImage", "Identity", "ToPureTensor"}
)
# Of an array, too, and not only of one of PIL's images. The statistics of Normalize are those of a channel.
_OF_EACH_PIXEL = frozenset({"ToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "Normalize"})
_MAKES_TENSORS = frozenset({"ToTensor", "PILToTensor", "ToImage"})


def is_repeatable(name: str) -> bool | None:
    """Whether the transform of that qualified name makes the same of an image each time; None if that is not known."""
    last = _of_torchvision(name)
    row = _TRANSFORMS.get(last)
    return True if last in _REPEATABLE else False if row is not None and row.draws else None


def is_torchvisions(name: str) -> bool:
    """Whether that is the qualified name of a known transform of torchvision, which draws nothing when it is made."""
    return _of_torchvision(name) in _TRANSFORMS


def makes_tensors(name: str) -> bool:
    """Whether the transform of that qualified name makes a tensor of an image."""
    return _of_torchvision(name) in _MAKES_TENSORS


def changes_each_pixel(name: str) -> bool:
    """Whether the transform of that qualified name changes each pixel for itself, wherever it is in which image."""
    return _of_torchvision(name) in _OF_EACH_PIXEL


_MAY_SET_FORMAT = frozenset(
    {"PILToTensor", "ToPILImage", "ToImage", "ToDtype", "ConvertImageDtype", "Lambda", "Compose", "RandomApply"}
    | {"RandomChoice", "RandomOrder", "FiveCrop", "TenCrop", "MixUp", "CutMix", "JPEG"}
)


def may_set_format(name: str) -> bool:
    """Whether what the transform of that qualified name makes may be no tensor, or have a number format of its own."""
    return _of_torchvision(name) in _MAY_SET_FORMAT


_KEEPS_8_BITS = frozenset(
    {"Resize", "CenterCrop", "Pad", "Grayscale", "RandomGrayscale", "RandomCrop", "RandomResizedCrop", "ColorJitter"}
    | {"RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation", "RandomAffine", "RandomPerspective"}
    | {"GaussianBlur", "RandomInvert", "RandomPosterize", "RandomSolarize", "RandomAdjustSharpness"}
    | {"RandomAutocontrast", "RandomEqualize", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"}
    | {"Scale", "RandomSizedCrop"}
)


def keeps_8_bits(name: str) -> bool:
    """Whether the transform of that qualified name makes an image of PIL's, with as many bits, of such an image."""
    return _of_torchvision(name) in _KEEPS_8_BITS


def _of_torchvision(name: str) -> str:
    """The name within torchvision's transforms; of another package none."""
    package, _, last = name.rpartition(".")
    return last if f"{package}." in _IN_MODULES else ""


def transforms() -> frozenset[str]:
    """The names of the transforms that are known."""
    return frozenset(_TRANSFORMS)


def _read(table: str) -> dict[str, Transform]:
    found: dict[str, Transform] = {}
    row: Transform | None = None
    for line in table.splitlines():
        cells = line.split()
        if cells and not line.startswith(" "):
            size, draws, *cells = cells
            row = Transform(Size(size), draws == "draws")
        if row is not None:
            found.update(dict.fromkeys(cells, row))
    return found


_TRANSFORMS = _read(_TABLE)
