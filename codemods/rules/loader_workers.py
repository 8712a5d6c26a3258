"""Rule ``loader-workers``: batches that are read and transformed for CUDA are made in worker processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Choices, Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.worker_edits import PREFETCH, edits, reading_ahead
from codemods.facts.cost.worth import worth
from codemods.facts.data.loaders import partial_loaders
from codemods.facts.reason import Reason, Words
from codemods.facts.workers.plan import WorkerFacts, Workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding, Need
    from codemods.editing.values import Edit
    from codemods.facts.data.loaders import Loader
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

        ``--prefetch 4`` has each worker four batches ahead, where PyTorch has two: ``prefetch_factor=4`` is written
        with the number of workers, and for loaders that have workers already and leave it to PyTorch. A loader's own
        ``prefetch_factor`` stays. Where there may be no workers, it is None then, which needs torch 2.0.

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
        batches ahead. ``--prefetch 4`` costs memory and pays where a few batches take much longer than the others,
        which no script says of its data: ``torchfast tune --values prefetch=4,8`` tries it beside workers that this
        rule gives, ``torchfast tune --prefetch 4`` also where all loaders have workers (docs/measured.md,
        "prefetch_factor").

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
            given = {each.arg for each in call.keywords}
            missing = "num_workers" if "num_workers" not in given else PREFETCH if self._is_ahead else None
            if missing is not None and missing not in given:
                text = "what functools.partial makes is not followed:"
                because = Reason("partial-loader", text, remedy=f"give it {missing} there")
                yield self.left(script.module, call, because)
        facts = WorkerFacts(script, self.choices.workers, self.choices.main_guard)
        for loader in script.loaders:
            if loader.module is not script.module:
                continue
            found = facts.given(loader)
            if not isinstance(found, Workers):
                yield from self._with_workers(script, facts, loader, found)
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
            ahead = self._ahead(script, facts, loader, found) if self._is_ahead else ()
            if isinstance(ahead, Reason):
                message, ahead = ahead.words.following(f"{message.text}; without {PREFETCH}: ", *message.places), ()
            needs = _needs(found)
            yield self.rewrites(loader.module, loader.call, message, *changes, *ahead, promise=promise, needs=needs)

    @property
    def _is_ahead(self) -> bool:
        """Whether workers are to have another number of batches ahead than PyTorch gives them by itself."""
        return self.choices.prefetch != Choices().prefetch

    def _ahead(self, script: Script, facts: WorkerFacts, loader: Loader, workers: Workers) -> tuple[Edit, ...] | Reason:
        """What gives each of these workers as many batches ahead as were asked for; why it cannot be written."""
        reason = facts.why_not_beside(loader, workers, PREFETCH)
        return reading_ahead(script, workers, self.choices.prefetch) if reason is None else reason

    def _with_workers(
        self, script: Script, facts: WorkerFacts, loader: Loader, because: Reason | None
    ) -> Iterator[Finding]:
        """A loader that is given no workers: what those that it has read ahead, or why it has none or others."""
        workers = facts.reading_ahead(loader) if self._is_ahead else None
        if isinstance(workers, Workers):
            ahead = self._ahead(script, facts, loader, workers)
            if not isinstance(ahead, Reason):
                message = f"each of its workers has 2 batches ahead, and {self.choices.prefetch} were asked for"
                promise = Promise.RANDOM if workers.draws else Promise.BITWISE
                needs = _needs(workers)
                yield self.rewrites(loader.module, loader.call, message, *ahead, promise=promise, needs=needs)
                return
            workers = ahead
        because = because or workers
        if because is not None:
            yield self.left(loader.module, loader.call, because)


def _needs(workers: Workers) -> Need:
    return "cuda" if all(count.on_cuda for count in workers.counts) else ""
