"""Rule ``dataset-materialize``: images that come out alike in each epoch are decoded and transformed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.editing.dataset_edits import DatasetEdits
from codemods.facts.data.loaders import through_partial
from codemods.facts.data.materializing import image_sets, is_image_set, read_once
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.codemod import Finding
    from codemods.facts.script import Script

_ANEW = "each epoch decodes and transforms the same images again"
_SINGLY = "each image is decoded and transformed by itself"


class DatasetMaterialize(Codemod):
    """Decodes and transforms small images once (``TensorDataset(images, data.targets)``), not in each epoch.

    Why it is faster:
        A data set of torchvision makes an image of PIL's of each item and runs its transforms, in Python, each time
        that the item is read: some 100 µs for a digit of MNIST, while a small network trains on a batch of 64 in a
        millisecond. Transforms that draw no random numbers make the same tensor each time. It is made once, before the
        first epoch, and later epochs read memory; ``loader-batched-index`` then reads whole batches.

        Where a transform changes each pixel for itself (``ToTensor``, ``Normalize``), all images of MNIST and its kin,
        and of CIFAR, go through it at once, lying below each other as one tall image: 60,000 digits in 1.7 s rather
        than 40 s, on a core that others used, too. Others are read one by one (``default_collate(list(data))``).

        Data sets whose images have one size, and are known by number, are seen: MNIST and its kin, USPS, CIFAR, SVHN,
        STL10.

    When it is left:
        A transform draws, or changes later, or it is not known whether it does. The images take more than 1 GiB. They
        are read once, and not transformed at once, or it is not known how often; or a loop ends before their last
        batch. Something else of the data set is used than its length, such as ``targets``, and more than one loader
        reads it, or the use is through the loader. A loader of it has workers, a sampler or a ``collate_fn``, or reads
        a part of it that is no ``random_split``, or has no batches. A class of the script makes its items. The script
        says which number format tensors have by default. A framework runs the loop.

    Results:
        The same batches, bit for bit. No random numbers are drawn. The first epoch begins later: by little where all
        images are transformed at once (five epochs of MNIST were 4 times as fast as a whole), else by somewhat more
        than a pass through the data took (1.9 times). All of the images are in memory, twice while they are made: 376
        MB for MNIST.

    References:
        ``torch.utils.data``, "Dataset Types", ``default_collate``; torchvision, "Transforms: v1 or v2".
    """

    promise = Promise.BITWISE
    gain = "iterations of small networks on small images 2-4x as fast (CPU)"
    gain_sources = ("docs/measured.md#mnist_feedforward", "docs/measured.md#mnist_cnn")
    min_torch = (1, 11)
    needs_cuda = False
    phases = frozenset({Phase.DATA, Phase.EVALUATION})
    causes = words(
        """
        dataset-changes dataset-inspected draws-anew framework made-in-loop no-name other-arguments own-dataset-class
        own-loader-class partial-loader read-once script-decides too-large unknown-arguments unknown-reading
        unknown-transform
        """
    )
    examples = (
        Rewrites(
            before="""\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.ToTensor()
train_set = datasets.MNIST("data", transform=transform)
train_loader = DataLoader(train_set, num_workers=0)
for epoch in range(5):
    for images, labels in train_loader:
        print(images.mean(), labels.sum())
""",
            after="""\
from torch.utils.data import DataLoader, TensorDataset
from torchvision import datasets, transforms

transform = transforms.ToTensor()
train_set = datasets.MNIST("data", transform=transform)
# all images at once, as one tall image
train_images = transform(
    train_set.data.flatten(0, 1).numpy()
).view(train_set.data.unsqueeze(1).shape)
train_set = TensorDataset(train_images, train_set.targets)
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

transform = transforms.Compose([transforms.Resize(32), transforms.ToTensor()])
test_loader = DataLoader(datasets.MNIST("data", train=False, transform=transform), batch_size=64)
for images, labels in test_loader:
    print(images.mean(), labels.sum())
""",
            because="it is read once (line 6), and nothing would read it again",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every data set of small images that the module makes and a loader reads."""
        writing = DatasetEdits(script, script.module)
        for module, call, value in image_sets(script):
            found = read_once(script, module, value)
            if isinstance(found, Reason):
                yield self.left(module, call, found)
                continue
            edits = writing.reading_once(value, found)
            if isinstance(edits, Reason):
                yield self.left(module, call, edits)
            else:
                yield self.rewrites(module, call, _ANEW if found.why_not_singly is None else _SINGLY, *edits)
        for call, because in through_partial(script.flow, script.module, is_image_set):
            yield self.left(script.module, call, because)
