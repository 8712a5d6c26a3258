"""Rule ``loader-persistent``: worker processes stay alive from one epoch to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.worker_edits import edits, pass_
from codemods.facts.data.loader_use import why_not_in_epochs
from codemods.facts.data.loaders import partial_loaders
from codemods.facts.reason import Reason
from codemods.facts.workers.persistence import draws_nothing, why_workers_end
from codemods.facts.workers.plan import SHARES, WorkerFacts, Workers
from codemods.library.sources import measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding, Need
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script

_NAME = "persistent_workers"
_MESSAGE = "worker processes are started anew for each epoch"


class LoaderPersistent(Codemod):
    """Keeps worker processes alive from one epoch to the next (``persistent_workers=True``).

    Why it is faster:
        Without it the workers end with each epoch and are started again for the next: some 50 ms each where they are
        forked, seconds where they import PyTorch anew. It pays most where epochs are short. Where the number of
        workers is an expression, so is the argument: with 0 workers ``True`` is refused. Loaders that
        ``loader-workers`` gives workers to are treated together with it.

    When it is left:
        The loader is not seen to be read more than once, or is made anew for each epoch. The data set changes between
        epochs or when it is read, or is not known: the workers would keep their first copy. So they would of what it
        reads: names of a module, attributes of a class, lists and options that it was given, a model that is trained.
        The loader is read twice at once, or through an iterator that is kept: workers that stay serve one reading at a
        time. A ``worker_init_fn`` would run once instead of once an epoch. The number of workers is in a dictionary,
        and what is in that may reach a loader without workers (``{**kwargs, "num_workers": 0}``): torch refuses the
        argument there. Loaders are made by the dozen, as for each fold: the workers of all would stay. Batches are
        pinned, or ``loader-pin`` pins them, and the loader is still there when the script ends, as a name of the
        module: before torch 2.13 Python would then wait 5 s for each worker. Loaders that are made in a function, and
        those that are not pinned, cost nothing.

    Results:
        Another order of shuffling from the second epoch on, as workers that stay draw no new seed. Bit for bit the
        same where no loader shuffles and nothing draws random numbers on the CPU. Workers that stay keep their memory;
        where epochs end with ``break``, the batches on their way are waited for and thrown away.

    References:
        ``torch.utils.data.DataLoader``, ``persistent_workers``; pytorch issue 81794.
    """

    promise = Promise.RANDOM
    gain = "0.03-0.07 s an epoch where workers are forked, 4-5 s where they are not"
    gain_sources = (measured("worker-start"),)
    min_torch = (1, 8)
    needs_cuda = False
    phases = frozenset({Phase.DATA})
    causes = words(
        """
        dataset-changes few-batches framework left-with-another made-in-loop no-name not-divided-among-workers
        own-loader-class own-worker-init partial-loader read-at-once read-once script-decides unknown-arguments
        unknown-dataset unknown-reading unknown-worker-code waits-at-exit
        """
    )
    failures = (r"persistent_workers option needs num_workers > 0",)
    examples = (
        Rewrites(
            before="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
train_loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=2)
for epoch in range(10):
    for images, labels in train_loader:
        print(images.mean())
""",
            after="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
train_loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)
for epoch in range(10):
    for images, labels in train_loader:
        print(images.mean())
""",
        ),
        Rewrites(
            before="""\
import argparse

from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=4)
args = parser.parse_args()

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(train_set, batch_size=64, num_workers=args.workers)
for epoch in range(10):
    for images, labels in loader:
        print(images.mean())
""",
            after="""\
import argparse

from torch.utils.data import DataLoader
from torchvision import datasets, transforms

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=4)
args = parser.parse_args()

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(train_set, batch_size=64, num_workers=args.workers, persistent_workers=args.workers > 0)
for epoch in range(10):
    for images, labels in loader:
        print(images.mean())
