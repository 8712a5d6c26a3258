"""Rule ``bce-logits``: a loss of probabilities takes their logits, so that mixed precision can compute it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Remove, RemoveArgument, Replace
from codemods.facts.cost.worth import worth
from codemods.facts.devices.cuda_use import no_cuda, unknown_device
from codemods.facts.precision.logits import losses_of_probabilities
from codemods.facts.reason import HERE, Reason, at
from codemods.library.sigmoids import OF_LOGITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.precision.logits import Losses
    from codemods.facts.script import Script

_MESSAGE = "a sigmoid before binary_cross_entropy keeps 16 bits out, and the gradients of saturated logits"


class BceLogits(Codemod):
    """Gives binary cross entropy the logits instead of their sigmoid: ``BCELoss`` → ``BCEWithLogitsLoss``.

    Why it is faster:
        One kernel less is next to nothing. But ``amp`` has to leave a loss of probabilities: autocast refuses it, and a
        sigmoid of more than 6 is exactly 1 in bf16. That of logits is computed in 32 bits from what the layers return.
        The sigmoid goes wherever it stands: around the argument, as the last layer of a ``Sequential``, in ``forward``.

    When it is left:
        The probabilities are used beside the loss: printed, compared, returned, saved, or computed by a model that
        other code has. They are not seen to be what a sigmoid returns. The loss and the model stand in different files.
        Nothing goes to CUDA, where alone there are 16 bits to win, or the networks are too small for 16 bits to pay.

    Results:
        The same loss but for rounding, as long as no logit is beyond 17 or so. There, saturated logits differ: the
        sigmoid is 1 in 32 bits, ``BCELoss`` cuts the logarithm at -100, and the gradient is gone; with logits the loss
        goes on growing and the gradient stays. A GAN whose discriminator is that sure trains otherwise, for the better
        as a rule.

    References:
        ``torch.nn.BCEWithLogitsLoss``; "Prefer binary_cross_entropy_with_logits over binary_cross_entropy" in
        ``torch.amp``; pytorch issue 61098.
    """

    promise = Promise.PRECISION
    gain = UNMEASURED
    min_torch = (0, 4)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        never-pays-back no-cuda no-name other-module probabilities-used torchscript unknown-arguments unknown-device
        unknown-loss unknown-probabilities
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

discriminator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(discriminator.parameters())
for images in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    real_loss = criterion(discriminator(images), torch.ones(16, 1).cuda())
    real_loss.backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

discriminator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(discriminator.parameters())
for images in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    real_loss = criterion(discriminator(images), torch.ones(16, 1).cuda())
    real_loss.backward()
    optimizer.step()
""",
        ),
        Rewrites(
            before="""\
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    output = torch.sigmoid(model(x)).squeeze(1)
    loss = F.binary_cross_entropy(output, torch.ones(16).cuda(), reduction="sum")
    loss.backward()
    optimizer.step()
""",
            after="""\
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(8, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    output = model(x).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(output, torch.ones(16).cuda(), reduction="sum")
    loss.backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

discriminator = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(discriminator.parameters())
for images in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    output = discriminator(images)
    criterion(output, torch.ones(16, 1).cuda()).backward()
    optimizer.step()
    print(output.mean().item())
""",
            because="the probabilities are used beside the loss (line 12): use the sigmoid of the logits there",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """The losses of probabilities, those together that can only change together."""
        for losses in losses_of_probabilities(script):
            module, node = losses.first
            if module is script.module:
                yield self._site(script, losses, node)

    def _site(self, script: Script, losses: Losses, node: ast.expr) -> Finding:
        module = script.module
        because = losses.why_not
        if not script.may_use_cuda:
            because = unknown_device(script, script.transfers) or no_cuda(script)
        if because is None and self.is_weighed:
            in_vain = worth(script).why_in_32_bits(frozenset(each.model.value for each in script.trained_models))
            because = in_vain and in_vain.following("16 bits bring nothing here, as ")
        if because is not None:
            return self.left(module, node, because)
        for where, each in (*losses.makers, *((one.module, one.node) for one in losses.sigmoids)):
            if where is not module:
                text = f"the sigmoid and the loss stand in different files ({HERE})"
                return self.left(module, node, Reason("other-module", text, (at(where, each),)))
        edits: list[Edit] = []
        for _, maker in losses.makers:
            edit = _with_logits(script, maker)
            if edit is None:
                text = f"what takes logits instead cannot be named here ({HERE})"
                return self.left(module, node, Reason("no-name", text, (at(module, maker),)))
            edits.append(edit)
        return self.rewrites(module, node, _MESSAGE, *edits, *_without_sigmoids(module, losses))


def _with_logits(script: Script, call: ast.Call) -> Edit | None:
    """The loss, or what makes it, under the name of the one that takes logits."""
    module = script.module
    name = next(OF_LOGITS[each.name] for each in script.flow.values(call.func) if each.name in OF_LOGITS)
    if isinstance(call.func, ast.Attribute):
        return Replace(module, call.func, f"{{package}}.{name.rpartition('.')[2]}", (("package", call.func.value),))
    written = script.spelled(module, name, module.statement(call))
    return Replace(module, call.func, written) if written is not None else None


def _without_sigmoids(module: Module, losses: Losses) -> Iterator[Edit]:
    """What takes the sigmoids away, and the layers that nothing calls any more."""
    for each in losses.sigmoids:
        statement, holder = module.statement(each.node), module.parent(each.node)
        if each.operand is None and isinstance(holder, ast.Call):
            yield RemoveArgument(module, holder, each.node)
        elif each.operand is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is each.node else []
            is_idle = [ast.unparse(one) for one in targets] == [ast.unparse(each.operand)]  # `x = x`
            yield Remove(module, statement) if is_idle else Replace(module, each.node, "{x}", (("x", each.operand),))
    for statement in losses.idle:
        yield Remove(module, statement)
