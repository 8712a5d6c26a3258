"""Rule ``loader-hoist``: a loader that each epoch builds anew is built once, above the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.lifting import lifted
from codemods.editing.naming import names_of_loader, taken_names
from codemods.editing.values import Insert, Move, Replace
from codemods.facts.data.rebuilding import build_once, rebuilt
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.data.rebuilding import Once, Rebuilt
    from codemods.facts.script import Script

_LOADER = "the loop builds the same loader again in each pass"
_DATA = "the loop reads the data's files again in each pass"
_BUILT_AGAIN = "0.1 ms an epoch (CPU), and its workers can stay"
_READ_AGAIN = "0.3 s an epoch for MNIST (CPU)"


class LoaderHoist(Codemod):
    """Builds a loader once, above the loop over epochs, where each epoch builds the same one again.

    Why it is faster:
        Where the data set is built in the loop, too, each epoch reads its files again. The loader itself takes some
        0.1 ms. It starts its workers when it is read, not when it is built, so that this alone saves nothing of that:
        but only one that is built once can keep them, which ``loader-persistent`` then sees to.

        What the loop assigns and the loader is built of goes along: data sets of torchvision that read archives,
        transforms, numbers. So does the call of a function that does nothing but build. A loader that is built where
        it is read, ``for x, y in DataLoader(data):``, gets a name.

    When it is left:
        An argument changes in the loop, or may: the batch size, the transform, the indices of a ``Subset``. Something
        draws when it is built, such as ``random_split``, or is seeded there, such as a generator. The data set is
        changed in the loop: items are added, or another epoch is set. Workers stay already (``persistent_workers``).
        Not each pass builds the loader, as it stands in an ``if`` or ``try``. The loader is kept, has no name, or is
        handed to code that is not followed. It is built in a function that does more. Files would be read that a loop
        without passes does not read.

    Results:
        The same batches, bit for bit: to build a loader draws no random numbers, reading it does. One of PyTorch's
        keeps nothing from one epoch for the next unless its workers stay.

    References:
        ``torch.utils.data.DataLoader``; its section on randomness in multi-process data loading.
    """

    promise = Promise.BITWISE
    gain = "MNIST that is read again 0.3 s an epoch, a loader 0.1 ms (CPU)"
    gain_sources = ("docs/measured.md#loader-hoist",)
    needs_cuda = False
    phases = frozenset({Phase.DATA, Phase.OTHER})
    causes = words(
        """
        changes-in-loop dataset-changes made-in-loop no-name own-loader-class script-decides unknown-arguments
        unknown-dataset unknown-reading
        """
    )
    examples = (
        Rewrites(
            before="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

for epoch in range(10):
    # Images and labels.
    train_set = datasets.MNIST("data", transform=transforms.ToTensor())
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True)

    for images, labels in train_loader:
        print(images.mean())
""",
            after="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

# Images and labels.
train_set = datasets.MNIST("data", transform=transforms.ToTensor())
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
for epoch in range(10):
    for images, labels in train_loader:
        print(images.mean())
""",
        ),
        Leaves(
            code="""\
from torch.utils.data import DataLoader, random_split
from torchvision import datasets, transforms

data = datasets.MNIST("data", transform=transforms.ToTensor())
for epoch in range(10):
    train_set, test_set = random_split(data, [50_000, 10_000])
    train_loader = DataLoader(train_set, batch_size=64)
    for images, labels in train_loader:
        print(images.mean())
""",
            because="random_split() draws random numbers in each pass of the loop (line 6)",
        ),
        Leaves(
            code="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

data = datasets.MNIST("data", transform=transforms.ToTensor())
for epoch in range(10):
    loader = DataLoader(data, batch_size=64 * (1 + epoch // 5), shuffle=True)
    for images, labels in loader:
        print(images.mean())
""",
            because="'epoch' changes from one pass of the loop to the next (line 5)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every statement of a loop that builds loaders which are read once, and those that functions build so."""
        told: set[ast.AST] = set()
        taken = taken_names(script.module)
        for found in rebuilt(script):
            loader = found.first
            module, node = (found.module, found.statement) if found.names_them else (loader.module, loader.call)
            if module is not script.module or node in told:
                continue
            told.add(node)
            once = build_once(script, found)
            if isinstance(once, Reason):
                yield self.left(module, node, once)
                continue
            edits = _edits(found, once, taken)
            if isinstance(edits, Reason):
                yield self.left(module, node, edits)
            else:
                message, gain = (_DATA, _READ_AGAIN) if once.reads_files else (_LOADER, _BUILT_AGAIN)
                yield self.rewrites(module, node, message, *edits, gain=gain)


def _edits(found: Rebuilt, once: Once, taken: set[str]) -> list[Edit] | Reason:
    """What puts the loader above the loop, under a new name where it has none; that is taken from then on."""
    module, call = found.module, once.unnamed
    if call is None:
        return [Move(module, each, found.loop) for each in once.statements]
    data = found.first.arguments["dataset"].node if "dataset" in found.first.arguments else None
    name = next((each for each in names_of_loader(data) if each not in taken), None)
    made = lifted(module, call, name) if name is not None else None
    if name is None or made is None:
        return Reason("no-name", "its loader has no name, and none can be given to it above the loop")
    taken.add(name)
    return [Insert(module, found.loop, made, "before"), Replace(module, call, name, comments_go_along=True)]
