from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from kit import ACCELERATED, check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Choices, Promise
from codemods.rules.loader_persistent import LoaderPersistent
from codemods.rules.loader_workers import LoaderWorkers

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.results import Rewrite

HEAD = """\
import argparse
import os
import random

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

opt = argparse.ArgumentParser().parse_args()
data = datasets.MNIST("data", transform=transforms.ToTensor())
"""
EPOCHS = """\
for epoch in range(9):
    for x, y in loader:
        print(x.mean())
"""
MADE = "loader = DataLoader(data, 64, shuffle=True, num_workers=2)\n"
FILLED = "for label in [3, 7]:\n    data.samples.append(label)\n"
ENDLESS = "def endless():\n    while True:\n        for x, y in loader:\n            yield x\n"


def indented(code: str) -> str:
    return textwrap.indent(code, "    ").rstrip()


def rewrites(before: str, after: str) -> None:
    check_rewrites(LoaderPersistent, HEAD + before, HEAD + after)


def leaves(code: str, because: str) -> None:
    check_leaves(LoaderPersistent, HEAD + code, because)


COUNTS = {
    "a number": ("2", "True"),
    "the user's number": ("opt.workers", "opt.workers > 0"),
    "an item": ('vars(opt)["workers"]', None),
    "an item of a dictionary": ('opt.loader["workers"]', 'opt.loader["workers"] > 0'),
    "a product": ("4 * opt.gpus", "4 * opt.gpus > 0"),
    "a converted option": ("int(opt.workers)", "int(opt.workers) > 0"),
    "a condition": ("4 if opt.gpu else 0", "opt.gpu"),
    "the number of processors": ("os.cpu_count()", "True"),
    "processors, up to a number": ("min(os.cpu_count(), 8)", "True"),
    "half of the processors": ("os.cpu_count() // 2", "os.cpu_count() // 2 > 0"),
    "a call": ("int(os.environ['WORKERS'])", "int(os.environ['WORKERS']) > 0"),
    "a call of whatever": ("count_of_workers()", None),
    "none on some device": ("0 if opt.debug else 4", None),
}


ONE_READING = {
    "an iterator that is made anew when it is empty": (
        "batches = iter(loader)\nfor step in range(900):\n    try:\n        x, y = next(batches)\n"
        "    except StopIteration:\n        batches = iter(loader)\n        x, y = next(batches)\n"
    ),
    "an iterator that a method makes anew": (
        "class Batches:\n    def __init__(self):\n        self.left = iter(loader)\n"
        "    def more(self):\n        x = next(self.left, None)\n        if x is None:\n"
        "            self.left = iter(loader)\n        return x\n"
        "batches = Batches()\nfor step in range(900):\n    print(batches.more())\n"
    ),
    "a look at some images before the training": (
        "batches = iter(loader)\nx, y = next(batches)\nprint(x)\nprint(next(loader.__iter__()))\n" + EPOCHS
    ),
    "an endless generator": ENDLESS + "batches = endless()\nfor step in range(900):\n    print(next(batches))\n",
    "an endless generator that yields from it": (
        "def endless():\n    while True:\n        yield from loader\n"
        "batches = endless()\nfor step in range(900):\n    print(next(batches))\n"
    ),
    "a generator that each epoch starts": (
        "def halves():\n    for x, y in loader:\n        yield x / 2\n"
        "for epoch in range(9):\n    for step, x in enumerate(halves()):\n        print(x)\n"
    ),
    "an object that goes through it": (
        "class Halves:\n    def __iter__(self):\n        for x, y in loader:\n            yield x / 2\n"
        "halves = Halves()\nfor epoch in range(9):\n    for x in halves:\n        print(x)\n"
    ),
}


@pytest.mark.parametrize("code", ONE_READING.values(), ids=ONE_READING.keys())
def test_one_reading_at_a_time(code: str) -> None:
    rewrites(MADE + code, MADE.replace("=2)", "=2, persistent_workers=True)") + code)


@pytest.mark.parametrize(("count", "value"), COUNTS.values(), ids=COUNTS.keys())
def test_the_number_of_workers(count: str, value: str | None) -> None:
    before = f"loader = DataLoader(data, 64, num_workers={count})\n" + EPOCHS
    if value is None:
        leaves(before, f"its number of workers is worked out in the call: {count}")
    else:
        rewrites(before, before.replace(f"{count})", f"{count}, persistent_workers={value})"))


PLACES = {
    "the dictionary that holds the number": (
        "kwargs = {'num_workers': 2}\nloader = DataLoader(data, **kwargs)\n",
        "kwargs = {'num_workers': 2, 'persistent_workers': True}\nloader = DataLoader(data, **kwargs)\n",
    ),
    "the dict() that holds the number": (
        "kwargs = dict(num_workers=opt.n)\nloader = DataLoader(data, **kwargs)\n",
        "kwargs = dict(num_workers=opt.n, persistent_workers=opt.n > 0)\nloader = DataLoader(data, **kwargs)\n",
    ),
    "the dictionary that is merged in": (
        (
            "kwargs = {'batch_size': 2}\nif opt.gpu:\n    kwargs.update({'num_workers': 2})\n"
            "loader = DataLoader(data, **kwargs)\n"
        ),
        (
            "kwargs = {'batch_size': 2}\nif opt.gpu:\n"
            "    kwargs.update({'num_workers': 2, 'persistent_workers': True})\n"
            "loader = DataLoader(data, **kwargs)\n"
        ),
    ),
}


PLACES["one of two dictionaries"] = (
    "kwargs = {'num_workers': 2}\nother = DataLoader(data, **{'num_workers': 0})\nloader = DataLoader(data, **kwargs)\n",
    "kwargs = {'num_workers': 2, 'persistent_workers': True}\nother = DataLoader(data, **{'num_workers': 0})\n"
    "loader = DataLoader(data, **kwargs)\n",
)


