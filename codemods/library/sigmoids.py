"""Sigmoids, the losses that take what they return, and the losses that take what they are given."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codemods.dataflow.names import words

if TYPE_CHECKING:
    from collections.abc import Mapping

LAYER = "torch.nn.Sigmoid"
FUNCTIONS = words("torch.sigmoid torch.nn.functional.sigmoid torch.special.expit")
METHOD = "sigmoid"
"""Of a tensor."""
OF_LOGITS: Mapping[str, str] = MappingProxyType(
    {
        "torch.nn.BCELoss": "torch.nn.BCEWithLogitsLoss",
        "torch.nn.functional.binary_cross_entropy": "torch.nn.functional.binary_cross_entropy_with_logits",
    }
)
"""What takes probabilities, and what takes their logits with the same arguments, in the same order."""
RESHAPING = words("view reshape squeeze unsqueeze flatten view_as reshape_as contiguous")
"""Methods of a tensor that change its sizes alone, so that they may stand before a sigmoid or behind it."""
MEASURES = words("shape size dim ndim numel device dtype is_cuda")
"""Attributes and methods of a tensor that do not ask for its numbers."""
LIKES = words("torch.ones_like torch.zeros_like torch.full_like torch.empty_like torch.rand_like torch.randn_like")
"""Functions that make a tensor of the sizes of another one."""
