"""Which edits read a data set of images once, and what they call what they make."""

from __future__ import annotations

import pytest

from codemods.dataflow.source import Module
from codemods.editing.dataset_edits import DatasetEdits
from codemods.editing.values import ImportName, Insert, Replace, Surround
from codemods.facts.data.materializing import ReadOnce, image_sets
from codemods.facts.reason import Reason
from codemods.facts.script import Script

SCRIPT = """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
transform = transforms.ToTensor()
{}
loader = DataLoader({}, batch_size=64)
for epoch in range(3):
    for x, y in loader:
        print(x)
"""
MADE = "datasets.MNIST('data', transform=transform)"


def found(before: str, data: str) -> tuple[list[str], list[str]]:
    """The names that are imported, and the lines that are inserted or put around."""
    asked = Script.of(Module("train.py", SCRIPT.format(before, data)))
    ((module, call, value),) = image_sets(asked)
    made = DatasetEdits(asked, module).reading_once(value, ReadOnce(call, None))
    assert not isinstance(made, Reason)
    lines = [line for each in made if isinstance(each, Insert) for line in each.code.splitlines()]
    around = [each.before for each in made if isinstance(each, Surround)]
    return [each.name for each in made if isinstance(each, ImportName)], lines + around


@pytest.mark.parametrize(
    ("data", "images"),
    [
        ("train_set", "train_images"),
        ("test_dataset", "test_images"),
        ("trainset", "train_images"),
        ("dataset", "images"),
        ("mnist", "mnist_images"),
        ("images", "images_images"),
    ],
)
def test_what_the_images_of_a_data_set_are_called(data: str, images: str) -> None:
    imported, (_, first, *_, last) = found(f"{data} = {MADE}", data)

    assert imported == ["TensorDataset"]
    assert first.partition(" = ")[0] == images
    assert last == f"{data} = TensorDataset({images}, {data}.targets)"


def test_a_name_that_is_taken_is_not_given() -> None:
    _, (_, first, *_) = found(f"images = 1\ndata = {MADE}", "data")
    assert first.startswith("data_images = ")


def test_where_all_names_are_taken_items_are_read_one_by_one() -> None:
    imported, lines = found(f"images = data_images = 1\ndata = {MADE}", "data")
    assert (imported, len(lines)) == (["TensorDataset", "default_collate"], 1)


@pytest.mark.parametrize(
    ("loader", "data"),
    [
        ("loader", "dataset"),
        ("data_loader", "dataset"),
        ("dataloader", "dataset"),
        ("train_loader", "train_set"),
        ("trainloader", "trainset"),
        ("train_dataloader", "train_dataset"),
        ("train_data_loader", "train_dataset"),
        ("self._train_loader", "train_set"),
        ("valid_dl", "valid_ds"),
        ("mnist_train", "mnist_train_set"),
    ],
)
def test_what_the_data_set_of_a_loader_is_called(loader: str, data: str) -> None:
    asked = Script.of(Module("train.py", SCRIPT.format("", MADE).replace("loader", loader)))
    ((module, call, value),) = image_sets(asked)
    made = DatasetEdits(asked, module).reading_once(value, ReadOnce(call, None))
    assert not isinstance(made, Reason)
    assert [each.template for each in made if isinstance(each, Replace)] == [data]


def test_a_data_set_that_cannot_get_a_name_is_read_where_it_stands() -> None:
    around = (["TensorDataset", "default_collate"], ["TensorDataset(*default_collate(list("])
    assert found("dataset = data_set = 1", MADE) == around
