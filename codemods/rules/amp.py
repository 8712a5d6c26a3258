"""Rule ``amp``: the forward pass and the loss are computed in 16 bits where the GPU is made for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codemods.amp.grouping import groups
from codemods.amp.naming import Names, min_of_scaler
from codemods.amp.plan import Site
from codemods.amp.reasons import LeftError, in_fp16
from codemods.amp.whole_script import check
from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.facts.cost.worth import worth
from codemods.facts.devices.conditions import Conditions
from codemods.facts.precision.presence import (
    mixed_precision_on_request,
    mixed_precision_present,
    parts_of_apex_alone,
)
from codemods.facts.precision.script_hazards import computes_in_half
from codemods.facts.reason import Words
from codemods.facts.training.loss_regions import Phases
from codemods.facts.training.validations import validations
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding, Need
    from codemods.facts.reason import Reason
    from codemods.facts.script import Script

_MESSAGE = "the forward pass runs in 32 bits, without the GPU's 16-bit units"


class Amp(Codemod):
    """Trains in mixed precision: the forward pass under ``torch.autocast``, fp16 gradients through a ``GradScaler``.

    Why it is faster:
        GPUs since Volta multiply 16-bit matrices several times as fast as 32-bit ones, and activations take half the
        memory. Autocast chooses for each operation whether 16 bits are enough. bf16, on capability 8 and above, has the
        range of fp32; fp16, below, needs the loss scaled so that small gradients survive. Without CUDA nothing changes.
        Where fp16 or its scaler would not be right there is bf16 or nothing: a step with a closure, optimizers that
        step at different rates or come from elsewhere, masks with -1e9. ``DataParallel`` and cuDNN's recurrent layers,
        which compute in fp16 whatever they are told, get fp16 and the scaler on every GPU.

    When it is left:
        The script never uses CUDA, or chooses its precision itself, be it by an option that is off. A framework runs
        the training step, or the forward pass is not seen. The model does what 16 bits cannot: custom autograd
        functions, linear algebra, Fourier transforms, masked assignment, ``BCELoss`` of a sigmoid (one of more than 6
        is exactly 1 in bf16, and has no gradient), positions or targets that take the format of what a layer returns,
        ``torch.arange(n).type_as(h)`` (257 is 256 in bf16). Gradients are differentiated again or applied by hand,
        unless ``--amp bf16`` asks for it. With ``--amp fp16``: whatever needs bf16.

        It cannot pay, as far as the script shows: no layer is wider than 64, or an iteration computes at most 10
        billion operations that 16 bits could speed up; of images or sequences of any size, convolutions no wider than
        64 take at most 100,000 multiplications at each position; a model is given one observation of an environment at
        a time, ``model(state.unsqueeze(0))``; recurrent layers run step by step in a loop of Python's. Casting then
        takes longer than it saves; ``--select amp`` does it all the same.

    Results:
        Losses agree to about 1 %. Checkpoints of the model stay as they are; the scaler's state is saved beside the
        optimizer's. With fp16 the first one to three steps may be skipped while the scaler finds its scale. Look at
        what the network returns: numbers near 2000, such as a year, have steps of 8 in bf16, and the code does not show
        that. Train on targets that are shifted and scaled to about 1.

    References:
        ``torch.amp``; notes/amp_examples; recipes/amp_recipe.
    """

    promise = Promise.PRECISION
    gain = "1.5-5.5x (V100) or 2.4x (H100) over 32 bits with large matrix products, 0.8x for small networks"
    gain_sources = (
        "https://pytorch.org/blog/accelerating-training-on-nvidia-gpus-with-pytorch-automatic-mixed-precision/",
        measured("steps-and-syncs"),
        measured("convolution-times"),
    )
    min_torch = (1, 10)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        apex bootstrapped-target breaks-in-16-bits captured computes-in-fp16 custom-autograd data-parallel done-already
        double-backward fp16-range framework gradients-accumulated gradients-read leaves-in-16-bits
        loss-of-probabilities made-in-loop momentum-unset never-pays-back no-cuda no-name no-place-for-scaler
        other-precision script-decides several-optimizers step-closure step-without-backward torchscript unknown-device
        unknown-loss unknown-model unknown-optimizer unseen-step
        """
    )
    tolerance = 1e-2  # numbers of 16 bits
    failures = (
        r"binary_cross_entropy and torch\.nn\.BCELoss are unsafe to autocast",
        r"mat1 and mat2 must have the same dtype",
        r"expected scalar type",
        r"Index put requires the source and destination dtypes",
        r"scatter\(\): Expected self\.dtype",
        r"Got unsupported ScalarType BFloat16",
        r"not implemented for '(BFloat16|Half)'",
        r"Low precision dtypes not supported",
        r"value cannot be converted to type (c10|at)::Half without overflow",
        r"No inf checks were recorded",
        r"unscale_\(\) has already been called",
        r"step\(\) has already been called",
        r"Attempted \w+ but _scale is None",
        r"Attempting to unscale FP16 gradients",
        r"Closure use is not currently supported",
        r"is not finite",
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(784, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in zip(torch.randn(8, 64, 784), torch.randint(10, (8, 64))):
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    outputs = model(images)
    loss = nn.functional.cross_entropy(outputs, labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(784, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
use_amp = device.type == "cuda"
amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)
for images, labels in zip(torch.randn(8, 64, 784), torch.randint(10, (8, 64))):
    images, labels = images.to(device), labels.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        outputs = model(images)
        loss = nn.functional.cross_entropy(outputs, labels)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn


def train(model, batches, optimizer):
    for x in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.cuda()), x.cuda()).backward()
        optimizer.step()


model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(model.parameters())
train(model, torch.randn(4, 16, 8), optimizer)
""",
            after="""\
import torch
from torch import nn


def train(model, batches, optimizer, scaler):
    for x in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=amp_dtype):
            loss = nn.functional.mse_loss(model(x.cuda()), x.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.Adam(model.parameters())
amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)
train(model, torch.randn(4, 16, 8), optimizer, scaler=scaler)
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), x).backward()
    optimizer.step()
