"""Rule ``retain-graph``: a backward frees its graph where nothing uses it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import RemoveArgument
from codemods.facts.training.kept_graphs import keepings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.script import Script

_MESSAGE = "the activations of an iteration are kept until the next one has computed its own"


class RetainGraph(Codemod):
    """Lets ``backward()`` free its graph where nothing uses it again (``retain_graph=True`` goes).

    Why it is faster:
        A backward frees each activation as soon as it has used it. With ``retain_graph=True`` all of them stay until
        the loss gets another value, when the next iteration has computed its own: up to twice the memory, which limits
        the size of batches.

    When it is left:
        Another backward may go through the graph: one that comes later in the iteration and is not seen to go through
        other statements alone, or one of the next iteration, where a state of a recurrent network, a tensor that was
        computed before the loop, or one that a model keeps is differentiated again. The loop that runs the backward is
        in another function. An option decides. Code that is not seen is given a tensor of the iteration.

    Results:
        The same values, bit for bit.

    References:
        ``torch.Tensor.backward``; notes/autograd, "Saved tensors".
    """

    promise = Promise.BITWISE
    gain = UNMEASURED
    needs_cuda = False
    phases = frozenset({Phase.FORWARD, Phase.BACKWARD})
    causes = words("graph-escapes graph-used script-decides unknown-arguments")
    failures = (r"Trying to backward through the graph a second time",)
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward(retain_graph=True)
    optimizer.step()
""",
            after="""\
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

rnn = nn.GRU(4, 4)
state = torch.zeros(1, 8, 4)
for x in torch.randn(10, 5, 8, 4):
    out, state = rnn(x, state)
    out.mean().backward(retain_graph=True)
""",
            because="what is differentiated may have been computed before the iteration, in part (line 8)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every backward of the module that keeps its graph."""
        for each in keepings(script):
            if each.why_needed is not None or each.argument is None:
                if each.why_needed is not None:
                    yield self.left(each.module, each.call, each.why_needed)
                continue
            edit = RemoveArgument(each.module, each.call, each.argument)
            yield self.rewrites(each.module, each.call, _MESSAGE, edit)
