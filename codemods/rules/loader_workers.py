"""Rule ``loader-workers``: batches that are read and transformed for CUDA are made in worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.worker_edits import edits
from codemods.facts.cost.worth import worth
from codemods.facts.data.loaders import partial_loaders
from codemods.facts.reason import Reason, Words
from codemods.facts.workers.plan import WorkerFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding, Need
    from codemods.facts.script import Script

_MESSAGE = "the training waits while each batch is read and transformed"
_GUARDED = f"{_MESSAGE}; workers need the __main__ guard"


class LoaderWorkers(Codemod):
    """Reads and transforms batches in worker processes (``num_workers=4``) while the GPU trains.

    Why it is faster:
        Without workers the process that trains also reads, decodes and transforms each item, and the GPU waits.
        Workers do it beside the training. A script's own option (``--workers``, ``--n_cpu``) that is not passed is
        passed; else four workers are started, where the script uses CUDA: beside training on the CPU they take its
        cores. ``{'num_workers': 1} if use_cuda else {}`` becomes 4.

        A worker that is not forked (Windows, macOS, Python 3.14) imports the script first. Where that would read a
        loader, the code from where loaders are made goes under ``if __name__ == "__main__":``; imports, definitions
        and settings stay, with up to three such blocks around and between definitions. Where the data set cannot be
        pickled (a lambda, a function in a function, a class in a notebook), or ``--no-main-guard`` is given, there are
        workers only where they are forked.

    When it is left:
        The items are in memory already, and reading one does no work. The data set uses CUDA, is iterable and not
        sharded, keeps an open file or a random number generator, or changes when it is read or while it is. Its sampler
        draws each batch by what the loop changes: workers draw several ahead. It reads what only running the script
        sets. It cannot be pickled, and the script has an option for the number of workers or chooses how processes
        start. It is not known what runs in a worker. The batches stay on the CPU, are kept, or only the first one is
        read, or all together are no more than ten. The process that reads may not start others (``Pool.map``). One
        worker, or none by default, is the script's own choice.

    Results:
        The same batches, bit for bit, where the data set draws no random numbers; other draws where it augments, or
        where loaders are zipped. Memory grows with each worker, most where the data set is a long list of Python
        objects: an array is shared. PyTorch warns of four workers on a machine with fewer cores, for which
        ``--workers 2`` is better. Containers may need ``--shm-size``, scripts with OpenCV
        ``cv2.setNumThreads(0)``, those with tokenizers ``TOKENIZERS_PARALLELISM=false``. PyTorch has each worker two
        batches ahead. ``prefetch_factor=4`` costs memory and pays where a few batches take much longer than the others,
        which no script says of its data: try it (docs/measured.md, "prefetch_factor").

    References:
        ``torch.utils.data``, "Multi-process data loading"; notes/randomness; Python, multiprocessing, "Programming
        guidelines".
    """

    promise = Promise.RANDOM
    gain = "up to 2.5x where loading is the bottleneck (RTX 4090, 8 workers)"
    gain_sources = (
        "https://www.get-smrtr.com/stories/ai/how-to-improve-the-efficiency-of-your-pytorch-training-loop-28038",
    )
    min_torch = (1, 9)
    needs_cuda = True
    phases = frozenset({Phase.DATA})
    causes = words(
        """
        already-on-device batches-kept batches-not-moved cuda-in-worker daemonic-process data-in-memory
        dataset-changes few-batches framework made-in-loop needs-main-guard no-cuda no-name
        not-divided-among-workers not-picklable open-handle other-accelerator own-loader-class partial-loader
        sampler-changes script-decides seeded-when-made unknown-arguments unknown-dataset unknown-device unknown-reading
        unknown-worker-code unpinnable unread-option unseen-by-workers
        """
    )
    failures = (
        r"Cannot re-initialize CUDA in forked subprocess",
        r"Can't (get local|pickle)",
        r"Got pickle error when attempting to start a worker",
        r"bootstrapping phase",
        r"DataLoader worker .* (exited unexpectedly|is killed by signal)",
        r"Bus error",
        r"insufficient shared memory",
        r"received 0 items of ancdata",
        r"Too many open files",
    )
    examples = (
        Rewrites(
            before="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = datasets.MNIST("data", transform=transforms.ToTensor())
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)


if __name__ == "__main__":
    main()
""",
            after="""\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = datasets.MNIST("data", transform=transforms.ToTensor())
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=4 if device.type == "cuda" else 0)
    for images, labels in train_loader:
        images, labels = images.to(device), labels.to(device)


if __name__ == "__main__":
    main()
""",
        ),
        Rewrites(
            before="""\
import argparse

from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--n_cpu", type=int, default=8)
opt = parser.parse_args()
epochs = 10

loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=64)
for epoch in range(epochs):
    for images, labels in loader:
        images = images.cuda()
""",
            after="""\
import argparse

from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--n_cpu", type=int, default=8)
opt = parser.parse_args()
epochs = 10

if __name__ == "__main__":
    loader = DataLoader(datasets.CIFAR10("data", transform=transforms.ToTensor()), batch_size=64, num_workers=opt.n_cpu)
    for epoch in range(epochs):
        for images, labels in loader:
            images = images.cuda()
""",
        ),
        Leaves(
            code="""\
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(1000, 784)), batch_size=50)
for (x,) in loader:
    x = x.cuda()
""",
            because="its data set is in memory: to send its items from a worker takes longer than to index them",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every loader of the module without workers."""
        for call in partial_loaders(script.flow, script.module):
            if not any(each.arg == "num_workers" for each in call.keywords):
                text = "what functools.partial makes is not followed:"
                because = Reason("partial-loader", text, remedy="give it num_workers there")
                yield self.left(script.module, call, because)
        facts = WorkerFacts(script, self.choices.workers, self.choices.main_guard)
        for loader in script.loaders:
            if loader.module is not script.module:
                continue
            found = facts.given(loader)
            if found is None:
                continue
            if isinstance(found, Reason):
                yield self.left(loader.module, loader.call, found)
                continue
            changes = edits(script, found, main_guard=self.choices.main_guard)
            if isinstance(changes, Reason):
                yield self.left(loader.module, loader.call, changes)
                continue
            in_vain = worth(script).why_without_workers(loader) if self.is_weighed else None
            if in_vain is not None:
                yield self.left(loader.module, loader.call, in_vain)
                continue
            promise = Promise.RANDOM if found.draws else Promise.BITWISE
            message = Words(_MESSAGE if found.unguarded is None else _GUARDED)
            if found.why_forked is not None:
                message = found.why_forked.words.following(f"{message.text}; workers only where they are forked: ")
            needs: Need = "cuda" if all(count.on_cuda for count in found.counts) else ""
            yield self.rewrites(loader.module, loader.call, message, *changes, promise=promise, needs=needs)
