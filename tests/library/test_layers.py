"""The tables of layers, seeds and transforms, held against what the installed libraries do."""

from __future__ import annotations

import inspect
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import datasets, ops, transforms  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from codemods.library import layers, seeds
from codemods.library.datasets import BY_NAME_ONLY, data_sets, has_one_size, transform_position
from codemods.library.operators import Draws, operator, operators
from codemods.library.seeds import Generator
from codemods.library.transforms import Size, transform
from codemods.library.transforms import transforms as known_transforms

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGES = torch.ones(2, 4, 16, 16)
SEQUENCE = torch.ones(3, 2, 8)


def draws(run: Callable[[], object]) -> bool:
    """Whether it moves PyTorch's generator on."""
    before = torch.manual_seed(0).get_state()
    run()
    return not torch.equal(before, torch.get_rng_state())


# Layers that need more to be made than nothing, or something else than images.
LAYERS: dict[str, Callable[[], tuple[nn.Module, tuple[object, ...]]]] = {
    "RReLU": lambda: (nn.RReLU(), (-IMAGES,)),
    "FractionalMaxPool2d": lambda: (nn.FractionalMaxPool2d(2, output_size=4), (IMAGES,)),
    "FractionalMaxPool3d": lambda: (nn.FractionalMaxPool3d(2, output_size=4), (torch.ones(1, 1, 8, 8, 8),)),
    "LSTM": lambda: (nn.LSTM(8, 4, 2, dropout=0.5), (SEQUENCE,)),
    "GRU": lambda: (nn.GRU(8, 4, 2, dropout=0.5), (SEQUENCE,)),
    "RNN": lambda: (nn.RNN(8, 4, 2, dropout=0.5), (SEQUENCE,)),
    "MultiheadAttention": lambda: (nn.MultiheadAttention(8, 2, 0.5), (SEQUENCE,) * 3),
    "Transformer": lambda: (nn.Transformer(8, 2, 1, 1, 8), (SEQUENCE, SEQUENCE)),
    "TransformerEncoderLayer": lambda: (nn.TransformerEncoderLayer(8, 2, 8), (SEQUENCE,)),
    "TransformerDecoderLayer": lambda: (nn.TransformerDecoderLayer(8, 2, 8), (SEQUENCE, SEQUENCE)),
    "Linear": lambda: (nn.Linear(16, 2), (IMAGES,)),
    "Conv2d": lambda: (nn.Conv2d(4, 2, 3), (IMAGES,)),
    "BatchNorm2d": lambda: (nn.BatchNorm2d(4), (IMAGES,)),
    "LayerNorm": lambda: (nn.LayerNorm(16), (IMAGES,)),
    "MaxPool2d": lambda: (nn.MaxPool2d(2), (IMAGES,)),
    "Upsample": lambda: (nn.Upsample(4), (IMAGES,)),
}
WITHOUT_ARGUMENTS = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "ReLU"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*LAYERS, *WITHOUT_ARGUMENTS])
def test_layers_draw_where_the_table_says(name: str) -> None:
    layer, given = LAYERS[name]() if name in LAYERS else (getattr(nn, name)(), (IMAGES[0, 0],))

    assert draws(lambda: layer(*given)) is layers.may_draw(f"torch.nn.{name}")


@pytest.mark.parametrize(
    "layer", [ops.StochasticDepth(0.5, "row"), ops.DropBlock2d(0.5, 3)], ids=lambda layer: type(layer).__name__
)
def test_layers_of_torchvision_draw(layer: nn.Module) -> None:
    assert draws(lambda: layer(IMAGES))
    assert layers.may_draw(f"torchvision.ops.{type(layer).__name__}")


@pytest.mark.parametrize(
    "layer",
    [nn.MultiheadAttention, nn.Transformer, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.RNNBase],
    ids=lambda layer: layer.__name__,
)
def test_dropouts_stand_where_the_table_says(layer: type[nn.Module]) -> None:
    argument = layers.dropout(f"torch.nn.{layer.__name__}")
    parameters = inspect.signature(layer).parameters

    assert argument is not None
    assert list(parameters).index(argument.name) == argument.position
    assert parameters[argument.name].default == argument.default


def test_dropouts_of_functions_stand_where_the_table_says() -> None:
    argument = layers.dropout("torch.nn.functional.multi_head_attention_forward")
    parameters = inspect.signature(nn.functional.multi_head_attention_forward).parameters

    assert argument is not None
    assert list(parameters).index(argument.name) == argument.position


def test_functions_that_may_drop_say_by_which_argument() -> None:
    rows = {name: row for name in operators() if (row := operator(name)) is not None}
    may_drop = {name for name, row in rows.items() if row.draws is Draws.WITH_DROPOUT}
    homes = ("torch", "torch.nn.functional")

    assert {name for name in may_drop if not any(layers.dropout(f"{home}.{name}") for home in homes)} == set()


