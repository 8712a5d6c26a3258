"""Softmaxes, their logarithms, and what computes both at once."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGARITHMS: Mapping[str, str] = MappingProxyType(
    {
        "torch.nn.functional.softmax": "torch.nn.functional.log_softmax",
        "torch.softmax": "torch.log_softmax",
        "torch.special.softmax": "torch.special.log_softmax",
        "torch.nn.Softmax": "torch.nn.LogSoftmax",
    }
)
"""By each function or layer: the one that computes the logarithm of the same, with the same arguments."""
LAYER = "torch.nn.Softmax"
METHOD = "softmax"
METHOD_OF_BOTH = "log_softmax"
"""Methods of a tensor."""
LOG = "log"
"""A function of ``torch``, and a method of a tensor."""
