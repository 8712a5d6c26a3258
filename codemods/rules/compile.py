"""Rule ``compile``: models that train on CUDA are compiled, in place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import AddElse, Insert, Replace
from codemods.facts.cost.worth import worth
from codemods.facts.models.candidates import InPlace, NotCompiled, SecondName, Unreplicated, Wanted, candidates
from codemods.facts.models.compilability import draws
from codemods.facts.models.growing_inputs import grown
from codemods.facts.models.obstacles import compiles_already
from codemods.facts.models.preparation import condition, last_preparation, under
from codemods.facts.reason import HERE, Words, at
from codemods.library.sources import measured

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.models.candidates import Placed
    from codemods.facts.script import Script

_MESSAGE = "each operation of {} is launched from Python, and none are fused"
_DRAWING = "; compiled, any dropout or noise in it draws other random numbers"
_AGAIN = f"; where its input grows ({HERE}), it is compiled once more"
_BESIDE = "; nn.DataParallel copies it in each iteration, where it is left as it is"
_SECOND_NAME = (2, 0)
"""The torch that has ``torch.compile``; a model's own method came later."""


class Compile(Codemod):
    """Compiles the models that train on CUDA, in place (``model.compile()``).

    Why it is faster:
        TorchDynamo takes the operations of ``forward`` down as one graph, and Inductor fuses them into few kernels:
        fewer launches from Python, and fewer trips of the activations through memory. It compiles at the first
        iteration, for 20 to 120 seconds, and again for evaluation, for a smaller last batch and for gradients switched
        on or off. The model stays the same object with the same keys in its ``state_dict``; only calls of the model
        itself are compiled. One that holds nothing but torch's own modules is compiled under a second name: in place,
        nothing of it is compiled before torch 2.15. Where an option leads to one pass without training, the line gets
        the option's condition, as that pass is shorter than compiling. A copy of the model (EMA, target network), and
        one that is saved whole and loaded, runs uncompiled. It takes a C compiler and Triton, which comes with torch
        for Linux alone; no script shows whether they are there, so run the result once where it will train. Python 3.12
        takes torch 2.4, 3.13 takes 2.6.

        ``--compile-mode reduce-overhead`` writes ``model.compile(mode="reduce-overhead")``: what is compiled is
        launched as CUDA graphs, all kernels at once. Small networks, whose kernels take less time than their launches,
        may gain by it; it takes more memory. It is never chosen unasked: ``torchfast tune --values
        compile=default,reduce-overhead`` tries whether it pays.

    When it is left:
        Second derivatives go through the model (gradient penalty), or gradients are asked for of what it computes on
        the way. A loop in each iteration asks for gradients of its input alone (adversarial attacks), where a compiled
        backward computes those of all weights, too. Its ``forward`` replaces the data of a tensor (``u.data = new``),
        and it is called again before the backward. It is recurrent, branches on the values of tensors, selects by masks
        (``x[x > 0]``, ``nonzero()``), multiplies what may be sparse, prints, counts or makes parameters in ``forward``,
        changes data there by an assignment (``weight.data *= mask``), synchronizes its batch norms over processes,
        takes images of any size, is traced or scripted, given to another process, or wrapped in ``DataParallel``; where
        an ``if`` wraps it, it is compiled on the other side. What it is given has a size that each iteration draws at
        random. It is trained through other methods than its call. Hooks are added to it later. It stays on the CPU, or
        its device is not known. The script sets ``cudnn.deterministic`` without
        ``torch.use_deterministic_algorithms(True)``: Inductor times kernels that round differently, and may choose
        others in the next run. Where it does so under an option that is off by default, the model is compiled without
        that option. The script compiles already.

        A CUDA graph computes each iteration in the same memory, so that with ``--compile-mode reduce-overhead`` more is
        left: gradients are added up, filled with zeros instead of dropped, or kept; what the model returns is kept
        until after its next call, or given to code that is not seen; an iteration calls several models, or one several
        times; batches differ in size; the model is wrapped. Nothing else stands against the default mode then.

        It cannot pay, as far as the script shows: an iteration computes at most 10 billion operations (on an H100, such
        networks were slower when compiled), the model is given one observation of an environment at a time, or all
        iterations together save less than the eleven seconds that a start takes. ``--select compile`` compiles all the
        same.

    Results:
        Fused operations round otherwise. Dropout and noise in the model draw other random numbers: the same
        distribution, other masks. It pays off in long runs.

    References:
        ``torch.compile``; ``torch.nn.Module.compile`` (torch 2.1: pytorch/pytorch 97565); "torch.compile and nn.Module
        hooks"; "Where to apply torch.compile"; the release notes of torch 2.4 and 2.6 (Python 3.12 and 3.13);
        pytorch/pytorch 91469 (double backward), 101105 and 165950 (determinism), 169545 and 177192 (what CUDA graphs
        overwrite); "CUDAGraph Trees".
    """

    promise = Promise.PRECISION
    gain = "1.2x in 32 bits, 1.5x with amp (A100, mean of 163 models), 0.6-1.1x for small networks (H100)"
    gain_sources = ("https://pytorch.org/get-started/pytorch-2.0/", measured("compile-warm-up"))
    min_torch = (2, 1)
    oldest_torch = _SECOND_NAME
    needs_cuda = True
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words(
        """
        called-again captured compiles-nothing data-parallel data-replaced determinism done-already double-backward
        dynamic-shapes framework gradients-added gradients-read graph-break inductor-fault inner-gradient input-gradient
        late-hook left-with-another made-in-loop never-pays-back no-cuda no-name not-called nothing-to-gain
        other-process outputs-kept own-method recurrent-model results-apart retained-graph size-not-fixed torchscript
        unknown-device unknown-model unseen-replay
        """
    )
    tolerance = 1e-3  # kernels with TF32 may be chosen
    failures = (
        r"does not currently support double backward",
        r"overwritten by a subsequent run",
        r"InductorError|BackendCompilerFailed|mix of the legacy and new APIs",
        r"recompile_limit|cache_size_limit",
        r"(Missing|Unexpected) key\(s\).*_orig_mod\.",
    )
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

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
for images in torch.randn(100, 64, 784):
    model(images.to(device)).square().mean().backward()
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

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Net().to(device)
if device.type == "cuda":
    model.compile()
