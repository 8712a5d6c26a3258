"""Images that are transformed at once: whether the numbers are the same, and what is seen of the result."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from probe import script

from codemods.facts.cost.worth import worth
from codemods.facts.data.decoded import decoded
from codemods.facts.data.tall_images import as_tall_image
from codemods.library.datasets import held

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
datasets = pytest.importorskip("torchvision.datasets")
transforms = pytest.importorskip("torchvision.transforms")
v2 = pytest.importorskip("torchvision.transforms.v2")
default_collate = torch.utils.data.default_collate

MAKE = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision import datasets, transforms
transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1,), (0.3,))])
"""
GRAY = "transform(data.data.flatten(0, 1).numpy()).view(data.data.unsqueeze(1).shape)"
COLOURED = "transform(data.data.reshape(-1, 32, 3)).reshape(3, -1, 32, 32).transpose(0, 1).contiguous()"
STEPS = {
    "ToTensor": transforms.ToTensor(),
    "Normalize": transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]),
    "in place": transforms.Compose([transforms.ToTensor(), transforms.Normalize((1 / 3,), (1 / 7,), inplace=True)]),
    "halves": transforms.Compose([transforms.ToTensor(), transforms.ConvertImageDtype(torch.float16)]),
    "second version": v2.Compose(
        [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean=[0.5], std=[0.25])]
    ),
}
COLOURS = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.49, 0.48, 0.44), (0.2, 0.21, 0.22))])


def _of_random_images(name: str, transform: object) -> Any:
    """A data set of that class, with 40 images of all values, without its files."""
    kind = getattr(datasets, name)
    data = kind.__new__(kind)
    labels = np.random.default_rng(0).integers(10, size=40)
    if name.startswith("CIFAR"):
        images = np.random.default_rng(1).integers(256, size=(40, 32, 32, 3), dtype=np.uint8)
        found = {"data": images, "targets": labels.tolist()}
    else:
        found = {"data": torch.randint(256, (40, 28, 28), dtype=torch.uint8), "targets": torch.from_numpy(labels)}
    data.__dict__.update(found, transform=transform, target_transform=None)
    return data


GRAY_SETS = ("MNIST", "FashionMNIST", "KMNIST", "EMNIST")
ALL = [(name, steps) for name in (*GRAY_SETS, "CIFAR10", "CIFAR100") for steps in STEPS]


@pytest.mark.parametrize(
    ("name", "transform"),
    [*[pytest.param(name, STEPS[steps], id=f"{name} {steps}") for name, steps in ALL],
     pytest.param("CIFAR10", COLOURS, id="a mean for each colour")],
)  # fmt: skip
def test_the_numbers_and_their_order_in_memory_are_the_same(name: str, transform: object) -> None:
    data = _of_random_images(name, transform)
    how = held(f"torchvision.datasets.{name}")
    assert how is not None

    images, labels = default_collate([data[index] for index in range(40)])
    at_once = eval(f"transform({how.tall.format(data='data')}){how.cut.format(data='data')}")  # noqa: S307 - of the table
    targets = torch.tensor(data.targets) if how.are_labels_listed else data.targets

    for old, new in ((images, at_once), (labels, targets)):
        assert (type(old), old.dtype, old.shape, old.stride()) == (type(new), new.dtype, new.shape, new.stride())
        assert old.numpy().tobytes() == new.numpy().tobytes()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("datasets.MNIST('data', transform=transform)", True),
        ("datasets.CIFAR100('data', True, transforms.ToTensor())", True),
        ("datasets.MNIST('data')", False),
        ("datasets.MNIST('data', transform=transforms.Compose([transforms.ToTensor(), transforms.Resize(8)]))", False),
        ("datasets.MNIST('data', transform=transforms.PILToTensor())", False),
        ("datasets.MNIST('data', transform=lambda image: 1)", False),
        ("datasets.STL10('data', transform=transform)", False),
    ],
)
def test_which_data_sets_can_be_transformed_at_once(made: str, *, expected: bool) -> None:
    found = script(f"{MAKE}data = {made}\n")
    (value,) = found.flow.values(found.module.nodes(ast.Assign)[-1].value)
    assert (as_tall_image(found.flow, value) is not None) == expected


@pytest.mark.parametrize(
    ("made", "images", "tensors", "is_seen"),
    [
        pytest.param("MNIST", GRAY, "images, data.targets", True, id="as it is written"),
        pytest.param("MNIST", GRAY.replace("tr", "data.tr", 1), "images, data.targets", True, id="by its attribute"),
        pytest.param("CIFAR10", COLOURED, "images, torch.tensor(data.targets)", True, id="of three colours"),
        pytest.param("MNIST", GRAY, f"{GRAY}, data.targets", True, id="where the images have no name"),
        pytest.param("MNIST", COLOURED, "images, data.targets", False, id="in the way of others"),
        pytest.param("CIFAR10", COLOURED, "images, data.targets", False, id="labels in a list"),
        pytest.param("MNIST", GRAY, "images, torch.as_tensor(data.targets)", False, id="other labels"),
        pytest.param("MNIST", GRAY.replace("transform", "transforms.ToTensor()"), "images, data.targets", False,
                     id="another transform"),
        pytest.param("MNIST", f"0\nimages = {GRAY}", "images, data.targets", True, id="a name of something else before"),
        pytest.param("MNIST", f"{GRAY}\nif input():\n    images = 0", "images, data.targets", False,
                     id="a name of two things"),
        pytest.param("MNIST", GRAY, "images", False, id="no labels"),
    ],
)  # fmt: skip
def test_what_is_seen_of_the_result(made: str, images: str, tensors: str, *, is_seen: bool) -> None:
    data = f"data = datasets.{made}('data', transform=transform)\nimages = {images}\ndata = TensorDataset({tensors})\n"
    found = script(f"{MAKE}{data}loader = DataLoader(data, batch_size=64)\n")
    (loader,) = found.loaders
    (value,) = loader.dataset.values

    assert (decoded(found.flow, value) is not None) == is_seen
    if is_seen:
        size = (3, 32, 32) if made == "CIFAR10" else (1, 28, 28)
        batches = 782 if made == "CIFAR10" else 938
        lengths = worth(found).lengths
        assert (lengths.batches(loader), lengths.image(loader.dataset)) == (batches, size)


def test_tensors_that_a_function_is_given_are_no_images_of_a_data_set() -> None:
    known = script(
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "def load(images, labels):\n    return DataLoader(TensorDataset(images, labels), 64)\n"
    )
    (loader,) = known.loaders

    assert [decoded(known.flow, each) for each in loader.dataset.values] == [None]


def test_images_of_several_cells_may_have_one_name() -> None:
    cell = f"data = datasets.MNIST('data', transform=transform)\nimages = {GRAY}\ntensors = TensorDataset(images, data.targets)\n"
    found = script(f"{MAKE}{cell}loader = DataLoader(tensors)\n{cell}other = DataLoader(tensors)\n")
    first, second = (decoded(found.flow, value) for each in found.loaders for value in each.dataset.values)

    assert [each.site.lineno for values in (first, second) for each in values or () if each.site] == [5, 9]  # type: ignore[attr-defined]
