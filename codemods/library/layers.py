"""Layers of PyTorch and torchvision that draw random numbers, and what else draws that is no operator."""

from __future__ import annotations

from typing import NamedTuple

from codemods.library.operators import Draws, function

NETWORKS = ("torchvision.models", "timm", "transformers")
"""Libraries of networks, most of which drop values out."""
_WITHOUT_DROPOUT = ("resnet", "resnext", "wide_resnet")
_DISTRIBUTIONS = "torch.distributions."
DRAWING_METHODS = frozenset({"sample", "rsample", "sample_n", "rsample_n"})
"""Methods of distributions that draw."""


class Dropout(NamedTuple):
    """The argument that says how many values are dropped."""

    name: str
    position: int | None
    """Where it may be given by position; None where only by its name."""
    default: float


_ALWAYS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"),
        *("FractionalMaxPool2d", "FractionalMaxPool3d"),
    )
) | {f"torchvision.ops.{name}" for name in ("StochasticDepth", "DropBlock2d", "DropBlock3d")}
_DRAWING_FUNCTIONS = frozenset(
    f"torchvision.ops.{name}" for name in ("stochastic_depth", "drop_block2d", "drop_block3d")
) | {"torch.utils.data.random_split"}
_DROPOUTS = {
    **{f"torch.nn.{name}": Dropout("dropout", 5, 0.0) for name in ("LSTM", "GRU", "RNN")},
    "torch.nn.RNNBase": Dropout("dropout", 6, 0.0),
    "torch.nn.MultiheadAttention": Dropout("dropout", 2, 0.0),
    "torch.nn.Transformer": Dropout("dropout", 5, 0.1),
    "torch.nn.TransformerEncoderLayer": Dropout("dropout", 3, 0.1),
    "torch.nn.TransformerDecoderLayer": Dropout("dropout", 3, 0.1),
    "torch.nn.functional.scaled_dot_product_attention": Dropout("dropout_p", 4, 0.0),
    "torch.nn.functional.multi_head_attention_forward": Dropout("dropout_p", 10, 0.0),
    **{f"torch.{name}": Dropout("dropout", 5, 0.0) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
}


def dropout(name: str) -> Dropout | None:
    """The argument of the layer or function of that qualified name that says how many values it drops."""
    return _DROPOUTS.get(name)


def may_draw(name: str) -> bool:
    """Whether the layer or function of that qualified name draws random numbers when it is called, or may."""
    row = function(name)
    package, _, last = name.rpartition(".")
    is_network = package.startswith(NETWORKS) and not last.startswith(_WITHOUT_DROPOUT)
    is_listed = name in _ALWAYS or name in _DRAWING_FUNCTIONS or name in _DROPOUTS or is_network
    return is_listed or (row is not None and row.draws is not Draws.NO) or name.startswith(_DISTRIBUTIONS)


# Layers of torch.nn that compute one tensor, for which all of their parameters are used, and those that have none.
_WITH_PARAMETERS = frozenset(
    {"Linear", "Bilinear", "Embedding", "PReLU", "LayerNorm", "GroupNorm", "RMSNorm", "RNNCell", "GRUCell"}
    | {f"{name}{n}d" for name in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for n in (1, 2, 3)}
    | {"SyncBatchNorm"}
)
_WITHOUT_PARAMETERS = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "RReLU", "ELU", "CELU", "SELU", "GELU", "GLU", "SiLU", "Mish", "Sigmoid", "Tanh"}
    | {
        "LogSigmoid",
        "Softmax",
        "Softmax2d",
        "LogSoftmax",
        "Softmin",
        "Softplus",
        "Softsign",
        "Softshrink",
        "Tanhshrink",
    }
    | {
        "Tanhshrink",
        "Hardtanh",
        "Hardswish",
        "Hardsigmoid",
        "Hardshrink",
        "Threshold",
        "Identity",
        "Flatten",
        "Unflatten",
    }
    | {"Dropout", "AlphaDropout", "FeatureAlphaDropout", "LocalResponseNorm", "Upsample", "Fold", "Unfold"}
    | {"PixelShuffle", "PixelUnshuffle", "UpsamplingNearest2d", "UpsamplingBilinear2d", "ChannelShuffle"}
    | {
        f"{name}{n}d"
        for name in (
            *("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "Dropout", "LPPool"),
            *("ReflectionPad", "ReplicationPad", "ZeroPad", "ConstantPad", "CircularPad"),
        )
        for n in (1, 2, 3)
    }
)
_DISTANCES = frozenset({"CosineSimilarity", "PairwiseDistance"})
_CONTAINERS = frozenset({"Sequential", "ModuleList"})
USED_IN_PART = frozenset({"torch.nn.AdaptiveLogSoftmaxWithLoss"})
"""Layers of whose parameters only some take part in a call: those that its targets need."""
_RECURRENT = frozenset(
    {f"torch.nn.{name}" for name in ("RNN", "LSTM", "GRU", "RNNBase")}
    | {f"torch.{package}{name}" for package in ("", "_VF.") for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
)


def is_recurrent(name: str) -> bool:
    """Whether the layer or function of that qualified name runs cuDNN's recurrent networks: cells are none of them.

    Under autocast those compute in fp16 and return it, whatever number format autocast is told.
    """
    return name in _RECURRENT


def has_no_parameters(name: str) -> bool:
    """Whether a layer of the class of that qualified name hands gradients on, and has no parameters of its own."""
    package, _, last = name.rpartition(".")
    return package == "torch.nn" and last in _WITHOUT_PARAMETERS | _DISTANCES


def uses_all_parameters(name: str) -> bool:
    """Whether all parameters of a layer of the class of that qualified name take part in whatever it returns."""
    package, _, last = name.rpartition(".")
    return package == "torch.nn" and last in _WITH_PARAMETERS | _WITHOUT_PARAMETERS | _CONTAINERS


_RETURN_32_BITS = frozenset({"Embedding", "EmbeddingBag", "LayerNorm", "GroupNorm", "Softmax", "LogSoftmax", "Softmin"})
_KEEP_FORMAT = frozenset(f"{name}{n}d" for name in ("BatchNorm", "InstanceNorm") for n in (1, 2, 3))


def returns_32_bits(name: str) -> bool:
    """Whether a layer of the class of that qualified name has an output of 32 bits under autocast, whatever it gets."""
    package, _, last = name.rpartition(".")
    return package == "torch.nn" and last in _RETURN_32_BITS


def keeps_format(name: str) -> bool:
    """Whether a layer of the class of that qualified name computes in the format of what it gets, or in 32 bits."""
    package, _, last = name.rpartition(".")
    return package == "torch.nn" and last in _WITHOUT_PARAMETERS | _KEEP_FORMAT


def layers() -> frozenset[str]:
    """The names of the layers of torch.nn of which that is known, other than those that only hold others."""
    return _WITH_PARAMETERS | _WITHOUT_PARAMETERS
