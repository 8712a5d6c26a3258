"""Data sets of torchvision: where they take a transform, and whose images have one size."""

from __future__ import annotations

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