@pytest.mark.parametrize(("before", "after"), PLACES.values(), ids=PLACES.keys())
def test_the_place(before: str, after: str) -> None:
    rewrites(before + EPOCHS, after + EPOCHS)


SILENT = {
    "there are no workers": "loader = DataLoader(data, 64)\n" + EPOCHS,
    "the number is 0": "loader = DataLoader(data, 64, num_workers=0)\n" + EPOCHS,
    "it says so itself": "loader = DataLoader(data, num_workers=2, persistent_workers=False)\n" + EPOCHS,
    "a dictionary says so": "loader = DataLoader(data, num_workers=2, **{'persistent_workers': opt.keep})\n" + EPOCHS,
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT.keys())
def test_nothing_is_said_where(code: str) -> None:
    check_silent(LoaderPersistent, HEAD + code)


OWN = """\
class Images(Dataset):
    def __init__(self):
        self.paths = ["a.png"]
        self.epoch = 0

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return Image.open(self.paths[index])

    def set_epoch(self, epoch):
        self.epoch = epoch

    def first(self):
        return self.paths[0]


data = Images()
"""
STAY = "workers that stay serve one reading at a time"
FIRST_COPY = "its data set changes between epochs, and workers that stay keep the first copy"
LEFT = {
    "one is kept for each of many": (
        (
            "loaders = []\nfor fold in range(5):\n    loaders.append(DataLoader(data, 64, num_workers=2))\n"
            "for epoch in range(9):\n    for loader in loaders:\n        for x, y in loader:\n            print(x)\n"
        ),
        "one is made for each item of a list, and the workers of all would stay (line 14)",
    ),
    "one is kept for each of as many as an object says": (
        (
            "import argparse\nfolds = argparse.ArgumentParser().parse_args()\nloaders = []\n"
            "for fold in range(folds.number):\n    loaders.append(DataLoader(data, 64, num_workers=2))\n"
            "for epoch in range(9):\n    for loader in loaders:\n        for x, y in loader:\n            print(x)\n"
        ),
        "one is made for each item of a list, and the workers of all would stay (line 16)",
    ),
    "one is made for each split, in each epoch": (
        (
            "for epoch in range(9):\n    for split in ['train', 'val']:\n"
            "        loader = DataLoader(data, 64, num_workers=2)\n        for x, y in loader:\n            print(x)\n"
        ),
        "it is made anew in each pass of a loop (line 13)",
    ),
    "it is made anew for each epoch": (
        (
            "for epoch in range(9):\n    loader = DataLoader(data, 64, num_workers=2)\n    for x, y in loader:\n"
            "        print(x)\n"
        ),
        "it is made anew in each pass of a loop (line 12)",
    ),
    "a function makes it anew for each epoch": (
        (
            "def made():\n    return DataLoader(data, 64, num_workers=2)\n\n\nfor epoch in range(9):\n"
            "    loader = made()\n    for x, y in loader:\n        print(x)\n"
        ),
        "it is made anew in each pass of a loop (line 16)",
    ),
    "a method changes its data set": (
        OWN + MADE + EPOCHS.replace("9):\n", "9):\n    data.set_epoch(epoch)\n"),
        f"{FIRST_COPY} (line 33)",
    ),
    "an attribute of its data set is written": (
        MADE + EPOCHS.replace("9):\n", "9):\n    loader.dataset.transform = transforms.PILToTensor()\n"),
        f"{FIRST_COPY} (line 14)",
    ),
    "an item of its data set is written": (
        MADE + EPOCHS.replace("9):\n", "9):\n    data.targets[epoch] = 0\n"),
        f"{FIRST_COPY} (line 14)",
    ),
    "a loop fills its data set after its first batch was looked at": (
        MADE + "x, y = next(iter(loader))\n" + FILLED + EPOCHS,
        f"{FIRST_COPY} (line 15)",
    ),
    "what fills its data set is called again after the epochs": (
        f"def train():\n{indented(FILLED + EPOCHS)}\n\n\n" + MADE + "train()\ntrain()\n",
        f"{FIRST_COPY} (line 14)",
    ),
    "nobody is seen to call what fills its data set": (
        f"def fill():\n{indented(FILLED)}\n\n\n" + MADE + EPOCHS,
        f"{FIRST_COPY} (line 14)",
    ),
    "its data set changes, and is not known": (
        "from animals import Cats\ndata = Cats()\n" + MADE + EPOCHS.replace("9):\n", "9):\n    data.size = epoch\n"),
        f"{FIRST_COPY} (line 16)",
    ),
    "its data set changes itself": (
        OWN.replace("        return Image", "        self.epoch += 1\n        return Image") + MADE + EPOCHS,
        "reading an item changes the data set or the script, and a worker changes only its own copy (line 21)",
    ),
    "its data set is not known": (
        "from animals import Cats\nloader = DataLoader(Cats(), 64, num_workers=2)\n" + EPOCHS,
        "how animals.Cats() reads its items is not known",
    ),
    "it is paired with itself": (
        MADE + "for epoch in range(9):\n    for (x, _), (y, _) in zip(loader, loader):\n        print(x - y)\n",
        f"it is read twice at once, and {STAY} (line 14)",
    ),
    "it is read inside its own loop": (
        MADE + EPOCHS + "        for z, _ in loader:\n            print(x - z)\n",
        f"it is read twice at once, and {STAY} (line 16)",
    ),
    "a function that its loop calls reads it": (
        "def check():\n    return sum(y.sum() for _, y in loader)\n\n\n" + MADE + EPOCHS + "        check()\n",
        f"it is read twice at once, and {STAY} (line 13)",
    ),
    "its first batch is read inside its own loop": (
        MADE + EPOCHS + "        print(next(iter(loader)))\n",
        f"it is read twice at once, and {STAY} (line 16)",
    ),
    "two iterators are kept": (
        MADE
        + "for epoch in range(9):\n    some, others = iter(loader), iter(loader)\n    print(next(some), next(others))\n",
        f"it is read through an iterator that is kept, and {STAY} (line 14)",
    ),
    "an iterator is kept over a loop of a function": (
        "def check():\n    return [y for x, y in loader]\n"
        + MADE
        + "batches = iter(loader)\ncheck()\nfor epoch in range(9):\n    check()\nprint(next(batches))\n",
        f"it is read through an iterator that is kept, and {STAY} (line 15)",
    ),
    "an iterator is kept while another loop reads it": (
        MADE + "batches = iter(loader)\n" + EPOCHS + "    print(next(batches))\n",
        f"it is read through an iterator that is kept, and {STAY} (line 13)",
    ),
    "a generator reads it that is started twice": (
        MADE + ENDLESS + "some, others = endless(), endless()\nprint(next(some), next(others))\n",
        f"it is read through an iterator that is kept, and {STAY} (line 15)",
    ),
    "loops over a generator overlap": (
        MADE + ENDLESS + "for x in endless():\n    for y in endless():\n        print(x, y)\n",
        f"it is read through an iterator that is kept, and {STAY} (line 15)",
    ),
    "a generator reads it, and its first batch is read elsewhere": (
        MADE
        + ENDLESS
        + "batches = endless()\nprint(next(iter(loader)))\nfor step in range(9):\n    print(next(batches))\n",
        f"a generator reads it (line 15), which may wait in an epoch while it is read elsewhere (line 18), and {STAY}",
    ),
    "it is made in a loop, and a function starts its workers": (
        "for epoch in range(9):\n"
        "    loader = DataLoader(data, num_workers=2, worker_init_fn=print)\n"
        "    for x, y in loader:\n        print(x)\n",
        "its worker_init_fn runs when a worker starts, which would be once instead of once an epoch",
    ),
    "a flag that is taken back lets it be made again": (
        "done = False\n"
        "for epoch in range(9):\n"
        "    if epoch > 5 and not done:\n"
        "        loader = DataLoader(data, num_workers=2)\n"
        "        done = True\n"
        "    done = epoch < 7\n"
        "    for x, y in loader:\n        print(x)\n",
        "it is made anew in each pass of a loop (line 13)",
    ),
    "it is read once": (
        MADE + "for x, y in loader:\n    print(x)\n",
        "it is not seen to be read more than once (line 13)",
    ),
    "it is read at two places": (
        MADE + "for x, y in loader:\n    print(x)\nfor x, y in loader:\n    print(y)\n",
        "no loop over epochs reads it, so that its workers are started few times (line 13)",
    ),
    "what reads it is called twice": (
        MADE + "def check():\n    for x, y in loader:\n        print(x)\n\ncheck()\ncheck()\n",
        "no loop over epochs reads it, so that its workers are started few times (line 14)",
    ),
    "nothing calls what reads it": (
        MADE + "def check():\n    for x, y in loader:\n        print(x)\n",
        "it is not seen to be read more than once (line 14)",
    ),
    "only first batches are read again and again": (
        MADE + "for epoch in range(9):\n    next(iter(loader))\n",
        "only its first batch is read",
    ),
    "its arguments are not known": (
        "loader = DataLoader(data, num_workers=2, **opt.loader)\n" + EPOCHS,
        "its arguments are given with **opt.loader, and not all of its keys can be seen",
    ),
    "nothing is seen to read it": (MADE, "its batches are not read in this file"),
    "a framework reads it": (
        "import pytorch_lightning as pl\n" + MADE + "pl.Trainer()\n",
        "Lightning reads it: give it persistent_workers=True if it reads it in each epoch",
    ),
    "a partial call makes it": (
        "import functools\nmake = functools.partial(DataLoader, num_workers=2)\nloader = make(data)\n" + EPOCHS,
        "what functools.partial makes is not followed: give it persistent_workers there",
    ),
    "a property makes it": (
        "class Trainer:\n    @property\n    def loader(self):\n        return DataLoader(data, 64, num_workers=2)\n"
        "    def train(self):\n        for epoch in range(9):\n            for x, y in self.loader:\n                print(x)\n",
        "it is made anew in each pass of a loop (line 17)",
    ),
    "a generator reads it that nothing starts": (
        MADE + ENDLESS,
        f"it is read through an iterator that is kept, and {STAY} (line 15)",
    ),
    "a library reads it too": (
        "import plot\n" + MADE + EPOCHS + "plot.show(loader)\n",
        "plot.show() reads it, in code that is not followed (line 17)",
    ),
    "one is made for each fold": (
        "loaders = [DataLoader(data, 64, num_workers=2) for fold in range(9)]\n"
        "for loader in loaders:\n    for epoch in range(9):\n        for x, y in loader:\n            print(x.mean())\n",
        "one is made for each item of a list, and the workers of all would stay (line 12)",
    ),
    "it seeds its workers": (
        "def seed(worker):\n    random.seed(opt.epoch)\n\n\n"
        "loader = DataLoader(data, 64, num_workers=2, worker_init_fn=seed)\n" + EPOCHS,
        "its worker_init_fn runs when a worker starts, which would be once instead of once an epoch",
    ),
}


