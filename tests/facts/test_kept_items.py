"""Whose items are read again in each epoch, and what stands against keeping them."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.kept_items import own_datasets, why_not_kept

HEAD = """\
import argparse
import copy
import random

import matplotlib.pyplot as plt
import numpy as np
import torch
import torchvision.transforms.functional as TF
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Subset, random_split
"""
CLASS = """

class Cells(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return TF.to_tensor(Image.open(self.paths[i])), self.transform

"""
DATA = "data = Cells(['a.png'])\n"
LOADER = "loader = DataLoader(data)\n"
READ = "for epoch in range(3):\n    for x, y in loader:\n        print(x)\n"
CHANGED = "what its items are made of is changed, and items that were kept would not follow"
USED = "it is used in another way than through a loader, and its items may be written to"


def left(text: str, name: str = "Cells") -> str | None:
    """Why the objects of the class should not keep their items, without the lines."""
    asked = script(text)
    (found,) = (each for each in own_datasets(asked) if each.class_.name == name)
    reason = why_not_kept(found)
    return None if reason is None else reason.words.text.replace(" (\ufffc)", "")


def method(code: str) -> str:
    """The class with another method."""
    return f"{CLASS.rstrip()}\n\n    {code}\n\n"


def reading(global_: str) -> str:
    """The class with items that a name of the module has a part in."""
    return CLASS.replace("self.transform\n\n", f"self.transform, {global_}\n\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CLASS + DATA + LOADER + READ, id="each epoch reads it"),
        pytest.param(CLASS.replace("(Dataset)", "(Dataset[tuple])") + DATA + LOADER + READ, id="a base with types"),
        pytest.param(CLASS.replace("(Dataset)", "") + DATA + LOADER + READ, id="a class without a base"),
        pytest.param(
            CLASS
            + DATA
            + "def epoch():\n    for x, y in loader:\n        print(x)\n"
            + LOADER
            + "for e in '12': epoch()\n",
            id="a function is called in each epoch",
        ),
        pytest.param(
            CLASS + DATA + "for epoch in range(3):\n    loader = DataLoader(data)\n    for x, y in loader: print(x)\n",
            id="the loader is made anew",
        ),
        pytest.param(
            CLASS + "for run in range(3):\n    loader = DataLoader(Cells(['a']))\n    for epoch in range(3):\n"
            "        for x, y in loader: print(x)\n",
            id="each run makes its own",
        ),
        pytest.param(
            CLASS + "sets = {p: Cells([p]) for p in ('train', 'val')}\n"
            "loaders = {p: DataLoader(sets[p]) for p in ('train', 'val')}\n"
            "for epoch in range(3):\n    for p in ('train', 'val'):\n        for x, y in loaders[p]: print(len(sets[p]))\n",
            id="dictionaries of phases",
        ),
        pytest.param(
            CLASS + "paths = []\nfor n in range(3):\n    paths.append(str(n))\ndata = Cells(paths)\n" + LOADER + READ,
            id="its list was filled before",
        ),
        pytest.param(
            CLASS
            + "def main():\n    paths = []\n    paths.append('a')\n    data = Cells(paths)\n    loader = DataLoader(data)\n"
            "    for epoch in range(3):\n        for x, y in loader: print(x)\nmain()\n",
            id="in a function",
        ),
        pytest.param("SIZE = 3\n" + reading("SIZE") + DATA + LOADER + READ, id="a constant"),
        pytest.param(
            "WORDS = {}\ndef fill():\n    WORDS['a'] = 1\nfill()\n" + reading("WORDS['a']") + DATA + LOADER + READ,
            id="a dictionary that was filled before",
        ),
        pytest.param(
            "WORDS = {}\nWORDS['a'] = 1\n"
            + reading("WORDS['a']")
            + "def main():\n    loader = DataLoader(Cells(['a']))\n"
            "    for epoch in range(3):\n        for x, y in loader: print(x)\nmain()\n",
            id="one that was filled above the function",
        ),
        pytest.param(
            "args = argparse.ArgumentParser().parse_args()\n" + reading("args.size") + DATA + LOADER + READ,
            id="an option",
        ),
        pytest.param(
            CLASS
            + "def make(folder):\n    torch.save(torch.ones(3), folder + '/a.png')\nfolder = 'cells'\nmake(folder)\n"
            "data = Cells([folder + '/a.png'])\n" + LOADER + READ,
            id="its files were written before",
        ),
        pytest.param(
            "args = argparse.ArgumentParser().parse_args()\n"
            + CLASS
            + "data = Cells([args.data])\n"
            + LOADER
            + READ
            + "    torch.save(x, args.out)\n    open(args.log, 'a').write('x')\n",
            id="other files are written",
        ),
        pytest.param(CLASS + DATA + LOADER + "x, y = data[0]\nplt.imshow(x)\n" + READ, id="an item is shown"),
        pytest.param(CLASS + DATA + LOADER + "for x, y in data:\n    print(x.shape)\n" + READ, id="all are looked at"),
        pytest.param(CLASS + "loader = DataLoader(Cells(['a']) + Cells(['b']))\n" + READ, id="two that are joined"),
        pytest.param(
            CLASS + DATA + "loader = DataLoader(Subset(data, np.arange(3)))\n" + READ, id="an array of numbers"
        ),
        pytest.param(
            CLASS + DATA + "loader = DataLoader(data, sampler=torch.utils.data.WeightedRandomSampler([1], 1))\n" + READ,
            id="a sampler of numbers",
        ),
        pytest.param(
            CLASS + DATA + "odd = torch.utils.data.SubsetRandomSampler(list(range(1, 9, 2)))\n"
            "loader = DataLoader(data, sampler=odd)\n" + READ,
            id="a sampler of some of them",
        ),
    ],
)
def test_items_can_be_kept(text: str) -> None:
    assert left(HEAD + text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(
            method("def set_epoch(self, n):\n        self.transform = n")
            + DATA
            + LOADER
            + READ.replace("    for x", "    data.set_epoch(epoch)\n    for x"),
            CHANGED,
            id="it is told of the epoch",
        ),
        pytest.param(
            method("def grow(self, path):\n        self.paths.append(path)")
            + DATA
            + LOADER
            + READ.replace("    for x", "    loader.dataset.grow('b')\n    for x"),
            CHANGED,
            id="it grows",
        ),
        pytest.param(
            CLASS
            + DATA
            + "a, b = random_split(data, [2, 1])\nloader = DataLoader(a)\na.dataset.transform = 3\n"
            + READ,
            CHANGED,
            id="its transform is set through a part",
        ),
        pytest.param(
            CLASS
            + "paths = ['a']\ndata = Cells(paths)\n"
            + LOADER
            + READ.replace("    for x", "    paths[0] = 'b'\n    for x"),
            CHANGED,
            id="its list is changed",
        ),
        pytest.param(
            "WORDS = {}\ndef fill():\n    WORDS['a'] = 1\n"
            + reading("WORDS['a']")
            + DATA
            + LOADER
            + READ
            + "    fill()\n",
            CHANGED,
            id="a dictionary is filled in each epoch",
        ),
        pytest.param(
            "SIZE = 3\n" + reading("SIZE") + DATA + LOADER + READ.replace("    for x", "    SIZE = epoch\n    for x"),
            CHANGED,
            id="a name has another value in each epoch",
        ),
        pytest.param(
            "SIZE = 3\ndef set_size():\n    global SIZE\n    SIZE = 4\n" + reading("SIZE") + DATA + LOADER + READ,
            CHANGED,
            id="a function gives it another value",
        ),
        pytest.param(
            "args = argparse.ArgumentParser().parse_args()\n"
            + reading("args.size")
            + DATA
            + LOADER
            + READ.replace("    for x", "    args.size = epoch\n    for x"),
            CHANGED,
            id="an option is set in each epoch",
        ),
        pytest.param(
            CLASS
            + "folder = 'cells'\ndata = Cells([folder + '/a.png'])\n"
            + LOADER
            + READ
            + "    torch.save(x, f'{folder}/a.png')\n",
            "files that its items are read from may be written, and items that were kept would not follow",
            id="its files are written",
        ),
        pytest.param(
            "args = argparse.ArgumentParser().parse_args()\n"
            + CLASS
            + "data = Cells(args.files)\n"
            + LOADER
            + READ
            + "    for file in args.files:\n        Image.fromarray(x).save(args.files[0])\n",
            "files that its items are read from may be written, and items that were kept would not follow",
            id="its files are written by a method",
        ),
        pytest.param(CLASS + DATA + LOADER + "data[0][0].zero_()\n" + READ, USED, id="an item is filled"),
        pytest.param(CLASS + DATA + LOADER + "x, y = data[0]\nmodel(x)\n" + READ, USED, id="an item goes to a model"),
        pytest.param(
            CLASS + DATA + LOADER + "for x, y in data:\n    x.mul_(2)\n" + READ, USED, id="all are written to"
        ),
        pytest.param(CLASS + DATA + LOADER + "items = list(data)\n" + READ, USED, id="all are listed"),
        pytest.param(CLASS + DATA + LOADER + "other = copy.deepcopy(data)\n" + READ, USED, id="it is copied"),
        pytest.param(
            method("def show(self, i):\n        return self[i]") + DATA + LOADER + READ,
            "its own methods read its items, and may write to them",
            id="a method reads an item",
        ),
        pytest.param(
            CLASS + DATA + "loader = DataLoader(Subset(data, NUMBERS))\n" + READ,
            "a loader reads a part of it, whose indices may be tensors: make a list of them with tolist()",
            id="a part by what is not known",
        ),
        pytest.param(
            CLASS + DATA + "odd = torch.utils.data.SubsetRandomSampler(torch.randperm(9))\n"
            "loader = DataLoader(data, sampler=odd)\n" + READ,
            "a loader of it has a sampler, which may ask for items by something else than numbers",
            id="a sampler that asks by tensors",
        ),
        pytest.param(
            CLASS + DATA + "class Own(DataLoader):\n    def __iter__(self):\n        yield self.dataset[0]\n"
            "loader = Own(data)\n" + READ,
            "class Own has an __iter__ of its own, which may keep its workers",
            id="a loader of its own",
        ),
        pytest.param(
            "from accelerate import Accelerator\n"
            + CLASS
            + DATA
            + LOADER
            + "loader = Accelerator().prepare(loader)\n"
            + READ,
            "Accelerate makes a loader of its own of it, which may read it in several processes",
            id="Accelerate",
        ),
        pytest.param(
            method("def __getitems__(self, indices):\n        return []") + DATA + LOADER + READ,
            "class Cells has attributes that are more than that: __slots__, decorators and the like",
            id="it reads whole batches",
        ),
        pytest.param(
            "import functools\n"
            + CLASS.replace("    def __getitem__", "    @functools.lru_cache(None)\n    def __getitem__")
            + DATA
            + LOADER
            + READ,
            "class Cells has attributes that are more than that: __slots__, decorators and the like",
            id="a decorator keeps them",
        ),
    ],
)
def test_items_stay_unkept(text: str, why: str) -> None:
    assert left(HEAD + text) == why


def test_of_two_classes_each_is_judged_alone() -> None:
    other = CLASS.replace("Cells", "Other").replace("self.transform\n", "random.random()\n")
    text = HEAD + CLASS + other + "data = Cells(['a']) if len(HEAD) else Other(['a'])\n" + LOADER + READ
    assert left(text) is None
    assert left(text, "Other") == "random.random() draws random numbers for each item in each epoch"


def test_a_class_around_another_one() -> None:
    around = CLASS.replace("Cells", "Around").replace(
        "TF.to_tensor(Image.open(self.paths[i]))", "self.paths[i][0].mul_(2)"
    )
    text = HEAD + CLASS + around + "loader = DataLoader(Around(Cells(['a'])))\n" + READ
    found = [each.class_.name for each in own_datasets(script(text))]
    assert "Cells" not in found

    plain = "plain = DataLoader(Cells(['a']))\n" + READ.replace("loader", "plain")
    assert left(text.replace(READ, plain)) == USED


def test_what_is_in_memory_is_no_site() -> None:
    text = HEAD + CLASS.replace("TF.to_tensor(Image.open(self.paths[i]))", "self.paths[i]") + DATA + LOADER + READ
    assert list(own_datasets(script(text))) == []
