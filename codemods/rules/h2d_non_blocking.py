"""Rule ``h2d-non-blocking``: batches in pinned memory are copied to the device without waiting."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import Literal, Unbound
from codemods.editing.splitting import split
from codemods.editing.values import AddArgument, Replace
from codemods.facts.devices.chosen import may_be_read_late
from codemods.facts.devices.copies import (
    in_accelerate,
    is_about_batches,
    unknown_in_place,
    why_blocking,
    why_not_about_batches,
)
from codemods.facts.devices.cuda_condition import of_named
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.reason import Reason
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import FunctionNode
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script

_FALSE = Literal("False")
_MPS = Reason(
    "perhaps-other-device",
    "the device may be MPS, where a copy that does not block may read the batch's memory too late:",
    remedy="make it a torch.device, or compare it with 'cuda'",
)
_MESSAGE = "the host waits for the copy of a batch that is in pinned memory"
_TO_BE_PINNED = "the host waits for the copy of a batch that can be in pinned memory"
_PERHAPS_PINNED = "the host waits for the copy of a batch that may be in pinned memory"


class H2dNonBlocking(Codemod):
    """Copies batches from pinned memory to CUDA without blocking the host (``non_blocking=True``).

    Why it is faster:
        The host queues the copy and goes on to queue the forward pass, instead of waiting until the batch has arrived,
        behind all work that is queued before it (on an H100: 0.02 ms, and not the 10 ms of kernels before 64 MiB).
        Kernels that use the batch are queued behind the copy on the same stream, so that nothing reads it too early.
        Where ``non_blocking`` is a parameter that nobody passes, its default becomes ``True``. Where the device may be
        Apple's MPS, as the script names it or the user may by an option, ``non_blocking=device.type == "cuda"`` is
        written: before torch 2.13 such a copy to MPS reads the batch late, when its memory may hold something else.

    When it is left:
        The batch is not in pinned memory, and cannot be; or it is converted on the host before, and not known to have
        that number format already. The target is not CUDA, or is not known: from a device to the
        host a copy that does not block is read before it is there. Each caller of the function has copied the batch
        already, wherever CUDA is used. The batch is written on the host after the copy was
        queued. The batch may be an object of a ``collate_fn`` whose ``to`` knows no ``non_blocking``. Another
        CUDA stream than that of the copy may use the batch. A time is taken from there on, which the copy would be a
        part of.

    Results:
        The same values, bit for bit.

    References:
        ``torch.Tensor.to``; PyTorch tutorial "A guide on good usage of non_blocking and pin_memory()";
        pytorch/pytorch#127612, #140296 (device to host), #83015, #139550, #189690 (host to MPS).
    """

    promise = Promise.BITWISE
    gain = "0.01-1.2 ms of the host for each copy of 0.2-64 MiB (H100)"
    gain_sources = (measured("device-and-copies"),)
    needs_cuda = True
    phases = frozenset({Phase.COPIES})
    causes = words(
        """
        converted-on-host done-already framework made-by-hand other-accelerator other-stream perhaps-other-device
        script-decides times-steps unknown-batch unknown-device unpinned-loader written-while-copied
        """
    )
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
            because="the loader in line 5 does not pin its batches: pin_memory is False there",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every copy to what may be a CUDA device that blocks, of a batch or of what was made from one."""
        for move in script.transfers:
            if move.module is not script.module or move.device.kind is DeviceKind.CPU:
                continue
            if not is_about_batches(move):
                unseen = why_not_about_batches(script, move)
                if unseen is not None:
                    yield self.left(move.module, move.call, unseen)
                continue
            given = move.non_blocking
            if given is None:
                yield self._site(script, move)
            elif isinstance(given, ast.Constant) and not given.value:
                remedy = "take non_blocking=False away"
                because = Reason("script-decides", "non_blocking=False is written there", remedy=remedy)
                yield self.left(move.module, move.call, because)
            elif {each for each in script.flow.values(given) if not isinstance(each, Unbound)} == {_FALSE}:
                yield self._parameter(script, move, given)

        yield from self._in_place(script)

    def _in_place(self, script: Script) -> Iterator[Finding]:
        """What is not known, and moves itself."""
        for call in script.module.nodes(ast.Call):
            unknown = unknown_in_place(script, call)
            if unknown is not None:
                yield self.left(script.module, call, in_accelerate(script) or unknown)

    def _parameter(self, script: Script, move: Transfer, given: ast.expr) -> Finding:
        """A site where ``non_blocking`` is False wherever it comes from: the default of a parameter becomes True."""
        module, text = move.module, move.module.code(given)
        function = module.function(move.call)
        default = None if function is None else _default(function, text)
        if (
            function is None
            or default is None
            or any(script.flow.bind(function, each).may_give(text) for each in script.flow.callers(function))
        ):
            return self.left(module, move.call, Reason("script-decides", f"{text} is False wherever this runs"))
        same = [
            each
            for each in script.transfers
            if isinstance(each.non_blocking, ast.Name)
            and each.non_blocking.id == text
            and module.function(each.call) is function
        ]
        uses = [each for each in module.nodes(ast.Name) if each.id == text and module.function(each) is function]
        reasons = [why_blocking(script, each) or (_MPS if may_be_read_late(script, each) else None) for each in same]
        if len(uses) != len(same):
            other = f"{text} is False wherever this runs, and is used for something else, too"
            reasons.append(Reason("script-decides", other))
        reason = next((each for each in reasons if each is not None), None)
        if reason is not None:
            return self.left(module, move.call, reason)
        return self.rewrites(module, move.call, _MESSAGE, Replace(module, default, "True"))

    def _site(self, script: Script, move: Transfer) -> Finding:
        edit = _edit(script, move)
        if isinstance(edit, Reason):
            return self.left(move.module, move.call, edit)
        loaders = [script.loader(each) for each in move.loaders]
        message = _MESSAGE if any(each is not None and each.is_pinned for each in loaders) else _TO_BE_PINNED
        edits = [edit, *_split(script, move)]
        return self.rewrites(move.module, move.call, message if loaders else _PERHAPS_PINNED, *edits)


