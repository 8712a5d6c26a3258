"""Rule ``loss-fuse``: the logarithm of a softmax is computed at once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Remove, Replace
from codemods.facts.precision.log_probabilities import log_probabilities
from codemods.facts.reason import HERE, Reason, at
from codemods.library.softmaxes import LOGARITHMS, METHOD_OF_BOTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.precision.log_probabilities import LogProbability
    from codemods.facts.script import Script

_MESSAGE = "the softmax and its logarithm are computed one after the other, and both are kept for the backward"


class LossFuse(Codemod):
    """Computes the logarithm of a softmax at once: ``torch.log(F.softmax(x, 1))`` → ``F.log_softmax(x, 1)``.

    Why it is faster:
        One kernel takes the place of two, in the backward as well, and a tensor less is kept for that.

        ``F.nll_loss(F.log_softmax(x, 1), y)`` is left as it is: ``F.cross_entropy(x, y)`` calls the same two functions,
        and takes as long.

    When it is left:
        The probabilities are used elsewhere as well. Something is added to them before the logarithm. The softmax
        stands in an earlier statement than the one before, or a layer of the model computes it.

    Results:
        The same but for rounding, and better where it matters: a probability below 1e-38 or so is 0 in 32 bits, its
        logarithm minus infinity, and the gradient not a number. ``log_softmax`` is finite there, and trains on.

    References:
        ``torch.nn.functional.log_softmax``.
    """

    promise = Promise.PRECISION
    gain = "a loss 1.3-1.9x as fast, forward and backward (CPU)"
    gain_sources = ("docs/measured.md#loss-fuse",)
    min_torch = (0, 4)
    needs_cuda = False
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words("no-name other-result probabilities-used")
    examples = (
        Rewrites(
            before="""\
import torch
import torch.nn.functional as F

for x in torch.randn(10, 8, 4):
    loss = F.nll_loss(torch.log(F.softmax(x, dim=1)), torch.zeros(8).long())
""",
            after="""\
import torch
import torch.nn.functional as F

for x in torch.randn(10, 8, 4):
    loss = F.nll_loss(F.log_softmax(x, dim=1), torch.zeros(8).long())
""",
        ),
        Rewrites(
            before="""\
import torch

for x in torch.randn(10, 8, 4):
    policy = x.softmax(-1)
    log_policy = policy.log()
""",
            after="""\
import torch

for x in torch.randn(10, 8, 4):
    log_policy = x.log_softmax(-1)
""",
        ),
        Leaves(
            code="""\
import torch

for x in torch.randn(10, 8, 4):
    policy = torch.softmax(x, 1)
    log_policy = torch.log(policy)
    entropy = -(policy * log_policy).sum()
""",
            because="the probabilities are used elsewhere as well (line 6), so that both would be computed",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every logarithm of a softmax in the module."""
        for found in log_probabilities(script):
            edits = found.why_not or _edits(script, found)
            if isinstance(edits, Reason):
                yield self.left(found.module, found.log, edits)
            else:
                yield self.rewrites(found.module, found.log, _MESSAGE, *edits)


def _edits(script: Script, found: LogProbability) -> list[Edit] | Reason:
    """What calls the function that computes both at once, in the place of the logarithm."""
    module, log, softmax = found.module, found.log, found.softmax
    called = softmax.func.func if isinstance(softmax.func, ast.Call) else softmax.func  # `nn.Softmax(1)(x)`
    function = _function(script, module, called, log)
    if function is None:
        text = f"what computes both at once cannot be named here ({HERE})"
        return Reason("no-name", text, (at(module, softmax),))
    if found.idle is None:
        return [Replace(module, log, "{softmax}", (("softmax", softmax),)), Replace(module, called, _escaped(function))]
    rest = module.code(softmax)[len(module.code(called)) :]
    if "\n" in rest:
        return Reason("not-editable", "the softmax is written on several lines")
    return [Replace(module, log, _escaped(function + rest)), Remove(module, found.idle)]


def _function(script: Script, module: Module, called: ast.expr, log: ast.Call) -> str | None:
    """How the function or layer is written that computes the logarithm of this one at once."""
    names = [LOGARITHMS[each.name] for each in script.flow.values(called) if each.name in LOGARITHMS]
    if isinstance(called, ast.Attribute):
        last = names[0].rpartition(".")[2] if names else METHOD_OF_BOTH
        return f"{module.code(called).removesuffix(called.attr)}{last}"
    return script.spelled(module, names[0], module.statement(log)) if names else None


def _escaped(code: str) -> str:
    return code.replace("{", "{{").replace("}", "}}")
