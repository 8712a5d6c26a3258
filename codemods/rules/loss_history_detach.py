"""Rule ``loss-history-detach``: what is kept of each iteration to be shown is kept without its graph."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import Surround
from codemods.facts.training.histories import histories

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.script import Script

_MESSAGE = "the graph of every iteration stays alive with what is kept of it"


class LossHistoryDetach(Codemod):
    """Keeps losses without their graphs (``total += loss.detach()``) where a loop adds them up or collects them.

    Why it is faster:
        A loss holds the graph that it was computed by. Where a sum or a list holds the loss, the graphs of all
        iterations stay in memory until the sum or list goes: each of their nodes and, where no backward has freed
        them, the activations. Memory grows with each iteration.

    When it is left:
        The sum is differentiated: it is the loss. Other code may find the sum or list, as it does what an object has,
        and may train on it. It is printed as it is, so that its text would lose ``grad_fn=…``, or something is done
        with it that is not known to hide that. What is kept may be no tensor.

    Results:
        The same values, bit for bit.

    References:
        notes/faq, "My model reports CUDA out of memory"; ``torch.Tensor.detach``.
    """

    promise = Promise.BITWISE
    gain = UNMEASURED
    needs_cuda = False
    phases = frozenset({Phase.OTHER})
    causes = words("graph-escapes graph-shown unknown-number")
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total_loss += loss
print(f"loss {total_loss / 10:.4f}")
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total_loss += loss.detach()
print(f"loss {total_loss / 10:.4f}")
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total_loss = 0
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    total_loss += loss
print(total_loss)
""",
            because="what becomes of 'total_loss' may show whether it has a graph (line 13): use its item() there",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every sum and list of the module that a training loop keeps graphs in."""
        for each in histories(script):
            if each.why_not is not None:
                yield self.left(each.module, each.statement, each.why_not)
                continue
            is_short = isinstance(each.tensor, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
            before, after = ("", ".detach()") if is_short else ("(", ").detach()")
            yield self.rewrites(
                each.module, each.statement, _MESSAGE, Surround(each.module, each.tensor, before, after)
            )