def _edit(script: Script, move: Transfer) -> AddArgument | Replace | Reason:
    """What makes the copy one that does not block, or why it is left."""
    reason = why_blocking(script, move)
    if reason is not None:
        return reason
    if move.cast is not None:
        return _cast_after(move)
    value = _on_cuda(script, move) if may_be_read_late(script, move) else "True"
    return _MPS if value is None else AddArgument(move.module, move.call, "non_blocking", value)


def _split(script: Script, move: Transfer) -> list[Replace]:
    """The statement that moves several tensors, where its line gets too wide: one statement for each of them."""
    module, statement = move.module, move.module.statement(move.call)
    beside = [each for each in script.transfers if each.module is module and module.statement(each.call) is statement]
    if len(beside) == 1 or any(each.method == "copy_" for each in beside):
        return []
    edits = [_edit(script, each) for each in beside if is_about_batches(each) and each.non_blocking is None]
    added = sum(len(f", {each.name}={each.value}") for each in edits if isinstance(each, AddArgument))
    added += sum(len(", non_blocking=True") for each in edits if isinstance(each, Replace))
    found = split(module, statement, [call for each in beside for call in _chain(each.call)], added)
    return [found] if found is not None else []


def _chain(call: ast.Call) -> Iterator[ast.Call]:
    """``x.view(9).to(device)``: the call, and those of the methods before it."""
    node: ast.expr = call
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield node
        node = node.func.value


def _cast_after(move: Transfer) -> Replace:
    """``x.float().cuda()`` becomes ``x.cuda(non_blocking=True).float()``: the copy is one of the batch as it came."""
    module, cast = move.module, move.cast
    assert cast is not None  # noqa: S101 - asked before; for the type checker
    given = [module.code(each) for each in (*move.call.args, *move.call.keywords)]
    arguments = ", ".join([*given, "non_blocking=True"])
    format_ = ", ".join(module.code(each) for each in cast.args)
    text = f".{move.method}({arguments})".replace("{", "{{").replace("}", "}}")
    method = cast.func.attr  # type: ignore[attr-defined]
    return Replace(module, move.call, f"{{moved}}{text}.{method}({format_})", (("moved", move.moved),))


def _default(function: FunctionNode | ast.Lambda, name: str) -> ast.expr | None:
    """The default of a parameter, where that is ``False``."""
    found = signature(function).defaults.get(name)
    return found if isinstance(found, ast.Constant) and found.value is False else None


def _on_cuda(script: Script, move: Transfer) -> str | None:
    """The expression that says whether this move is one to CUDA."""
    node = move.device.node
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or node not in walk(move.call):
        return None
    found = of_named(script, move.module, node, move.module.statement(move.call))
    return None if found is None else found.text
