"""Rule ``dataset-cache``: items that the script's own data set reads alike in each epoch are read once, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.codemod import Codemod, Default, Leaves, Phase, Promise, Rewrites
from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import walk
from codemods.editing.values import Insert, Rename
from codemods.facts.data.kept_items import own_datasets, why_not_kept
from codemods.facts.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.codemod import Finding
    from codemods.editing.values import Edit
    from codemods.facts.data.kept_items import OwnDataset
    from codemods.facts.script import Script

_MESSAGE = "each epoch reads the same items again, and makes the same of them"
_ATTRIBUTES = ("cache", "item_cache")
_METHODS = ("load_item", "read_item")


class DatasetCache(Codemod):
    """Keeps the items of the script's own data set once they are read (``self.cache[index] = self.load_item(index)``).

    Why it is faster:
        A class of the script opens a file, decodes an image or tokenizes a text each time that an item is read, in the
        process that trains, which waits meanwhile. Where nothing about it is drawn, each epoch makes the same of the
        same files. Kept in a dictionary, an item is read in the first epoch alone; later ones only join items to
        batches.

    When it is left:
        **All items stay in memory, as they are returned**, and no script shows how large they are: 4,000 images of 256
        x 256 pixels with their masks, as numbers of 32 bits, take 4 GB; a view keeps the whole array that it is a part
        of. So the rule runs only where it is asked for by its name, or by ``ALL``. It takes for granted that the files
        stay as they are while the script runs, unless the script itself writes files by a name that the data set is
        made with. Objects that are read once, such as those of a test set, keep their items, too.

        What reads an item draws random numbers, or calls what is not known to make the same of the same each time: the
        functions and methods that do are listed, of Python, NumPy, PIL, OpenCV, torchvision and the like. It changes
        the data set or the script, or something changes later what items are made of, such as a method that is told of
        the epoch. A loader has workers, of which each would keep items of its own; it has no batches, or a
        ``collate_fn`` that hands items on as they are, or writes to them; its sampler is not torch's. Something else
        reads items, and may write to them. No loop over epochs reads them. The class derives from another one, or
        another one from it. Items that are made of what is in memory, by indexing alone, are passed over.

    Results:
        The same batches, bit for bit: the loader copies items when it joins them. A file that is missing is missed when
        its item is read, as before. ``loader-workers`` gives such a loader no workers, so that on a GPU, too, the first
        epoch waits for its items.

    References:
        ``torch.utils.data``, "Map-style datasets", "Multi-process data loading".
    """

    promise = Promise.BITWISE
    default = Default.OPT_IN
    gain = "an iteration 1.07x as fast where a tenth of it was reading images (CPU)"
    gain_sources = ("docs/measured.md#dataset-cache",)
    # Older ones split data sets at random by tensors, of which no two are the same key.
    min_torch = (1, 2)
    needs_cuda = False
    phases = frozenset({Phase.DATA, Phase.EVALUATION})
    causes = words(
        """
        dataset-changes draws-anew framework items-handed-on made-in-loop no-name other-arguments
        own-dataset-class own-loader-class read-once script-decides unknown-arguments unknown-dataset unknown-item-code
        unknown-reading
        """
    )
    examples = (
        Rewrites(
            before="""\
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Cells(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = np.array(Image.open(self.paths[index]).convert("RGB"))
        return torch.tensor(image / 255)


loader = DataLoader(Cells(["1.png", "2.png"]), batch_size=2, shuffle=True)
for epoch in range(10):
    for images in loader:
        print(images.mean())
""",
            after="""\
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Cells(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.cache = {}  # items that have been read

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = self.load_item(index)
        return self.cache[index]

    def load_item(self, index):
        image = np.array(Image.open(self.paths[index]).convert("RGB"))
        return torch.tensor(image / 255)


loader = DataLoader(Cells(["1.png", "2.png"]), batch_size=2, shuffle=True)
for epoch in range(10):
    for images in loader:
        print(images.mean())
""",
        ),
        Leaves(
            code="""\
import random

from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import functional


class Cells(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = functional.to_tensor(Image.open(self.paths[index]))
        return image.flip(2) if random.random() < 0.5 else image


loader = DataLoader(Cells(["1.png", "2.png"]), batch_size=2, shuffle=True)
for epoch in range(10):
    for images in loader:
        print(images.mean())
""",
            because="random.random() draws random numbers for each item in each epoch (line 17)",
        ),
    )

    def find(self, script: Script) -> Iterator[Finding]:
        """Every class of the module whose objects loaders read, and that makes the same items again in each epoch."""
        for found in own_datasets(script):
            reason = why_not_kept(found)
            edits = _keeping(found) if reason is None else reason
            if isinstance(edits, Reason):
                yield self.left(script.module, found.item, edits)
            else:
                yield self.rewrites(script.module, found.item, _MESSAGE, *edits)


def _keeping(found: OwnDataset) -> Sequence[Edit] | Reason:
    """The dictionary of items, and a method that fills it before the one that makes an item, which gets a new name."""
    module, item, init = found.module, found.item, found.constructor
    assert init is not None  # noqa: S101 - for mypy: nothing is kept without one
    taken = _names(found)
    cache = next((each for each in _ATTRIBUTES if each not in taken), None)
    load = next((each for each in _METHODS if each not in taken), None)
    if cache is None or load is None:
        return Reason("no-name", f"class {found.class_.name} has all of the names that items would be kept by")
    this, index = signature(item).positional_names
    owner = signature(init).positional_names[0]
    given = ", ".join(module.code(each) for each in item.args.args)
    returned = "" if item.returns is None else f" -> {module.code(item.returns)}"
    code = f"""\
def __getitem__({given}){returned}:
    if {index} not in {this}.{cache}:
        {this}.{cache}[{index}] = {this}.{load}({index})
    return {this}.{cache}[{index}]

"""
    return [
        Insert(module, init.body[-1], f"{owner}.{cache} = {{}}  # items that have been read", "after"),
        Insert(module, item, code, "before"),
        Rename(module, item, load),
    ]


def _names(found: OwnDataset) -> frozenset[str]:
    """The names of the attributes and methods of the class, and those that anything has given its objects."""
    inside = {getattr(each, "attr", getattr(each, "name", getattr(each, "id", ""))) for each in walk(found.class_)}
    return frozenset(inside) | found.script.flow.attributes(found.class_).keys()
