"""Rule ``h2d-non-blocking``: batches in pinned memory are copied to the device without waiting."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.declaration import Codemod, Leaves, Promise, Rewrites
from codemods.edit_values import AddArgument
from codemods.facts.devices import DeviceKind
from codemods.facts.values import NONE, Sort

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.declaration import Finding
    from codemods.facts.data import Loader, Transfer
    from codemods.facts.script import Script

_MESSAGE = "the host waits for the copy of a batch that is in pinned memory"


class H2dNonBlocking(Codemod):
    """Copies batches from pinned memory to CUDA without blocking the host (``non_blocking=True``).

    Why it is faster:
        The host queues the copy and goes on to queue the forward pass, instead of waiting until the batch has arrived.
        Kernels that use the batch are queued behind the copy on the same stream, so that nothing reads it too early.

    When it is left:
        The batch is not in pinned memory, and cannot be. The target is not CUDA, or is not known: from a device to the
        host a copy that does not block is read before it is there. The batch is written on the host after the copy was
        queued. The batch may be an object of a ``collate_fn`` whose ``to`` knows no ``non_blocking``.

    Results:
        The same values, bit for bit.

    References:
        ``torch.Tensor.to``; PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()";
        pytorch/pytorch#127612, #140296 (device to host).
    """

    promise = Promise.BITWISE
    gain = "0-5 %"
    needs_cuda = True
    examples = (
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=True)
for images, labels in loader:
    images, labels = images.cuda(), labels.cuda()
""",
            after="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=True)
for images, labels in loader:
    images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
""",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST("data"), batch_size=64, pin_memory=False)
for images, labels in loader:
    images = images.cuda()
""",
            because="the loader in line 5 does not pin its batches: pin_memory=False is written there",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every copy of a batch to what may be a CUDA device that blocks."""
        for move in script.transfers:
            if move.module is not script.entry or not move.loaders or move.device.kind is DeviceKind.CPU:
                continue
            given = move.non_blocking
            if given is None:
                yield self._site(script, move)
            elif isinstance(given, ast.Constant) and not given.value:
                yield self.left(move.module, move.call, because="non_blocking=False is written there")

    def _site(self, script: Script, move: Transfer) -> Finding:
        reason = self._why_not(script, move)
        if reason is not None:
            return self.left(move.module, move.call, because=reason)
        return self.rewrites(move.module, move.call, _MESSAGE, AddArgument(move.module, move.call, "non_blocking", "True"))

    def _why_not(self, script: Script, move: Transfer) -> str | None:
        if move.device.kind is DeviceKind.UNKNOWN:
            return f"the device is not known: {move.device.reason}"
        if not move.may_reach_cuda:
            return "the batch goes to another accelerator than CUDA"
        for source in move.sources:
            if source.sort is Sort.UNKNOWN:
                return f"what is moved is not always a batch: {source.name}"
            if source.sort is not Sort.BATCH:
                return "what is moved is not always a batch as the loader made it"
        for value in move.loaders:
            loader = script.loader(value)
            if loader is None:
                return "the loader is not made in a way that can be seen"
            reason = _why_pageable(loader) or _why_no_tensor(loader, move)
            if reason is not None:
                return reason
        written = _written_after(move)
        return None if written is None else f"the host buffer is written again while it may be copied (line {written.lineno})"


def _why_pageable(loader: Loader) -> str | None:
    if loader.is_pinned or loader.can_be_pinned:
        return None
    reason = "pin_memory=False is written there" if loader.is_left_unpinned else loader.unknown_arguments or loader.why_not_pinnable
    return f"the loader in line {loader.call.lineno} does not pin its batches: {reason}"


def _why_no_tensor(loader: Loader, move: Transfer) -> str | None:
    """Why the batch may be something else than a tensor, whose ``to`` may not know ``non_blocking``."""
    collate = loader.arguments.get("collate_fn")
    if move.method != "to" or collate is None or collate.values == {NONE}:
        # The default collate_fn makes tensors, and containers of tensors, which have no such method.
        return None
    tensors = {Sort.HOST, Sort.TENSOR}
    for value in collate.values:
        if value.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(value.site, (ast.FunctionDef, ast.Lambda)):
            for returned in loader.flow.returned(value.site):
                items = loader.flow.items(returned) if returned.sort is Sort.CONTAINER else {returned}
                if not items or any(each.sort not in tensors for each in items):
                    return "its collate_fn may return something else than tensors"
        elif not value.name.startswith("torch."):
            return "its collate_fn may return something else than tensors"
    return None


def _written_after(move: Transfer) -> ast.AST | None:
    """Where the moved host tensor is written in place after the copy is queued: ``x.mul_(2)``, ``x[0] = 0``, ``x += 1``."""
    root = move.receiver
    while isinstance(root, (ast.Attribute, ast.Call, ast.Subscript)):
        root = root.func if isinstance(root, ast.Call) else root.value
    if not isinstance(root, ast.Name):
        return None
    statement = move.module.statement(move.call)
    if isinstance(statement, ast.Assign) and any(
        isinstance(each, ast.Name) and each.id == root.id for target in statement.targets for each in ast.walk(target)
    ):
        return None
    suite = move.module.suite(statement)
    for later in suite[suite.index(statement) + 1 :]:
        for node in ast.walk(later):
            if _writes(node, root.id):
                return node
    return None


def _writes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method, owner = node.func.attr, node.func.value
        return method.endswith("_") and not method.endswith("__") and method != "requires_grad_" and _is_name(owner, name)
    if isinstance(node, ast.AugAssign):
        return _is_name(node.target, name) or (isinstance(node.target, ast.Subscript) and _is_name(node.target.value, name))
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _is_name(node.value, name)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
