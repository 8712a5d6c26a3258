"""Which lines of a script wait for the values of a device, and how often.

It stands on torch and the standard library only, as ``harness.py`` does, which loads it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import torch

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

SYNCHRONIZES = "synchronizing CUDA operation"
"""In each warning of ``torch.cuda.set_sync_debug_mode("warn")``."""
OWN = tuple(f"{Path(file).parent}{os.sep}" for file in (torch.__file__, __file__))
"""Where frames lie that nobody asks for."""


class Site(TypedDict):
    """A line of the script that makes the host wait for the device."""

    path: str
    line: int
    calls: dict[str, int]
    """How often each method wanted values there."""
    confirmed: int | None
    """How often CUDA said that it waited; None where nobody asked it."""


class Reads:
    """Where the script waits for values, while that is counted."""

    def __init__(self, places: dict[str, str], *, simulated: bool) -> None:
        self.is_open = False
        self._places = places
        self._asks_cuda = torch.cuda.is_available() and not simulated
        self._calls: Counter[tuple[str, int, str]] = Counter()
        self._confirmed: Counter[tuple[str, int]] = Counter()
        self._show: Callable[..., None] = warnings.showwarning

    def open(self) -> None:
        """Counts from now on."""
        self.is_open = True
        if self._asks_cuda:
            warnings.filterwarnings("always", message=f".*{SYNCHRONIZES}")
            self._show, warnings.showwarning = warnings.showwarning, self._warned
            torch.cuda.set_sync_debug_mode("warn")

    def close(self) -> None:
        """Counts no more."""
        self.is_open = False
        if self._asks_cuda:
            torch.cuda.set_sync_debug_mode("default")
            warnings.showwarning = self._show

    def count(self, name: str) -> None:
        """A method wants a value; its caller is the script, or something that the script called."""
        place = self._place() if self.is_open else None
        if place is not None:
            self._calls[(*place, name)] += 1

    def _warned(self, message: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as the standard library has it
        if SYNCHRONIZES not in str(message):
            self._show(message, *args, **kwargs)
            return
        place = self._place()
        if place is not None:
            self._confirmed[place] += 1

    def sites(self) -> list[Site]:
        """The lines, in the user's own files, the ones that wait most often first."""
        found: dict[tuple[str, int], dict[str, int]] = {place: {} for place in self._confirmed}
        for (path, line, name), calls in self._calls.items():
            found.setdefault((path, line), {})[name] = calls
        sites = [
            Site(
                path=self._own(path) or path,
                line=line,
                calls=calls,
                confirmed=self._confirmed[path, line] if self._asks_cuda else None,
            )
            for (path, line), calls in found.items()
        ]
        return sorted(sites, key=lambda site: (-max(site["confirmed"] or 0, 0, *site["calls"].values()), site["line"]))

    def _place(self) -> tuple[str, int] | None:
        """The innermost line of the script that is running, or else of a library which is not torch."""
        frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to it
        other = None
        while frame is not None:
            name, line = frame.f_code.co_filename, frame.f_lineno
            if self._own(name) is not None:
                return name, line
            if other is None and not name.startswith((*OWN, "<")):
                other = name, line
            frame = frame.f_back
        return other

    def _own(self, path: str) -> str | None:
        """The user's own file of which this is a copy; None of another one."""
        for copy, own in self._places.items():
            if path.startswith(f"{copy}{os.sep}"):
                return own + path[len(copy) :]
        return None


def is_on_host(tensor: Any) -> bool:  # noqa: ANN401 - a tensor, or what takes its place
    """Whether its values are there already; a simulated device says so by ``is_cuda`` alone."""
    return bool(tensor.device.type in ("cpu", "meta") and not tensor.is_cuda)


def target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """The type of the device that ``Tensor.to`` is told; None where it is told none."""
    given = args[0] if args else kwargs.get("other")
    given = kwargs.get("device", given)
    if isinstance(given, torch.Tensor):
        return "cpu" if is_on_host(given) else given.device.type.replace("cpu", "cuda")
    if isinstance(given, str):
        return given.partition(":")[0]
    if isinstance(given, torch.device):
        return given.type
    return "cuda" if type(given) is int else None
