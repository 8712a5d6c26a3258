"""Rule ``fused-optimizer``: an optimizer on CUDA steps all parameters in one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Clash, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import AddArgument, Insert, Replace
from codemods.facts.cost.worth import worth
from codemods.facts.devices.cuda_use import no_cuda, unknown_device
from codemods.facts.models.optimized import given_parameters
from codemods.facts.models.stepped import stepped
from codemods.facts.precision.presence import other_precision
from codemods.facts.reason import Reason
from codemods.facts.training.fusing import (
    fusible,
    may_be_scaled,
    why_form_unknown,
    why_loaded,
    why_never_stepped,
    why_not_fused,
)
from codemods.facts.training.late_gradients import why_late
from codemods.facts.training.momentum import keeps_momentum, why_unset_beside
from codemods.facts.training.resuming import loads
from codemods.library.fused import FORMS, FUSED, MOVES_COUNTS, TAKES_THE_HOST
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.script import Construction, Script
    from codemods.facts.target import Version
    from codemods.facts.training.resuming import Load
    from codemods.library.fused import Fused

_SCALES = "amp"
"""The rule that adds gradient scalers."""
_MESSAGE = "each step launches a series of kernels over all parameters, where one could do it all"


class FusedOptimizer(Codemod):
    """Steps all parameters on CUDA in one kernel (``fused=True``).

    Why it is faster:
        The default on CUDA runs each operation of a step over all parameters before the next: a dozen launches, and as
        many trips of parameters and moments through memory. The fused form reads and writes each of them once. With a
        gradient scaler it also unscales there, and the step no longer waits for the device.

    When it is left:
        The model is not surely on CUDA when the optimizer is made, nor moved there right after: before torch 2.4 the
        fused form takes no parameters that are on the host. What it steps is not known to be parameters of models. A
        checkpoint is loaded into it, which switches the fused form off again, and a gradient scaler then fails: where
        the script loads one in this file, it is told before that how the optimizer steps; elsewhere the optimizer is
        left, and where the weights may lie in ``channels_last``, as what a checkpoint holds does not. Its state is
        used, parameters are added later, gradients may be sparse or parameters complex. It is an ``SGD`` with momentum
        and there is a gradient scaler, be it that of ``amp``: if that skips the first step, PyTorch goes on with
        momentum from memory that was never set. It is one, and it is not seen that each parameter gets its gradient in
        the first step or never, as PyTorch fails where one comes later: parameters are unfrozen later, or what decides
        which layers and outputs the loss is computed by is not the same in each step. It steps fewer tensors than it
        takes to gain, or never steps. ``RMSprop`` and the others have no fused form on CUDA, and nothing is said of
        them.

    Results:
        On an H100, ``SGD`` gave the same bits in 20 steps, with momentum, decay and Nesterov's, too. ``Adam`` and
        ``AdamW`` round otherwise: parameters differed by 2e-7 and 5e-6, as far from exact ones as the default's.
        Nothing changes without CUDA.

    References:
        ``torch.optim.Adam``, parameter ``fused``; pytorch/pytorch 94060 (with clipping and a scaler, torch 2.0), 116585
        (``SGD``, torch 2.3), 103256 (a checkpoint that was not fused).
    """

    promise = Promise.PRECISION
    gain = "the step 2-4x as fast (H100), 3 % of an iteration (DeePMD-kit)"
    gain_sources = (measured("optimizer-forms"), "https://github.com/deepmodeling/deepmd-kit/pull/4463")
    min_torch = (2, 0)
    needs_cuda = True
    phases = frozenset({Phase.OPTIMIZER})
    causes = words(
        """
        captured checkpoint-loaded framework gradients-read late-gradients momentum-unset moved-later never-pays-back
        no-cuda no-name not-fusible nothing-to-gain optimizer-state-used other-accelerator other-precision
        script-decides unknown-arguments unknown-device unknown-model unknown-optimizer
        """
    )
    failures = (
        r"expected Tensor as element \d+ in argument 2, but got NoneType",
        r"`?fused=True`? requires",
        r"_fused_\w+` does not support",
        r"Expected grad_scale and found_inf to be None",
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images.to(device)).square().mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images.to(device)).square().mean().backward()
    optimizer.step()
""",
        ),
        Rewrites(
            before="""\
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
if len(sys.argv) > 1:
    checkpoint = torch.load(sys.argv[1])
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images.cuda()).square().mean().backward()
    optimizer.step()
""",
            after="""\
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
if len(sys.argv) > 1:
    checkpoint = torch.load(sys.argv[1])
    model.load_state_dict(checkpoint["model"])
    for group in checkpoint["optimizer"]["param_groups"]:
        group["fused"] = optimizer.defaults["fused"]
    optimizer.load_state_dict(checkpoint["optimizer"])
for images in torch.randn(100, 64, 784):
    optimizer.zero_grad()
    model(images.cuda()).square().mean().backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import resnet50

model = resnet50().cuda()
optimizer = torch.optim.AdamW(model.parameters())
optimizer.load_state_dict(torch.load("checkpoint.pt")["optimizer"])
for images in torch.randn(100, 64, 3, 224, 224):
    optimizer.zero_grad()
    model(images.cuda()).square().mean().backward()
    optimizer.step()
""",
            because="a checkpoint is loaded into it (line 6), of which the weights may have another layout",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import resnet50

model = resnet50()
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(10):
    model.cuda()
    for images in torch.randn(100, 64, 3, 224, 224):
        optimizer.zero_grad()
        model(images.cuda()).square().mean().backward()
        optimizer.step()
    torch.save(model.cpu().state_dict(), "model.pt")
""",
            because="its model is not seen to be on the device already when it is made (line 7):"
            " make the optimizer after the model is moved",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every call that makes an optimizer which has, or may have, a fused form on CUDA."""
        for call, several, names in fusible(script):
            if not FORMS & {each.arg for each in call.keywords}:
                yield self._site(script, several, names)

    def _site(self, script: Script, several: list[Construction], names: list[str]) -> Finding:
        made = several[0]
        module, call = made.module, made.call
        reason = why_form_unknown(several, names) or _why_not_here(script)
        against = (why_not_fused(script, each, is_loaded=True) for each in several)
        reason = reason or next((each for each in against if each is not None), None)
        loaded = loads(script, several) if reason is None else reason
        if isinstance(loaded, Reason):
            return self.left(module, call, loaded)
        found = stepped(script, made)
        if isinstance(found, Reason):
            few = worth(script).why_few_written(given_parameters(call)) if self.is_weighed else None
            return self.left(module, call, few or found)
        in_vain = worth(script).why_fused_in_vain(found.models) if self.is_weighed else None
        in_vain = why_never_stepped(script, made) or in_vain
        in_vain = in_vain or (why_loaded(script, made) if found.is_moved_later else None)
        momentum = [each for each in several if keeps_momentum(script, each.value)]
        late = (why_late(script, each, found.models) for each in momentum)
        in_vain = in_vain or next((each for each in late if each is not None), None)
        if in_vain is not None:
            return self.left(module, call, in_vain)
        forms = [FUSED[each] for each in names]
        # In 16 bits, the fused form rounds once where the other rounds after each operation.
        is_plain = not may_be_scaled(script) and other_precision(script) is None
        is_exact = is_plain and all(each.is_exact for each in forms)
        may_be_unset = self.choices.amp != "bf16" and bool(momentum)
        return self.rewrites(
            module,
            call,
            _MESSAGE,
            AddArgument(module, call, "fused", found.test),
            *(edit for each in loaded for edit in _told(each)),
            promise=Promise.BITWISE if is_exact else Promise.PRECISION,
            clash=Clash(_SCALES, why_unset_beside(_SCALES), harmless="bf16") if may_be_unset else None,
            since=max(_since(forms, loaded), TAKES_THE_HOST if found.is_moved_later else self.min_torch),
        )


def _told(load: Load) -> list[Edit]:
    """Tells a state before it is loaded how the optimizer steps, so that its counts go where that step reads them."""
    module, optimizer = load.module, load.module.code(load.optimizer)
    state = module.code(load.state) if load.is_named else load.name
    quote = "'" if "'" in state else '"'
    lines = [
        f"for {load.group} in {state}[{quote}param_groups{quote}]:",
        f"    {load.group}[{quote}fused{quote}] = {optimizer}.defaults[{quote}fused{quote}]",
    ]
    if load.is_named:
        return [Insert(module, load.statement, "\n".join(lines), "before")]
    lines = [f"{load.name} = {{state}}", *lines, f"{optimizer}.load_state_dict({load.name})"]
    return [Replace(module, load.statement, "\n".join(lines), (("state", load.state),))]


def _since(forms: Sequence[Fused], loaded: Sequence[Load]) -> Version:
    """The first torch that has the forms of all of the optimizers that states are loaded into, too."""
    others = [FUSED[value.name] for each in loaded for value in each.optimizers]
    return max([*(each.since for each in (*forms, *others)), *([MOVES_COUNTS] if loaded else [])])


def _why_not_here(script: Script) -> Reason | None:
    """Why nothing is known of the device that a whole script trains on."""
    if script.framework is not None:
        text = f"{script.framework} prepares the optimizer and moves the model"
        return Reason("framework", text)
    if not script.may_use_cuda:
        return unknown_device(script, script.transfers) or no_cuda(script)
    return None
