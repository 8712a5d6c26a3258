"""How many parameters layers of torch.nn have, how much they multiply, and how wide they are."""

from __future__ import annotations

import enum
import re
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from codemods.library.layers import has_no_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

    Given = Callable[[int, str, object], object]
    """What a layer was given at a position or by a name, or else the default."""


class Per(enum.Enum):
    """How often a layer multiplies by its weights."""

    NOTHING = "never"
    ROW = "for each row of its input"
    PIXEL = "for each pixel of its output"
    ITEM = "for each item of a sequence"
    STEP = "for each step of a recurrence, one after the other"
    MORE = "for each pixel of its output, which is larger than its input"


class Weights(NamedTuple):
    """What is known of a layer."""

    parameters: int | None
    """None where it is not known how many things are embedded, or how large a tensor of weights is."""
    per: Per = Per.NOTHING
    products: int = 0
    """Multiplications with addition, each time."""
    narrow: int = 0
    """The width of what it is given."""
    wide: int = 0
    """The width of what it returns."""
    sides: int = 0
    """Of a convolution: 1 for sequences, 2 for images."""

    @property
    def width(self) -> int:
        """The wider one of them, where it multiplies at all."""
        return max(self.narrow, self.wide) if self.per is not Per.NOTHING else 0


LOOKUPS = frozenset({"Embedding", "EmbeddingBag"})
"""Layers of ``torch.nn`` that look up rows of their weights, and multiply nothing."""
REPARAMETERIZING = {
    "torch.nn.utils.weight_norm": True,
    "torch.nn.utils.spectral_norm": False,
    "torch.nn.utils.parametrizations.weight_norm": True,
    "torch.nn.utils.parametrizations.spectral_norm": False,
    "torch.nn.utils.parametrizations.orthogonal": False,
}
"""Functions that return the layer that they are given, and whether its weights are two tensors then."""
_CONVOLUTION = re.compile(r"Conv(?P<transposed>Transpose)?(?P<sides>[123])d")
_NORM = re.compile(r"((Batch|Instance)Norm[123]d|SyncBatchNorm|GroupNorm|LayerNorm|RMSNorm)")
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_LARGER = frozenset({"Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", "PixelShuffle", "Fold", "Unfold"})


class _NotKnownError(Exception):
    """A size is not known."""


def weights(name: str, given: Given) -> Weights | None:
    """Those of the layer of that qualified name; None where they are not known."""
    package, _, last = name.rpartition(".")
    try:
        return _weights(last, given) if package == "torch.nn" else None
    except _NotKnownError:
        return None


def multiplies_nothing(name: str) -> bool:
    """Whether the layer of that qualified name has no weights that it multiplies by, whatever it was given."""
    package, _, last = name.rpartition(".")
    found = weights(name, lambda _position, _name, default: default)
    is_norm = package == "torch.nn" and _NORM.fullmatch(last) is not None
    return is_norm or (found is not None and not found.products)


def _weights(name: str, given: Given) -> Weights | None:
    convolution = _CONVOLUTION.fullmatch(name)
    if convolution is not None:
        return _convolution(given, int(convolution["sides"]), is_transposed=convolution["transposed"] is not None)
    if name == "Linear":
        inputs, outputs = _int(given(0, "in_features", None)), _int(given(1, "out_features", None))
        biases = 0 if given(2, "bias", 1) is False else outputs
        return Weights(inputs * outputs + biases, Per.ROW, inputs * outputs, inputs, outputs)
    if name in LOOKUPS:
        count, width = given(0, "num_embeddings", None), given(1, "embedding_dim", None)
        return Weights(count * width if isinstance(count, int) and isinstance(width, int) else None, Per.ITEM)
    if _NORM.fullmatch(name):
        return Weights(_of_norm(name, given))
    if name in _GATES:
        return _recurrent(_GATES[name], given)
    if name == "Parameter":  # what multiplies by it is seen where it is written
        return Weights(None)
    if name == "PReLU":
        return Weights(_int(given(0, "num_parameters", 1)))
    if name in _LARGER:
        return Weights(0, Per.MORE)
    if name.startswith("Transformer") or name == "MultiheadAttention":
        return _attention(name, given)
    is_empty = has_no_parameters(f"torch.nn.{name}") or name.endswith("Loss")
    return Weights(0) if is_empty else None


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise _NotKnownError
    return value


