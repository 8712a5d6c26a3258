"""What only keeps or computes what it is given, and draws nothing: made again of the same, it is the same again."""

from __future__ import annotations

_KEEPING = frozenset(
    f"torch.utils.data.{name}"
    for name in (
        *("DataLoader", "TensorDataset", "Subset", "ConcatDataset"),
        *("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "BatchSampler"),
    )
)
_OF_NUMBERS = frozenset(f"builtins.{name}" for name in ("int", "float", "bool", "str", "min", "max", "abs", "range"))
_ALWAYS = frozenset({"torch.cuda.is_available", "torch.device"})
# Their files are archives that nobody but their authors writes; a folder of images may grow while a script runs.
_READING = frozenset(
    f"torchvision.datasets.{name}"
    for name in (
        *("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST"),
        *("USPS", "CIFAR10", "CIFAR100", "SVHN", "STL10"),
    )
)


def is_the_same_again(name: str) -> bool:
    """Whether what has that qualified name makes the same of the same, without reading anything."""
    return name in _KEEPING or name in _ALWAYS


def computes_of_numbers(name: str) -> bool:
    """Whether it makes the same of the same numbers and texts."""
    return name in _OF_NUMBERS


def reads_archives(name: str) -> bool:
    """Whether it is a data set that reads the archives of its authors when it is made, and does not change later."""
    return name in _READING


def keeping() -> frozenset[str]:
    """The qualified names of the classes that only keep what they are given."""
    return _KEEPING


def reading() -> frozenset[str]:
    """The qualified names of the data sets that read archives when they are made."""
    return _READING