def test_workers_of_two_loaders_that_are_made_together_stay() -> None:
    code = (
        'loaders = {phase: DataLoader(data, 64, num_workers=2) for phase in ["train", "val"]}\n'
        "for epoch in range(9):\n    for x, y in loaders['train']:\n        print(x.mean())\n"
    )
    rewrites(code, code.replace("=2)", "=2, persistent_workers=True)"))


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT.keys())
def test_workers_end_with_the_epoch_where(code: str, because: str) -> None:
    leaves(code, because)


COPIED = "items of the dictionary that is given to it with ** are copied, or taken out of it (line "
AGAIN = "its number of workers is set again after the dictionary was written"
REACHED = "what is given to it with ** reaches the loader in line "
WITHOUT = {
    "a dictionary around it": ("other = DataLoader(data, **{**kwargs, 'num_workers': 0})\n", COPIED),
    "the union of two": ("other = DataLoader(data, **(kwargs | {'num_workers': 0}))\n", COPIED),
    "a union in place": ("few = {}\nfew |= kwargs\nother = DataLoader(data, **few)\n", COPIED),
    "its items": ("few = {k: v for k, v in kwargs.items() if 'w' not in k}\nother = DataLoader(data, **few)\n", COPIED),
    "dict() around its items": ("other = DataLoader(data, **dict(**kwargs))\n", COPIED),
    "dict() with another number": ("other = DataLoader(data, **dict(kwargs, num_workers=0))\n", REACHED),
    "a loader whose workers end": ("other = DataLoader(data, persistent_workers=False, **kwargs)\n", REACHED),
    "a copy with another number": (
        "few = kwargs.copy()\nfew['num_workers'] = 0\nother = DataLoader(data, **few)\n",
        AGAIN,
    ),
    "another number now and then": ("if opt.debug:\n    kwargs['num_workers'] = 0\n", AGAIN),
    "no number now and then": ("if opt.debug:\n    kwargs.pop('num_workers')\n", COPIED),
    "an item deleted now and then": ("if opt.debug:\n    del kwargs['num_workers']\n", COPIED),
}