# What layers need to be made, and what they are given, where that is not nothing and images.
ARGUMENTS: dict[str, tuple[tuple[object, ...], tuple[torch.Tensor, ...]]] = {
    "Linear": ((16, 2), (IMAGES,)),
    "Bilinear": ((8, 8, 4), (SEQUENCE, SEQUENCE)),
    "Embedding": ((5, 3), (torch.tensor([1, 2]),)),
    "LayerNorm": ((16,), (IMAGES,)),
    "RMSNorm": ((16,), (IMAGES,)),
    "GroupNorm": ((2, 4), (IMAGES,)),
    "RNNCell": ((8, 4), (SEQUENCE[0],)),
    "GRUCell": ((8, 4), (SEQUENCE[0],)),
    "LocalResponseNorm": ((2,), (IMAGES,)),
    "Threshold": ((0.1, 20.0), (IMAGES,)),
    "Unflatten": ((1, (2, 2)), (IMAGES,)),
    "Upsample": ((4,), (IMAGES,)),
    "UpsamplingNearest2d": ((4,), (IMAGES,)),
    "UpsamplingBilinear2d": ((4,), (IMAGES,)),
    "Fold": (((4, 5), (2, 2)), (torch.ones(1, 8, 12),)),
    "Unfold": ((2,), (IMAGES,)),
    "PixelShuffle": ((2,), (IMAGES,)),
    "PixelUnshuffle": ((2,), (IMAGES,)),
    "ChannelShuffle": ((2,), (IMAGES,)),
}


def sized(count: int) -> torch.Tensor:
    """Images of that many dimensions, in four channels."""
    return torch.rand(2, 4, *(8,) * count)


def a_layer(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    if name in ARGUMENTS:
        given, operands = ARGUMENTS[name]
        return getattr(nn, name)(*given), operands
    count = int(name[-2]) if name[-2:] in {"1d", "2d", "3d"} else 2
    given = {"Conv": (4, 2, 3), "Tran": (4, 2, 3), "Batc": (4,), "Inst": (4,), "Cons": (1, 0.5)}.get(name[:4], ())
    given = given or ((2, 2) if name.startswith("LPPool") else (2,) if "Pool" in name or "Pad" in name else ())
    affine = {"affine": True} if name.startswith("InstanceNorm") else {}
    return getattr(nn, name)(*given, **affine), (sized(count),)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(layers.layers() - {"SyncBatchNorm"}))
def test_all_parameters_of_layers_get_gradients(name: str) -> None:
    layer, operands = a_layer(name)
    asked = [each.clone().requires_grad_(each.is_floating_point()) for each in operands]
    result = layer(*asked)
    (result if isinstance(result, torch.Tensor) else result[0]).sum().backward()

    assert bool(list(layer.parameters())) is not layers.has_no_parameters(f"torch.nn.{name}")
    assert all(each.grad is not None for each in layer.parameters())
    assert all(each.grad is not None for each in asked if each.is_floating_point())
    assert layers.uses_all_parameters(f"torch.nn.{name}")


@pytest.mark.parametrize(
    ("name", "function"), [("LayerNorm", "layer_norm"), ("GroupNorm", "group_norm"), ("LogSoftmax", "log_softmax")]
)
def test_layers_return_32_bits_where_autocast_widens_their_functions(name: str, function: str) -> None:
    row = operator(function)

    assert row is not None
    assert row.is_wide
    assert layers.returns_32_bits(f"torch.nn.{name}")


@pytest.mark.parametrize("name", ["ReLU", "Dropout", "MaxPool2d", "BatchNorm2d"])
def test_layers_that_compute_in_the_format_that_they_are_given(name: str) -> None:
    layer, (given,) = a_layer(name)

    assert layer(given.bfloat16()).dtype is torch.bfloat16
    assert layer(given).dtype is torch.float32
    assert layers.keeps_format(f"torch.nn.{name}")


@pytest.mark.parametrize("name", ["torch.nn.Linear", "torch.nn.Conv2d", "torch.nn.GRU", "own.LayerNorm"])
def test_other_layers_may_return_16_bits(name: str) -> None:
    assert not layers.returns_32_bits(name)
    assert not layers.keeps_format(name)


@pytest.mark.parametrize("name", ["CosineSimilarity", "PairwiseDistance"])
def test_distances_of_two_tensors_have_no_parameters(name: str) -> None:
    assert not list(getattr(nn, name)().parameters())
    assert layers.has_no_parameters(f"torch.nn.{name}")


