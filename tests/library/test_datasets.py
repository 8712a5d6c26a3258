"""The tables of torchvision's data sets, held against the installed torchvision."""

from __future__ import annotations

import inspect

import pytest

from codemods.library.datasets import (
    BY_NAME_ONLY,
    data_sets,
    has_8_bit_images,
    has_one_size,
    largest,
    selecting,
    sizes,
    train_position,
    transform_position,
)

torchvision = pytest.importorskip("torchvision")


@pytest.mark.parametrize("name", sorted(data_sets()))
def test_where_a_transform_is_given(name: str) -> None:
    """Of those that hand the arguments on, torchvision's signature says nothing."""
    parameters = list(inspect.signature(getattr(torchvision.datasets, name)).parameters)
    position = transform_position(f"torchvision.datasets.{name}")

    assert position == (parameters.index("transform") if "transform" in parameters else BY_NAME_ONLY)


@pytest.mark.parametrize("name", sorted(data_sets()))
def test_a_transform_of_labels_is_given_behind_that_of_images(name: str) -> None:
    parameters = list(inspect.signature(getattr(torchvision.datasets, name)).parameters)
    if "transform" in parameters and "target_transform" in parameters:
        assert parameters[parameters.index("transform") + 1] == "target_transform"


@pytest.mark.parametrize("name", [name for name in sorted(data_sets()) if largest(f"torchvision.datasets.{name}")])
def test_what_selects_a_part(name: str) -> None:
    parameters = list(inspect.signature(getattr(torchvision.datasets, name)).parameters)
    known, position = selecting(f"torchvision.datasets.{name}"), train_position(f"torchvision.datasets.{name}")

    assert known is None or parameters[known[1]] == known[0]
    assert known is not None or "split" not in parameters
    assert "train" not in parameters or parameters.index("train") == position


@pytest.mark.parametrize(
    ("name", "part", "expected"),
    [
        ("torchvision.datasets.MNIST", "", (60000, 10000, 1, 28)),
        ("torchvision.datasets.EMNIST", "balanced", (112800, 18800, 1, 28)),
        ("torchvision.datasets.QMNIST", "test50k", (50000, 50000, 1, 28)),
        ("torchvision.datasets.SVHN", "extra", (531131, 0, 3, 32)),
        ("torchvision.datasets.SVHN", "train", (73257, 26032, 3, 32)),
        ("torchvision.datasets.ImageNet", "", (1281167, 50000, 3, None)),
    ],
)
def test_how_many_images_there_are(name: str, part: str, expected: tuple[int, int, int, int | None]) -> None:
    found = sizes(name, part)

    assert found is not None
    assert (found.training, found.test, found.channels, found.side) == expected


def test_the_largest_part_counts_where_none_is_named() -> None:
    found = largest("torchvision.datasets.EMNIST")

    assert found is not None
    assert (found.training, found.test, found.channels, found.side) == (697932, 116323, 1, 28)
    assert sizes("torchvision.datasets.EMNIST") is largest("library.EMNIST") is None


def test_what_is_not_torchvision_s_is_not_known() -> None:
    assert sizes("library.MNIST") is None
    assert transform_position("library.MNIST") is None
    assert not has_one_size("library.MNIST")


def test_items_begin_with_an_image_of_8_bits() -> None:
    known = {name for name in data_sets() if has_8_bit_images(f"torchvision.datasets.{name}")}
    image, _ = torchvision.datasets.FakeData(1, (3, 8, 8))[0]

    assert {"MNIST", "CIFAR10", "ImageFolder", "FakeData"} <= known
    assert known.isdisjoint(
        {"VOCDetection", "VOCSegmentation", "CocoDetection", "MovingMNIST", "DatasetFolder", "Kitti"}
    )
    assert image.mode == "RGB"
    assert not has_8_bit_images("library.MNIST")


def test_images_of_which_the_size_is_counted_have_one_size() -> None:
    known = {name for name in data_sets() if (found := largest(f"torchvision.datasets.{name}")) and found.side}

    assert known
    assert all(has_one_size(f"torchvision.datasets.{name}") for name in known)
    assert not has_one_size("torchvision.datasets.ImageFolder")
