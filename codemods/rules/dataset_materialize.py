"""Rule ``dataset-materialize``: images that come out alike in each epoch are decoded and transformed once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing import problems
from codemods.editing.naming import all_written
from codemods.editing.values import Insert, Surround
from codemods.facts.data.materializing import image_sets, read_once
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.dataflow.source import Module
    from codemods.editing.values import Edit
    from codemods.facts.script import Script

_MESSAGE = "each epoch decodes and transforms the same images again"
_NAMES = ("torch.utils.data.TensorDataset", "torch.utils.data.default_collate")


class DatasetMaterialize(Codemod):
    """Decodes and transforms small images once (``TensorDataset(*default_collate(list(data)))``), not in each epoch.

    Why it is faster:
        A data set of torchvision makes an image of PIL's of each item and runs its transforms, in Python, each time
        that the item is read: some 100 µs for a digit of MNIST, while a small network trains on a batch of 64 in a
        millisecond. Transforms that draw no random numbers make the same tensor each time. It is made once, before the
        first epoch, and later epochs read memory; ``loader-batched-index`` then reads whole batches.

        Data sets whose images have one size, and are known by number, are seen: MNIST and its kin, CIFAR, SVHN, STL10.

    When it is left:
        A transform draws, or it is not known whether it does. The images take more than 1 GiB. They are read once, or
        it is not known how often; or a loop ends before their last batch. Something else of the data set is used than
        its length, such as ``targets``, and more than one loader reads it, or the use is through the loader. A loader
        of it has workers, a sampler or a ``collate_fn``, or reads a part of it that is no ``random_split``. A framework
        runs the loop.

    Results:
        The same batches, bit for bit. No random numbers are drawn. The first epoch begins later by somewhat more than a
        pass through the data took, so that a run of few epochs gains less than its iterations do: five of MNIST were
        1.9 times as fast as a whole and 4.3 times an iteration, on two cores that others used, too. All of the images
        are in memory, twice while they are stacked: 376 MB for MNIST.

    References:
        ``torch.utils.data``, "Dataset Types", ``default_collate``; torchvision, "Transforms: v1 or v2".
    """

    promise = Promise.BITWISE
    gain = "iterations of small networks on small images 4x as fast (CPU)"
    gain_sources = ("docs/measured.md#mnist_feedforward",)
    min_torch = (1, 11)
    needs_cuda = False
    phases = frozenset({Phase.DATA, Phase.EVALUATION})
    causes = words(
        """
        dataset-inspected draws-anew framework made-in-loop no-name other-arguments own-loader-class read-once
        script-decides too-large unknown-arguments unknown-reading unknown-transform
        """
    )
    examples = (
        Rewrites(
            before="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
train_loader = DataLoader(train_set, num_workers=0)
for epoch in range(5):
    for images, labels in train_loader:
        print(images.mean(), labels.sum())
""",
            after="""\
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torchvision import datasets, transforms

train_set = datasets.MNIST("data", transform=transforms.ToTensor())
train_set = TensorDataset(*default_collate(list(train_set)))  # decode once
train_loader = DataLoader(train_set, num_workers=0)
for epoch in range(5):
    for images, labels in train_loader:
        print(images.mean(), labels.sum())
""",
        ),
        Leaves(
            code="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
train_loader = DataLoader(datasets.CIFAR10("data", transform=transform), batch_size=64)
for epoch in range(5):
    for images, labels in train_loader:
        print(images.mean(), labels.sum())
""",
            because="RandomHorizontalFlip draws random numbers for each image in each epoch (line 4)",
        ),
        Leaves(
            code="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

test_loader = DataLoader(datasets.MNIST("data", train=False, transform=transforms.ToTensor()), batch_size=64)
for images, labels in test_loader:
    print(images.mean(), labels.sum())
""",
            because="it is read once (line 5), and nothing would read it again",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every data set of small images that the module makes and a loader reads."""
        for module, call, value in image_sets(script):
            found = read_once(script, module, value)
            edits = found if isinstance(found, Reason) else _edits(script, module, found)
            if isinstance(edits, Reason):
                yield self.left(module, call, edits)
            else:
                yield self.rewrites(module, call, _MESSAGE, *edits)


def _edits(script: Script, module: Module, node: ast.expr) -> list[Edit] | Reason:
    found = all_written(script, module, _NAMES, node)
    if found is None:
        return Reason("no-name", "TensorDataset cannot be named where the data set is made")
    (tensors, collate), edits = found
    before = f"{tensors}(*{collate}(list("
    name = _own_name(module, node)
    if name is not None:
        statement = module.statement(node)
        insert = Insert(module, statement, f"{name} = {before}{name})))  # decode once", "after")
        if problems.problem(insert) is None:
            return [*edits, insert]
    return [*edits, Surround(module, node, before, ")))")]


def _own_name(module: Module, node: ast.expr) -> str | None:
    """The name that the data set is given, where no function reads it that may meet what it was before."""
    statement = module.parent(node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    here = module.function(statement)
    elsewhere = (each for each in module.nodes(ast.Name) if each.id == target.id and module.function(each) is not here)
    return None if any(isinstance(each.ctx, ast.Load) for each in elsewhere) else target.id
