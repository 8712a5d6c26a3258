"""Rule ``loss-fuse``: the logarithm of a softmax, or of a sum of exponentials, is computed at once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Remove, Replace
from codemods.facts.precision.log_probabilities import log_probabilities
from codemods.facts.precision.log_sums import LOGSUMEXP, log_sums
from codemods.facts.reason import HERE, Reason, at
from codemods.library.softmaxes import LOGARITHMS, METHOD_OF_BOTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.precision.log_probabilities import LogProbability
    from codemods.facts.precision.log_sums import LogSum
    from codemods.facts.script import Script

_MESSAGE = "the softmax and its logarithm are computed one after the other, and both are kept for the backward"
_MESSAGE_OF_SUM = (
    "a sum of exponentials and its logarithm are computed step by step, and each step is kept for the backward"
)


class LossFuse(Codemod):
    """Computes the logarithm of a softmax at once: ``torch.log(F.softmax(x, 1))`` → ``F.log_softmax(x, 1)``.

    Why it is faster:
        One kernel takes the place of two, in the backward as well, and a tensor less is kept for that.

        ``F.nll_loss(F.log_softmax(x, 1), y)`` is left as it is: ``F.cross_entropy(x, y)`` calls the same two functions,
        and takes as long.

        What divides by a sum of exponentials is a softmax, too: ``x - torch.log(torch.sum(torch.exp(x), 1, True))``.
        Where the maximum is taken off and added again, as in the forward algorithm of conditional random fields,
        ``torch.logsumexp`` computes all of it, and its backward does not go through the maximum; nor has the host to
        ask for the number of the largest score (``vec[0, argmax(vec)]``). ``torch.log(torch.sum(torch.exp(x), 1))``
        alone stays: ``torch.logsumexp`` takes the maximum off, and takes longer.

    When it is left:
        The probabilities are used elsewhere as well. Something is added to them before the logarithm. The softmax
        stands in an earlier statement than the one before, or a layer of the model computes it. The maximum is used
        elsewhere, is taken off without a graph, or is not seen to be one number along the dimension of the sum and of
        what is summed. What would be a softmax is one over several dimensions, may be one of integers or complex
        numbers, or is of what a property computes.

    Results:
        The same but for rounding, and better where it matters: a probability below 1e-38 or so is 0 in 32 bits, its
        logarithm minus infinity, and the gradient not a number. ``log_softmax`` is finite there, and trains on. Of
        scores that are all minus infinity ``torch.logsumexp`` is minus infinity, and what is written out no number.

    References:
        ``torch.nn.functional.log_softmax``; ``torch.logsumexp``; pytorch/pytorch 76330 (autocast).
    """

    promise = Promise.PRECISION
    gain = "a loss 1.3-1.9x as fast, forward and backward (CPU)"
    gain_sources = ("docs/measured.md#loss-fuse",)
    min_torch = (0, 4)
    needs_cuda = False
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words("no-name nothing-to-gain other-result probabilities-used")
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
        Rewrites(
            before="""\
import torch


def log_sum_exp(scores):
    largest, _ = torch.max(scores, 1, keepdim=True)
    return largest.squeeze(1) + torch.log(torch.sum(torch.exp(scores - largest), 1))


for x in torch.randn(10, 8, 4):
    loss = log_sum_exp(x).sum()
""",
            after="""\
import torch


def log_sum_exp(scores):
    return torch.logsumexp(scores, 1)


for x in torch.randn(10, 8, 4):
    loss = log_sum_exp(x).sum()
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
        for each in log_sums(script):
            made = each.why_not or _edits_of_sum(script, each)
            if isinstance(made, Reason):
                yield self.left(each.module, each.whole, made)
            else:
                is_sum = each.function == LOGSUMEXP
                since = (1, 13) if is_sum else None  # autocast gives it 32 bits since then
                gain = UNMEASURED if is_sum else self.gain
                yield self.rewrites(each.module, each.whole, _MESSAGE_OF_SUM, *made, since=since, gain=gain)


def _edits_of_sum(script: Script, found: LogSum) -> list[Edit] | Reason:
    """What calls the function that computes the logarithm of the sum, or that of the softmax, at once."""
    module = found.module
    function = script.spelled(module, found.function, module.statement(found.whole))
    if function is None:
        return Reason("no-name", f"{found.function} cannot be named here ({HERE})", (at(module, found.whole),))
    code = _escaped(f"{function}({found.operand}, {found.arguments})")
    return [Replace(module, found.whole, code), *(Remove(module, each) for each in found.idle)]


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
