"""Rule ``jit-to-compile``: models that train as TorchScript make room for ``torch.compile``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Remove, Replace
from codemods.facts.cost.worth import worth
from codemods.facts.models.candidates import Wanted
from codemods.facts.models.unscripted import keeps_its_name, scripted_models, why_kept, why_not_compiled
from codemods.facts.reason import Reason
from codemods.library.sources import measured

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_MESSAGE = "TorchScript, which is deprecated, keeps the model from being compiled"
_COMPILE = "compile"


class JitToCompile(Codemod):
    """Trains the model itself, not TorchScript of it (``torch.jit.script`` goes), where ``compile`` then compiles it.

    Why it is faster:
        TorchScript fuses little of a backward, and nothing since its fuser is no longer worked on. ``torch.compile``
        fuses forward and backward, and does not take what is scripted. The call goes where ``compile`` of the same
        rewrite compiles the model, in the mode that ``--compile-mode`` names, and nowhere else. Functions that are
        decorated with ``@torch.jit.script`` stay: TorchDynamo looks through them.

    When it is left:
        ``compile`` would leave the model, for the reason that is given, or does not run. The TorchScript is saved,
        exported or looked at, or the code of the model is written for it (``torch.jit.export``, ``is_scripting``). The
        model itself is used beside it, which has a mode of its own. A condition decides whether it is made. It comes of
        ``torch.jit.trace``: a trace keeps one way through the code, so that the model may compute otherwise itself.

    Results:
        Operations are fused in another way, and round otherwise. Parameters, and the keys of ``state_dict``, stay.

    References:
        ``torch.jit`` ("TorchScript is deprecated", torch 2.10); ``torch.compile``.
    """

    promise = Promise.PRECISION
    gain = "that of compile: 1.2x in 32 bits, 1.5x with amp (A100, mean of 163 models)"
    gain_sources = ("https://pytorch.org/get-started/pytorch-2.0/", measured("compile-warm-up"))
    min_torch = (2, 1)
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        called-again captured compiles-nothing data-parallel data-replaced determinism done-already double-backward
        dynamic-shapes framework gradients-added gradients-read graph-break inductor-fault inner-gradient input-gradient
        late-hook left-with-another made-in-loop never-pays-back no-cuda no-name not-called nothing-to-gain
        other-process outputs-kept own-method recurrent-model results-apart retained-graph script-decides size-not-fixed
        torchscript unknown-arguments unknown-device unknown-model unseen-replay
        """
    )
    tolerance = 1e-3
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.hidden(x).relu())

model = Net().cuda()
model = torch.jit.script(model)
for images in torch.randn(100, 64, 784).cuda():
    model(images).square().mean().backward()
""",
            after="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(784, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.hidden(x).relu())

model = Net().cuda()
for images in torch.randn(100, 64, 784).cuda():
    model(images).square().mean().backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import resnet18

model = torch.jit.script(resnet18()).cuda()
for images in torch.randn(100, 64, 3, 224, 224).cuda():
    model(images).square().mean().backward()
model.save("model.pt")
""",
            because="the TorchScript itself is used (line 7)",
        ),
        Leaves(
            code="""\
import torch
from torchvision.models import resnet18

model = torch.jit.trace(resnet18().cuda(), torch.randn(64, 3, 224, 224).cuda())
for images in torch.randn(100, 64, 3, 224, 224).cuda():
    model(images).square().mean().backward()
""",
            because="torch.jit.trace() keeps one way through the code of the model, which may compute otherwise itself:"
            " train the model itself where it does not",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every call that makes TorchScript of a model that training iterations call."""
        sites: dict[ast.Call, list[TrainedModel]] = {}
        for trained, call in scripted_models(script):
            sites.setdefault(call, []).append(trained)
        for call, models in sites.items():
            yield self._site(script, call, models)

    def _site(self, script: Script, call: ast.Call, models: list[TrainedModel]) -> Finding:
        module = script.module
        reason = self._why_not(script, call, models)
        if reason is not None:
            return self.left(module, call, reason)
        if keeps_its_name(module, call):
            return self.rewrites(module, call, _MESSAGE, Remove(module, module.statement(call)))
        edit = Replace(module, call, "{model}", (("model", call.args[0]),))
        return self.rewrites(module, call, _MESSAGE, edit)

    def _why_not(self, script: Script, call: ast.Call, models: list[TrainedModel]) -> Reason | None:
        for each in models:
            reason = why_kept(script, each, call)
            if reason is not None:
                return reason
        if not self.choices.models_are_compiled:
            return Reason("left-with-another", f"{_COMPILE}, for which alone it would go, does not run")
        found = (why_not_compiled(script, each, call, self._wanted) for each in models)
        return next((each for each in found if each is not None), None)

    def _wanted(self, script: Script) -> Wanted:
        """What ``compile`` asks of the models of a script."""
        pays = worth(script) if _COMPILE in self.choices.weighed else None
        return Wanted(pays, self.choices.compile_mode != "default")
