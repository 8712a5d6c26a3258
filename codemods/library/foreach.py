"""torch's functions for lists of tensors, ``torch._foreach_mul_``, and the methods of a tensor they stand for."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codemods.dataflow.names import words

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = "torch._foreach_"
METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{name: (name,) for name in words("add_ clamp_max_ clamp_min_ copy_ div_ lerp_ mul_ neg_ sub_ zero_")},
        "clamp_": ("clamp_min_", "clamp_max_"),
    }
)
"""Methods that change a tensor in place, each number by itself, and what stands for them one after the other."""
OPERATORS: Mapping[str, str] = MappingProxyType({"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div"})
"""Operators of Python, by the names of their nodes."""
_SINCE = MappingProxyType({"clamp_max_": (2, 1), "clamp_min_": (2, 1), "copy_": (2, 2), "lerp_": (2, 1)})
_ROUNDING_OTHERWISE = words("div div_ lerp_")
"""On CUDA a tensor is multiplied by the reciprocal of a number, a list divided by it; no GPU was asked about lerp."""


def qualified(name: str) -> str:
    """The function of that name for lists: ``mul_`` → ``torch._foreach_mul_``."""
    return f"{_PACKAGE}{name}"


def since(name: str) -> tuple[int, int]:
    """The first torch that has it, and 2.0 at least: before, many of these were no faster, or not there."""
    return _SINCE.get(name, (2, 0))


def is_exact(name: str) -> bool:
    """Whether it rounds each number as the method of a tensor does, on each device.

    Of one operation IEEE 754 says the result. Where a number is scaled and added at once (``alpha``), a device may
    round once or twice.
    """
    return name not in _ROUNDING_OTHERWISE