""",
        ),
        Leaves(
            code="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
for epoch in range(10):
    loader = DataLoader(train_set, batch_size=64, num_workers=2)
    for images, labels in loader:
        print(images.mean())
""",
            because="it is made anew in each pass of a loop (line 5)",
        ),
        Leaves(
            code="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(train_set, batch_size=64, num_workers=2)
for epoch in range(10):
    for (one, _), (other, _) in zip(loader, loader):
        print((one - other).mean())
""",
            because="it is read twice at once, and workers that stay serve one reading at a time (line 7)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every loader of the module that has workers, or is given some, and is read in more than one epoch."""
        for call in partial_loaders(script.flow, script.module):
            given = {each.arg for each in call.keywords}
            if "num_workers" in given and _NAME not in given:
                text = "what functools.partial makes is not followed:"
                because = Reason("partial-loader", text, remedy=f"give it {_NAME} there")
                yield self.left(script.module, call, because)
        facts = WorkerFacts(script, self.choices.workers, self.choices.main_guard)
        for loader in script.loaders:
            if loader.module is not script.module:
                continue
            if _NAME in loader.arguments:
                yield from self._kept(script, facts, loader)
                continue
            reason = loader.unknown_arguments or loader.own_iteration or why_not_in_epochs(script, loader)
            if reason is None:
                yield from self._site(script, facts, loader)
            elif facts.present(loader) is not None:
                yield self.left(loader.module, loader.call, reason)

    def _kept(self, script: Script, facts: WorkerFacts, loader: Loader) -> Iterator[Finding]:
        """What is to be said where the workers stay already."""
        if loader.keeps_workers and loader.is_pinned and facts.present(loader) is not None:
            late = script.why_ends_late(loader, surely=True)
            if late is not None:
                yield self.left(loader.module, loader.call, late)

    def _site(self, script: Script, facts: WorkerFacts, loader: Loader) -> Iterator[Finding]:
        module = loader.module
        workers = facts.given(loader) if self.choices.workers_are_given else None
        if not isinstance(workers, Workers):
            workers = facts.present(loader)
        if workers is None:
            return
        if isinstance(workers, Reason):
            yield self.left(module, loader.call, workers)
            return
        changes = edits(script, workers, main_guard=self.choices.main_guard)
        if isinstance(changes, Reason):
            return  # it is given no workers, and loader-workers says why
        reason = self._why_not(script, facts, loader, workers)
        if reason is not None:
            yield self.left(module, loader.call, reason)
            return
        added = (pass_(module, count.site, _NAME, count.positive) for count in workers.counts)
        after = "loader-workers" if workers.are_new else ""
        exact = not workers.draws and draws_nothing(script, map(facts.code, script.loaders))
        promise = Promise.BITWISE if exact else Promise.RANDOM
        needs: Need = "cuda" if all(count.on_cuda for count in workers.counts) else ""
        yield self.rewrites(module, loader.call, _MESSAGE, *changes, *added, promise=promise, after=after, needs=needs)

    def _why_not(self, script: Script, facts: WorkerFacts, loader: Loader, workers: Workers) -> Reason | None:
        """Why the workers should end with each epoch: the loader's own, or those of one that shares its arguments."""
        reason = why_workers_end(script, facts.code(loader))
        if reason is not None:
            return reason
        for other in (each for count in workers.counts for each in facts.users(count.site)):
            reason = why_workers_end(script, facts.code(other)) or self._why_late(script, other)
            if reason is not None:
                return reason if other is loader else reason.following(SHARES, loader.at(other.call))
        return facts.why_not_beside(loader, workers, _NAME)

    def _why_late(self, script: Script, loader: Loader) -> Reason | None:
        """Why the script would end late: the loader pins its batches, or ``loader-pin`` makes it."""
        pins = loader.is_pinned or (self.choices.batches_are_pinned and script.can_be_pinned(loader))
        return script.why_ends_late(loader) if pins else None