@pytest.mark.parametrize(("other", "because"), WITHOUT.values(), ids=WITHOUT.keys())
def test_a_dictionary_is_left_that_may_reach_a_loader_without_workers(other: str, because: str) -> None:
    code = f"kwargs = {{'num_workers': 2}}\n{other}loader = DataLoader(data, **kwargs)\n{EPOCHS}"
    result = run(LoaderPersistent, HEAD + code)
    assert result.after == HEAD + code
    assert any(
        each.message.startswith(because) for each in result.sites if "loader =" in code.splitlines()[each.line - 12]
    )


def test_one_loader_keeps_the_other_from_it_where_they_share_the_dictionary() -> None:
    code = (
        "kwargs = {'num_workers': 2}\nloader = DataLoader(data, **kwargs)\n"
        "other = DataLoader(data, worker_init_fn=random.seed, **kwargs)\n" + EPOCHS + "    print(len(other))\n"
    )
    because = "its worker_init_fn runs when a worker starts, which would be once instead of once an epoch"
    shared = f"it shares its arguments with the loader in line 14: {because}"
    assert [each.message for each in run(LoaderPersistent, HEAD + code).sites] == [
        shared,
        "its batches are not read in this file",
    ]


ENDLESS_CLASS = """\
class Endless(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.batches = super().__iter__()

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.batches)


"""


def test_a_loader_with_an_iterator_of_its_own_keeps_its_workers() -> None:
    code = ENDLESS_CLASS + MADE.replace("DataLoader(", "Endless(") + EPOCHS
    leaves(code, "class Endless has an __iter__ of its own, which may keep its workers")


STILL = {
    "one is made for each run, and read in its epochs": (
        "for run in range(opt.runs):\n    loader = DataLoader(data, 64, num_workers=2)\n"
        "    for epoch in range(9):\n        for x, y in loader:\n            print(x)\n"
    ),
    "a function makes one for each run": (
        "def made():\n    return DataLoader(data, 64, num_workers=2), 3\n\n\n"
        "for run in range(opt.runs):\n    loader, size = made()\n"
        "    for epoch in range(9):\n        for x, y in loader:\n            print(x)\n"
    ),
    "one is made for each of two splits, and read in epochs": (
        "sets = {'train': data, 'val': data}\nloaders = {}\nfor name, split in sets.items():\n"
        "    loaders[name] = DataLoader(split, 64, num_workers=2)\n"
        "for epoch in range(9):\n    for name in loaders:\n        for x, y in loaders[name]:\n            print(x)\n"
    ),
    "each run trains in a function": (
        "def train(seed):\n    loader = DataLoader(data, 64, num_workers=2)\n"
        "    for epoch in range(9):\n        for x, y in loader:\n            print(x)\n\n\n"
        "for seed in range(5):\n    train(seed)\n"
    ),
    "a method only reads its data set": OWN + MADE + EPOCHS.replace("9):\n", "9):\n    data.first()\n"),
    "a loop fills its data set before the epochs": MADE + FILLED + EPOCHS,
    "its data set is made with what is not known": (
        "from animals import Folder\n"
        + OWN.replace('["a.png"]', 'list(Folder("d"))\n        self.folder = Folder("d")')
        + MADE
        + EPOCHS
    ),
    "a function fills its data set before it makes the loader": (
        f"def main():\n{indented(FILLED + MADE + EPOCHS)}\n\n\nmain()\n"
    ),
    "a function that is called before the epochs fills its data set": (
        f"def fill():\n{indented(FILLED)}\n\n\n" + MADE + "fill()\n" + EPOCHS
    ),
    "its data set is changed once before": MADE + "data.transform = transforms.PILToTensor()\n" + EPOCHS,
    "an epoch is left early": MADE + EPOCHS + "        break\n",
    "its first batch is looked at before": MADE + "x, y = next(iter(loader))\n" + EPOCHS,
    "its length is asked for in its loop": MADE + EPOCHS + "        print(len(loader))\n",
    "it is read in a function that is called for each epoch": (
        "def train(batches):\n    for x, y in batches:\n        print(x)\n\n\n" + MADE + "for epoch in range(9):\n"
        "    train(loader)\n"
    ),
}


@pytest.mark.parametrize("before", STILL.values(), ids=STILL.keys())
def test_workers_stay_although(before: str) -> None:
    rewrites(before, before.replace("workers=2)", "workers=2, persistent_workers=True)"))


