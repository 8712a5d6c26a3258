"""What a data set is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.dataflow.values import Instance

if TYPE_CHECKING:
    from codemods.facts.data.datasets import Dataset

HEAD = """\
import argparse
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split
from torchvision import datasets, transforms as T
args = argparse.ArgumentParser().parse_args()
tensors = TensorDataset(torch.zeros(8, 3))
class Rows(Dataset):
    def __getitem__(self, index):
        return index
class Stream(IterableDataset):
    def __iter__(self):
        return iter([1])
class Images(Dataset):
    def __init__(self, transform=None):
        self.files = []
        self.transform = T.Compose([T.Resize((8, 8)), T.ToTensor()])
    def __getitem__(self, index):
        return self.transform(self.files[index])
class Again(Dataset):
    def __init__(self, data):
        self.data = data
    def __getitem__(self, index):
        return self.data[index]
"""


def dataset(code: str, before: str = "") -> Dataset:
    (loader,) = script(f"{HEAD}{before}\nloader = DataLoader({code})\n").loaders
    return loader.dataset


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("tensors", {"torch.utils.data.TensorDataset"}),
        ("Subset(tensors, [0])", {"torch.utils.data.TensorDataset"}),
        ("ConcatDataset([tensors, Rows()])", {"torch.utils.data.TensorDataset", "Rows"}),
        ("tensors + Rows()", {"torch.utils.data.TensorDataset", "Rows"}),
        (
            "Rows() + tensors + datasets.MNIST('d')",
            {"torch.utils.data.TensorDataset", "Rows", "torchvision.datasets.MNIST"},
        ),
        ("Subset(tensors + Rows(), [0])", {"torch.utils.data.TensorDataset", "Rows"}),
        ("random_split(Rows(), [4, 4])[0]", {"Rows"}),
        ("Subset(Subset(Rows(), [0]), [0])", {"Rows"}),
    ],
)
def test_the_data_sets_inside(code: str, names: set[str]) -> None:
    found = {each.of.name if isinstance(each, Instance) else each.name for each in dataset(code).parts}

    assert found == names


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("tensors", None),
        ("Rows()", None),
        ("library.data()", "unknown-dataset"),
        ("args.data", "unknown-dataset"),
        ("tensors + Rows()", None),
        ("tensors + (Rows() if args.rows else library.data())", "unknown-dataset"),
    ],
)
def test_why_it_is_not_known(code: str, reason: str | None) -> None:
    found = dataset(code).why_unknown

    assert (None if found is None else found.code) == reason


def test_what_is_added_to_is_made_of_both() -> None:
    found = dataset("data", "data = tensors\ndata += Rows()")

    assert {"torch.utils.data.TensorDataset", "Rows"} == {each.name for each in found.parts}


@pytest.mark.parametrize("code", ["sum([Rows()], tensors)", "sum([Rows()], start=tensors)", "sum((tensors,), Rows())"])
def test_a_sum_of_several_is_made_of_all(code: str) -> None:
    found = dataset(code)

    assert {"torch.utils.data.TensorDataset", "Rows"} == {each.name for each in found.parts}
    assert not found.is_in_memory


def test_a_class_may_have_a_sum_of_its_own() -> None:
    own = "class Sums(Rows):\n    def __add__(self, other):\n        return other\n"

    assert {each.name for each in dataset("Sums() + tensors", own).parts}.isdisjoint({"Sums", "Rows"})


@pytest.mark.parametrize(
    ("code", "is_in_memory", "is_iterable"),
    [
        ("tensors", True, False),
        ("[1, 2]", True, False),
        ("torch.zeros(3)", True, False),
        ("Subset(tensors, [0])", True, False),
        ("Rows()", False, False),
        ("Stream()", False, True),
        ("datasets.MNIST('d')", False, False),
        ("ConcatDataset([tensors, Rows()])", False, False),
        ("tensors + TensorDataset(torch.ones(2, 3))", True, False),
        ("Stream() + Stream()", False, True),
    ],
)
def test_its_sort(code: str, is_in_memory: bool, is_iterable: bool) -> None:  # noqa: FBT001 - the expectation itself
    found = dataset(code)

    assert (found.is_in_memory, found.is_iterable) == (is_in_memory, is_iterable)


@pytest.mark.parametrize(
    ("code", "is_decoded_once"),
    [
        ("TensorDataset(*default_collate(list(datasets.MNIST('d'))))", True),
        ("TensorDataset(*torch.utils.data.default_collate(list(Rows())))", True),
        ("tensors", False),
        ("TensorDataset(*list(Rows()))", False),
        ("TensorDataset(*default_collate(Rows()))", False),
        ("datasets.MNIST('d')", False),
    ],
)
def test_the_items_of_another_are_kept(code: str, is_decoded_once: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert dataset(code, "from torch.utils.data import default_collate\n").is_decoded_once is is_decoded_once


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("datasets.MNIST('d', transform=T.ToTensor())", ["ToTensor"]),
        ("datasets.MNIST('d', True, T.ToTensor())", ["ToTensor"]),
        ("datasets.ImageFolder('d', T.Compose([T.Resize(8), T.ToTensor()]))", ["Resize", "ToTensor"]),
        ("datasets.MNIST('d', transform=T.Compose([T.Compose([T.Resize(8)]), T.ToTensor()]))", ["Resize", "ToTensor"]),
        ("datasets.MNIST('d')", []),
        ("datasets.MNIST('d', **options)", None),
        ("datasets.MNIST('d', transform=make())", None),
        ("Rows()", None),
    ],
)
def test_the_transforms_in_their_order(code: str, names: list[str] | None) -> None:
    found = dataset(code).transforms

    assert (None if found is None else [each.name.rpartition(".")[2] for each in found]) == names


@pytest.mark.parametrize(
    "code",
    [
        "tensors",
        "datasets.MNIST('d', transform=T.ToTensor())",
        "datasets.ImageFolder('d', T.Compose([T.Resize((8, 8)), T.ToTensor()]))",
        "datasets.ImageFolder('d', T.Compose([T.Resize(9), T.CenterCrop(8), T.ToTensor()]))",
        "datasets.ImageFolder('d', T.RandomResizedCrop(8))",
        "Images()",
        "Again(Images())",
    ],
)
def test_images_of_one_size(code: str) -> None:
    assert dataset(code).why_size_varies is None


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("datasets.ImageFolder('d', T.ToTensor())", id="files as they are"),
        pytest.param("datasets.ImageFolder('d', T.Compose([T.Resize(8), T.ToTensor()]))", id="only the shorter side"),
        pytest.param("datasets.ImageFolder('d', make())", id="transforms that are not known"),
        pytest.param("datasets.MNIST('d', transform=T.Compose([T.RandomRotation(9, expand=True)]))", id="they grow"),
        pytest.param("Rows()", id="a class that is not seen to resize"),
        pytest.param("ConcatDataset([tensors, datasets.ImageFolder('d')])", id="one of two"),
        pytest.param("Again(datasets.ImageFolder('d'))", id="files that are handed on"),
    ],
)
def test_images_that_may_differ(code: str) -> None:
    assert dataset(code).why_size_varies is not None
