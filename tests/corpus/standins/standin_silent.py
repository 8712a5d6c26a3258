"""Packages that draw, log or show progress, without their effect."""

from __future__ import annotations

import importlib
import importlib.abc
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.machinery import ModuleSpec

MODULES = ("pyplot", "pylab")
"""Names in a silent module that are modules with something in them."""


class Silent:
    """Takes every call, and answers with one of its kind; keeps nothing of what it is given."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python asks for: copying, pickling, arrays
            raise AttributeError(name)
        return Silent()

    def __call__(self, *_: object, **__: object) -> Silent:
        return Silent()

    def __getitem__(self, _: object) -> Silent:
        return Silent()

    def __setitem__(self, _: object, __: object) -> None:
        pass

    def __iter__(self) -> Iterator[Silent]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __enter__(self) -> Silent:  # noqa: PYI034 - all are of one kind
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Progress(Silent):
    """``tqdm.tqdm``: goes through what it is given."""

    def __init__(
        self, iterable: Iterable[Any] | None = None, *_: object, total: int | None = None, **__: object
    ) -> None:
        super().__init__()
        self._iterable = range(total or 0) if iterable is None else iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type] # as tqdm: an iterator has none

    @staticmethod
    def write(text: str, *_: object, **__: object) -> None:
        """Prints between two states of the bar."""
        print(text)


def count(*args: int, **_: object) -> Progress:
    """``tqdm.trange``."""
    return Progress(range(*args))


def subplots(rows: int = 1, columns: int = 1, *_: object, **kwargs: Any) -> tuple[Silent, Any]:
    """``matplotlib.pyplot.subplots``: a figure, and as many axes as are asked for in an array, or the only one."""
    import numpy as np

    rows, columns = kwargs.get("nrows", rows), kwargs.get("ncols", columns)
    axes = np.empty((rows, columns), dtype=object)
    for at in np.ndindex(axes.shape):
        axes[at] = Silent()
    return Silent(), axes.squeeze() if axes.size > 1 else axes[0, 0]


class SilentModule(types.ModuleType):
    """A module in which every name is a silent class or thing, or another such module."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in MODULES:
            return importlib.import_module(f"{self.__name__}.{name}")
        return type(name, (Silent,), {"__module__": self.__name__}) if name[0].isupper() else Silent()


class Loader(importlib.abc.Loader):
    """Makes such modules."""

    def create_module(self, spec: ModuleSpec) -> SilentModule:
        """The module, still without what it does have."""
        return SilentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Adds what scripts unpack or iterate over."""
        members: dict[str, Any] = {}
        if module.__name__.startswith("tqdm"):
            members = {"tqdm": Progress, "trange": count, "tqdm_notebook": Progress}
        elif module.__name__ in {"matplotlib.pyplot", "matplotlib.pylab"}:
            members = {"subplots": subplots}
        module.__dict__.update(members)