PROMISES = {
    "random: it shuffles": ("shuffle=True", "", Promise.RANDOM),
    "random: a transform is appended": (
        "",
        "transform = transforms.Compose([])\ndata = datasets.MNIST('data', transform=transform)\n"
        "transform.transforms.append(transforms.RandomCrop(3))\n",
        Promise.RANDOM,
    ),
    "random: a transform is inserted in that of the data set": (
        "",
        "data = datasets.MNIST('data', transform=transforms.Compose([transforms.ToTensor()]))\n"
        "data.transform.transforms.insert(0, transforms.RandAugment(2, 9))\n",
        Promise.RANDOM,
    ),
    "random: the data set is given a transform later": (
        "",
        "data = datasets.MNIST('data')\ndata.transform = transforms.RandomCrop(3)\n",
        Promise.RANDOM,
    ),
    "bitwise: what is appended draws nothing": (
        "",
        "transform = transforms.Compose([])\ndata = datasets.MNIST('data', transform=transform)\n"
        "transform.transforms.append(transforms.CenterCrop(3))\n",
        Promise.BITWISE,
    ),
    "random: it may shuffle": ("shuffle=opt.shuffle", "", Promise.RANDOM),
    "random: a sampler draws": ("sampler=torch.utils.data.RandomSampler(data)", "", Promise.RANDOM),
    "random: another loader shuffles": ("", "other = DataLoader(data, shuffle=True)\n", Promise.RANDOM),
    "random: noise is drawn": ("", "noise = torch.randn(3)\n", Promise.RANDOM),
    "random: dropout": ("", "model = torch.nn.Sequential(torch.nn.Dropout(0.5))\n", Promise.RANDOM),
    "random: dropout as a function": (
        "",
        "def forward(x):\n    return torch.nn.functional.dropout(x, 0.5)\n",
        Promise.RANDOM,
    ),
    "random: noise is drawn in place": ("", "noise = torch.empty(3).exponential_()\n", Promise.RANDOM),
    "random: an LSTM drops": ("", "model = torch.nn.LSTM(2, 2, 2, dropout=0.5)\n", Promise.RANDOM),
    "random: attention drops": ("", "model = torch.nn.MultiheadAttention(2, 1, 0.5)\n", Promise.RANDOM),
    "random: pooling at random": ("", "model = torch.nn.FractionalMaxPool2d(2, output_size=4)\n", Promise.RANDOM),
    "bitwise: an LSTM that drops nothing": ("", "model = torch.nn.LSTM(2, 2, 2)\n", Promise.BITWISE),
    "bitwise: nothing draws": ("shuffle=False", "model = torch.nn.Linear(2, 2)\n", Promise.BITWISE),
}


@pytest.mark.parametrize(("arguments", "more", "promise"), PROMISES.values(), ids=PROMISES.keys())
def test_the_promise(arguments: str, more: str, promise: Promise) -> None:
    code = HEAD + more + f"loader = DataLoader(data, 64, num_workers=2, {arguments})\n" + EPOCHS
    assert [site.promise for site in run(LoaderPersistent, code).sites] == [promise]


NEW = (
    HEAD
    + """\
loader = DataLoader(data, 64)
for epoch in range(9):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
"""
)
NEW_AFTER = (
    HEAD.replace("opt = ", 'if __name__ == "__main__":\n    opt = ').replace("data = d", "    data = d")
    + """\
    loader = DataLoader(data, 64, num_workers=4, persistent_workers=True)
    for epoch in range(9):
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
"""
)


def both(code: str = NEW, **choices: Any) -> Rewrite:
    """Both rules, as the user chose."""
    rules = frozenset({"loader-workers", "loader-persistent"})
    settings = Settings(rules, Promise.TRAINING, choices=Choices(batches_are_pinned=False, **choices))
    return rewrite("train.py", code, settings, rounds=((LoaderWorkers, LoaderPersistent),))


def test_together_with_loader_workers_each_edit_is_made_once() -> None:
    result = both()
    assert result.after == NEW_AFTER
    assert [site.rewrites for site in result.sites] == [True, True]


def test_it_does_not_stay_where_loader_workers_leaves_it() -> None:
    suppressed = NEW.replace("64)\n", "64)  # torchfast: ignore[loader-workers]\n")
    settings = Settings(frozenset({"loader-workers", "loader-persistent"}), Promise.TRAINING)
    result = rewrite("train.py", suppressed, settings, rounds=((LoaderWorkers, LoaderPersistent),))
    assert result.after == suppressed


def test_it_gives_no_workers_where_none_are_to_be_given() -> None:
    settings = Settings(frozenset({"loader-persistent"}), Promise.TRAINING, choices=Choices(workers_are_given=False))
    assert rewrite("train.py", NEW, settings, rounds=((LoaderPersistent,),)).sites == ()


def test_forked_workers_stay_where_the_guard_is_not_wanted() -> None:
    is_forked = 'torch.multiprocessing.get_start_method() == "fork"'
    result = both(main_guard=False)
    workers = (f"num_workers=4 if {is_forked} else 0", f"persistent_workers={is_forked}")
    lines = f",\n{' ' * len('loader = DataLoader(')}".join(("data, 64", *workers))
    assert result.after == NEW.replace("data, 64", lines)


def test_nothing_is_said_where_workers_need_a_guard_that_is_not_wanted() -> None:
    spawned = NEW.replace("loader =", "torch.multiprocessing.set_start_method('spawn')\nloader =")
    result = both(spawned, main_guard=False)
    assert result.after == spawned
    assert {site.rule for site in result.sites} == {"loader-workers"}


EVALUATED = """\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

data = datasets.MNIST("data", transform=transforms.ToTensor())
valid = DataLoader(data, 64, num_workers=2)
test = DataLoader(data, 64, num_workers=2)


def evaluate(model, batches):
    return sum(model(x).sum() for x, _ in batches)


def validate(model):
    return evaluate(model, valid)


for epoch in range(10):
    validate(print)
evaluate(print, test)
"""


