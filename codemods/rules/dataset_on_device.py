"""Rule ``dataset-on-device``: a small data set of tensors goes to the GPU once, not batch by batch in each epoch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.sampling import in_batches
from codemods.editing.values import Insert, RemoveArgument, Surround
from codemods.facts.data.cut_by_hand import ahead, cut_loops
from codemods.facts.data.loaders import through_partial
from codemods.facts.data.on_device import residence, tensor_sets
from codemods.facts.reason import Reason
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.data.cut_by_hand import Ahead
    from codemods.facts.data.on_device import Residence
    from codemods.facts.script import Script

_SUBSET = "torch.utils.data.Subset"
_TENSORS = "torch.utils.data.TensorDataset"
_SUBSETS_TAKE_LISTS = (1, 10)


class DatasetOnDevice(Codemod):
    """Moves a small ``TensorDataset`` to the GPU once (``TensorDataset(x.to(device), y.to(device))``).

    Why it is faster:
        Each epoch copies the same numbers to the GPU again, batch by batch, and the training waits for each copy. What
        takes little of the GPU's memory is copied once, and a batch is gathered there, by one index, as
        ``loader-batched-index`` has it: item by item, each would be a kernel. ``.to(device)`` of a batch, which stays
        in the loop, then returns the batch itself. Tensors from which a loop selects batches itself, by indices that it
        draws (``x[rows].to(device)``), are moved before it.

        Tensors in memory are read fastest so; next by ``loader-batched-index``, and slower than before by workers. As
        the second brings most of it, and takes no memory of the GPU, this one has to be selected by name.

    When it is left:
        Its size is not known, or above 1 GiB. A batch, or the data set, is used where it has to be on the host: with
        NumPy, beside other tensors there, or computed with before it is moved. The tensors are written on the host
        afterwards. The batches go to several devices, to one that is not CUDA, or under a condition; the device has no
        name yet where the data set is made. The loader has workers, or cannot gather a batch by one index. Slices
        (``x[i : i + 64]``) are no copies on the device, and lie at addresses for which a sum may round otherwise.

    Results:
        The same batches in the same order, bit for bit: the order is drawn on the host as before. Where the device is
        the CPU, only the index is new.

    References:
        ``torch.Tensor.to``; PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization".
    """

    promise = Promise.BITWISE
    default = Default.OPT_IN
    gain = "a pass of a small network over tensors in memory 1.4-1.6x as fast, of which an index brings 1.3-1.4x (H100)"
    gain_sources = (measured("loaders-and-device"),)
    min_torch = (1, 2)
    needs_cuda = True
    phases = frozenset({Phase.DATA, Phase.COPIES, Phase.EVALUATION})
    causes = words(
        """
        batches-not-moved data-parallel default-device framework loader-inspected made-by-hand made-in-loop
        needs-gradients no-cuda no-name nothing-to-gain other-accelerator other-arguments other-process
        own-dataset-class own-loader-class partial-loader script-decides too-large unknown-arguments unknown-array
        unknown-dataset unknown-device unknown-layout unknown-reading used-on-host
        """
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(1000, 784), torch.randint(10, (1000,)))
loader = DataLoader(data, batch_size=50, shuffle=True)
for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
""",
            after="""\
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(1000, 784).to(device), torch.randint(10, (1000,)).to(device))
loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 50, drop_last=False))
for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
""",
        ),
        Rewrites(
            before="""\
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset, default_collate
from torchvision import datasets, transforms

device = torch.device("cuda")
data = datasets.MNIST("data", transform=transforms.ToTensor())
data = TensorDataset(*default_collate(list(data)))  # decode once
loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 50, drop_last=False))
for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
""",
            after="""\
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset, default_collate
from torchvision import datasets, transforms

device = torch.device("cuda")
data = datasets.MNIST("data", transform=transforms.ToTensor())
data = TensorDataset(*(each.to(device) for each in default_collate(list(data))))  # decode once
loader = DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 50, drop_last=False))
for images, labels in loader:
    images, labels = images.to(device), labels.to(device)
""",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(1000, 784), torch.randint(10, (1000,)))
loader = DataLoader(data, batch_size=50, shuffle=True)
for images, labels in loader:
    images = images.to(device)
    print(images.argmax(1).cpu() == labels)
""",
            because="a batch of it is used before it is moved (line 9), in a way that needs it on the host",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every data set of tensors on the host that a loader reads, and every loop that cuts batches from tensors."""
        module = script.module
        for call, value in tensor_sets(script):
            found = residence(script, module, call, value)
            if isinstance(found, Reason):
                yield self.left(module, call, found)
            else:
                yield self._site(script, module, call, found)

        for call, because in through_partial(script.flow, script.module, _TENSORS.__eq__):
            yield self.left(module, call, because)

        for loop, cuts in cut_loops(script):
            yield self._loop(module, loop, ahead(script, loop, cuts))

    def _loop(self, module: Module, loop: ast.stmt, found: Ahead | Reason) -> Finding:
        if isinstance(found, Reason):
            return self.left(module, loop, found)
        code = "\n".join(f"{name} = {name}{found.move}" for name in found.names)
        return self.rewrites(module, loop, _message(found.size), Insert(module, loop, code, "before"))

    def _site(self, script: Script, module: Module, call: ast.Call, found: Residence) -> Finding:
        edits = _edits(script, module, call, found)
        if isinstance(edits, Reason):
            return self.left(module, call, edits)
        is_part = any(each.name == _SUBSET for read in found.reads for each in read.loader.dataset.values)
        since = _SUBSETS_TAKE_LISTS if is_part else None
        return self.rewrites(module, call, _message(found.size), *edits, since=since)


def _edits(script: Script, module: Module, call: ast.Call, found: Residence) -> list[Edit] | Reason:
    edits: list[Edit] = [_moved(module, each, found.move) for each in call.args]
    for read in found.reads:
        cut = in_batches(script, read.loader, read.batches) if read.batches is not None else []
        if isinstance(cut, Reason):
            return cut
        edits.extend(cut)
        if read.loader.is_pinned:
            pinned = next(each for each in read.loader.call.keywords if each.arg == "pin_memory")
            edits.append(RemoveArgument(read.loader.module, read.loader.call, pinned))
    return edits


def _moved(module: Module, tensor: ast.expr, move: str) -> Edit:
    """``x`` → ``x.to(device)``, ``*tensors`` → ``*(each.to(device) for each in tensors)``."""
    if isinstance(tensor, ast.Starred):
        each = "each" if move != ".to(each)" else "tensor"
        return Surround(module, tensor.value, f"({each}{move} for {each} in ", ")")
    return Surround(module, tensor, "", move)


def _message(size: int) -> str:
    amount = f"{-(-size // 10**6):,} MB"
    return f"each epoch copies its batches to the device again, where all of it takes at most {amount}"
