"""What does the work of libraries' classes, against torch and torchvision."""

from __future__ import annotations

import pytest
import torch
import torchvision  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from codemods.dataflow.names import canonical
from codemods.library.ancestry import depends_on, lineage
from codemods.library.datasets import data_sets

_OPTIMIZERS = [each for each in vars(torch.optim).values() if isinstance(each, type)]
_TRANSFORMS = ["Compose", "ToTensor", "Normalize", "Resize", "RandomCrop", "Lambda"]
_LAYERS = ["Linear", "Conv2d", "ConvTranspose2d", "BatchNorm2d", "LSTM", "GRU", "Sequential", "CrossEntropyLoss"]
CLASSES = [
    *(getattr(torchvision.datasets, name) for name in sorted(data_sets())),
    *(getattr(torchvision.transforms, name) for name in _TRANSFORMS),
    *(getattr(v2, name) for name in _TRANSFORMS),
    *(getattr(torch.nn, name) for name in _LAYERS),
    *_OPTIMIZERS,
    torch.utils.data.TensorDataset,
    torch.utils.data.Subset,
    torch.utils.data.ConcatDataset,
]


def _name(class_: type) -> str:
    return canonical(f"{class_.__module__}.{class_.__qualname__}")


@pytest.mark.parametrize("class_", CLASSES, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_the_bases_of_a_class_are_known(class_: type) -> None:
    bases = {_name(each) for each in class_.__mro__ if each.__module__.partition(".")[0] in {"torch", "torchvision"}}
    private = {each for each in bases if each.rpartition(".")[2].startswith("_")}

    known = lineage(canonical(f"{_public(class_)}.{class_.__name__}"))
    assert known >= {each.replace("transforms._transform.", "transforms.") for each in bases - private} - {
        _name(class_)
    }


def _public(class_: type) -> str:
    """The module under which users find a class."""
    for module in (torchvision.datasets, torchvision.transforms, torch.optim, torch.nn, torch.utils.data):
        if getattr(module, class_.__name__, None) is class_:
            return module.__name__
    return "torchvision.transforms.v2"


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("torchvision.datasets.MNIST", "torchvision.datasets.MNIST.__getitem__"),
        ("torchvision.datasets.MNIST", "torchvision.datasets.MNIST"),
        ("torchvision.datasets.FashionMNIST", "torchvision.datasets.MNIST.__getitem__"),
        ("torchvision.datasets.CIFAR100", "torchvision.datasets.CIFAR10.__getitem__"),
        ("torchvision.datasets.MNIST", "torch.utils.data.Dataset.__getattr__"),
        ("torchvision.datasets.MNIST", "torchvision.datasets.?.__getitem__"),
        ("torchvision.datasets.MNIST", "torchvision.datasets.mnist.read_image_file"),
        ("torchvision.datasets.MNIST", "PIL.Image.fromarray"),
        ("torchvision.transforms.ToTensor", "torchvision.transforms.functional.to_tensor"),
        ("torchvision.transforms.ToTensor", "torchvision.transforms.F.to_tensor"),
        ("torchvision.transforms.Normalize", "torch.nn.Module.__call__"),
        ("torch.utils.data.DataLoader", "torch.utils.data._utils.collate.default_collate"),
        ("torch.optim.SGD", "torch.optim.Optimizer.step"),
        ("torch.optim.SGD", "torch.optim.sgd.sgd"),
        ("torch.nn.Linear", "torch.nn.functional.linear"),
    ],
)
def test_what_a_class_does_depends_on_what_is_replaced(name: str, changed: str) -> None:
    assert depends_on(name, changed)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        pytest.param(
            "torchvision.datasets.MNIST", "torchvision.datasets.MNIST.resources", id="where it is loaded from"
        ),
        pytest.param("torchvision.datasets.MNIST", "torchvision.datasets.CIFAR10.__getitem__", id="another class"),
        pytest.param("torchvision.datasets.CIFAR10", "torchvision.datasets.CIFAR100.__getitem__", id="a derived class"),
        pytest.param("torchvision.datasets.MNIST", "torchvision.datasets.CIFAR10", id="the name of another class"),
        pytest.param("torchvision.transforms.ToTensor", "torchvision.transforms.Normalize.forward", id="another step"),
        pytest.param("torch.utils.data.DataLoader", "torch.utils.data.Subset.__getitem__", id="another class of data"),
        pytest.param("torch.optim.SGD", "torch.optim.lr_scheduler.StepLR.step", id="a scheduler"),
        pytest.param("torch.optim.SGD", "torch.optim.Adam.step", id="another optimizer"),
        pytest.param("torch.nn.Linear", "torch.backends.cudnn.benchmark", id="a switch"),
    ],
)
def test_what_a_class_does_does_not_depend_on_other_things(name: str, changed: str) -> None:
    assert not depends_on(name, changed)
