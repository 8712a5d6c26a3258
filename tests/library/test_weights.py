"""How many parameters layers have, held against the installed torch."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from codemods.library.weights import REPARAMETERIZING, Per, Weights, is_stack, multiplies_nothing, weights

if TYPE_CHECKING:
    from collections.abc import Callable


def given(*positional: object, **named: object) -> Callable[[int, str, object], object]:
    """What a layer was given, as the facts hand it over."""

    def argument(position: int, name: str, default: object) -> object:
        return named.get(name, positional[position] if position < len(positional) else default)

    return argument


LAYERS = [
    ("Linear", (3, 4), {}),
    ("Linear", (3, 4), {"bias": False}),
    ("Conv1d", (4, 8, 3), {}),
    ("Conv2d", (4, 8, 3), {}),
    ("Conv2d", (4, 8, (3, 5)), {"groups": 2, "bias": False}),
    ("ConvTranspose2d", (4, 8, 3), {}),
    ("Embedding", (10, 3), {}),
    ("EmbeddingBag", (10, 3), {}),
    ("BatchNorm2d", (8,), {}),
    ("BatchNorm2d", (8,), {"affine": False}),
    ("InstanceNorm2d", (8,), {}),
    ("InstanceNorm2d", (8,), {"affine": True}),
    ("GroupNorm", (2, 8), {}),
    ("GroupNorm", (2, 8, 1e-5, False), {}),
    ("LayerNorm", (8,), {}),
    ("LayerNorm", ((4, 8),), {}),
    ("LayerNorm", (8,), {"elementwise_affine": False}),
    ("LayerNorm", (8,), {"bias": False}),
    ("RMSNorm", (8,), {}),
    ("LSTM", (3, 4), {}),
    ("LSTM", (3, 4, 2), {"bidirectional": True}),
    ("GRU", (3, 4, 2), {}),
    ("RNN", (3, 4), {}),
    ("PReLU", (), {}),
    ("PReLU", (4,), {}),
    ("ReLU", (), {}),
    ("Upsample", (), {}),
    ("MSELoss", (), {}),
    ("MultiheadAttention", (8, 2), {}),
    ("TransformerEncoderLayer", (8, 2), {"dim_feedforward": 16}),
    ("TransformerDecoderLayer", (8, 2, 16), {}),
    ("Transformer", (8, 2, 1, 2, 16), {}),
]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize(
    ("name", "positional", "named"), LAYERS, ids=[f"{name}{positional}{named}" for name, positional, named in LAYERS]
)
def test_the_parameters_are_those_that_torch_makes(
    name: str, positional: tuple[object, ...], named: dict[str, object]
) -> None:
    layer = getattr(nn, name)(*positional, **named)
    found = weights(f"torch.nn.{name}", given(*positional, **named))

    assert found is not None
    assert found.parameters == sum(each.numel() for each in layer.parameters())


@pytest.mark.parametrize(
    ("name", "positional", "expected"),
    [
        ("Linear", (3, 4), (Per.ROW, 12, 4)),
        ("Conv2d", (4, 8, 3), (Per.PIXEL, 4 * 8 * 9, 8)),
        ("ConvTranspose2d", (4, 8, 2), (Per.MORE, 4 * 8 * 4, 8)),
        ("Embedding", (10, 3), (Per.ITEM, 0, 0)),
        ("LSTM", (3, 4), (Per.STEP, 4 * 4 * (3 + 4), 4)),
        ("BatchNorm2d", (8,), (Per.NOTHING, 0, 0)),
    ],
)
def test_how_much_they_multiply(name: str, positional: tuple[object, ...], expected: tuple[Per, int, int]) -> None:
    found = weights(f"torch.nn.{name}", given(*positional))

    assert found is not None
    assert (found.per, found.products, found.width) == expected


@pytest.mark.parametrize(
    ("name", "positional"),
    [
        pytest.param("torch.nn.Linear", (), id="a size that is not given"),
        pytest.param("torch.nn.Linear", ("?", 4), id="a size that is not known"),
        pytest.param("torch.nn.LazyConv2d", (8, 3, 2), id="a layer that finds its sizes when it is called"),
        pytest.param("torch.nn.Bilinear", (3, 4, 5), id="a layer that is not in the table"),
        pytest.param("library.Linear", (3, 4), id="another library's"),
    ],
)
def test_what_is_not_known(name: str, positional: tuple[object, ...]) -> None:
    assert weights(name, given(*positional)) is None


def test_a_tensor_of_weights_of_which_the_size_is_not_known() -> None:
    assert weights("torch.nn.Parameter", given()) == Weights(None)
    assert weights("torch.nn.Embedding", given("?", 3)) == Weights(None, Per.ITEM)


def test_what_holds_copies_of_a_layer() -> None:
    assert [is_stack(f"torch.nn.{name}") for name in ("TransformerEncoder", "Transformer")] == [True, False]


@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")
@pytest.mark.parametrize("name", REPARAMETERIZING)
def test_what_returns_the_layer_that_it_is_given(name: str) -> None:
    function = operator.attrgetter(name.removeprefix("torch."))(torch)
    layer = nn.Linear(3, 4)

    assert function(layer) is layer
    assert len(list(layer.parameters())) == 2 + REPARAMETERIZING[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.nn.LayerNorm", True),
        ("torch.nn.ReLU", True),
        ("torch.nn.Embedding", True),
        ("torch.nn.Linear", False),
        ("torch.nn.LSTM", False),
        ("library.LayerNorm", False),
    ],
)
def test_layers_without_weights_that_they_multiply_by(name: str, expected: bool) -> None:  # noqa: FBT001 - expected
    assert multiplies_nothing(name) is expected