""",
            because="no CUDA: nothing in this file moves a model or its batches to a CUDA device",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    nn.functional.mse_loss(torch.fft.fft(model(x)).abs(), x).backward()
    optimizer.step()
""",
            because="torch.fft.fft has no 16-bit kernel (line 8)",
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
    real_loss = criterion(discriminator(images), torch.ones(16, 1).cuda())
    real_loss.backward()
    optimizer.step()
""",
            because="probabilities above 0.998 are 1 in bf16, where binary_cross_entropy (line 9) has no gradient; "
            "return the logits and use its with_logits form",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """One site for each training iteration of the entry script: its first backward."""
        phases = Phases(script)
        present = mixed_precision_present(script)
        is_here = present is not None and present[0] is script.module
        is_done = is_here and mixed_precision_on_request(script) is None and parts_of_apex_alone(script) is None
        if not phases.all or is_done:
            return
        conditions = Conditions.of_script(script)
        try:
            check(script, conditions)
            names = Names.free(script)
        except LeftError as left:
            for group, _ in groups(script, phases):
                yield self.left(script.module, group[0].statement, left.reason)
            return
        blocks = list(validations(script, phases))
        for group, iteration in groups(script, phases):
            models = frozenset(each for phase in group for each in phases.models(phase))
            trained = frozenset(each for phase in group for each in phases.called(phase.code))
            own = [each for each in blocks if phases.called(each) & trained]
            here = conditions.of_code(phases.reach, [iteration.owner], models)
            site = Site(script, self.choices.amp, phases, here, names, group, iteration, own)
            finding, used = self._in_best_form(site, computes_in_half(script, models))
            in_vain = worth(script).why_in_32_bits(trained) if self.is_weighed and finding.rewrites else None
            if in_vain is not None:
                finding = self.left(finding.module, finding.node, in_vain)
            yield finding
            blocks = [each for each in blocks if each not in used.validated]

    def _in_best_form(self, site: Site, half: Reason | None) -> tuple[Finding, Site]:
        """The finding in the form that is asked for; where that is any, in bf16 alone or fp16 alone if need be.

        Args:
            site: The training iteration.
            half: What computes in fp16 there whatever is asked for, and so needs a scaler.
        """
        if half is not None and site.form == "bf16":
            reason = half.followed(";", remedy="--amp fp16 is right there")
            return self.left(site.script.module, site.group[0].statement, reason), site
        if site.form == "auto" and half is not None:
            site = replace(site, form="fp16")
            finding = self._rewritten(site)
            if not finding.rewrites and self._rewritten(replace(site, form="bf16")).rewrites:
                reason = in_fp16(finding.because).followed(f"; {half.text}", *half.places)
                finding = self.left(finding.module, finding.node, reason)
            return finding, site
        if site.form != "auto":
            return self._rewritten(site), site
        finding = self._rewritten(site)
        if finding.rewrites or site.is_delicate:
            return finding, site
        # Without fp16 there is no scaler, and GPUs without bf16 go on in 32 bits.
        site = replace(site, form="bf16", only_wide=True)
        note = in_fp16(finding.because).words.following("; for bf16 alone, as in fp16 ")
        return self._rewritten(site, note), site

    def _rewritten(self, site: Site, note: Words | None = None) -> Finding:
        module, place = site.script.module, site.group[0].statement
        try:
            needs: Need = "bf16" if site.only_wide else "cuda"
            since = None if site.form == "bf16" else min_of_scaler(site.script)
            why = (note or Words("")).following(_MESSAGE)
            return self.rewrites(module, place, why, *site.edits(), needs=needs, since=since)
        except LeftError as left:
            return self.left(module, place, left.reason)