for images in torch.randn(100, 64, 784):
    model(images.to(device)).square().mean().backward()
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
for images in torch.randn(100, 64, 784):
    model(images.to(device)).square().mean().backward()
""",
            after="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
compiled_model = torch.compile(model) if device.type == "cuda" else model
for images in torch.randn(100, 64, 784):
    compiled_model(images.to(device)).square().mean().backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(784, 256), nn.SiLU(), nn.Linear(256, 1)).cuda()
for images in torch.randn(100, 32, 784).cuda():
    images.requires_grad_()
    (slope,) = torch.autograd.grad(critic(images).sum(), images, create_graph=True)
    (slope.norm(dim=1) - 1).square().mean().backward()
""",
            because="gradient penalty / second derivative through critic (line 7)",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Sequential(nn.Embedding(1000, 64), nn.LSTM(64, 64)).cuda()
for words in torch.randint(1000, (100, 32, 20)).cuda():
    model(words)[0].sum().backward()
""",
            because="RNN model: TorchDynamo does not trace torch.nn.LSTM()",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every model that training iterations call, one finding for those that are compiled at one place."""
        if not script.iterations or compiles_already(script) is script.module:
            return
        found = list(self._findings(script))
        if not script.target.allows(_SECOND_NAME):  # which decides for all, wherever there is a device to compile for
            first = [each for each in found if each.because is None or each.because.code != "no-cuda"][:1]
            because = script.target.why_too_old(self.min_torch)
            found = [self.left(each.module, each.node, because) for each in first] or found
        yield from found

    def _findings(self, script: Script) -> Iterator[Finding]:
        said: set[tuple[ast.AST, str]] = set()
        wanted = Wanted(worth(script) if self.is_weighed else None, self._is_replayed)
        for candidate in candidates(script, wanted):
            match candidate:
                case InPlace():
                    finding = self._in_place(script, candidate)
                case Unreplicated():
                    finding = self._unreplicated(script, candidate)
                case SecondName():
                    finding = self._with_two_names(script, candidate)
                case NotCompiled():
                    finding = self.left(script.module, candidate.site, candidate.because)
            # Models that one call may make, by their names, are left for one reason.
            if finding.rewrites or (finding.node, finding.message) not in said:
                said.add((finding.node, finding.message))
                yield finding

    @property
    def _is_replayed(self) -> bool:
        """Whether what is compiled is launched as CUDA graphs."""
        return self.choices.compile_mode != "default"

    @property
    def _gain(self) -> str | None:
        """What is said of the rule holds of the default mode."""
        return UNMEASURED if self._is_replayed else None

    def _mode(self, script: Script, lead: str = "") -> str:
        """The mode as an argument, after what leads to it; nothing where it is the default."""
        quote = script.quote(script.module)
        return f"{lead}mode={quote}{self.choices.compile_mode}{quote}" if self._is_replayed else ""

    def _in_place(self, script: Script, candidate: InPlace) -> Finding:
        """``model.compile()`` for each of some models."""
        module, anchor = script.module, candidate.anchor
        lines: dict[str, list[str]] = {}
        for each in candidate.models:
            calls = lines.setdefault(condition(script, each.model, each.home, anchor) or "", [])
            line = f"{module.code(each.home.name)}.compile({self._mode(script)})"
            if line not in calls:
                calls.append(line)
        message, drawing = _message(script, candidate.models)
        code = "\n".join(under(test, calls) for test, calls in lines.items())
        made = Insert(module, anchor, code, "after")
        return self.rewrites(module, candidate.site, message, made, redraws=drawing, gain=self._gain)

    def _unreplicated(self, script: Script, candidate: Unreplicated) -> Finding:
        """``model.compile()`` where ``nn.DataParallel`` does not copy it."""
        module, choice, home = script.module, candidate.choice, candidate.model.home
        is_inside = home.anchor in choice.orelse
        anchor = last_preparation(script, home) if is_inside else choice
        test = condition(script, candidate.model.model, home, anchor) or ""
        line = f"{module.code(home.name)}.compile({self._mode(script)})"
        if is_inside or choice.orelse:
            after = anchor if is_inside else choice.orelse[-1]
            edit: Edit = Insert(module, after, under(test, [line]), "after")
        else:
            edit = AddElse(module, choice, line, test)
        message, drawing = _message(script, [candidate.model])
        return self.rewrites(module, candidate.site, f"{message}{_BESIDE}", edit, redraws=drawing, gain=self._gain)

    def _with_two_names(self, script: Script, candidate: SecondName) -> Finding:
        """``compiled = torch.compile(model)``, which is called from then on."""
        module, model, home = script.module, candidate.model.model, candidate.model.home
        test = condition(script, model, home, home.anchor)
        compiled = f"{candidate.compile}({candidate.uncompiled}{self._mode(script, ', ')})"
        code = f"{candidate.name} = {compiled}" + (f" if {test} else {candidate.uncompiled}" if test else "")
        calls = [Replace(module, one.func, candidate.name) for _, one in model.calls]
        message, drawing = _message(script, [candidate.model])
        made = Insert(module, home.anchor, code, "after")
        found = self.rewrites(module, candidate.site, message, made, *calls, redraws=drawing, gain=self._gain)
        return replace(found, since=_SECOND_NAME)


def _message(script: Script, models: Sequence[Placed]) -> tuple[str, bool]:
    """Why they are slow and what compiling them entails, and whether it changes what they draw."""
    drawing = any(draws(each.model.model) for each in models)
    names = _listed([script.module.code(each.home.name) for each in models])
    called = (grown(script.flow, each.model.model.value) for each in models)
    growing = next(filter(None, called), None)
    again = Words(_AGAIN, (at(*growing),)).said(script.module).text if growing is not None else ""
    return _MESSAGE.format(names) + (_DRAWING if drawing else "") + again, drawing


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"
