"""Rule ``loader-pin``: batches that go to CUDA are loaded into pinned memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing import imports
from codemods.editing.values import AddArgument, AddItem, Import
from codemods.facts.data.loader_dictionaries import merged, own_sites, users_of
from codemods.facts.data.loaders import partial_loaders
from codemods.facts.data.unseen import why_moves_are_unseen
from codemods.facts.devices import cuda_condition
from codemods.facts.devices.devices import cuda_branches
from codemods.facts.reason import Reason
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_IS_AVAILABLE = "torch.cuda.is_available()"
_MESSAGE = "batches are copied from pageable memory"


class LoaderPin(Codemod):
    """Loads batches that go to CUDA into pinned memory (``pin_memory=True``).

    Why it is faster:
        A copy from pageable memory goes through a staging buffer of the driver and blocks the host. From page-locked
        ("pinned") memory the device reads directly, and the copy can run beside the computation (``h2d-non-blocking``).
        With workers, it is a thread that pins. Where the script chooses the device, so does the new argument.

    When it is left:
        The batches never go to CUDA, or are converted on the host first, which makes new, pageable tensors, or their
        first part is converted by NumPy: the others are mostly small beside it. The data set or ``collate_fn`` already
        works with CUDA tensors, which cannot be pinned, or makes objects without ``pin_memory()``. The data set, the
        device, what reads the loader, or the arguments behind ``**`` are not known. The script says
        ``pin_memory=False``. Only the first batch is read. A framework runs the loop.

    Results:
        The same values, bit for bit.

    References:
        ``torch.utils.data``, "Memory Pinning"; PyTorch tutorial "A guide on good usage of `non_blocking` and
        `pin_memory()` in PyTorch".
    """

    promise = Promise.BITWISE
    gain = "copies of 0.2-64 MiB 1.7-7x as fast (H100)"
    gain_sources = (measured("device-and-copies"),)
    min_torch = (0, 2)
    needs_cuda = True
    phases = frozenset({Phase.COPIES})
    causes = words(
        """
        already-on-device batches-not-moved converted-on-host default-device few-batches framework no-cuda no-name
        other-accelerator own-loader-class partial-loader script-decides unknown-arguments unknown-dataset
        unknown-device unknown-reading unpinnable waits-at-exit
        """
    )
    failures = (r"cannot pin 'torch\.cuda\.\w+' only dense CPU tensors can be pinned",)
    examples = (
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(datasets.MNIST("data"), batch_size=64, shuffle=True)
for images, labels in train_loader:
    images, labels = images.to(device), labels.to(device)
""",
            after="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(datasets.MNIST("data"), batch_size=64, shuffle=True, pin_memory=device.type == "cuda")
for images, labels in train_loader:
    images, labels = images.to(device), labels.to(device)
""",
        ),
        Rewrites(
            before="""\
import torch
from torchvision import datasets

use_cuda = torch.cuda.is_available()
kwargs = {'num_workers': 1} if use_cuda else {}
loader = torch.utils.data.DataLoader(datasets.MNIST('data'), batch_size=64, **kwargs)
for data, target in loader:
    if use_cuda:
        data, target = data.cuda(), target.cuda()
""",
            after="""\
import torch
from torchvision import datasets

use_cuda = torch.cuda.is_available()
kwargs = {'num_workers': 1, 'pin_memory': True} if use_cuda else {}
loader = torch.utils.data.DataLoader(datasets.MNIST('data'), batch_size=64, **kwargs)
for data, target in loader:
    if use_cuda:
        data, target = data.cuda(), target.cuda()
""",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader, TensorDataset

images = torch.randn(1000, 784).cuda()
loader = DataLoader(TensorDataset(images), batch_size=50)
for (x,) in loader:
    x = x.cuda()
""",
            because="its data set already holds tensors on a device (line 4)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every loader of the module that does not pin its batches."""
        for loader in script.loaders:
            if loader.module is script.module and not loader.is_pinned:
                yield self._site(script, loader)
        for call in partial_loaders(script.flow, script.module):
            if not any(each.arg == "pin_memory" for each in call.keywords):
                text = "what functools.partial makes is not followed:"
                because = Reason("partial-loader", text, remedy="give it pin_memory there")
                yield self.left(script.module, call, because)

    def _site(self, script: Script, loader: Loader) -> Finding:
        module = loader.module
        reason = script.why_left_unpinned(loader)
        if reason is not None:
            if script.framework is not None and not loader.transfers:
                remedy = "give it pin_memory=True if it moves them to a GPU"
                reason = Reason("framework", f"{script.framework} moves its batches:", remedy=remedy)
            elif reason.code == "batches-not-moved":
                reason = why_moves_are_unseen(script, loader) or reason
            return self.left(module, loader.call, reason)
        edits = _in_dictionary(script, loader)
        if not edits:
            condition = cuda_condition.of_loader(script, loader, loader.call)
            edits = [AddArgument(module, loader.call, "pin_memory", condition or _IS_AVAILABLE)]
            if condition is None:
                if not imports.can_import(module, "torch", loader.call):
                    text = "torch cannot be imported before the loader is made"
                    return self.left(module, loader.call, Reason("no-name", text))
                edits.append(Import(module, "import torch"))
        return self.rewrites(module, loader.call, _MESSAGE, *edits)


def _in_dictionary(script: Script, loader: Loader) -> list[Edit]:
    """The edits of the dictionaries that are given with ``**``, where that is the place for the argument.

    ``kwargs = {'num_workers': 1} if use_cuda else {}`` has it where CUDA is used. A dictionary that other calls are
    given too, or a loader whose batches stay on the host, is left as it is.
    """
    module, sites, users = loader.module, own_sites(script, loader), users_of(script, loader)
    if not sites or not all(map(script.can_be_pinned, users)):
        return []
    into_all = [site for site, given in merged(script, loader) if all(map(script.can_be_pinned, given))]
    on_cuda = [each for each in (*sites, *into_all) if cuda_branches(script.flow, module, each)]
    if on_cuda:
        return [_add_item(module, site, "True") for site in on_cuda]
    conditions = {cuda_condition.of_loader(script, each, sites[0]) for each in users}
    condition = conditions.pop() if len(sites) == len(conditions) == 1 else None
    return [] if condition is None else [_add_item(module, sites[0], condition)]


def _add_item(module: Module, site: ast.AST, value: str) -> Edit:
    if isinstance(site, ast.Dict):
        return AddItem(module, site, "pin_memory", value)
    assert isinstance(site, ast.Call)  # noqa: S101 - `dict(…)`; for the type checker
    return AddArgument(module, site, "pin_memory", value)
