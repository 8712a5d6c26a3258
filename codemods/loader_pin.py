"""Rule ``loader-pin``: batches that go to CUDA are loaded into pinned memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.declaration import Codemod, Leaves, Promise, Rewrites
from codemods.edit_values import AddArgument, AddItem
from codemods.facts.devices import cuda_tests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.declaration import Finding
    from codemods.edit_values import Edit
    from codemods.facts.data import Loader
    from codemods.facts.script import Script
    from codemods.facts.values import Value

_MESSAGE = "batches are copied from pageable memory"


class LoaderPin(Codemod):
    """Loads batches that go to CUDA into pinned memory (``pin_memory=True``).

    Why it is faster:
        A copy from pageable memory goes through a staging buffer of the driver and blocks the host. From page-locked
        ("pinned") memory the device reads directly, and the copy can run beside the computation (``h2d-non-blocking``).
        The loader pins in a thread of its own. Where the script chooses the device, so does the new argument.

    When it is left:
        The batches never go to CUDA, or are converted on the host first, which makes new, pageable tensors. The data set
        or ``collate_fn`` already works with CUDA tensors, which cannot be pinned. The data set, the device, or the
        arguments behind ``**`` are not known. ``pin_memory=False`` is written there. A framework runs the loop.

    Results:
        The same values, bit for bit.

    References:
        ``torch.utils.data``, "Memory Pinning"; PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()".
    """

    promise = Promise.BITWISE
    gain = "0-5 %"
    needs_cuda = True
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
        """Every loader of the entry script that does not pin its batches."""
        for loader in script.loaders:
            if loader.module is script.entry and not loader.is_pinned:
                yield self._site(script, loader)

    def _site(self, script: Script, loader: Loader) -> Finding:
        reason = loader.unknown_arguments or loader.why_not_pinnable
        if reason is not None:
            if script.framework is not None and not loader.transfers:
                reason = f"the training loop runs inside {script.framework}, which moves the batches itself"
            return self.left(loader.module, loader.call, because=reason)
        if loader.is_left_unpinned:
            return self.left(loader.module, loader.call, because="pin_memory=False is written there")
        edits = self._edits(script, loader)
        if edits is None:
            return self.left(loader.module, loader.call, because="torch cannot be named where the loader is made")
        return self.rewrites(loader.module, loader.call, _MESSAGE, *edits)

    def _edits(self, script: Script, loader: Loader) -> tuple[Edit, ...] | None:
        """The argument, at the call or in the dictionary that is given with ``**``."""
        module = loader.module
        literals = [each for each in loader.dictionaries if isinstance(each.site, (ast.Dict, ast.Call)) and module.holds(each.site)]
        if literals and all(_only_for_loaders(script, each) for each in literals):
            on_cuda = [each.site for each in literals if each.site is not None and cuda_tests(script.flow, module, each.site)]
            if on_cuda:
                return tuple(_add_item(loader, site, "True") for site in on_cuda)
            site = literals[0].site
            if len(literals) == 1 and len(loader.dictionaries) == 1 and site is not None:
                condition = script.cuda_condition(loader, module.statement(site))
                return None if condition is None else (_add_item(loader, site, condition),)
        condition = script.cuda_condition(loader, module.statement(loader.call))
        return None if condition is None else (AddArgument(module, loader.call, "pin_memory", condition),)


def _add_item(loader: Loader, site: ast.AST, value: str) -> Edit:
    if isinstance(site, ast.Call):
        return AddArgument(loader.module, site, "pin_memory", value)
    assert isinstance(site, ast.Dict)  # noqa: S101 - told apart by the caller; for the type checker
    return AddItem(loader.module, site, "pin_memory", value)


def _only_for_loaders(script: Script, dictionary: Value) -> bool:
    """Whether the dictionary is only ever given with ``**``, to calls that make loaders."""
    calls = {each.call for each in script.loaders}
    for module in script.modules:
        for call in module.nodes(ast.Call):
            if call not in calls and any(dictionary in script.flow.values(each.value) for each in call.keywords):
                return False
            if call not in calls and any(dictionary in script.flow.values(each) for each in call.args):
                return False
    return True
