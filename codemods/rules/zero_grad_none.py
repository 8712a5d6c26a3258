"""Rule ``zero-grad-none``: gradients are dropped, not filled with zeros."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.source import walk
from codemods.editing.values import AddArgument, Remove, RemoveArgument, Replace
from codemods.facts.reason import Reason
from codemods.facts.training.step_coverage import MISSES, why_not_alike
from codemods.facts.training.zeroing import (
    ZeroedTensor,
    ZeroGrad,
    ZeroingLoop,
    detaches,
    why_not_torchs,
    zeroed,
    zeroings,
)
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_MESSAGE = "gradients are filled with zeros instead of dropped"
_DEFAULT = (2, 0)
"""The torch from which ``set_to_none`` is the default."""
_INTRODUCED = (1, 7)
_FIRST = (0, 4)
"""The torch that runs what is written without ``set_to_none``."""
_NO_GAIN = "none on torch >= 2.0, 0-4 % before (H100)"


class ZeroGradNone(Codemod):
    """Drops gradients instead of filling them with zeros (``zero_grad(set_to_none=True)``).

    Why it is faster:
        One pass over the memory of all gradients less, and the next backward writes instead of adding. Since torch 2.0
        it is the default of ``zero_grad()``: there only ``set_to_none=False`` and zeroing by hand cost something. Where
        the script is known to run on torch 2 (``--target-torch``, a requirement beside it), nothing is said of plain
        calls, nor where the script uses what torch 2 brought, or is given it by another rule. Where nothing is known,
        they are made explicit if every parameter surely gets a gradient.

    When it is left:
        A parameter may get no gradient in an iteration: a zero gradient still applies momentum and weight decay, a
        missing one does not. Gradients are read before they are computed again, or kept. What is zeroed is not known.

    Results:
        The same values, bit for bit.

    References:
        ``torch.optim.Optimizer.zero_grad``; PyTorch performance tuning guide, "Use parameter.grad = None".
    """

    promise = Promise.BITWISE
    gain = "0-4 % of an iteration (H100)"
    gain_sources = (measured("steps-and-syncs"),)
    min_torch = _INTRODUCED
    oldest_torch = _FIRST
    needs_cuda = False
    phases = frozenset({Phase.ZEROING, Phase.ACCUMULATION})
    causes = words(
        """
        framework gradients-may-miss gradients-read own-method single-tensor unknown-arguments unknown-optimizer
        unseen-step
        """
    )
    failures = (r"'NoneType' object has no attribute '(data|zero_|grad|detach_|norm|add_|mul_|clamp_)'",)
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=True)
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Rewrites(
            target=(2, 1),
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    model(x).mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    model.zero_grad()
    model(x).mean().backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        return self.near(x) if x.sum() > 0 else self.far(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad(set_to_none=False)
    model(x).mean().backward()
    optimizer.step()
""",
            because=f"{MISSES}: forward has a branch (line 11)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every place of the module that zeroes gradients."""
        for each in zeroings(script):
            match each:
                case ZeroedTensor(module, statement):
                    because = Reason("single-tensor", "the gradient of a single tensor is zeroed")
                    yield self.left(module, statement, because)
                case ZeroingLoop():
                    yield self._by_hand(script, each)
                case ZeroGrad(module, call, twin=twin) if twin:
                    edit = Remove(module, module.statement(call))
                    yield self.rewrites(module, call, f"{twin} zeroes the same gradients", edit, since=_FIRST)
                case ZeroGrad(to_zeros=argument) if argument is not None:
                    yield self._to_zeros(script, each, argument)
                case _ if not _drops_by_default(script) and (script.target.known or script.newest_used) < _DEFAULT:
                    yield from self._plain(script, each)

    def _to_zeros(self, script: Script, found: ZeroGrad, argument: ast.keyword | ast.expr) -> Finding:
        """``zero_grad(set_to_none=False)``."""
        module, call = found.module, found.call
        reason = _why_left(script, found)
        if reason is not None:
            return self.left(module, call, reason)
        if _drops_by_default(script):
            return self.rewrites(module, call, _MESSAGE, RemoveArgument(module, call, argument))
        value = argument.value if isinstance(argument, ast.keyword) else argument
        return self.rewrites(module, call, _MESSAGE, Replace(module, value, "True"))

    def _plain(self, script: Script, found: ZeroGrad) -> Iterator[Finding]:
        """``zero_grad()``, which drops gradients by itself since torch 2: where torch is not known, it may be right."""
        module, call = found.module, found.call
        is_old = not script.target.may_be(_DEFAULT) or script.target.known is not None
        if found.is_unpacked:
            reason: Reason | None = Reason("unknown-arguments", "set_to_none may be among its ** arguments")
        else:
            reason = _why_left(script, found)
        if reason is not None and script.target.allows(_INTRODUCED):
            if is_old:
                yield self.left(module, call, reason)
            return
        edit = AddArgument(module, call, "set_to_none", "True")
        gain = self.gain if is_old else _NO_GAIN
        yield replace(self.rewrites(module, call, _MESSAGE, edit, gain=gain, fails=is_old), until=_DEFAULT)

    def _by_hand(self, script: Script, found: ZeroingLoop) -> Finding:
        """``for p in model.parameters(): p.grad.zero_()`` and its variants."""
        module, loop, owner = found.module, found.loop, found.owner
        if not found.owners:
            because = Reason("unknown-optimizer", "what the zeroed parameters belong to is not known")
            return self.left(module, loop, because)
        reason = why_not_alike(script, loop, found.owners)
        if reason is not None:
            return self.left(module, loop, reason)
        if owner is None or found.outermost is None or not script.target.allows(_INTRODUCED):
            return self.rewrites(module, loop, _MESSAGE, *_dropped_in_place(module, loop), since=_FIRST)
        argument = "" if _drops_by_default(script) else "set_to_none=True"
        edit = Replace(module, found.outermost, f"{{owner}}.zero_grad({argument})", (("owner", owner),))
        return self.rewrites(module, found.outermost, _MESSAGE, edit)


def _drops_by_default(script: Script) -> bool:
    return script.target.reaches(_DEFAULT)


def _why_left(script: Script, found: ZeroGrad) -> Reason | None:
    """Why the gradients that a call of ``zero_grad`` fills with zeros are not dropped."""
    return why_not_torchs(script, found) or why_not_alike(script, found.call, found.owners)


def _dropped_in_place(module: Module, loop: ast.For) -> Iterator[Edit]:
    """``p.grad.zero_()`` → ``p.grad = None``."""
    for node in walk(loop):
        if isinstance(node, ast.stmt) and detaches(node):
            yield Remove(module, node)
        elif isinstance(node, ast.stmt) and zeroed(node) is not None:
            yield Replace(module, node, f"{zeroed(node)}.grad = None")
