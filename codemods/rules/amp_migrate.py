"""Rule ``amp-migrate``: mixed precision is named as ``torch.amp`` names it, without a warning at each use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.renaming import called_with, imported_from
from codemods.editing.values import AddArgument, Replace
from codemods.facts.precision.old_names import (
    is_called,
    is_decorator,
    is_kept_for_calls,
    old_names,
    partial_of,
    why_not,
)
from codemods.facts.precision.presence import apex_calls, sets_format
from codemods.facts.precision.scaling import faults, is_switched_off
from codemods.facts.reason import HERE, Reason, at
from codemods.library.renamed import DEFAULT_FORMATS, NAMES, OLD_PACKAGES, PACKAGE, RENAMED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.precision.old_names import Reference, Start, Together
    from codemods.facts.script import Script


class AmpMigrate(Codemod):
    """Names mixed precision as ``torch.amp`` does: ``torch.cuda.amp.autocast()`` → ``torch.amp.autocast("cuda")``.

    Why it is faster:
        It is not, but for the warning: since torch 2.4 ``autocast``, ``GradScaler``, ``custom_fwd`` and ``custom_bwd``
        of ``torch.cuda.amp`` and ``torch.cpu.amp`` warn where they are called, in each iteration. The new names are
        those for all devices, and take the device first: ``autocast(True)`` becomes ``autocast("cuda", enabled=True)``.

    When it is left:
        The script's torch may not have the new name: ``GradScaler`` needs 2.3, ``custom_fwd`` and ``custom_bwd`` 2.4.
        The class is handed on, or stored and called with the old arguments. What only gives it another name,
        ``context = autocast if amp else nullcontext``, becomes ``(lambda: autocast("cuda")) if amp else nullcontext``,
        where this and the functions that are given ``context`` only call it.
        The name may be another thing, or another file imports it from here. A script that names both, and chooses by
        the version, is right already.

        Mixed precision that trains otherwise than it says is named, not mended, as that changes the training: a scaler
        that scales nothing, a plain ``optimizer.step()`` behind a scaled loss, gradients that are clipped while they
        are scaled, a scaler that nothing updates, one that steps a fused ``SGD`` with momentum, which PyTorch leaves
        unset where the first step is skipped, a backward or several steps within one block of autocast. So is Apex,
        whose patched functions and fp16 weights autocast does not have.

    Results:
        The same values, bit for bit. The old autocast takes fp16 where it is told nothing (bf16 on CPUs), the new one
        the format that is set: where the script sets one, the format is written out.

    References:
        ``torch.amp``; the warnings of ``torch.cuda.amp``.
    """

    promise = Promise.BITWISE
    gain = UNMEASURED
    min_torch = (1, 12)
    oldest_torch = (0, 4)  # what is wrong with mixed precision is so in any torch
    needs_cuda = False
    phases = frozenset({Phase.OTHER})
    causes = words(
        """
        apex autocast-over-steps backward-in-autocast clipped-scaled handed-on idle-scaler momentum-unset no-name
        other-module scale-not-updated scaled-step several-meanings torchscript unknown-arguments
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

model = nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler(2.0**10)
for images, labels in zip(torch.randn(8, 64, 784), torch.randint(10, (8, 64))):
    optimizer.zero_grad()
    with autocast(True):
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
            after="""\
import torch
from torch import nn
from torch.amp import GradScaler, autocast

model = nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler("cuda", 2.0**10)
for images, labels in zip(torch.randn(8, 64, 784), torch.randint(10, (8, 64))):
    optimizer.zero_grad()
    with autocast("cuda", enabled=True):
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        ),
        Rewrites(
            before="""\
import torch


class Scaled(torch.autograd.Function):
    @staticmethod
    @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, grad):
        return grad * ctx.factor, None
""",
            after="""\
import torch


class Scaled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(cast_inputs=torch.float32, device_type="cuda")
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        return grad * ctx.factor, None
""",
        ),
        Leaves(
            code="""\
import torch

scaler = torch.cuda.amp.GradScaler()
""",
            because="needs torch 2.3, and the script may run on an older one: torch.cuda.amp.GradScaler is deprecated "
            "since torch 2.4",
            target=(2, 2),
        ),
        Leaves(
            code="""\
import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for x in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).square().mean()
    scaler.scale(loss).backward()
    optimizer.step()
""",
            because="the loss is scaled (line 10), and optimizer.step() takes its gradients as they are: "
            "scaler.step(optimizer) divides them by the scale first",
        ),
        Leaves(
            code="""\
import torch

model = torch.nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.autocast("cuda", dtype=torch.bfloat16):
    for x in torch.randn(4, 16, 8).cuda():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
