"""Rule ``grad-checkpoint``: blocks are computed once more in the backward, and keep less until then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import UNMEASURED, Codemod, Default, Leaves, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.naming import written
from codemods.editing.values import Replace
from codemods.facts.models.block_loops import block_loops
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.models.block_loops import BlockLoop
    from codemods.facts.script import Script

_CHECKPOINT = "torch.utils.checkpoint.checkpoint"
_MESSAGE = (
    "each block keeps what it computes until the backward: computed again there, it takes more time and less memory"
)


class GradCheckpoint(Codemod):
    """Computes blocks once more in the backward (``checkpoint(block, x, use_reentrant=False)``), to save memory.

    Why it is faster:
        It is slower: each block's forward runs twice in each iteration. It saves memory, as of each block only what it
        is given is kept until the backward, and is meant for those who want larger batches or models than fit. It is
        opt-in, and no part of what is said here of speed: ``verify`` says that the rewritten script is slower,
        ``rewrite --verify`` does not write it for that, and ``tune`` drops it. Select it by name, write it without
        ``--verify``, and compare the peak of memory that ``verify`` reports. Evaluation runs as before.

    When it is left:
        The loop is another one than ``x = block(x)`` over an ``nn.ModuleList``; it has fewer than four blocks, as far
        as that is known, or blocks that may be of several classes. A block would do twice what counts: BatchNorm,
        hooks, attributes that it sets, random numbers of Python or NumPy, code that is not seen. Something writes into
        tensors that blocks were given. The model is in a wrapper other than DistributedDataParallel, the graph is kept
        or differentiated again, or the script has checkpoints already.

    Results:
        The same operations run on the same numbers, and dropout draws the same masks again. On the CPU the results are
        the same bit for bit; CUDA has kernels that do not repeat themselves.

    References:
        ``torch.utils.checkpoint`` (``use_reentrant=False`` from torch 1.11).
    """

    promise = Promise.PRECISION
    default = Default.OPT_IN
    gain = UNMEASURED
    min_torch = (1, 11)
    needs_cuda = False
    phases = frozenset()
    causes = words(
        """
        data-parallel done-already no-name nothing-to-gain other-loop retained-graph runs-twice torchscript
        unknown-blocks unknown-model
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(64, 4) for _ in range(12)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

model = Net().cuda()
for x in torch.randn(100, 16, 8, 64).cuda():
    model(x).sum().backward()
""",
            after="""\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(64, 4) for _ in range(12)])

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return x

model = Net().cuda()
for x in torch.randn(100, 16, 8, 64).cuda():
    model(x).sum().backward()
""",
        ),
        Leaves(
            code="""\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(64, 64), nn.BatchNorm1d(64)

    def forward(self, x):
        return self.norm(self.layer(x)).relu()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(12)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

model = Net().cuda()
for x in torch.randn(100, 16, 64).cuda():
    model(x).sum().backward()
""",
            because="BatchNorm1d would count each batch twice (line 7)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every loop of a trained model over its blocks."""
        for found in block_loops(script):
            if found.why_not is not None:
                yield self.left(found.module, found.call, found.why_not)
            else:
                yield self._rewritten(script, found)

    def _rewritten(self, script: Script, found: BlockLoop) -> Finding:
        module, call = found.module, found.call
        named = written(script, module, _CHECKPOINT, call)
        if named is None:
            return self.left(
                module, call, Reason("no-name", f"{_CHECKPOINT} cannot be named where the blocks are called")
            )
        name, imports = named
        block, x = module.code(call.func), module.code(call.args[0])
        code = f"{name}({block}, {x}, use_reentrant=False) if {found.this}.training else {block}({x})"
        return self.rewrites(module, call, _MESSAGE, *imports, Replace(module, call, code))
