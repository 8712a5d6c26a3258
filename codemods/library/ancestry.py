"""Which classes and functions of libraries do what others of theirs do: a class as its bases, and what these call."""

from __future__ import annotations

from functools import lru_cache

from codemods.dataflow.names import words

# A base, and what derives from it; from each base all that derives from those.
_BASES = """
torch.nn.Module                       torch.nn torchvision.transforms torchvision.models
torch.nn._ConvNd                      torch.nn.Conv1d torch.nn.Conv2d torch.nn.Conv3d torch.nn.ConvTranspose1d
                                      torch.nn.ConvTranspose2d torch.nn.ConvTranspose3d
torch.nn._BatchNorm                   torch.nn.BatchNorm1d torch.nn.BatchNorm2d torch.nn.BatchNorm3d
torch.nn.RNNBase                      torch.nn.RNN torch.nn.LSTM torch.nn.GRU
torch.optim.Optimizer                 torch.optim
torch.optim.Adam                      torch.optim.AdamW
torch.utils.data.Dataset              torch.utils.data.TensorDataset torch.utils.data.Subset
                                      torch.utils.data.ConcatDataset torchvision.datasets
torchvision.transforms.Transform      torchvision.transforms
torchvision.datasets.VisionDataset    torchvision.datasets
torchvision.datasets.DatasetFolder    torchvision.datasets.ImageFolder torchvision.datasets.ImageNet
                                      torchvision.datasets.EuroSAT torchvision.datasets.Imagenette
                                      torchvision.datasets.Country211
torchvision.datasets.ImageFolder      torchvision.datasets.ImageNet torchvision.datasets.EuroSAT
                                      torchvision.datasets.Country211
torchvision.datasets.CocoDetection    torchvision.datasets.CocoCaptions
torchvision.datasets.MNIST            torchvision.datasets.FashionMNIST torchvision.datasets.KMNIST
                                      torchvision.datasets.EMNIST torchvision.datasets.QMNIST
torchvision.datasets.CIFAR10          torchvision.datasets.CIFAR100
"""
# What is in the first is done by functions of the second.
_DONE_BY = """
torch.nn                 torch.nn.functional
torch.optim              torch.optim
torch.utils.data         torch.utils.data
torchvision.datasets     torchvision.datasets PIL.Image
torchvision.transforms   torchvision.transforms PIL.Image
"""
_OF_DOWNLOADS = words("base_folder filename md5 mirrors resources tgz_md5 url urls")
"""Attributes of data sets that say where their files are loaded from, and how these are called."""
_ANY = ".?"
"""Ends the name of what may be anything in a module."""


def depends_on(name: str, changed: str) -> bool:
    """Whether what has that qualified name may do something else once another thing was assigned to ``changed``.

    That is one of its methods or of its bases', itself, or a function that does its work:
    ``torchvision.datasets.MNIST.__getitem__``, ``torchvision.transforms.functional.to_tensor``.
    """
    owner, _, member = changed.rpartition(".")
    if changed == name:
        return True
    if owner in lineage(name) or (owner.endswith(_ANY) and name.startswith(owner.removesuffix("?"))):
        return member not in _OF_DOWNLOADS
    return member.islower() and any(_is_below(owner, each) for each in _done_by(name))


def _done_by(name: str) -> list[str]:
    """The modules whose functions do the work of what has that qualified name."""
    return [each for package, modules in _MODULES.items() if name.startswith(f"{package}.") for each in modules]


def _is_below(owner: str, module: str) -> bool:
    """Whether it is the module, or one below it, rather than a class there."""
    last = owner.rpartition(".")[2]
    is_class = last[:1].isupper() and len(last) > 1
    return owner == module or (owner.startswith(f"{module}.") and not is_class)


@lru_cache(maxsize=4096)
def lineage(name: str) -> frozenset[str]:
    """The qualified names of a class and of its bases, as far as they are libraries' own and do anything."""
    package = name.rpartition(".")[0]
    return frozenset({name, *(base for base, derived in _DERIVED if name in derived or package in derived)})


def _rows(table: str) -> list[list[str]]:
    """The words of each row; one that starts with a space goes on with the row before."""
    rows: list[list[str]] = []
    for line in table.strip("\n").splitlines():
        if line.startswith(" "):
            rows[-1] += line.split()
        else:
            rows.append(line.split())
    return rows


_DERIVED = [(base, frozenset(derived)) for base, *derived in _rows(_BASES)]
_MODULES = {package: tuple(modules) for package, *modules in _rows(_DONE_BY)}