""",
            because="several steps (line 9) are made in one block of autocast, which casts the weights once and keeps "
            "the copies: enter autocast in each iteration, around the forward pass and the loss",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """The old names that change together, and what is wrong with mixed precision, each where it stands."""
        for together in old_names(script):
            yield self._site(script, together)
        for start in script.module.nodes(ast.ImportFrom):
            if start.module in OLD_PACKAGES and any(each.name == "*" for each in start.names):
                text = f"what * brings is not followed ({HERE}):"
                because = Reason("several-meanings", text, (at(script.module, start),), "import names one by one")
                yield self.left(script.module, start, because)
        for call, reason in apex_calls(script):
            yield self.left(script.module, call, reason)
        for node, reason in faults(script):
            yield self.left(script.module, node, reason)

    def _site(self, script: Script, together: Together) -> Finding:
        module, node = script.module, together.node
        because = why_not(script, together)
        if because is not None:
            return self.left(module, node, because)
        edits: list[Edit] = []
        for found in (*_imports(script, together.starts), *_uses(script, together.references)):
            if isinstance(found, Reason):
                return self.left(module, node, found)
            edits.append(found)
        first = together.references[0].renamed
        name = f".{first.name}" if len({each.renamed.name for each in together.references}) == 1 else ""
        message = f"torch.{first.device}.amp{name} is deprecated since torch 2.4"
        since = max([each.renamed.since for each in together.references] + [_since(each) for each in together.starts])
        return self.rewrites(module, node, message, *edits, since=since)


def _since(start: Start) -> tuple[int, int]:
    """The first torch from which the import can bring its names."""
    source = getattr(start, "module", None) or ""
    brought = (RENAMED.get((source, alias.name)) for alias in start.names)
    return max((each.since for each in brought if each is not None), default=AmpMigrate.min_torch)


def _imports(script: Script, starts: tuple[Start, ...]) -> Iterator[Edit | Reason]:
    renamed = {f"{package}.{name}": f"{PACKAGE}.{name}" for package in OLD_PACKAGES for name in NAMES}
    renamed |= dict.fromkeys(OLD_PACKAGES, PACKAGE)
    for start in starts:
        yield imported_from(script.module, start, renamed)


def _uses(script: Script, references: tuple[Reference, ...]) -> Iterator[Edit | Reason]:
    """What the expressions become that name the old things."""
    module = script.module
    quote = script.quote(module)
    for each in references:
        node, renamed, place = each.node, each.renamed, module.statement(each.node)
        package = script.spelled(module, PACKAGE, place) if each.start is None else ""
        if package is None:
            yield Reason("no-name", f"{PACKAGE} cannot be named here ({HERE})", (at(module, node),))
            return
        name = module.code(node) if each.start is not None else f"{package}.{renamed.name}"
        device, call = f"{quote}{renamed.device}{quote}", module.parent(node)
        if not renamed.takes_device_first and is_decorator(module, node):
            yield Replace(module, node, f"{name}(device_type={device})")
        elif is_kept_for_calls(script, module, node):
            yield from _kept(script, each, name, device)
        elif not isinstance(call, ast.Call) or not is_called(module, node):
            yield from [] if each.start is not None else [Replace(module, node, name)]
        elif renamed.takes_device_first:
            yield _called(script, each, call, name, device)
        else:
            yield from [] if each.start is not None else [Replace(module, node, name)]
            yield AddArgument(module, call, "device_type", device)


def _kept(script: Script, reference: Reference, name: str, device: str) -> Iterator[Edit | Reason]:
    """``context = autocast`` → ``context = lambda: autocast("cuda")``, which is called as the class was."""
    module, node = script.module, reference.node
    partial = partial_of(script, module, node)
    is_told = partial is not None and (
        any(each.arg == "dtype" for each in partial.keywords) or is_switched_off(partial)
    )
    if not is_told and sets_format(script, reference.renamed.device):
        text = f"the number format that it takes now depends on where it is called ({HERE}):"
        remedy = f"name {PACKAGE}.{reference.renamed.name} there, and give it the device in its calls"
        yield Reason("handed-on", text, (at(module, node),), remedy)
    elif partial is not None:
        yield from [] if reference.start is not None else [Replace(module, node, name)]
        yield AddArgument(module, partial, "device_type", device)
    else:
        made = f"lambda: {name}({device})"
        yield Replace(module, node, f"({made})" if isinstance(module.parent(node), ast.IfExp) else made)


def _called(script: Script, reference: Reference, call: ast.Call, name: str, device: str) -> Edit | Reason:
    """The call with the device, and with the number format where the new autocast might take another one."""
    module, renamed = script.module, reference.renamed
    if renamed.keeps_order:
        return called_with(module, call, name, device)
    is_told = len(call.args) > 1 or any(each.arg == "dtype" for each in call.keywords)
    if not is_told and not is_switched_off(call) and sets_format(script, renamed.device):
        spelled = script.spelled(module, f"torch.{DEFAULT_FORMATS[renamed.device]}", module.statement(call))
        here = (at(module, call),)
        if any(each.arg is None for each in call.keywords):
            return Reason("unknown-arguments", f"whether {name} is given a number format is not known ({HERE})", here)
        if spelled is None:
            return Reason("no-name", f"the number format that it takes now cannot be named ({HERE})", here)
        device = f"{device}, dtype={spelled}"
    return called_with(module, call, name, device, renamed.parameters)
