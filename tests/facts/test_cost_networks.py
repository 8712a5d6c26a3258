"""How many parameters has a model, and how many operations has an iteration of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.cost.worth import Worth

if TYPE_CHECKING:
    from codemods.facts.cost.networks import Sizes

HEAD = """\
import torch
from torch import nn
from torchvision import models
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one = nn.Linear(784, width)
        self.two = nn.Linear(width, 10)
    def forward(self, x):
        return self.two(self.one(x).relu())
"""


def sizes(model: str, classes: str = "") -> Sizes | None:
    known = script(f"{HEAD}{classes}model = {model}\n")
    (value,) = known.flow.values(known.module.tree.body[-1].value)  # type: ignore[attr-defined]
    return Worth(known).networks.sizes(value)


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("nn.Linear(3, 4)", 16),
        ("nn.Linear(3, 4, bias=False)", 12),
        ("Net(8)", 784 * 8 + 8 + 8 * 10 + 10),
        ("nn.Sequential(nn.Linear(3, 4), nn.ReLU())", 16),
        ("nn.Conv2d(3, 8, 3)", 3 * 8 * 9 + 8),
        ("Net(choose())", None),
        ("nn.Sequential(nn.Linear(3, 4), *make())", None),
        ("nn.utils.weight_norm(nn.Linear(3, 4))", 16 + 4),
        ("nn.utils.parametrizations.spectral_norm(Net(8).one)", 784 * 8 + 8),
        ("nn.utils.weight_norm(make())", None),
    ],
)
def test_the_parameters(model: str, parameters: int | None) -> None:
    found = sizes(model)

    assert (None if found is None else found.parameters) == parameters


SUBCLASSES = """\
class Masked(nn.Conv2d):
    def __init__(self, kind, *given, **named):
        super().__init__(*given, **named)
        self.register_buffer("mask", torch.ones_like(self.weight))
    def forward(self, x):
        self.weight.data *= self.mask
        return super().forward(x)
class Shifted(Masked):
    pass
class Explicit(nn.Linear):
    def __init__(self, width):
        nn.Linear.__init__(self, width, out_features=4, bias=False)
class Unseen(nn.Linear):
    def __init__(self, width):
        prepare(self, width)
class Encoder(nn.TransformerEncoder):
    def __init__(self):
        super().__init__(nn.TransformerEncoderLayer(8, 2, 16), 3)
class Head(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.ReLU())
"""


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        pytest.param("Masked('A', 8, 16, 3, bias=False)", 8 * 16 * 9, id="what a constructor passes on"),
        pytest.param("Shifted('A', 8, 16, kernel_size=3)", 8 * 16 * 9 + 16, id="a class of such a class"),
        pytest.param("nn.Sequential(Masked('A', 8, 16, 1), nn.BatchNorm2d(16))", 8 * 16 + 16 + 32, id="among others"),
        pytest.param("Explicit(3)", 12, id="a constructor that is called by the name of its class"),
        pytest.param("Unseen(3)", None, id="a layer whose sizes are given elsewhere"),
        pytest.param("Masked(*read())", None, id="arguments that are not known"),
        pytest.param("Encoder()", 3 * 600, id="a stack of layers"),
        pytest.param("Head()", 16, id="what only holds layers"),
    ],
)
def test_a_class_of_a_layer_has_its_parameters(model: str, parameters: int | None) -> None:
    found = sizes(model, SUBCLASSES)

    assert (None if found is None else found.parameters) == parameters


def test_the_operations_of_a_forward_pass() -> None:
    """Two for each product, of a row of numbers for each sample."""
    found = sizes("nn.Linear(784, 10)")

    assert found is not None
    assert found.forward(64, (1, 28, 28)) == 2 * 64 * 784 * 10
    assert found.width == 784


@pytest.mark.parametrize(
    ("layers", "operations"),
    [
        pytest.param("nn.Conv1d(8, 16, 3), nn.ReLU(), nn.Linear(16, 4)", 2 * 100_000 * (384 + 64), id="of sequences"),
        pytest.param("nn.Conv2d(8, 16, 3)", None, id="of images"),
        pytest.param("nn.Conv1d(8, 16, 3), nn.Conv2d(8, 16, 3)", None, id="of both"),
        pytest.param("nn.Conv1d(8, 16, 3), nn.ConvTranspose1d(16, 8, 3, 2)", None, id="that make them longer"),
        pytest.param("nn.Conv1d(8, 16, 3), nn.Upsample(scale_factor=2)", None, id="of sequences that become longer"),
    ],
)
def test_convolutions_of_what_has_no_size_that_is_known(layers: str, operations: int | None) -> None:
    found = sizes(f"nn.Sequential({layers})")

    assert found is not None
    assert found.forward(64, None) == operations


def test_a_network_of_torchvision_has_published_figures() -> None:
    found = sizes("models.resnet18()")

    assert found is not None
    assert found.published is not None
    assert found.width is None
    assert found.forward(None, (3, 224, 224)) is None
    small, large = found.forward(2, (3, 224, 224)), found.forward(2, (3, 448, 448))
    assert small is not None
    assert large == 4 * small


def test_layers_that_16_bits_make_no_faster() -> None:
    found = sizes("Net(8)")

    assert found is not None
    narrow = [each.is_narrow for each in found.parts]
    assert len(found.without_narrow.parts) == narrow.count(False)
    assert any(narrow)


BLOCKS = """\
class Blocks(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.shared, self.norm, self.act = nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()
        layers = []
        for i in range(len(widths)):
            layers += [nn.Linear(784 if i == 0 else widths[i - 1], widths[i])]
        self.layers = nn.ModuleList(layers)
    def forward(self, x):
        {}
        return x
widths = [8] * 3
"""


@pytest.mark.parametrize(
    ("forward", "uses"),
    [
        pytest.param("for i in range(len(self.layers)): x = self.layers[i](x)", 1, id="each layer by its number"),
        pytest.param(
            "for i in range(len(self.layers)): x = self.act(self.norm(self.layers[i](x)))", 1, id="a norm between them"
        ),
        pytest.param("for i in range(len(self.layers)): x = self.shared(x)", None, id="one layer again and again"),
        pytest.param("for layer in self.layers: x = self.shared(layer(x))", None, id="one layer between the others"),
        pytest.param("for i in range(len(x)): x = self.layers[i](x)", None, id="as often as there are samples"),
        pytest.param("x = self.shared(self.norm(self.shared(self.norm(x))))", 2, id="one layer twice"),
        pytest.param("x = torch.matmul(x, x[0].unsqueeze(-1))", 1, id="the product of a matrix and a vector"),
        pytest.param("x = x.matmul(x[0].unsqueeze(-2))", None, id="the product of a matrix and what is no vector"),
        pytest.param("x = x.unsqueeze(-2).matmul(x.mT)", 1, id="the product of a vector and a matrix"),
        pytest.param("x = x.mm(x[0].unsqueeze(-1))", None, id="a product of which it is not looked at"),
    ],
)
def test_how_often_a_layer_is_called(forward: str, uses: int | None) -> None:
    found = sizes("Blocks(widths)", BLOCKS.format(forward))

    assert found is not None
    assert found.uses == uses
    assert found.parameters == 72 + 16 + 784 * 8 + 8 + 2 * 72