@pytest.mark.parametrize("name", ["torch.nn.LSTM", "torch.nn.MultiheadAttention", "own.Linear", "torchvision.ops.MLP"])
def test_other_layers_are_not_known(name: str) -> None:
    assert not layers.uses_all_parameters(name)
    assert not layers.has_no_parameters(name)


@pytest.mark.parametrize("name", sorted(data_sets()))
def test_data_sets_take_their_transform_where_the_table_says(name: str) -> None:
    parameters = inspect.signature(getattr(datasets, name)).parameters.values()
    by_position = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    position = transform_position(f"torchvision.datasets.{name}")

    assert position == (by_position.index("transform") if "transform" in by_position else BY_NAME_ONLY)
    assert transform_position(name) is None


@pytest.mark.parametrize("name", ["MNIST", "CIFAR10", "Omniglot", "FakeData"])
def test_images_of_one_size(name: str) -> None:
    assert has_one_size(f"torchvision.datasets.{name}")
    assert not has_one_size("torchvision.datasets.ImageFolder")


def states() -> dict[Generator, object]:
    name, keys, position, *_ = np.random.get_state()  # noqa: NPY002 - the state that scripts seed
    return {
        Generator.PYTHON: random.getstate(),
        Generator.NUMPY: (name, tuple(keys), position),
        Generator.TORCH: tuple(torch.get_rng_state().tolist()),
    }


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("random.seed", random.seed),
        ("numpy.random.seed", np.random.seed),
        ("torch.manual_seed", torch.manual_seed),
        ("torch.random.manual_seed", torch.random.manual_seed),
        ("torch.cuda.manual_seed_all", torch.cuda.manual_seed_all),
    ],
)
def test_seeds_are_of_the_generators_that_the_table_says(name: str, function: Callable[[int], object]) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the state that scripts seed
    torch.manual_seed(1)
    before = states()
    function(12345)
    after = states()

    seeded = {each for each in before if before[each] != after[each]}
    assert seeded == set(seeds.seeded_by(name)) - {Generator.CUDA}


def test_what_seeds_nothing() -> None:
    assert not seeds.seeded_by("torch.rand")
    assert not seeds.seeded_by("seed")
    assert "lightning.seed_everything" in seeds.seeds()


# What transforms need to be made, in either version.
MADE: dict[str, tuple[object, ...]] = {
    "Normalize": ([0.5], [0.5]),
    "ConvertImageDtype": (torch.float32,),
    "ToDtype": (torch.float32,),
    "Pad": (2,),
    "ElasticTransform": (2.0, 1.0),
    "GaussianBlur": (3,),
    "RandomAffine": (10,),
    "RandomPosterize": (4, 1.0),
    "RandomSolarize": (0.5, 1.0),
    "RandomAdjustSharpness": (2,),
    "CenterCrop": (4,),
    "FiveCrop": (4,),
    "TenCrop": (4,),
    "RandomCrop": (4,),
    "RandomResizedCrop": (4,),
    "Resize": ((4, 4),),
    "RandomRotation": (30,),
    "JPEG": ((5, 50),),
    "ScaleJitter": ((8, 8),),
    "RandomResize": (4, 12),
    "RandomShortestSize": ([4, 8],),
    "RandomApply": ([transforms.RandomHorizontalFlip()],),
    "RandomChoice": ([transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip()],),
    "RandomOrder": ([transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip()],),
    "Compose": ([torch.nn.Identity()],),
    "Lambda": (abs,),
}
IMAGE = torch.randint(0, 255, (3, 48, 36), dtype=torch.uint8)
NOT_OF_TENSORS = {"ToTensor", "PILToTensor", "LinearTransformation", "MixUp", "CutMix", "RandomIoUCrop"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", [transforms, v2], ids=["v1", "v2"])
def test_transforms_do_what_the_table_says(module: object) -> None:
    done: set[str] = set()
    wrong: list[tuple[str, object]] = []
    for name in sorted(known_transforms() - NOT_OF_TENSORS):
        made = getattr(module, name, None)
        row = transform(name)
        assert row is not None
        if made is None:
            continue
        image = IMAGE / 255 if name in {"GaussianNoise", "Normalize", "RandomSolarize", "RandomErasing"} else IMAGE
        torch.manual_seed(0)
        random.seed(0)
        before = states()
        result = made(*MADE.get(name, ()))(image)
        drawn = before != states()
        done.add(name)
        if drawn is not row.draws:
            wrong.append((name, drawn))
        if row.size is Size.KEPT and hasattr(result, "shape") and name != "Pad" and result.shape[-2:] != (48, 36):
            wrong.append((name, tuple(result.shape)))

    assert wrong == []
    assert len(done) > 30


def test_every_transform_of_torchvision_that_is_called_random_is_known() -> None:
    named = {name for module in (transforms, v2) for name in vars(module) if name.startswith("Random")}

    assert named - known_transforms() == set()
