"""Rule ``fused-cpu``: an optimizer on a CPU steps each parameter in one pass through memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import Tensor
from codemods.editing.values import AddArgument, Replace
from codemods.facts.cost.worth import worth
from codemods.facts.models.memory_order import why_other_order
from codemods.facts.models.stepped_on_cpu import stepped_on_cpu
from codemods.facts.precision.presence import other_precision
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.fusing import fusible, why_form_unknown, why_never_stepped, why_not_fused
from codemods.facts.training.late_gradients import why_late
from codemods.facts.training.momentum import keeps_momentum
from codemods.library.fused import FORMS, FUSED, ON_CPU, TAKES_A_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.values import Value
    from codemods.facts.script import Construction, Script

_SGD = "torch.optim.SGD"
_MESSAGE = "on a CPU each step goes through each parameter several times, where once would do"


class FusedCpu(Codemod):
    """Steps each parameter on a CPU in one pass through memory (``fused=True``).

    Why it is faster:
        On a CPU a step goes through the parameters one by one, and for each runs a dozen operations, as many trips of
        the parameter and its moments through memory. The fused form makes one trip. Since torch 2.4 it takes parameters
        on either device, so that a script which uses CUDA where there is some needs no condition:
        ``fused=device.type == "cuda"``, which ``fused-optimizer`` writes, becomes ``fused=True``.

        ``Adam`` gains most: 2 to 7 times, the more the larger the network. A plain ``SGD`` has little to gain, as its
        step is one operation: it is left below 32 tensors.

    When it is left:
        It always trains on CUDA, where this brings nothing; nothing is said then. What stands against a fused step on
        CUDA stands against it here: what it steps is not known to be parameters of models, a checkpoint is loaded into
        it, gradients may be sparse or come later than others, a scaler may skip the first step of a momentum. Weights
        may lie in ``channels_last``, gradients are put in by hand, parameters are parts of other tensors: the fused
        steps on the CPU go by the order in memory, and compute something else without a word. The script chooses
        another number format. The device is not known, or may be an accelerator that is not CUDA.

    Results:
        ``SGD`` without momentum gave the same bits in 200 steps, in 32 and in 64 bits, with any of the three widths of
        vectors that torch has for x86. The others round otherwise: after 40 steps parameters of ``Adam``, ``AdamW`` and
        ``Adagrad`` differed by at most 2.4e-7, of ``SGD`` with momentum by 9.5e-7, as far from exact ones as before.

    References:
        ``torch.optim.Adam``, parameter ``fused``; pytorch/pytorch 123074 (``Adam``, ``AdamW``), 123629 (``SGD``) and
        124905 (``Adagrad``), all in torch 2.4.
    """

    promise = Promise.PRECISION
    default = Default.OPT_IN
    gain = "the step of Adam 2-7x as fast, of SGD with momentum 1.3-3.5x, of a plain SGD 0.7-1.9x (one thread of a CPU)"
    gain_sources = ("docs/measured.md#fused-cpu",)
    min_torch = (2, 4)
    needs_cuda = False
    phases = frozenset({Phase.OPTIMIZER})
    causes = words(
        """
        captured checkpoint-loaded framework gradients-read late-gradients momentum-unset moved-later never-pays-back
        no-name not-fusible nothing-to-gain optimizer-state-used other-accelerator other-arguments other-order
        other-precision unknown-arguments script-decides unknown-device unknown-model unknown-optimizer
        """
    )
    failures = (
        r"expected Tensor as element \d+ in argument 2, but got NoneType",
        r"`?fused=True`? requires",
        r"_fused_\w+` does not support",
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images).square().mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images).square().mean().backward()
    optimizer.step()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images.to(device)).square().mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images.to(device)).square().mean().backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import resnet18

model = resnet18()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for images in torch.randn(100, 64, 3, 32, 32):
    optimizer.zero_grad()
    model(images).square().mean().backward()
    for parameter in model.parameters():
        parameter.grad = parameter.grad.clone()
    optimizer.step()
""",
            because="a gradient is put in by hand (line 10),"
            " and a fused step on the CPU goes by the order in memory alone",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every call that makes an optimizer which has, or may have, a fused form on the CPU."""
        for call, several, names in fusible(script):
            given = {each.arg: each.value for each in call.keywords if each.arg in FORMS}
            if given.keys() <= {"fused"}:
                yield from self._site(script, several, names, given.get("fused"))

    def _site(
        self, script: Script, several: list[Construction], names: list[str], given: ast.expr | None
    ) -> Iterator[Finding]:
        made = several[0]
        module, call = made.module, made.call
        if isinstance(given, ast.Constant):
            return
        reason = why_form_unknown(several, names) or _why_not_here(script)
        found = stepped_on_cpu(script, made) if reason is None else reason
        if found is None:
            return
        if isinstance(found, Reason):
            # Who says how it steps, in words that this rule does not know, has thought of it.
            yield from [self.left(module, call, found)] if given is None else []
            return
        models, test = found
        if given is not None and ast.unparse(given) != ast.unparse(ast.parse(test or "None", mode="eval").body):
            return
        reason = self._why_not(script, several, models, is_always=not test)
        if reason is not None:
            yield self.left(module, call, reason)
            return
        is_exact = not any(each.value.name != _SGD or keeps_momentum(script, each.value) for each in several)
        edit = AddArgument(module, call, "fused", "True") if given is None else Replace(module, given, "True")
        since = max(each for name in names for each in (ON_CPU[name], FUSED[name].since if test else ON_CPU[name]))
        promise = Promise.BITWISE if is_exact else Promise.PRECISION
        yield self.rewrites(module, call, _MESSAGE, edit, promise=promise, since=since)

    def _why_not(
        self, script: Script, several: list[Construction], models: tuple[Value, ...], *, is_always: bool
    ) -> Reason | None:
        """Why an optimizer whose parameters are on the CPU, always or where there is no CUDA, is not fused."""
        for made in several:
            reason = (
                why_not_fused(script, made, is_on_cpu=is_always)
                or why_never_stepped(script, made)
                or _why_rate(script, made)
            )
            if reason is None and keeps_momentum(script, made.value):
                reason = why_late(script, made, models)
            if reason is not None:
                return reason
        reason = why_other_order(script, models)
        is_plain = self.is_weighed and all(
            each.value.name == _SGD and not keeps_momentum(script, each.value) for each in several
        )
        return reason or (worth(script).why_plain_step_fused_in_vain(models) if is_plain else None)


def _why_not_here(script: Script) -> Reason | None:
    """Why nothing is known of a whole script's parameters: where they are, and in which number format."""
    if script.framework is not None:
        return Reason("framework", f"{script.framework} prepares the optimizer and moves the model")
    other = other_precision(script)
    if other is not None:
        call, what = other
        module = next((each for each in script.modules if each.holds(call)), script.module)
        return Reason(
            "other-precision", f"the script chooses a number format itself ({HERE}): {what}", (at(module, call),)
        )
    return None


def _why_rate(script: Script, made: Construction) -> Reason | None:
    """Why the learning rate is none that the fused step takes."""
    rate = argument_of(made.call, "lr", 1)
    if rate is None or made.value.name in TAKES_A_RATE:
        return None
    if any(isinstance(each, Tensor) for each in script.flow.values(rate)):
        return Reason("other-arguments", "its learning rate is a tensor: give it a number")
    return None
