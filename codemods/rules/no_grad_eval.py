"""Rule ``no-grad-eval``: evaluation computes no graph for gradients that nobody asks for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.placement import is_free_for
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import walk
from codemods.editing.values import Decorate, Import, RemoveArgument, Wrap
from codemods.facts.reason import Reason
from codemods.facts.training.volatile import is_idle, is_volatile, may_be_volatile
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.script import Script
    from codemods.facts.training.evaluation_region import EvaluationRegion

_MESSAGE = "evaluation keeps every activation for a backward pass that never comes"
_TARGET = "a backward pass would only compute gradients of a model that no optimizer steps"


class NoGradEval(Codemod):
    """Computes what is never differentiated under ``torch.no_grad()``: as a decorator, or around some statements.

    Why it is faster:
        With gradients on, each operation notes how to differentiate it and keeps its inputs. Without, activations are
        freed at once: less memory, larger validation batches, and less work per operation.

    When it is left:
        The code also trains, needs gradients itself (adversarial examples, saliency, gradient penalties), keeps
        tensors for later or returns them to code that trains on them. The model runs once only. A model that computes
        targets in training, such as a teacher, is left where an optimizer may step it, where something may read its
        gradients or ask a tensor for its graph, and where the same statement computes what is trained. Where a
        parameter or the name of a loop says whether code trains, ``torch.set_grad_enabled(phase == "train")`` serves
        both; where that is not known to be so, it is left. A missing ``model.eval()`` is not added: it changes results.
        An ``nn.TransformerEncoder`` that is told of padding (``src_key_padding_mask``) returns zeros there without
        gradients, unless it was made with ``enable_nested_tensor=False``.

    Results:
        The same values, bit for bit, for convolutional, linear and GRU networks. Without gradients, layers of
        ``nn.Transformer`` take a fused path and ``nn.LSTM`` another kernel on the CPU, which round otherwise; what is
        not known may hold such layers.

    References:
        notes/autograd, "Locally disabling gradient computation"; ``torch.no_grad``.
    """

    promise = Promise.PRECISION
    gain = "evaluation 1.0-1.2x as fast in half the memory (H100)"
    gain_sources = (measured("steps-and-syncs"),)
    needs_cuda = False
    phases = frozenset({Phase.EVALUATION})
    causes = words(
        """
        also-trains gradients-read graph-escapes needs-gradients no-name nothing-to-gain other-result script-decides
        shared-autocast unknown-model volatile
        """
    )
    failures = (r"does not require grad and does not have a grad_fn",)
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(784, 10)


def validate(loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum().item()
    return correct
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(784, 10)


@torch.no_grad()
def validate(loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum().item()
    return correct
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(784, 10)
for epoch in range(10):
    model.train()
    model(torch.randn(8, 784)).sum().backward()
    model.eval()
    for images in torch.randn(4, 8, 784):
        print(model(images).argmax(1))
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(784, 10)
for epoch in range(10):
    model.train()
    model(torch.randn(8, 784)).sum().backward()
    model.eval()
    with torch.no_grad():
        for images in torch.randn(4, 8, 784):
            print(model(images).argmax(1))
""",
        ),
        Rewrites(
            before="""\
import torch
from torch import nn

teacher = nn.Linear(784, 10)
student = nn.Linear(784, 10)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for images in torch.randn(10, 8, 784):
    goal = teacher(images)
    loss = nn.functional.mse_loss(student(images), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

teacher = nn.Linear(784, 10)
student = nn.Linear(784, 10)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for images in torch.randn(10, 8, 784):
    with torch.no_grad():
        goal = teacher(images)
    loss = nn.functional.mse_loss(student(images), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Linear(784, 10)


def evaluate_attack(images, labels):
    model.eval()
    images.requires_grad_()
    loss = nn.functional.cross_entropy(model(images), labels)
    return torch.autograd.grad(loss, images)[0].sign()
""",
            because="gradients are needed in it (line 9)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every evaluation region of the entry script that runs with gradients on, and ``volatile=True`` elsewhere."""
        handled: set[ast.Call] = set()
        for region in script.evaluations:
            if region.module is script.module:
                inside = [each for part in (region.statements or (region.node,)) for each in walk(part)]
                given = self._given(script, region) if region.why_not is None else ()
                calls = [
                    call
                    for call in dict.fromkeys((*inside, *given))
                    if isinstance(call, ast.Call) and call not in handled and is_volatile(script.flow, call)
                ]
                handled.update(calls)
                yield self._site(script, region, calls)
        for call in script.module.nodes(ast.Call):
            if call in handled or not may_be_volatile(script.flow, call):
                continue
            if not is_idle(script.flow, script.whole.graph_uses.modes, call):
                text = "volatile has no effect since torch 0.4: what it is used for needs torch.no_grad()"
                because = Reason("volatile", text, remedy="put torch.no_grad() around what it is used for")
                yield self.left(script.module, call, because)

    @staticmethod
    def _given(script: Script, region: EvaluationRegion) -> Iterator[ast.AST]:
        """The calls that make what the models in a region are given, with those around them."""
        for call in region.calls:
            for given in arguments_of(call):
                for value in script.flow.values(given):
                    if isinstance(value.site, ast.Call) and region.module.holds(value.site):
                        yield value.site
                        statement = region.module.statement(value.site)
                        yield from (
                            each for each in region.module.ancestors(value.site) if each in set(walk(statement))
                        )

    def _site(self, script: Script, region: EvaluationRegion, volatile: list[ast.Call]) -> Finding:
        module = region.module
        if region.why_not is not None:
            return self.left(module, region.node, region.why_not)
        edits: list[Edit] = [
            RemoveArgument(module, call, each) for call in volatile for each in call.keywords if each.arg == "volatile"
        ]
        switch = "torch.set_grad_enabled" if region.flag else "torch.no_grad"
        name = script.spelled(module, switch, region.node)
        if name is None:
            if not is_free_for(module, "torch", "torch"):
                text = "torch cannot be named where it would be needed"
                return self.left(module, region.node, Reason("no-name", text))
            name = switch
            edits.append(Import(module, "import torch"))
        if region.function is not None:
            edits.append(Decorate(module, region.function, f"{name}()"))
        else:
            edits.append(Wrap(module, region.statements, f"with {name}({region.flag}):"))
        promise = Promise.BITWISE if region.is_exact else Promise.PRECISION
        message, gain = (_TARGET, UNMEASURED) if region.is_target else (_MESSAGE, self.gain)
        return self.rewrites(module, region.node, message, *edits, promise=promise, gain=gain)
