"""Rule ``tf32-matmul``: products of matrices in 32 bits use the tensor cores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.imports import can_import
from codemods.editing.values import Import, Insert
from codemods.facts.cost.worth import worth
from codemods.facts.devices.cuda_use import no_cuda, unknown_device
from codemods.facts.leads import runs, sites_here
from codemods.facts.models.uncalled import run_by_methods
from codemods.facts.precision.tf32 import is_allowed, multiplies, uses_tf32_already, why_decided, why_precise
from codemods.facts.reason import Reason
from codemods.facts.switches import place_of_switch
from codemods.library.sources import measured

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.values import Value
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_SETTER = "torch.set_float32_matmul_precision"
_LITTLE = "convolutions and recurrent layers use TF32 already, and its matrix products are little beside them"
_NONE = "none of its layers is seen to multiply matrices"
_MESSAGE = "products of matrices in 32 bits leave the tensor cores unused"


class Tf32Matmul(Codemod):
    """Lets matrix products in 32 bits use TF32 (``torch.set_float32_matmul_precision("high")``).

    Why it is faster:
        From capability 8.0 on tensor cores multiply numbers of 32 bits of which 11 bits of the mantissa are read, and
        add in 32 bits. An H100 multiplied matrices of 8,192 rows at 374 TFLOP/s so, at 52 without. By default only
        convolutions and cuDNN's recurrent layers use TF32: linear layers and attention do not.

    When it is left:
        The models are convolutional or recurrent, and products are little beside what uses TF32 already, or no layer
        multiplies matrices. The script chooses a precision itself, by a flag, a function or the environment, or
        computes in 64 or 16 bits. ``amp`` computes all of the training in 16 bits in the same rewrite: with ``--ignore
        amp`` the line is written. The script needs digits that TF32 does not have: linear algebra that solves or
        decomposes, ``torch.cdist`` and distances that are expanded, second derivatives, a line search, networks that
        learn from their own estimates, comparisons such as ``torch.allclose``. An iteration computes too little.

    Results:
        Products of matrices rounded to 3e-4 on an H100, and to 2e-6 without. Before torch 2.9 nothing changes without
        such a GPU; from then on CPUs of the x86 line with AMX for 16 bits use TF32, too.

    References:
        ``torch.set_float32_matmul_precision``; "TensorFloat-32 (TF32) on Ampere (and later) devices" in the CUDA notes;
        pytorch/pytorch 157520 (CPUs).
    """

    promise = Promise.PRECISION
    gain = "matrix products in 32 bits 2-7x as fast (H100), networks less"
    gain_sources = (measured("float32-precision"),)
    min_torch = (1, 12)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        done-already framework idle-beside needs-precision never-pays-back no-cuda no-name nothing-to-gain
        other-precision script-decides unknown-device unknown-model
        """
    )
    tolerance = 1e-3
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(512, 8)
model = nn.TransformerEncoder(layer, 6).cuda()
for words in torch.randn(100, 128, 64, 512).cuda():
    model(words).square().mean().backward()
""",
            after="""\
import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
layer = nn.TransformerEncoderLayer(512, 8)
model = nn.TransformerEncoder(layer, 6).cuda()
for words in torch.randn(100, 128, 64, 512).cuda():
    model(words).square().mean().backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import resnet50

model = resnet50().cuda()
for images in torch.randn(100, 64, 3, 224, 224).cuda():
    model(images).square().mean().backward()
""",
            because="convolutions and recurrent layers use TF32 already,"
            " and its matrix products are little beside them",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

torch.backends.cuda.matmul.allow_tf32 = False
model = nn.Transformer().cuda()
for words in torch.randn(100, 2, 128, 64, 512).cuda():
    model(*words).square().mean().backward()
""",
            because="the script chooses the precision of products itself (line 4)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """One site a script: where its first network is made that multiplies matrices, else the first one."""
        if script.module not in script.entries or not script.backwards or is_allowed(script):
            return
        sites: dict[ast.AST, Value] = {}
        by_methods = (model for _, _, model in run_by_methods(script, script.modules))
        for model in (*(each.model.value for each in script.trained_models), *by_methods):
            if model.site is not None:
                for site in sites_here(script, model.site):
                    sites.setdefault(site, model)
        if not sites:
            here = [site for _, each in script.backwards for site in sites_here(script, each)]
            yield from self._without_model(script, here[0]) if here else ()
            return
        values = list(dict.fromkeys(sites.values()))
        multiplying = [each for each in values if multiplies(script, each)]
        inside = [each for each, value in sites.items() if value in multiplying] or list(sites)
        # Rather one that is made when the script runs than one of a function that nothing calls.
        first = min(inside, key=lambda each: not runs(script, each))
        beside = any(uses_tf32_already(script, each) for each in values)
        yield self._site(script, first, inside, multiplying, _LITTLE if beside else _NONE)

    def _without_model(self, script: Script, site: ast.AST) -> Iterator[Finding]:
        """The same where no model is seen that the script trains; nothing where it stays on the CPU for certain."""
        reason = script_wide(script) or Reason("unknown-model", "what is trained is not known to be a model")
        if reason.code != "no-cuda":
            yield self.left(script.module, site, reason)

    def _site(
        self, script: Script, site: ast.AST, sites: list[ast.AST], models: list[Value], otherwise: str
    ) -> Finding:
        """The site, left for the other reason where no model multiplies matrices."""
        module = script.module
        reason = script_wide(script)
        if reason is None and not models:
            reason = Reason("nothing-to-gain", otherwise)
        reason = reason or why_precise(script)
        if reason is None and self.is_weighed:
            reason = worth(script).why_without_tf32(models)
        if reason is not None:
            return self.left(module, site, reason)
        switch = place_of_switch(script, (site, *sites), _SETTER, can_import)
        if switch is None:
            text = "torch.set_float32_matmul_precision cannot be named before the model is made"
            return self.left(module, site, Reason("no-name", text))
        quote = script.quote(module)
        edits: list[Edit] = [Import(module, "import torch")] if switch.needs_import else []
        edits.append(Insert(module, switch.anchor, f"{switch.lead}{switch.name}({quote}high{quote})", "after"))
        return self.rewrites(module, site, _MESSAGE, *edits, needs="bf16", unless="amp")


def script_wide(script: Script) -> Reason | None:
    """What keeps a whole script from TF32, whatever its models multiply."""
    if script.framework is not None:
        return Reason("framework", f"the training step runs inside {script.framework}, which chooses the precision")
    if not script.may_use_cuda:
        return unknown_device(script, script.transfers) or no_cuda(script)
    return why_decided(script)
