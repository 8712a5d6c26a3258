"""Data sets of torchvision: where they take a transform, whose images have one size, and how many there are."""

from __future__ import annotations

from typing import NamedTuple

BY_NAME_ONLY = 99
"""Instead of a position: the argument has to be given by its name."""
_POSITIONS = """
1  ImageFolder SEMEION Caltech256 EuroSAT SBU SUN397 LSUNClass
2  MNIST FashionMNIST KMNIST USPS CIFAR10 CIFAR100 SVHN PCAM LSUN CocoDetection CocoCaptions GTSRB Food101 Flowers102
   StanfordCars Flickr8k Flickr30k Caltech101 CLEVRClassification Country211 FER2013 Kitti Omniglot RenderedSST2
   WIDERFace
3  STL10 FakeData CelebA DatasetFolder DTD FGVCAircraft INaturalist LFWPairs LFWPeople PhotoTour
4  VOCDetection VOCSegmentation OxfordIIITPet Places365 Cityscapes Imagenette MovingMNIST
99 EMNIST QMNIST ImageNet
"""
_ONE_SIZE = frozenset(
    {"MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS", "FakeData"}
    | {"PCAM", "EuroSAT", "FER2013", "MovingMNIST", "Omniglot", "SEMEION"}
)
# The items are an image of PIL's and a label; of the image PIL's mode is L, RGB or CMYK, whatever the files hold.
_8_BIT = frozenset(
    {"MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "CIFAR10", "CIFAR100", "SVHN", "STL10", "USPS", "FakeData"}
    | {"PCAM", "EuroSAT", "FER2013", "Omniglot", "SEMEION", "ImageFolder", "ImageNet", "GTSRB", "LSUN", "Food101"}
    | {"Flowers102", "OxfordIIITPet", "DTD", "Imagenette", "CelebA"}
)
# The second part of an item is the number of the class of the image.
_CLASS_NUMBERS = _8_BIT - {"CelebA", "OxfordIIITPet"}


# The class, and what selects a part of it; images to train on and to test with; channels; height and width, where these
# are the same for all. From the counts on the data sets' own pages, which torchvision's documentation links.
_SIZES = """
MNIST                   60000  10000  1 28
FashionMNIST            60000  10000  1 28
KMNIST                  60000  10000  1 28
EMNIST/byclass         697932 116323  1 28
EMNIST/bymerge         697932 116323  1 28
EMNIST/balanced        112800  18800  1 28
EMNIST/letters         124800  20800  1 28
EMNIST/digits          240000  40000  1 28
EMNIST/mnist            60000  10000  1 28
QMNIST                  60000  60000  1 28
QMNIST/test10k          10000  10000  1 28
QMNIST/test50k          50000  50000  1 28
QMNIST/nist            402953 402953  1 28
USPS                     7291   2007  1 16
CIFAR10                 50000  10000  3 32
CIFAR100                50000  10000  3 32
SVHN                    73257  26032  3 32
SVHN/extra             531131      0  3 32
STL10                    5000   8000  3 96
STL10/unlabeled        100000      0  3 96
STL10/train+unlabeled  105000      0  3 96
ImageNet              1281167  50000  3 -
"""


class Held(NamedTuple):
    """How a data set holds its images and labels.

    Images of one width that lie below each other are one tall image. A transform that changes each pixel for itself
    makes the same numbers of it, and is called once.
    """

    tall: str
    """Code that makes one tall image of those of ``{data}``."""
    cut: str
    """Code that cuts the tall image of ``{data}``, once it is transformed, into the images, each contiguous."""
    are_labels_listed: bool
    """Whether ``targets`` is a list of numbers, rather than the tensor that a loader makes of them."""


# Of MNIST and its kin ``data`` is a tensor (images, rows, columns), of CIFAR an array (images, rows, columns, colours).
# MNIST reads files of images of any size.
_GRAY = Held("{data}.data.flatten(0, 1).numpy()", ".view({data}.data.unsqueeze(1).shape)", are_labels_listed=False)
_COLOURED = Held(
    "{data}.data.reshape(-1, 32, 3)", ".reshape(3, -1, 32, 32).transpose(0, 1).contiguous()", are_labels_listed=True
)
_HELD = {
    **dict.fromkeys(("MNIST", "FashionMNIST", "KMNIST", "EMNIST"), _GRAY),
    **dict.fromkeys(("CIFAR10", "CIFAR100"), _COLOURED),
}


# What selects a part, by its name or at a position from 0; of the others the first argument after the folder is
# ``train``.
_SELECTING = {
    **dict.fromkeys(("EMNIST", "SVHN", "STL10", "ImageNet"), ("split", 1)),
    "QMNIST": ("what", 1),
}
_TRAIN_POSITIONS = {**dict.fromkeys(_SELECTING, BY_NAME_ONLY), "QMNIST": 3}


class Sizes(NamedTuple):
    """How many images there are, and how large they are."""

    training: int
    test: int
    channels: int
    side: int | None
    """Height and width; None where images differ."""


def sizes(name: str, part: str = "") -> Sizes | None:
    """Those of the data set of that qualified name; ``part`` is what selects one of several."""
    package, _, last = name.rpartition(".")
    if package != "torchvision.datasets":
        return None
    return _SIZES_BY_NAME.get(f"{last}/{part}") or _SIZES_BY_NAME.get(last)


def largest(name: str) -> Sizes | None:
    """Those of the data set of that qualified name, as many images as any part of it has."""
    package, _, last = name.rpartition(".")
    parts = [each for key, each in _SIZES_BY_NAME.items() if key.partition("/")[0] == last]
    if package != "torchvision.datasets" or not parts:
        return None
    training, test = max(each.training for each in parts), max(each.test for each in parts)
    return Sizes(training, test, parts[0].channels, parts[0].side)


def selecting(name: str) -> tuple[str, int] | None:
    """Name and position, from 0, of what selects a part of the data set of that qualified name; None where nothing."""
    package, _, last = name.rpartition(".")
    return _SELECTING.get(last) if package == "torchvision.datasets" else None


def train_position(name: str) -> int:
    """Where the data set of that qualified name takes ``train``, counted from 0."""
    return _TRAIN_POSITIONS.get(name.rpartition(".")[2], 1)


def held(name: str) -> Held | None:
    """How the data set of that qualified name holds its images; None where they are read from files, or not known."""
    package, _, last = name.rpartition(".")
    return _HELD.get(last) if package == "torchvision.datasets" else None


def transform_position(name: str) -> int | None:
    """Where the data set of that qualified name takes ``transform``, counted from 0; None where that is not known."""
    package, _, last = name.rpartition(".")
    return _TRANSFORM_POSITIONS.get(last) if package == "torchvision.datasets" else None


def data_sets() -> frozenset[str]:
    """The names of the data sets whose arguments are known."""
    return frozenset(_TRANSFORM_POSITIONS)


def has_one_size(name: str) -> bool:
    """Whether the images of the data set of that qualified name all have one size."""
    package, _, last = name.rpartition(".")
    return package == "torchvision.datasets" and last in _ONE_SIZE


def has_8_bit_images(name: str) -> bool:
    """Whether the items of the data set of that qualified name are an image of 8 bits for each channel, and a label."""
    package, _, last = name.rpartition(".")
    return package == "torchvision.datasets" and last in _8_BIT


def has_class_numbers(name: str) -> bool:
    """Whether the items of the data set of that qualified name are an image, and the number of its class."""
    package, _, last = name.rpartition(".")
    return package == "torchvision.datasets" and last in _CLASS_NUMBERS


def _read(table: str) -> dict[str, int]:
    found: dict[str, int] = {}
    position = 0
    for line in table.strip().splitlines():
        names = line.split()
        if not line.startswith(" "):
            position = int(names.pop(0))
        found.update(dict.fromkeys(names, position))
    return found


_TRANSFORM_POSITIONS = _read(_POSITIONS)


def _read_sizes(table: str) -> dict[str, Sizes]:
    found = {}
    for line in table.strip().splitlines():
        name, training, test, channels, side = line.split()
        found[name] = Sizes(int(training), int(test), int(channels), None if side == "-" else int(side))
    return found


_SIZES_BY_NAME = _read_sizes(_SIZES)
