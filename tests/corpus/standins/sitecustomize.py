"""Stand-ins for what public scripts expect of a machine: data sets, weights, a terminal, packages that draw and log.

Python imports this module when it starts, in every process whose ``PYTHONPATH`` has this folder, and so also in the
workers of a loader that are spawned. It changes nothing before a script imports what is replaced.

* ``torchvision.datasets``: see ``standin_datasets``.
* Weights that would be downloaded: the model keeps those that it was created with.
* Gradient scalers start near a scale that they keep.
* Packages of ``SILENT`` that are not installed: see ``standin_silent``.
* ``os.popen("stty size")``: 24 lines of 80 columns, although there is no terminal.
* ``next()`` of a loader's iterator and ``collections.Iterable``: old names that many scripts still use.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib.abc
import importlib.util
import io
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

SILENT = """
    matplotlib mpl_toolkits seaborn imageio IPython livelossplot ipdb
    tqdm tensorboard tensorboardX wandb visdom torchsummary torchinfo
""".split()  # noqa: SIM905 - a table
SILENT_PARTS = ("torch.utils.tensorboard", "scipy.misc")
"""Modules of packages that are installed: the first needs one of ``SILENT``, the second is gone since SciPy 1.12."""

SCALE = 16.0
"""Of a gradient scaler that is not told another."""


class Weights(dict[str, Any]):
    """Stands for weights that would be downloaded; ``load_state_dict`` takes them and changes nothing."""


class AfterImport(importlib.abc.Loader):
    """Loads a module as it is and then changes it."""

    def __init__(self, loader: importlib.abc.Loader, change: Callable[[Any], None]) -> None:
        self._loader = loader
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own loader, with the change after it."""
        self._loader.exec_module(module)
        self._change(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds what is replaced, before anything else does."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module to load in place of what is there, if anything is to be."""
        change = CHANGES.get(name)
        if change is not None:
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = AfterImport(spec.loader, change)
            return spec
        first = name.partition(".")[0]
        if name in SILENT_PARTS or (first in SILENT and PathFinder.find_spec(first) is None):
            from standin_silent import Loader

            return ModuleSpec(name, Loader(), is_package=True)
        return None


def replace_datasets(module: Any) -> None:
    """Puts small made-up data sets in the place of those that would be downloaded."""
    import standin_datasets

    for name, look in standin_datasets.LOOKS.items():
        setattr(module, name, standin_datasets.make(getattr(module, name), look))


def replace_weights(module: Any) -> None:
    """Lets ``torchvision`` hand out weights that change nothing."""
    module.WeightsEnum.get_state_dict = lambda *_, **__: Weights()


def replace_downloads(module: Any) -> None:
    """Lets ``torch.hub`` do so, too."""
    module.load_state_dict_from_url = lambda *_, **__: Weights()


def accept_weights(module: Any) -> None:
    """Lets modules take such weights."""
    load = module.Module.load_state_dict

    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        return None if isinstance(state_dict, Weights) else load(self, state_dict, *args, **kwargs)

    module.Module.load_state_dict = load_state_dict


def start_scaling_low(module: Any) -> None:
    """Lets gradient scalers start near a scale that they keep.

    From 65536 they find one by leaving out steps until gradients no longer overflow. In a run of a few iterations that
    would be most of them, and its losses would say nothing of what training in 16 bits computes.
    """
    create = module.GradScaler.__init__

    def __init__(self: Any, device: str = "cuda", init_scale: float = SCALE, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - as there
        create(self, device, init_scale, *args, **kwargs)

    module.GradScaler.__init__ = __init__


def keep_old_next(module: Any) -> None:
    """Gives the iterators of loaders the method that they had before PyTorch 1.13."""
    iterator = module._BaseDataLoaderIter
    iterator.next = iterator.__next__


CHANGES: dict[str, Callable[[Any], None]] = {
    "torchvision.datasets": replace_datasets,
    "torchvision.models._api": replace_weights,
    "torch.hub": replace_downloads,
    "torch.amp.grad_scaler": start_scaling_low,
    "torch.nn.modules.module": accept_weights,
    "torch.utils.data.dataloader": keep_old_next,
}


def popen(command: str, *args: Any, **kwargs: Any) -> Any:
    """``os.popen`` with a terminal of the usual size."""
    return io.StringIO("24 80") if "stty size" in command else run_command(command, *args, **kwargs)


run_command = os.popen
os.popen = popen  # type: ignore[assignment] # of a wider type
for old_name in ("Iterable", "Mapping", "Sequence"):
    setattr(collections, old_name, getattr(collections.abc, old_name))
sys.meta_path.insert(0, Finder())