def test_a_function_reads_again_and_again_what_it_is_given_again_and_again() -> None:
    result = run(LoaderPersistent, EVALUATED)

    assert result.after == EVALUATED.replace("num_workers=2)", "num_workers=2, persistent_workers=True)", 1)
    assert [each.message for each in result.sites][1] == (
        "no loop over epochs reads it, so that its workers are started few times (line 10)"
    )


@pytest.mark.parametrize(
    "call", ["evaluate(*[print, test])", "evaluate(print, batches=test)", "evaluate(print, **{'batches': test})"]
)
def test_a_call_may_give_a_loader_in_other_ways(call: str) -> None:
    code = EVALUATED.replace("    validate(print)\n", f"    validate(print)\n    {call}\n")
    assert run(LoaderPersistent, code).after.count("persistent_workers=True") == 2


def test_accelerate_reads_the_loader() -> None:
    check_leaves(LoaderPersistent, ACCELERATED, "the training loop runs inside Accelerate, which reads it itself")


def nested(call: str, head: str = "def evaluate(model, batches):") -> str:
    """The call in the loop over the batches of the loader ``valid``."""
    training = f"    validate(print)\n    for x, _ in valid:\n        {call}\n"
    code = EVALUATED.replace("    validate(print)\n", training)
    return code.replace("def evaluate(model, batches):", head)


def test_a_function_that_reads_another_loader_meanwhile_is_no_second_reading() -> None:
    result = run(LoaderPersistent, nested("evaluate(print, test)"))
    assert result.after.count("persistent_workers=True") == 2


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(nested("evaluate(print, valid)"), id="it is given the loader"),
        pytest.param(nested("evaluate(print, [valid, test][epoch % 2])"), id="it may be given it"),
        pytest.param(nested("evaluate(print)", "def evaluate(model, batches=valid):"), id="by default"),
        pytest.param(
            nested("evaluate(print, test)", "def evaluate(model, batches):\n    batches = batches or valid"),
            id="it is read where none is given",
        ),
    ],
)
def test_a_function_that_may_read_the_loader_meanwhile_is_one(code: str) -> None:
    [message] = [each.message for each in run(LoaderPersistent, code).sites if each.line == 5]
    assert message.startswith("it is read twice at once")


def test_a_function_that_evaluates_without_gradients_is_given_the_same() -> None:
    code = "import torch\n" + EVALUATED.replace("def evaluate", "@torch.no_grad()\ndef evaluate")
    assert run(LoaderPersistent, code).after.count("persistent_workers=True") == 1


PINNED = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

transform = transforms.ToTensor()


def get_loader(train):
    data = datasets.MNIST("data", train=train, transform=transform)
    return DataLoader(data, 64, num_workers=2, pin_memory=True)


def train(batches):
    for epoch in range(9):
        for x, y in batches:
            print(x.cuda().mean())


"""
MAIN = "def main():\n{}\n\nmain()\n"
LATE = (
    "workers that stay and pinned memory make the script end 5 s later for each worker before torch 2.13, as {} to the "
    "loader then (line {}): make the loader in a function, or require torch 2.13"
)
TRAINER = """\
class Trainer:
    def __init__(self, loader):
        self.loader = loader{}

    def fit(self):
        self.report()
        train(self.loader)

    def report(self):
        print(len(self.loader))


