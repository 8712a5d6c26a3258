"""Inside the run: what do tensors come to, and where are numbers kept that a device computes, without waiting for it?

It stands on torch and the standard library only, as ``harness.py`` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import math
from array import array
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

CHUNK = 4096
"""Losses in one buffer; the next buffer is allocated when this one is full."""


class HostValues:
    """Numbers that came one after the other, each with a key."""

    def __init__(self) -> None:
        self.keys = array("q")
        self.values = array("d")
        self._told = 0

    def add(self, key: int, value: float) -> None:
        """Takes the number."""
        self.values.append(value)
        self.keys.append(key)

    def read(self) -> Iterable[tuple[int, float]]:
        """Each key with its value."""
        return zip(self.keys, self.values, strict=True)

    def news(self) -> list[tuple[int, float]]:
        """What came since the last call."""
        known = list(zip(self.keys[self._told :], self.values[self._told :], strict=True))
        self._told = len(self.keys)
        return known


class DeviceValues:
    """Numbers that are computed on a device one after the other, each with a key, in buffers there."""

    def __init__(self, device: torch.device) -> None:
        self.keys = array("q")
        self.device = device
        self._chunks: list[torch.Tensor] = []
        self._places: tuple[torch.Tensor, ...] = ()
        """The elements of the last chunk: to index it each time would cost more than the copy."""
        self._told = 0
        """How many were copied to the host already."""
        self._coming: tuple[int, torch.Tensor, Any] | None = None
        """The first key, pinned memory, and the event after which the values are in it."""
        self._cuda: Any = torch.cuda
        self._stream: Any = None

    def add(self, key: int, value: torch.Tensor) -> None:
        """Copies a detached scalar into the buffer, on the device, without waiting for it."""
        at = len(self.keys) % CHUNK
        if at == 0:
            dtype = torch.float32 if self.device.type == "mps" else torch.float64  # mps has no float64
            with torch.inference_mode(mode=False), self._own_stream():
                self._chunks.append(torch.empty(CHUNK, dtype=dtype, device=self.device))
                self._places = self._chunks[-1].unbind()
        self._places[at].copy_(value)
        self.keys.append(key)

    def _own_stream(self) -> contextlib.AbstractContextManager[Any]:
        """For memory that nothing which is still to run on the script's streams had before."""
        if self.device.type != "cuda":
            return contextlib.nullcontext()
        if self._stream is None:
            self._stream = self._cuda.Stream(self.device)
        stream: contextlib.AbstractContextManager[Any] = self._cuda.stream(self._stream)
        return stream

    def read(self) -> Iterable[tuple[int, float]]:
        """Each key with its value. Waits for the device, and for all its streams."""
        if self.device.type == "cuda":
            self._cuda.synchronize(self.device)
        values = (value for chunk in self._chunks for value in chunk.tolist())
        return zip(self.keys, values, strict=False)

    def news(self) -> list[tuple[int, float]]:
        """What was copied through pinned memory since the last call; of other devices than CUDA nothing."""
        if self.device.type != "cuda":
            return []
        known: list[tuple[int, float]] = []
        if self._coming is not None:
            first, values, copied = self._coming
            if not copied.query():
                return known
            known = list(zip(self.keys[first:], values.tolist(), strict=False))
            self._coming = None
        if self._told < len(self.keys):
            chunk, start = divmod(self._told, CHUNK)
            part = self._chunks[chunk][start : len(self.keys) - chunk * CHUNK]
            values = torch.empty(len(part), dtype=part.dtype, pin_memory=True)
            values.copy_(part, non_blocking=True)
            there: Any = self._cuda.Event()
            there.record(torch.cuda.current_stream(self.device))
            self._coming = self._told, values, there
            self._told += len(part)
        return known


class Buffers:
    """Numbers from the host and from other devices, each with a key."""

    def __init__(self) -> None:
        self._host = HostValues()
        self._devices: dict[torch.device, DeviceValues] = {}

    def add(self, key: int, value: torch.Tensor | float) -> None:
        """Takes a number, or a detached scalar without waiting for it."""
        if not isinstance(value, torch.Tensor):
            self._host.add(key, value)
        elif value.device.type == "cpu":
            self._host.add(key, value.item())
        else:
            if value.device not in self._devices:
                self._devices[value.device] = DeviceValues(value.device)
            self._devices[value.device].add(key, value)

    def read(self) -> list[tuple[int, float]]:
        """Each key with its value. Waits for the devices."""
        return [pair for values in self._all() for pair in values.read()]

    def news(self) -> list[tuple[int, float]]:
        """What is known since the last call, without waiting for the devices."""
        return [pair for values in self._all() for pair in values.news()]

    def _all(self) -> list[HostValues | DeviceValues]:
        return [self._host, *self._devices.values()]


def is_pretended(loss: Any) -> bool:  # noqa: ANN401 - whatever backward was called with
    """Whether nothing is computed: it is on the meta device, or a fake tensor of a dry run."""
    return bool(getattr(loss, "is_meta", False)) or getattr(loss, "fake_mode", None) is not None


def summed(values: list[torch.Tensor | float]) -> torch.Tensor | float:
    """The sum of scalars that may lie on several devices, without waiting for any of them."""
    total = values[0]
    for value in values[1:]:
        both = isinstance(total, torch.Tensor) and isinstance(value, torch.Tensor)
        total = total + (value.to(total.device, non_blocking=True) if both else value)  # type: ignore[union-attr]
    return total


def number(value: float) -> float | str:
    """The value as JSON has it: what JSON lacks is a string."""
    return value if math.isfinite(value) else str(value)


def length(parameter: torch.Tensor) -> torch.Tensor | None:
    """The norm of a parameter, computed on its device without waiting for it; None where it has none yet."""
    try:
        norm: torch.Tensor = torch.linalg.vector_norm(parameter.detach(), dtype=torch.float64)
    except (RuntimeError, TypeError, ValueError):  # lazy, meta, quantized, on a device without float64
        return None
    return norm


def has_moved(parameter: torch.Tensor, before: torch.Tensor | None) -> bool:
    """Whether its norm is another one now, as far as that can be told."""
    now = length(parameter)
    if before is None or now is None or before.is_meta or now.is_meta:
        return False
    return now.item() != before.item()


def digest(parameters: Iterable[torch.Tensor]) -> str:
    """SHA-256 over shapes, types and bits."""
    found = hashlib.sha256()
    for parameter in parameters:
        if torch.nn.parameter.is_lazy(parameter) or parameter.is_meta:
            continue  # it has no values
        values = parameter.detach().cpu().contiguous()
        found.update(f"{values.dtype}{tuple(values.shape)}".encode())
        size = values.numel() * values.element_size()
        if size and values.layout == torch.strided:
            found.update((ctypes.c_char * size).from_address(values.data_ptr()))
    return found.hexdigest()
