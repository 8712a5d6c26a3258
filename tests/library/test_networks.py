"""The sizes of torchvision's networks and data sets are those that torchvision states."""

from __future__ import annotations

import pytest

from codemods.library.datasets import sizes
from codemods.library.networks import NETWORKS, network

torchvision = pytest.importorskip("torchvision")


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_as_large_as_their_weights_say(name: str) -> None:
    weights = next(iter(torchvision.models.get_model_weights(name)))
    known = NETWORKS[name]
    assert known.parameters == pytest.approx(weights.meta["num_params"] / 1e6, abs=0.006)
    assert known.products == pytest.approx(weights.meta["_ops"], abs=0.001)
    assert known.side == weights.transforms().crop_size[0]


def test_network_is_asked_for_by_its_qualified_name() -> None:
    assert network("torchvision.models.resnet18") is NETWORKS["resnet18"]
    assert network("timm.models.resnet18") is None


def test_parts_of_data_sets() -> None:
    letters = sizes("torchvision.datasets.EMNIST", "letters")
    assert letters is not None
    assert (letters.training, letters.test, letters.channels, letters.side) == (124800, 20800, 1, 28)
    assert sizes("torchvision.datasets.EMNIST") is None
    assert sizes("mine.MNIST") is None
