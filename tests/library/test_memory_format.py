"""What is said of layers in the layout ``torch.channels_last``, held against the installed torch."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn
from torchvision import models  # type: ignore[import-untyped]

from codemods.library.memory_format import (
    CONVOLUTIONS,
    FAIL_ON_WEIGHTS,
    FUNCTIONAL_CONVOLUTIONS,
    GOES_BACK,
    KEEPING_FUNCTIONS,
    LAYERS,
    NETWORKS,
    SHARED,
    THREE_DIMENSIONAL,
)

LAST = torch.channels_last
OF_IMAGES = {
    **dict.fromkeys(("BatchNorm2d", "PReLU", "ZeroPad2d"), (8,)),
    **dict.fromkeys(("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "AdaptiveMaxPool2d", "UpsamplingNearest2d"), (2,)),
    **dict.fromkeys(("UpsamplingBilinear2d", "Upsample"), (8,)),
    "ConstantPad2d": (1, 0.0),
}
"""What layers that are given images are made with, where they need something."""
NOT_OF_IMAGES = {
    *("SyncBatchNorm", "Sequential", "ModuleList", "ModuleDict", "Flatten", "Unflatten", "Linear"),
    *("BatchNorm1d", "Embedding", "Softmax", "LogSoftmax", "Conv1d", "Parameter"),
}


def images() -> torch.Tensor:
    return torch.randn(2, 8, 8, 8).to(memory_format=LAST)


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_layers_keep_the_layout(name: str) -> None:
    last = name.rpartition(".")[2]
    made = getattr(nn, last)
    if last in NOT_OF_IMAGES:
        return
    layer = made(*OF_IMAGES.get(last, ())).to(memory_format=LAST)

    assert layer(images()).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("name", sorted(CONVOLUTIONS))
def test_weights_are_enough_for_a_convolution(name: str) -> None:
    layer = getattr(nn, name.rpartition(".")[2])(8, 8, 3).to(memory_format=LAST)

    assert layer(images().contiguous()).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("name", sorted(THREE_DIMENSIONAL))
def test_weights_of_volumes_refuse_it(name: str) -> None:
    layer = getattr(nn, name.rpartition(".")[2].removeprefix("Lazy"))(1, 1, 1)

    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        layer.to(memory_format=LAST)


@pytest.mark.parametrize(
    "name", sorted(GOES_BACK | FUNCTIONAL_CONVOLUTIONS | FAIL_ON_WEIGHTS | KEEPING_FUNCTIONS | SHARED)
)
def test_what_is_named_is_there(name: str) -> None:
    package, _, last = name.rpartition(".")

    assert hasattr(importlib.import_module(package), last)


@pytest.mark.parametrize("sizes", [(8,), (8, 8), (8, 8, 8), (2, 8, 8, 8), (3, 1, 8, 8, 8)], ids=str)
def test_products_of_matrices_lie_row_by_row(sizes: tuple[int, ...]) -> None:
    other = torch.randn(sizes)

    assert (images() @ other).is_contiguous()
    assert (other @ images()).is_contiguous()


@pytest.mark.parametrize("name", ["parameters_to_vector", "orthogonal_"])
def test_weights_in_the_layout_are_refused(name: str) -> None:
    layer = nn.Conv2d(3, 8, 3).to(memory_format=LAST)
    given = layer.parameters() if name == "parameters_to_vector" else layer.weight
    call = getattr(nn.utils, name, None) or getattr(nn.init, name)

    with pytest.raises(RuntimeError, match="view size is not compatible"):
        call(given)


@pytest.mark.filterwarnings("ignore:The default weight initialization")
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_networks_have_no_groups(name: str) -> None:
    with torch.device("meta"):
        network = getattr(models, name.rpartition(".")[2])(weights=None)

    assert {each.groups for each in network.modules() if isinstance(each, nn.Conv2d)} == {1}


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "squeezenet1_1"])
def test_networks_keep_the_layout(name: str) -> None:
    network = getattr(models, name)(weights=None).to(memory_format=LAST)
    kept: list[bool] = []
    for each in network.modules():
        if isinstance(each, nn.Conv2d):
            each.register_forward_hook(lambda _layer, _given, out: kept.append(out.is_contiguous(memory_format=LAST)))

    network(torch.randn(2, 3, 96, 96)).sum().backward()

    assert kept
    assert all(kept)


def test_the_model_and_its_weights_stay_the_same_objects() -> None:
    layer = nn.Conv2d(3, 8, 3)
    weight, before = layer.weight, layer.weight.detach().clone()

    assert layer.to(memory_format=LAST) is layer
    assert layer.weight is weight
    assert torch.equal(layer.weight, before)
