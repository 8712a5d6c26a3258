"""Small made-up data sets under the names that ``torchvision.datasets`` has.

An item is a PIL image, so that transforms do run, and is the same each time: a picture of its class under noise, which
a model can learn to tell apart. ``STANDIN_ITEMS=TRAIN,TEST`` in the environment says how many items there are, for
scripts that count on a certain number.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

ITEMS = (200, 200)
"""For training and for testing: whole batches of 100, a few of other usual sizes, so that short runs have epochs."""
HELD_OUT = ("test", "val", "valid")
ATTRIBUTES = 40
"""Of a face in CelebA."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the items of a data set look like."""

    mode: Literal["L", "RGB"]
    size: tuple[int, int]
    """Height and width in pixels."""
    classes: int
    target: Literal["class", "attributes", "mask"] = "class"
    folder: bool = False
    """Whether the real class is to read its folder where that is there."""


LOOKS = {
    "MNIST": Look("L", (28, 28), 10),
    "FashionMNIST": Look("L", (28, 28), 10),
    "KMNIST": Look("L", (28, 28), 10),
    "QMNIST": Look("L", (28, 28), 10),
    "EMNIST": Look("L", (28, 28), 47),
    "CIFAR10": Look("RGB", (32, 32), 10),
    "CIFAR100": Look("RGB", (32, 32), 100),
    "SVHN": Look("RGB", (32, 32), 10),
    "STL10": Look("RGB", (96, 96), 10),
    "Food101": Look("RGB", (256, 256), 101),
    "Flowers102": Look("RGB", (256, 256), 102),
    "LSUN": Look("RGB", (256, 256), 10),
    "CelebA": Look("RGB", (218, 178), 2, target="attributes"),
    "VOCSegmentation": Look("RGB", (256, 256), 21, target="mask"),
    "ImageFolder": Look("RGB", (256, 256), 2, folder=True),
}


def number_of_items(*, train: bool) -> int:
    """How many items a data set has."""
    given = os.environ.get("STANDIN_ITEMS")
    counts = [int(count) for count in given.split(",")] if given else ITEMS
    return counts[0] if train else counts[-1]


def draw(look: Look, *, train: bool) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The images and the classes of a data set.

    Returns:
        Arrays of shape (items, height, width) or (items, height, width, 3), and (items,).
    """
    shape = look.size if look.mode == "L" else (*look.size, 3)
    pictures = np.random.default_rng(0).integers(0, 128, (look.classes, *shape), dtype=np.uint8)
    source = np.random.default_rng(1 if train else 2)
    items = number_of_items(train=train)
    classes = source.integers(0, look.classes, items)
    return pictures[classes] + source.integers(0, 128, (items, *shape), dtype=np.uint8), classes


class StandIn(Dataset[Any]):
    """What all of them have in common."""

    look: Look
    real: Any
    """The class that it stands for; its signature says what the arguments mean."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The real data set, where the script has its folder."""
        root: str | Path = kwargs.get("root", args[0] if args else "")
        return cls.real(*args, **kwargs) if cls.look.folder and os.path.isdir(root) else super().__new__(cls)  # noqa: PTH112 - bytes and paths alike

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(self.real.__init__).bind(self, *args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        split = given.get("split", given.get("image_set", given.get("classes", "train")))
        train = bool(given.get("train", not str(split).strip("[]'").endswith(HELD_OUT)))
        self.root = given.get("root")
        self.train = train
        self.transform = given.get("transform")
        self.target_transform = given.get("target_transform")
        images, classes = draw(self.look, train=train)
        as_tensors = self.look.mode == "L"
        self.data: Any = torch.from_numpy(images) if as_tensors else images
        self.targets: Any = torch.from_numpy(classes) if as_tensors else classes.tolist()
        self.classes = [f"class {number}" for number in range(self.look.classes)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    @property
    def labels(self) -> Any:
        """Old and other names of the classes and the images."""
        return self.targets

    @property
    def samples(self) -> list[tuple[str, int]]:
        """As ``ImageFolder`` has them, with paths that are not there."""
        return [(f"{self.root}/{at}.png", int(target)) for at, target in enumerate(self.targets)]

    imgs = samples
    train_labels = test_labels = labels

    @property
    def train_data(self) -> Any:
        """The images."""
        return self.data

    test_data = train_data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = Image.fromarray(np.asarray(self.data[index]))
        target: Any = int(self.targets[index])
        if self.look.target == "attributes":
            target = torch.from_numpy(np.random.default_rng(index).integers(0, 2, ATTRIBUTES))
        elif self.look.target == "mask":
            target = Image.fromarray(np.full(self.look.size, target, dtype=np.uint8))
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target


def make(real: Any, look: Look) -> type[StandIn]:
    """The stand-in for a class of ``torchvision.datasets``, which workers find under its name."""
    members = {"look": look, "real": real, "__module__": "torchvision.datasets", "__doc__": real.__doc__}
    return type(real.__name__, (StandIn,), members)
