"""Which items of a script's own data set are kept, and which are read again in each epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kit import check_leaves, check_rewrites, check_silent, found_by, run
from PIL import Image

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.catalogue import GROUPS, RULES
from codemods.codemod import Promise
from codemods.dataflow.source import Module
from codemods.editing.apply import apply
from codemods.facts.script import Script
from codemods.rules.dataset_cache import DatasetCache

if TYPE_CHECKING:
    from pathlib import Path

IMPORTS = """\
import glob
import json
import os
import random
import re

import cv2
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
import torchvision.transforms.functional as TF
from PIL import Image
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Subset, random_split
from torchvision import transforms

"""
CLASS = """\

class Cells(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        image = Image.open(self.paths[i]).convert("L")
{item}

"""
KEPT = """\

class Cells(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform
        self.cache = {{}}  # items that have been read

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        if i not in self.cache:
            self.cache[i] = self.load_item(i)
        return self.cache[i]

    def load_item(self, i):
        image = Image.open(self.paths[i]).convert("L")
{item}

"""
ITEM = "        return TF.to_tensor(image), i"
DATA = 'data = Cells(sorted(glob.glob("cells/*.png")))\n'
LOADER = "loader = DataLoader(data, batch_size=4)\n"
READ = "for epoch in range(3):\n    for a, b in loader:\n        print(a.sum(), b.sum())\n"


def script(item: str = ITEM, data: str = DATA, loader: str = LOADER, read: str = READ, before: str = "") -> str:
    return IMPORTS + before + CLASS.format(item=item) + data + loader + read


def rewrites(item: str = ITEM, data: str = DATA, loader: str = LOADER, read: str = READ, before: str = "") -> None:
    """The class keeps its items, and nothing else changes."""
    after = IMPORTS + before + KEPT.format(item=item) + data + loader + read
    check_rewrites(DatasetCache, script(item, data, loader, read, before), after)


def left(because: str, **changed: str) -> None:
    check_leaves(DatasetCache, script(**changed), because)


def test_it_is_opt_in() -> None:
    assert "dataset-cache" in RULES
    assert "dataset-cache" not in GROUPS["DEFAULT"]


# What is kept.


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(ITEM, id="a tensor of an image"),
        pytest.param(
            "        image = np.array(image, dtype=np.float32) / 255.0\n"
            "        image[image > 0.5] = 1.0\n"
            "        return torch.tensor(image).unsqueeze(0), 1",
            id="an array of its own is written to",
        ),
        pytest.param(
            "        if self.transform is not None:\n            image = self.transform(image)\n"
            "            return image, 0\n        return TF.to_tensor(image), 1",
            id="it returns at two places",
        ),
        pytest.param(
            "        # bytes, not floats\n        i = i % len(self.paths)\n        return TF.pil_to_tensor(image), i",
            id="the index gets another value",
        ),
        pytest.param(
            "        try:\n            mask = Image.open(self.paths[i].replace('png', 'gif'))\n"
            "        except FileNotFoundError:\n            raise RuntimeError(f'no mask {i}')\n"
            "        return TF.to_tensor(mask), torch.zeros(3)",
            id="a file may be missing",
        ),
        pytest.param(
            "        image = cv2.resize(cv2.imread(self.paths[i], 0), (8, 8))\n"
            "        with open(self.paths[i] + '.json') as file:\n            label = json.load(file)['label']\n"
            "        return torch.from_numpy(image), label",
            id="OpenCV, and a file that is opened and closed",
        ),
        pytest.param(
            "        words = re.findall('[a-z]+', os.path.basename(self.paths[i]).lower())\n"
            "        ids = [len(word) for word in words]\n        ids.append(0)\n"
            "        return F.pad(torch.tensor(ids), (0, 3)), i",
            id="a list of its own grows",
        ),
    ],
)
def test_items_that_repeat_are_kept(item: str) -> None:
    rewrites(item)


@pytest.mark.parametrize(
    ("data", "loader"),
    [
        pytest.param(DATA, "loader = DataLoader(data, 4, True, num_workers=0, drop_last=True)\n", id="it is shuffled"),
        pytest.param(
            DATA + "train, test = random_split(data, [10, 2])\n", "loader = DataLoader(train)\n", id="a random part"
        ),
        pytest.param(
            DATA + "train = Subset(data, range(3))\n", "loader = DataLoader(train)\n", id="a part by its numbers"
        ),
        pytest.param(
            DATA + "train = Subset(data, torch.randperm(9).tolist())\n",
            "loader = DataLoader(train)\n",
            id="a part by a list",
        ),
        pytest.param(DATA + "print(len(data), data.paths)\n", LOADER, id="its attributes are looked at"),
        pytest.param(DATA + "print(data[0][0].shape)\n", LOADER, id="an item is looked at"),
        pytest.param(
            DATA,
            LOADER + "print([a.sum() for a, b in DataLoader(Cells(['a.png']))])\n",
            id="a second object, which is read once",
        ),
    ],
)
def test_loaders_that_copy_items(data: str, loader: str) -> None:
    rewrites(data=data, loader=loader)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param("transforms.ToTensor()", id="one step"),
        pytest.param("transforms.Compose([transforms.Resize(8), transforms.ToTensor()])", id="several"),
        pytest.param("transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x * 2)])", id="a lambda"),
        pytest.param("lambda image: TF.to_tensor(image).flatten()", id="a function"),
    ],
)
def test_transforms_that_repeat(steps: str) -> None:
    rewrites("        return self.transform(image), i", data=f"data = Cells(['a.png'], {steps})\n")


@pytest.mark.parametrize(
    "collate",
    [
        pytest.param(
            "def join(batch):\n    images, labels = [], []\n    for image, label in batch:\n"
            "        images.append(image)\n        labels.append(label)\n"
            "    return torch.stack(images), torch.tensor(labels)\n",
            id="lists are stacked",
        ),
        pytest.param(
            "def join(batch):\n    batch.sort(key=lambda item: item[0].size(0), reverse=True)\n"
            "    images = pad_sequence([item[0] for item in batch], batch_first=True)\n"
            "    lengths = torch.tensor([len(item[0]) for item in batch])\n    return images, lengths\n",
            id="they are sorted and padded",
        ),
        pytest.param(
            "def join(batch):\n    longest = max(len(image) for image, _ in batch)\n"
            "    padded = torch.zeros(len(batch), longest)\n    for at, (image, label) in enumerate(batch):\n"
            "        padded[at, :len(image)] = image\n    return padded, torch.LongTensor([each[1] for each in batch])\n",
            id="they are written into a new tensor",
        ),
        pytest.param("join = None\n", id="none"),
        pytest.param("join = torch.utils.data.default_collate\n", id="torch's"),
    ],
)
def test_a_collate_fn_that_makes_new_tensors(collate: str) -> None:
    rewrites(before=collate, loader="loader = DataLoader(data, batch_size=4, collate_fn=join)\n")


def test_the_signature_is_kept() -> None:
    before = CLASS.replace("def __getitem__(self, i):", "def __getitem__(this, i: int) -> 'tuple[torch.Tensor, int]':")
    before = before.replace("        image = Image.open(self.paths", "        image = Image.open(this.paths").format(
        item=ITEM
    )
    after = before.replace(
        "        self.transform = transform\n",
        "        self.transform = transform\n        self.cache = {}  # items that have been read\n",
    )
    after = after.replace(
        "    def __getitem__(this, i: int) -> 'tuple[torch.Tensor, int]':\n",
        "    def __getitem__(this, i: int) -> 'tuple[torch.Tensor, int]':\n"
        "        if i not in this.cache:\n            this.cache[i] = this.load_item(i)\n        return this.cache[i]\n\n"
        "    def load_item(this, i: int) -> 'tuple[torch.Tensor, int]':\n",
    )
    check_rewrites(DatasetCache, IMPORTS + before + DATA + LOADER + READ, IMPORTS + after + DATA + LOADER + READ)


def test_names_that_are_taken() -> None:
    text = script().replace("self.paths = paths", "self.paths = self.cache = paths")
    text = text.replace("    def __len__", "    def load_item(self, i):\n        pass\n\n    def __len__")
    after = run(DatasetCache, text).after
    assert "self.item_cache[i] = self.read_item(i)" in after
    assert "    def read_item(self, i):\n" in after

    text = text.replace("self.cache", "self.item_cache = self.cache")
    check_leaves(DatasetCache, text, "class Cells has all of the names that items would be kept by")


def test_comments_and_docstrings_stay_where_they_are() -> None:
    text = script().replace(
        "    def __getitem__(self, i):\n", '    # one cell\n    def __getitem__(self, i):\n        """Decodes it."""\n'
    )
    after = run(DatasetCache, text).after
    assert "    # one cell\n    def __getitem__(self, i):\n        if i not in self.cache:" in after
    assert '    def load_item(self, i):\n        """Decodes it."""\n' in after


# What is read again.


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        pytest.param(
            {"loader": "loader = DataLoader(data, num_workers=2)\n"},
            "worker processes read it (line 32), of which each would keep items of its own: take num_workers away where all items fit into memory",
            id="it has workers",
        ),
        pytest.param(
            {"loader": "loader = DataLoader(data, batch_size=None)\n"},
            "a loader hands out its items as they are (line 32), and whoever writes to one would write to what is kept",
            id="it has no batches",
        ),
        pytest.param(
            {"loader": "loader = DataLoader(data, sampler=Odd(data))\n"},
            "a loader of it has a sampler (line 32), which may ask for items by something else than numbers",
            id="its sampler is not torch's",
        ),
        pytest.param(
            {"loader": "loader = DataLoader(data, **options)\n"},
            "its arguments are given with **options: 'options' is defined in no place that can be seen",
            id="its arguments are not seen",
        ),
        pytest.param(
            {"loader": "part = Subset(data, torch.randperm(4))\nloader = DataLoader(part)\n"},
            "a loader reads a part of it (line 32), whose indices may be tensors: make a list of them with tolist()",
            id="a part by tensors",
        ),
        pytest.param(
            {"loader": "loader = DataLoader(data, collate_fn=lambda items: items)\n"},
            "collate_fn may hand its items on as they are, or write to them (line 32)",
            id="batches are the items",
        ),
        pytest.param(
            {"read": "for a, b in loader:\n    print(a)\n"},
            "its items are read once (line 33), and nothing would read them again",
            id="no loop reads them again",
        ),
        pytest.param(
            {"read": "for epoch in range(3):\n    a, b = next(iter(loader))\n"},
            "it is not seen to be read from the start to the end",
            id="first batches alone",
        ),
        pytest.param(
            {
                "data": "",
                "loader": "",
                "read": "for epoch in range(3):\n    for a, b in DataLoader(Cells(['a'])):\n        print(a)\n",
            },
            "it is made anew in each pass of a loop (line 31)",
            id="each epoch makes it anew",
        ),
        pytest.param(
            {"read": "from engine import fit\nfit(loader)\n"},
            "fit() reads it, in code that is not followed (line 34)",
            id="another package reads it",
        ),
        pytest.param(
            {"read": "for epoch in range(3):\n    data.transform = None\n    for a, b in loader:\n        print(a)\n"},
            "what its items are made of is changed (line 34), and items that were kept would not follow",
            id="its transform is set in the loop",
        ),
        pytest.param(
            {"read": "x, y = data[0]\nx += 1\n" + READ},
            "it is used in another way than through a loader (line 33), and its items may be written to",
            id="an item is written to",
        ),
        pytest.param(
            {"read": "torch.save(data, 'data.pt')\n" + READ},
            "it is used in another way than through a loader (line 33), and its items may be written to",
            id="it is saved",
        ),
        pytest.param(
            {"item": "        print(i)\n        return TF.to_tensor(image), i"},
            "print() tells of each item that is read (line 29), and would tell of it once",
            id="it says what it reads",
        ),
    ],
)
def test_sites_that_are_left(changed: dict[str, str], because: str) -> None:
    left(because, **changed)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        pytest.param(
            "class Cells(Dataset)",
            "class Cells(datasets.VisionDataset)",
            "what class Cells inherits (line 20) is not known",
            id="a base of which nothing is known",
        ),
        pytest.param(
            "    def __len__",
            "    def __getattr__(self, name):\n        return 1\n\n    def __len__",
            "class Cells (line 20) has attributes that are more than that: __slots__, decorators and the like",
            id="its attributes are computed",
        ),
        pytest.param(
            "def __getitem__(self, i)",
            "def __getitem__(self, i, size=3)",
            "__getitem__ takes something else than an index",
            id="an item needs more than an index",
        ),
        pytest.param(
            "        self.paths = paths\n",
            "        self.paths = paths\n        if not paths:\n            return\n",
            "__init__ may return before its end (line 21)",
            id="__init__ returns early",
        ),
        pytest.param(
            "        self.transform = transform\n",
            "        self.transform = transform\n        self.first = self[0]\n",
            "its own methods read its items (line 24), and may write to them",
            id="__init__ reads an item",
        ),
        pytest.param(
            "    def __init__(self, paths, transform=None):\n        self.paths = paths\n        self.transform = transform\n",
            "    paths = transform = None\n",
            "class Cells has no __init__ of its own (line 20), which would set where items are kept: write one",
            id="it has no __init__",
        ),
        pytest.param(
            "data = Cells(",
            "class Small(Cells):\n    pass\n\n\ndata = Cells(",
            "other classes of the script derive from Cells (line 20), or it derives from one of them",
            id="it has a subclass",
        ),
        pytest.param(
            "data = Cells(",
            "Cells.__getitem__ = print\ndata = Cells(",
            "the script gives some class another method that reads items",
            id="its method is replaced",
        ),
    ],
)
def test_classes_that_are_left(old: str, new: str, because: str) -> None:
    text = script(before="from torchvision import datasets\n")
    if "Cells(" in old and "class" not in old:
        old = DATA
        new = new.removesuffix("data = Cells(") + DATA
    assert old in text
    check_leaves(DatasetCache, text.replace(old, new), because)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param("        return self.paths[i]", id="items are in memory"),
        pytest.param(
            "        if i not in self.kept:\n            self.kept[i] = TF.to_tensor(Image.open(self.paths[i]))\n        return self.kept[i]",
            id="it keeps them already",
        ),
    ],
)
def test_what_is_passed_over(item: str) -> None:
    text = script(item).replace('        image = Image.open(self.paths[i]).convert("L")\n', "")
    check_silent(DatasetCache, text.replace("self.paths = paths", "self.paths, self.kept = paths, {}"))


def test_an_iterable_data_set_is_passed_over() -> None:
    check_silent(DatasetCache, script().replace("(Dataset)", "(torch.utils.data.IterableDataset)"))


def test_a_class_in_another_module() -> None:
    # The class is rewritten where it stands, by what the script that imports it does.
    data = Module("data.py", IMPORTS + CLASS.format(item=ITEM), "data")
    train = Module("train.py", f"{IMPORTS}from data import Cells\n{DATA}{LOADER}{READ}", "train")
    whole = Script.of(train, others=[data])
    (found,) = DatasetCache().sites(whole.seen_from(data))
    assert apply(data, found.edits) == IMPORTS + KEPT.format(item=ITEM)
    assert not list(DatasetCache().sites(whole))


# What comes of it.


def test_loaders_of_kept_items_get_no_workers() -> None:
    read = READ.replace("print(a.sum(), b.sum())", "print(a.cuda().sum())")
    rules = frozenset({"dataset-cache", "loader-workers"})
    sites = rewrite("train.py", script(read=read), Settings(rules, Promise.BITWISE)).sites
    assert [(site.rule, site.rewrites) for site in sites] == [("dataset-cache", True), ("loader-workers", False)]


TRAINING = """\
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, random_split

torch.manual_seed(0)
opened = []


def load(path):
    return np.array(Image.open(path), dtype=np.float32) / 255


class Cells(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        image = load(self.paths[i])
        image[image < 0.1] = 0
        return torch.from_numpy(image).flatten(), i


def join(items):
    return torch.stack([x for x, _ in items]), torch.tensor([float(y) for _, y in items])


train, test = random_split(Cells([f"FOLDER/{i}.png" for i in range(12)]), [8, 4])
train_loader = DataLoader(train, batch_size=3, shuffle=True)
test_loader = DataLoader(test, batch_size=3, collate_fn=join)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
found = []
for epoch in range(4):
    for x, y in train_loader:
        x -= x.mean()
        loss = (model(x).squeeze(1) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    with torch.no_grad():
        for x, y in test_loader:
            x.mul_(2)
            found.append((model(x).squeeze(1) - y).square().mean().item())
"""


def trained(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, int]:
    """The losses, or the file that is missing, and how many files were opened until then."""
    opened = []
    original = Image.open

    def opening(path: str) -> Image.Image:
        opened.append(path)
        return original(path)

    with monkeypatch.context() as patch:
        patch.setattr(Image, "open", opening)
        try:
            return found_by(text), len(opened)
        except FileNotFoundError as error:
            return error.filename, len(opened)


@pytest.mark.parametrize("there", [pytest.param(12, id="all files"), pytest.param(11, id="a file is missing")])
def test_losses_are_the_same_and_each_file_is_opened_once(
    there: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(there):
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (4, 4), dtype=np.uint8)).save(tmp_path / f"{i}.png")
    before = TRAINING.replace("FOLDER", str(tmp_path))
    after = run(DatasetCache, before).after
    assert "self.cache[i] = self.load_item(i)" in after

    (found, opened), (kept, opened_once) = trained(before, monkeypatch), trained(after, monkeypatch)
    assert found == kept
    # A file that is missing is missed in the first epoch, at the same item.
    assert opened_once == opened if there < 12 else (opened, opened_once) == (4 * 12, 12)
