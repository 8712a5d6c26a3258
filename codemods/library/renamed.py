"""Deprecated names of mixed precision, and the ones that took their place, which are told the device."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "torch.amp"
"""Where the new names are."""


class Renamed(NamedTuple):
    """A deprecated class or function, and what took its place in ``torch.amp``."""

    name: str
    """The last part of both names."""
    device: str
    """The device of which the old name speaks."""
    since: tuple[int, int]
    """The first torch that has the new name."""
    parameters: tuple[str, ...]
    """What the old one takes by position."""
    takes_device_first: bool
    """Whether the new one takes the device by position, before all else; or by the name ``device_type`` alone."""
    keeps_order: bool
    """Whether what follows the device by position is what the old one takes, in the same order."""


# Each with the torch since which it is in torch.amp, and what the old one takes by position.
_AUTOCAST = ("autocast", (1, 12), "enabled dtype cache_enabled", True, False)
_SCALER = ("GradScaler", (2, 3), "init_scale growth_factor backoff_factor growth_interval enabled", True, True)
_FORWARD = ("custom_fwd", (2, 4), "fwd", False, False)
_BACKWARD = ("custom_bwd", (2, 4), "bwd", False, False)
_PACKAGES = {
    "torch.cuda.amp": ("cuda", (_AUTOCAST, _SCALER, _FORWARD, _BACKWARD)),
    "torch.cuda.amp.autocast_mode": ("cuda", (_AUTOCAST, _FORWARD, _BACKWARD)),
    "torch.cuda.amp.grad_scaler": ("cuda", (_SCALER,)),
    "torch.cpu.amp": ("cpu", (_AUTOCAST, _SCALER)),
    "torch.cpu.amp.autocast_mode": ("cpu", (_AUTOCAST,)),
    "torch.cpu.amp.grad_scaler": ("cpu", (_SCALER,)),
}
RENAMED: Mapping[tuple[str, str], Renamed] = MappingProxyType(
    {
        (package, name): Renamed(name, device, since, tuple(parameters.split()), first, keeps)
        for package, (device, rows) in _PACKAGES.items()
        for name, since, parameters, first, keeps in rows
    }
)
"""By the module that has the old name, and the last part of that."""
OLD_PACKAGES = frozenset(_PACKAGES)
"""The modules that have the old names."""
NAMES = frozenset(name for _, name in RENAMED)
DEFAULT_FORMATS: Mapping[str, str] = MappingProxyType({"cuda": "float16", "cpu": "bfloat16"})
"""The number format that the old autocast of a device takes where it is told none.

The new one takes the one that is set: by another block of autocast around it, or by ``torch.set_autocast_dtype``.
"""
AUTOCAST = frozenset(f"{package}.autocast" for package in ("torch", PACKAGE, "torch.cuda.amp", "torch.cpu.amp"))
"""All names of what opens a block of autocast."""