"""


def in_main(*lines: str) -> str:
    return MAIN.format("".join(f"    {line}\n" for line in lines))


LASTING = {
    "a name of the module": ("loader = get_loader(True)\ntrain(loader)\n", "'loader' still refers", 19),
    "a name of the module, under the guard": (
        'if __name__ == "__main__":\n    loader = get_loader(True)\n    train(loader)\n',
        "'loader' still refers",
        20,
    ),
    "a global name of a function": (
        in_main("global loader", "loader = get_loader(True)", "train(loader)"),
        "'loader' still refers",
        21,
    ),
    "a part of what a function returns": (
        "def both():\n    return get_loader(True), 2\n\n\nloader, size = both()\ntrain(loader)\n",
        "'loader' still refers",
        23,
    ),
    "a dictionary": ("loaders = {'train': get_loader(True)}\ntrain(loaders['train'])\n", "'loaders' still refers", 19),
    "a dictionary that is filled later": (
        "loaders = {}\nloaders['train'] = get_loader(True)\ntrain(loaders['train'])\n",
        "'loaders' still refers",
        19,
    ),
    "a list that it is added to": (
        "loaders = []\nloaders.append(get_loader(True))\nfor each in loaders:\n    train(each)\n",
        "'loaders' still refers",
        19,
    ),
    "an attribute of an object": (
        TRAINER.format("") + "trainer = Trainer(get_loader(True))\ntrainer.fit()\n",
        "'trainer' still refers",
        31,
    ),
    "a field of an object": (
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Data:\n    loader: DataLoader\n\n\n"
        "data = Data(get_loader(True))\ntrain(data.loader)\n",
        "'data' still refers",
        27,
    ),
    "an attribute of a class": (
        "class Data:\n    loader = get_loader(True)\n\n\ntrain(Data.loader)\n",
        "'loader' still refers",
        20,
    ),
    "an object that refers to itself": (
        TRAINER.format("\n        self.fit_all = self.fit") + in_main("Trainer(get_loader(True)).fit()"),
        "something may still refer",
        22,
    ),
    "an object that another knows": (
        TRAINER.format("\n        loader.owner = self") + in_main("Trainer(get_loader(True)).fit()"),
        "something may still refer",
        22,
    ),
    "an object of a library's class": (
        "from other import Base\n\n\n"
        + TRAINER.replace("r:", "r(Base):", 1).format("")
        + in_main("Trainer(get_loader(True)).fit()"),
        "something may still refer",
        22,
    ),
    "a function that is kept": (
        "def make():\n    loader = get_loader(True)\n\n    def run():\n        train(loader)\n\n    return run\n\n\n"
        "run = make()\nrun()\n",
        "'run' still refers",
        28,
    ),
    "code that is not followed": (
        "import other\n\n\n"
        + in_main("loader = get_loader(True)", "other.watch(loader.dataset, [loader])", "train(loader)"),
        "something may still refer",
        24,
    ),
}


@pytest.mark.parametrize(("code", "who", "line"), LASTING.values(), ids=LASTING.keys())
def test_workers_end_where_python_would_wait_for_them(code: str, who: str, line: int) -> None:
    check_leaves(LoaderPersistent, PINNED + code, LATE.format(who, line))
    assert "persistent_workers=True" in run(LoaderPersistent, PINNED + code, (2, 13)).after


PASSING = {
    "a local of a function": in_main("loader = get_loader(True)", "train(loader)"),
    "parts of a tuple": in_main("one, two = get_loader(True), get_loader(False)", "train(one)", "train(two)"),
    "items of a dictionary": in_main(
        "loaders = {train: get_loader(train) for train in (True, False)}",
        "for each in loaders.values():",
        "    train(each)",
    ),
    "an attribute of an object that a function has": TRAINER.format("")
    + in_main("trainer = Trainer(get_loader(True))", "trainer.fit()"),
    "an object of a class with a base": TRAINER.replace("r:", "r(torch.nn.Module):", 1)
    .format("")
    .replace("        self.l", "        super(Trainer, self).__init__()\n        self.l", 1)
    + in_main("Trainer(get_loader(True)).fit()"),
    "a function in the function": in_main(
        "loader = get_loader(True)", "", "def run():", "    train(loader)", "", "run()"
    ),
    "a name that is deleted": "loader = get_loader(True)\ntrain(loader)\ndel loader\n",
    "a bar over it": in_main(
        "loader = get_loader(True)",
        "for epoch in range(9):",
        "    bar = enumerate(loader)",
        "    for i, (x, y) in bar:",
        "        print(x.cuda())",
    ),
}


@pytest.mark.parametrize("code", PASSING.values(), ids=PASSING.keys())
def test_workers_stay_where_nothing_refers_to_them_at_the_end(code: str) -> None:
    after = PINNED.replace("pin_memory=True", "pin_memory=True, persistent_workers=True") + code
    check_rewrites(LoaderPersistent, PINNED + code, after)


UNPINNED = PINNED.replace(", pin_memory=True", "") + "loader = get_loader(True)\ntrain(loader)\n"


def test_workers_end_where_loader_pin_pins_the_batches() -> None:
    check_leaves(LoaderPersistent, UNPINNED, LATE.format("'loader' still refers", 19))


def test_workers_stay_where_loader_pin_does_not_run() -> None:
    settings = Settings(frozenset({"loader-persistent"}), Promise.TRAINING, choices=Choices(batches_are_pinned=False))
    result = rewrite("train.py", UNPINNED, settings, rounds=((LoaderPersistent,),))
    assert "num_workers=2, persistent_workers=True" in result.after


def test_workers_stay_where_batches_are_not_pinned() -> None:
    unmoved = UNPINNED.replace(".cuda()", "")
    assert "num_workers=2, persistent_workers=True" in run(LoaderPersistent, unmoved).after


def test_a_script_that_ends_late_already_is_told_so() -> None:
    code = PINNED.replace("pin_memory=True", "pin_memory=True, persistent_workers=True")
    check_leaves(LoaderPersistent, code + "loader = get_loader(True)\n", LATE.format("'loader' still refers", 19))
    check_silent(LoaderPersistent, code + "loader = get_loader(True)\n", (2, 13))
    check_silent(LoaderPersistent, code + in_main("get_loader(True)"))


CLOUDS = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def scale(points):
    points *= 0.5
    return points


class Rotate:
    def __call__(self, points):
        points[:, 0] = -points[:, 0]
        return points


class Clouds(Dataset):
    def __init__(self, paths):
        self.points = [np.load(path) for path in paths]
        self.labels = np.loadtxt("labels.txt")
        self.rotate = Rotate()
        self.cache = {{}}
        self.warned = False

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        {}
        return torch.tensor(points)

    def get(self, index):
        return self.points[index]

    def load(self, index):
        return np.load("more.npy")[index]

    def centered(self, points):
        self.mean = points.mean(0)
        return points - self.mean


data = Clouds(["a.npy"])
loader = DataLoader(data, 64, num_workers=2)
for epoch in range(9):
    for x in loader:
        print(x.mean())
"""


def cloud(*lines: str) -> str:
    return CLOUDS.format("\n        ".join(lines))


CHANGED = {
    "in place": ("points = self.points[index]", "points *= 0.5"),
    "in place, by a part": ("points = self.points[index]", "points[:, 0] += 1"),
    "in place, by a view": ("points = self.points[index].reshape(-1, 3)", "points -= points.mean(0)"),
    "in place, in a tensor of the array": ("points = torch.from_numpy(self.points[index])", "points.mul_(0.5)"),
    "in place, by a function of torch": ("points = torch.as_tensor(self.points[index])", "torch.relu_(points)"),
    "an item of a dictionary": ("points = self.points[index]", "points['more'] = 1"),
    "a list": ("points = self.points[index]", "points.append(1)"),
    "what a method hands out": ("points = self.get(index)", "points *= 0.5"),
    "in a function": ("points = scale(self.points[index])",),
    "in a function, by its name": ("points = self.points[index]", "points = scale(points=points)"),
    "in a transform": ("points = self.rotate(self.points[index])",),
    "one of two": ("points, label = self.points[index], 2", "points += label"),
    "where it is copied sometimes": (
        "points = self.points[index]",
        "if index:",
        "    points = points.copy()",
        "points *= 2",
    ),
    "by an argument for the result": ("points = self.points[index]", "np.multiply(points, 2, out=points)"),
    "in a loop over parts": ("for points in self.points:", "    points *= 0.5"),
    "what the next call reads": ("points = self.points[index] - self.last", "self.last = points"),
    "a cache of what it has drawn": (
        "if index not in self.cache:",
        "    self.cache[index] = self.load(index) + np.random.rand()",
        "points = self.cache[index]",
    ),
    "a cache under another key": ("points = self.load(index)", "self.cache[len(points)] = points"),
}