def _sides(value: object, count: int) -> int:
    """The product of a size that is one number or one for each side."""
    if isinstance(value, (tuple, list)):
        return prod(map(_int, value))
    return int(_int(value) ** count)


def _convolution(given: Given, sides: int, *, is_transposed: bool) -> Weights:
    inputs, outputs = _int(given(0, "in_channels", None)), _int(given(1, "out_channels", None))
    groups = _int(given(6, "groups", 1))
    products = inputs * outputs * _sides(given(2, "kernel_size", None), sides) // groups
    biases = 0 if given(7, "bias", 1) is False else outputs
    return Weights(products + biases, Per.MORE if is_transposed else Per.PIXEL, products, inputs, outputs, sides)


def _of_norm(name: str, given: Given) -> int:
    """A weight and a bias for each feature; InstanceNorm has them where they are asked for, RMSNorm has no bias."""
    is_by_element = name in {"LayerNorm", "RMSNorm"}
    position, argument = (2, "elementwise_affine") if is_by_element else (3, "affine")
    if given(position, argument, "Instance" not in name) is False:
        return 0
    has_bias = name != "RMSNorm" and not (name == "LayerNorm" and given(3, "bias", 1) is False)
    return (1 + has_bias) * _normalized(name, given)


def _normalized(name: str, given: Given) -> int:
    if name == "GroupNorm":
        return _int(given(1, "num_channels", None))
    value = given(0, "normalized_shape" if name in {"LayerNorm", "RMSNorm"} else "num_features", None)
    return prod(map(_int, value)) if isinstance(value, (tuple, list)) else _int(value)


def _recurrent(gates: int, given: Given) -> Weights:
    inputs, hidden = _int(given(0, "input_size", None)), _int(given(1, "hidden_size", None))
    layers, directions = _int(given(2, "num_layers", 1)), 2 if given(6, "bidirectional", 0) is True else 1
    products = gates * directions * hidden * (inputs + hidden + (layers - 1) * (directions + 1) * hidden)
    biases = 2 * gates * hidden * directions * layers
    return Weights(products + biases, Per.STEP, products, inputs, hidden)


def _attention(name: str, given: Given) -> Weights | None:
    """Projections of attention, and the layers behind it."""
    if name not in {"MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer"}:
        return None
    width = _int(
        given(0, "embed_dim" if name == "MultiheadAttention" else "d_model", 512 if name == "Transformer" else None)
    )
    attention = 4 * width * width
    if name == "MultiheadAttention":
        return Weights(attention + 4 * width, Per.ITEM, attention, width, width)
    is_whole = name == "Transformer"
    forward = _int(given(4 if is_whole else 2, "dim_feedforward", 2048))
    encoders, decoders = (1, 0) if name == "TransformerEncoderLayer" else (0, 1)
    if is_whole:
        encoders, decoders = _int(given(2, "num_encoder_layers", 6)), _int(given(3, "num_decoder_layers", 6))
    products = encoders * (attention + 2 * width * forward) + decoders * (2 * attention + 2 * width * forward)
    # Biases of projections and of the two layers behind them, and norms: one for each, and two around a whole one.
    biases = (encoders + 2 * decoders) * 4 * width + (encoders + decoders) * (forward + width)
    norms = (2 * encoders + 3 * decoders + 2 * is_whole) * 2 * width
    return Weights(products + biases + norms, Per.ITEM, products, width, forward)


def is_stack(name: str) -> bool:
    """Whether the layer of that qualified name holds copies of its first argument, ``num_layers`` of them."""
    return name in {"torch.nn.TransformerEncoder", "torch.nn.TransformerDecoder"}
