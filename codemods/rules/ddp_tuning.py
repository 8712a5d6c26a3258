"""Rule ``ddp-tuning``: gradients share the memory that processes send each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.values import AddArgument
from codemods.facts.reason import Reason
from codemods.facts.training.gradient_buckets import why_no_views, wrapped_models

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.script import Script

_MESSAGE = "gradients are kept twice: beside the parameters, and in the buckets that processes send each other"


class DdpTuning(Codemod):
    """Keeps gradients in the buckets of DistributedDataParallel (``gradient_as_bucket_view=True``).

    Why it is faster:
        DistributedDataParallel copies gradients into buckets, sums these up over all processes, and copies the sums
        back. With views the sums need no copy back, and the memory of all gradients is saved, so that batches may be
        larger.

    When it is left:
        The script reads, keeps or replaces gradients, hangs hooks on them, differentiates them again or captures a CUDA
        graph. The optimizer is not torch's, or not seen. Arguments are given through ``**``. Whether
        ``find_unused_parameters=True`` is needed, and a static graph allowed, the text of a script does not show: DDP
        says so when it runs.

    Results:
        The same sums. Where gradients are not dropped before each backward, as with ``zero_grad(set_to_none=False)`` or
        accumulation, they are divided by the number of processes and not multiplied by its reciprocal, which may round
        otherwise for numbers that are no powers of two.

    References:
        ``torch.nn.parallel.DistributedDataParallel``, ``gradient_as_bucket_view``.
    """

    promise = Promise.PRECISION
    gain = UNMEASURED
    needs_cuda = False
    default = Default.OPT_IN
    phases = frozenset({Phase.BACKWARD})
    min_torch = (1, 10)
    causes = words(
        """
        captured double-backward framework gradients-may-miss gradients-read unknown-arguments unknown-optimizer
        """
    )
    failures = (r"detach_\(\) .*view", r"Can't detach views in-place")
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
""",
            after="""\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(nn.Linear(4, 1), gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(10, 8, 4):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    print([each.grad.norm() for each in model.parameters()])
    optimizer.step()
""",
            because="gradients are read, kept or replaced (line 10)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every model of the module that DistributedDataParallel wraps, and what it is asked to look for."""
        for each in wrapped_models(script):
            if each.unused is not None:
                text = "in each iteration DDP looks for parameters without a gradient:"
                because = Reason("gradients-may-miss", text, remedy="take it away where DDP warns that there are none")
                yield self.left(each.module, each.unused.value, because)
            if each.says:
                continue
            why_not = why_no_views(script, each.call)
            if script.framework is not None and not script.is_accelerated:
                why_not = Reason("framework", f"{script.framework} runs the training loop")
            if why_not is not None:
                yield self.left(each.module, each.call, why_not)
            else:
                argument = AddArgument(each.module, each.call, "gradient_as_bucket_view", "True")
                yield self.rewrites(each.module, each.call, _MESSAGE, argument)