@pytest.mark.parametrize("lines", CHANGED.values(), ids=CHANGED.keys())
def test_a_data_set_that_reading_changes(lines: tuple[str, ...]) -> None:
    (site,) = run(LoaderPersistent, cloud(*lines)).sites
    assert site.code == "dataset-changes"


def test_what_the_script_reads_of_a_data_set_is_no_scratch() -> None:
    code = cloud("self.count = index", "points = self.points[index]").replace("x.mean()", "data.count")
    (site,) = run(LoaderPersistent, code).sites
    assert site.code == "dataset-changes"


UNCHANGED = {
    "in a copy": ("points = self.points[index].copy()", "points *= 0.5"),
    "in a new array": ("points = self.points[index] / 2", "points *= 0.5"),
    "in what was selected": ("chosen = np.random.choice(9, 3)", "points = self.points[index][chosen]", "points *= 0.5"),
    "in a new tensor": ("points = torch.tensor(self.points[index])", "points.mul_(0.5)"),
    "in what was read": ("points = self.load(index)", "points *= 0.5"),
    "in a function that is given a copy": ("points = scale(self.points[index] + 0)",),
    "after it was copied": ("points = self.points[index]", "points = points.copy()", "points *= 2"),
    "a number": ("size = len(self.points)", "size += 1", "points = self.points[index] * size"),
    "scratch that each call writes first": ("points = self.centered(self.points[index])",),
    "a flag that is only set": (
        "if not self.warned:",
        "    print('slow')",
        "    self.warned = True",
        "points = self.points[index]",
    ),
    "a cache that the index leads to": (
        "if index not in self.cache:",
        "    self.cache[index] = self.load(index)",
        "points = self.cache[index]",
    ),
}


@pytest.mark.parametrize("lines", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_a_data_set_that_reading_leaves_as_it_is(lines: tuple[str, ...]) -> None:
    code = cloud(*lines)
    check_rewrites(LoaderPersistent, code, code.replace("workers=2)", "workers=2, persistent_workers=True)"))


SCENES = """\
import argparse

import torch
from torch.utils.data import DataLoader, Dataset

SIZE = 8


class Scenes(Dataset):
    level = 0

    def __init__(self, args, options, labels):
        self.args = args
        self.options = options
        self.labels = labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        noise = self.level * self.args.noise + self.options["blur"]
        return torch.full((SIZE,), noise), self.labels[index]


def main():
    global SIZE
    args = argparse.ArgumentParser().parse_args()
    options, labels = {"blur": 0.0, "lr": 0.1}, [0] * 8
    args.noise = max(args.noise, 0.1)
    loader = DataLoader(Scenes(args, options, labels), 2, num_workers=2)
    labels.extend([1, 1])
    SIZE, Scenes.level, options["blur"] = 16, 1, 0.5
    for epoch in range(9):
        for x, y in loader:
            print(x.mean())
        pass


if __name__ == "__main__":
    main()
"""
OF_SCENES = {
    "a name of the module": "SIZE = 8 * epoch",
    "an attribute of the class": "Scenes.level = epoch",
    "an option": "args.noise = 0.1 * epoch",
    "an item of a dictionary": 'options["blur"] = 0.1 * epoch',
    "a list": "labels[epoch] = 1",
}


def test_what_items_are_made_of_may_change_before_the_first_epoch() -> None:
    check_rewrites(LoaderPersistent, SCENES, SCENES.replace("workers=2)", "workers=2, persistent_workers=True)"))


@pytest.mark.parametrize("change", ["args.lr = 0.1 * epoch", "print(labels[epoch])", "size = epoch"])
def test_what_no_item_is_made_of_may_change_in_each_epoch(change: str) -> None:
    code = SCENES.replace("        pass\n", f"        {change}\n")
    check_rewrites(LoaderPersistent, code, code.replace("workers=2)", "workers=2, persistent_workers=True)"))


@pytest.mark.parametrize("change", OF_SCENES.values(), ids=OF_SCENES.keys())
def test_workers_end_where_what_items_are_made_of_changes(change: str) -> None:
    because = "what its items are made of changes between epochs, and workers that stay keep the first copy (line 36)"
    check_leaves(LoaderPersistent, SCENES.replace("        pass\n", f"        {change}\n"), because)


def test_what_a_flag_lets_run_once_is_not_made_in_each_pass() -> None:
    code = """\
done = False
for epoch in range(9):
    if epoch > 5 and not done:
        loader = DataLoader(data, 64, num_workers=2)
        done = True
    for x, y in loader:
        print(x.mean())
"""
    rewrites(code, code.replace("num_workers=2", "num_workers=2, persistent_workers=True"))


@pytest.mark.parametrize("package", ["unidecode", "inflect", "num2words", "accimage"])
def test_a_worker_may_keep_what_reads_text_and_images(package: str) -> None:
    code = (
        f"""\
import {package}
class Texts(Dataset):
    def __getitem__(self, i):
        return {package}.convert(str(i))
    def __len__(self):
        return 9
loader = DataLoader(Texts(), 64, shuffle=True, num_workers=2)
"""
        + EPOCHS
    )
    rewrites(code, code.replace("num_workers=2", "num_workers=2, persistent_workers=True"))
