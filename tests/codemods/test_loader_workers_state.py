"""What several processes would not share, keep or draw alike: the sites that are left, and what is promised else."""

from __future__ import annotations

import re

import pytest
from kit import check_leaves, run

from codemods.codemod import Promise
from codemods.rules.loader_workers import LoaderWorkers

HEAD = """\
import argparse
import csv
import functools
import multiprocessing
import random

import cv2
import h5py
import lmdb
import skimage
import tables
import torch
import torch.multiprocessing as mp
import torchaudio
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, transforms

to_tensor = transforms.ToTensor()
"""
IMAGES = """\


class Images(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index])), index


"""
MADE = """\
data = Images(["a.png"])
loader = DataLoader(data, 64, shuffle=True)
"""
READ = """\
for x, y in loader:
    x, y = x.cuda(), y.cuda()
"""


def indented(code: str) -> str:
    return re.sub(r"(?m)^(?=.)", "    ", code)


def main(code: str) -> str:
    return f'\n\ndef main():\n{indented(code)}\n\nif __name__ == "__main__":\n    main()\n'


def made(code: str) -> str:
    """The data set runs this when it is made."""
    return HEAD + IMAGES.replace("self.paths = paths", f"self.paths = paths\n        {code}") + main(MADE + READ)


def item(code: str) -> str:
    """The data set runs this when an item is read."""
    return HEAD + IMAGES.replace("        return to", f"        {code}\n        return to") + main(MADE + READ)


def around(before: str, after: str = "", read: str = READ) -> str:
    """This is run around the training."""
    return HEAD + IMAGES + main(before + MADE + read + after)


def with_method(body: str) -> str:
    """The data set with a method."""
    return IMAGES.rstrip() + f"\n\n    def changed(self, index):\n    {body}\n\n\n"


def left(code: str, because: str) -> None:
    """It is left; ``(line [text])`` stands for the line in which the text first stands."""
    marked = re.search(r"\(line \[(.*?)\]\)", because)
    if marked is not None:
        line = code[: code.index(marked[1])].count("\n") + 1
        because = because.replace(marked[0], f"(line {line})")
    check_leaves(LoaderWorkers, code, because)


def kept_open(opener: str, at: str) -> str:
    return f"its data set keeps what {opener}() opens before the workers start: open it in __getitem__ (line [{at}])"


LAZY = "if self.file is None:\n            self.file = h5py.File('a.h5')"
HELPER = "    def use(self):\n        self.file = h5py.File('a.h5')\n\n"
OPEN = {
    "a list of files": (made("self.files = [open(path) for path in paths]"), kept_open("open", "self.files")),
    "a dictionary of files": (made("self.files = {path: open(path) for path in paths}"), kept_open("open", "self.fi")),
    "one of two files": (made("self.file = open(paths) if paths else None"), kept_open("open", "self.fi")),
    "a transaction": (made("self.all = lmdb.open('a').begin()"), kept_open("lmdb.open", "self.all")),
    "an item of a file": (made("self.all = h5py.File('a')['images']"), kept_open("h5py.File", "self.all")),
    "an item of a file by another name": (
        made("file = h5py.File('a')\n        self.all = file['a']['b']"),
        kept_open("h5py.File", "self.all"),
    ),
    "an item that a method returns": (
        made("self.all = h5py.File('a').get('images')"),
        kept_open("h5py.File", "self.all"),
    ),
    "an attribute of a file": (made("self.all = tables.open_file('a').root.images"), kept_open("tables.open_file", "self.all")),
    "a bound method of a file": (made("self.read = h5py.File('a').get"), kept_open("h5py.File", "self.read")),
    "a transaction by another name": (
        made("env = lmdb.open('a')\n        self.all = env.begin(write=False)"),
        kept_open("lmdb.open", "self.all"),
    ),
    "what a function opens": (
        made("self.all = opened(paths)").replace("class Im", "def opened(path):\n    return h5py.File(path)['x']\n\n\nclass Im"),
        kept_open("h5py.File", "return h5py"),
    ),
    "what it is given": (
        made("").replace("Images([", "Images(h5py.File('a')['x'] or ["),
        kept_open("h5py.File", "h5py.File"),
    ),
    "items under their names": (
        made("self.all = {}\n        self.all['x'] = h5py.File('a')['x']"),
        kept_open("h5py.File", "self.all['x']"),
    ),
    "files that are added one by one": (
        made("self.all = []\n        for path in paths:\n            self.all.append(h5py.File(path))"),
        kept_open("h5py.File", "self.all.app"),
    ),
    "a file by another name": (made("file = open(paths[0])\n        self.file = file"), kept_open("open", "self.file")),
    "what reads a file": (made("self.rows = csv.reader(open(paths[0]))"), kept_open("open", "self.rows")),
    "an item of a file of the module": (
        HEAD + "rows = h5py.File('a.h5')['rows']\n" + IMAGES.replace("Image.open(self.paths[index])", "rows[index]")
        + main(MADE + READ),
        "the data set reads 'rows' (line [rows[index]), which h5py.File() opens before the workers start",
    ),
    "a file that a method opens, as it is made": (
        made("self.use()").replace("    def __len__", HELPER + "    def __len__"),
        kept_open("h5py.File", "self.file"),
    ),
    "a file that an item opens first, and is read here": (
        item(LAZY).replace("    loader =", "    print(data[0])\n    loader ="),
        kept_open("h5py.File", "self.file ="),
    ),
    "a file of the module": (
        HEAD + "file = h5py.File('a.h5')\n" + IMAGES.replace("Image.open(self.paths[index])", "file[index]")
        + main(MADE + READ),
        "the data set reads 'file' (line [file[index]), which h5py.File() opens before the workers start",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "because"), OPEN.values(), ids=OPEN.keys())
def test_what_is_open_before_the_workers_start(code: str, because: str) -> None:
    left(code, because)


CLOSED = {
    "each worker opens it": item(LAZY),
    "it was read to the end": made("self.text = open('a.txt').read()"),
    "its items were copied": made("self.all = h5py.File('a')['images'][:]"),
    "its items were copied by another name": made("file = h5py.File('a')\n        self.all = file['images'][()]"),
    "its size was read": made("file = h5py.File('a')\n        self.all = file['images'].shape"),
    "its keys were listed": made("self.all = list(h5py.File('a'))"),
    "each worker opens it, and keeps an item": item(
        "self.file = h5py.File('a.h5')\n        self.all = self.file['images']"
    ),
}


@pytest.mark.parametrize("code", CLOSED.values(), ids=CLOSED.keys())
def test_what_is_not_kept_open(code: str) -> None:
    assert [each.rewrites for each in run(LoaderWorkers, code).sites] == [True]


UNSENT = "cannot be sent to a worker process (line [self.odd])"
TRAINER = """\
class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.loader = DataLoader(Images(["a"]), 64, collate_fn=self.joined)

    def joined(self, items):
        return torch.stack([x for x, _ in items]), 1

    def fit(self):
        for x, y in self.loader:
            x = x.cuda()


"""
SENT = {
    "a generator": (made("self.odd = (path for path in paths)"), f"a generator {UNSENT}"),
    "what a method yields": (
        made("self.odd = self.use()").replace(
            "    def __len__", "    def use(self):\n        yield 1\n\n    def __len__"
        ),
        f"a generator {UNSENT}",
    ),
    "a log": (
        made("self.log = SummaryWriter()"),
        "torch.utils.tensorboard.SummaryWriter() would be sent to each worker process,"
        " as its data set or collate_fn holds it",
    ),
    "a trainer with its optimizer, whose method is collate_fn": (
        HEAD + IMAGES + TRAINER + main("Trainer().fit()\n"),
        "torch.optim.SGD() would be sent to each worker process, as its data set or collate_fn holds it",
    ),
}


@pytest.mark.parametrize("odd", ["functools.partial(lambda x: x)", "paths or (lambda x: x)"])
def test_a_lambda_is_only_there_where_workers_are_forked(odd: str) -> None:
    after = run(LoaderWorkers, made(f"self.odd = {odd}")).after

    assert 'shuffle=True, num_workers=4 if mp.get_start_method() == "fork" else 0)' in after


@pytest.mark.parametrize(("code", "because"), SENT.values(), ids=SENT.keys())
def test_what_cannot_be_sent(code: str, because: str) -> None:
    left(code, because)


COLLATED = (
    HEAD
    + IMAGES
    + "{}\ndef joined(items):\n    return {}\n"
    + main(MADE.replace("True", "True, collate_fn=joined") + READ)
)
ON_DEVICE = {
    "a tensor of the module": (
        COLLATED.format("mean = torch.ones(3).cuda()", "items - mean"),
        "the data set reads 'mean' (line [items - mean]), a tensor on a device",
    ),
    "a model of the module": (
        COLLATED.format("model = nn.Linear(3, 3).cuda()", "model(items)"),
        "its data set or collate_fn holds or calls a model that is moved to a device (line [nn.Linear])",
    ),
}


@pytest.mark.parametrize(("code", "because"), ON_DEVICE.values(), ids=ON_DEVICE.keys())
def test_what_uses_cuda(code: str, because: str) -> None:
    left(code, because)


OPTIONS = "opt = argparse.ArgumentParser().parse_args()\n"
READS_ROOT = HEAD + OPTIONS + IMAGES.replace("self.paths[index]", "opt.root")
CHANGED = "which the script changes (line [{}]), unseen by workers that are not forked"
SHARED = {
    "an option is changed in main()": (
        READS_ROOT + main('opt.root = "x"\n' + MADE + READ),
        f"the data set reads 'opt.root', {CHANGED.format('opt.root =')}",
    ),
    "options are changed by setattr()": (
        READS_ROOT + main('setattr(opt, "root", "x")\n' + MADE + READ),
        f"the data set reads 'opt', {CHANGED.format('setattr')}",
    ),
    "an option is changed under the guard": (
        READS_ROOT + 'if __name__ == "__main__":\n' + indented('opt.root = "x"\n' + MADE + READ),
        f"the data set reads 'opt.root', {CHANGED.format('opt.root =')}",
    ),
    "a dictionary is changed": (
        HEAD + "sizes = {}\n" + IMAGES.replace("[index]", "[sizes[0]]") + main("sizes.update(a=1)\n" + MADE + READ),
        f"the data set reads 'sizes', {CHANGED.format('sizes.update')}",
    ),
    "the default type": (
        around("torch.set_default_dtype(torch.float64)\n"),
        "workers that are not forked do not see torch.set_default_dtype() (line [set_default_dtype])",
    ),
    "the default device": (
        around('torch.set_default_device("cuda")\n'),
        "workers that are not forked do not see torch.set_default_device() (line [set_default_device])",
    ),
    "the data set is changed for each batch": (
        around("", read=READ + "    data.size += 1\n"),
        "its data set is changed while it is read, unseen by workers (line [data.size])",
    ),
    "a tensor of the data set is changed in place for each batch": (
        around("", read=READ + "    data.scale.mul_(0.9)\n"),
        "its data set is changed while it is read, unseen by workers (line [data.scale])",
    ),
    "the data set is changed between batches of an iterator": (
        around("", read="batches = iter(loader)\nfor i in range(9):\n    x = next(batches).cuda()\n    data.size += 1\n"),
        "its data set is changed while it is read, unseen by workers (line [data.size])",
    ),
    "the data set is changed between batches of a generator": (
        HEAD + IMAGES + "def batches(loader):\n    for x in loader:\n        yield x.cuda()\n\n\n"
        + main(MADE + "for x in batches(loader):\n    data.size += 1\n"),
        "its data set is changed while it is read, unseen by workers (line [data.size])",
    ),
    "a method changes a part of what the data set holds for each batch": (
        HEAD + with_method("    crop = self.paths[index]\n        crop['size'] += 1")
        + main(MADE + READ + "    data.changed(y)\n"),
        "its data set is changed while it is read, unseen by workers (line [data.changed(y)])",
    ),
    "a method changes each part of what the data set holds": (
        HEAD + with_method("    for crop in self.paths[:index]:\n            crop.append(1)")
        + main(MADE + READ + "    data.changed(y)\n"),
        "its data set is changed while it is read, unseen by workers (line [data.changed(y)])",
    ),
    "the data set is changed for each batch, and holds what is not known": (
        HEAD + "from animals import Cage\n" + IMAGES.replace("= paths", "= [Cage(each) for each in paths]")
        + main(MADE + READ + "    data.size += 1\n"),
        "its data set is changed while it is read, unseen by workers (line [data.size])",
    ),
    "a pool trains": (
        HEAD + IMAGES + "def train(fold):\n" + indented(MADE + READ)
        + main("with multiprocessing.Pool(2) as pool:\n    pool.map(train, range(3))\n"),
        "train() reads it in a process that may not start others (line [pool.map])",
    ),
    "a daemon trains": (
        HEAD + IMAGES + "def train(fold):\n" + indented(MADE + READ)
        + main("process = mp.Process(target=train, args=(1,), daemon=True)\nprocess.start()\n"),
        "train() reads it in a process that may not start others (line [mp.Process])",
    ),
    "a process trains that is made a daemon": (
        HEAD + IMAGES + "def train(fold):\n" + indented(MADE + READ)
        + main("process = mp.Process(target=train, args=(1,))\nprocess.daemon = True\nprocess.start()\n"),
        "train() reads it in a process that may not start others (line [mp.Process])",
    ),
    "spawned daemons train": (
        HEAD + IMAGES + "def train(rank):\n" + indented(MADE + READ) + main("mp.spawn(train, nprocs=2, daemon=True)\n"),
        "train() reads it in a process that may not start others (line [mp.spawn])",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "because"), SHARED.values(), ids=SHARED.keys())
def test_what_is_not_shared(code: str, because: str) -> None:
    left(code, because)


FINE = {
    "another option is changed": READS_ROOT + main('opt.gpu = "x"\n' + MADE + READ),
    "a name of its own is changed": READS_ROOT + main('opt = argparse.Namespace()\nopt.root = "x"\n' + MADE + READ),
    "a method changes what it copied": (
        HEAD
        + with_method("    crop = self.paths[index].copy()\n        crop['size'] += 1")
        + main(MADE + READ + "    data.changed(y)\n")
    ),
    "the data set is changed between epochs": around(
        "", read="for epoch in range(3):\n    data.size = epoch\n" + indented(READ)
    ),
    "the data set is changed before an iterator starts anew": around(
        "",
        read="for epoch in range(3):\n    data.size = epoch\n    batches = iter(loader)\n    for i in range(9):\n"
        "        x = next(batches).cuda()\n",
    ),
    "spawned processes train, which are no daemons": (
        HEAD + IMAGES + "def train(rank):\n" + indented(MADE + READ) + main("mp.spawn(train, nprocs=2)\n")
    ),
    "batches go to lists that are made for each": around("", read=READ + "    few = []\n    few.append(x)\n"),
    "a part of a batch is replaced": around("", read="for x in loader:\n    x[0] = x[1]\n    x = x[0].cuda()\n"),
}


@pytest.mark.parametrize("code", FINE.values(), ids=FINE.keys())
def test_what_workers_need_not_share(code: str) -> None:
    assert [each.rewrites for each in run(LoaderWorkers, code).sites] == [True]


KEPT = "its batches are kept, and each tensor from a worker holds a file open (line [{}])"
BATCHES = {
    "in a dictionary": ("kept = {}\n", "    kept[len(kept)] = x0\n", "kept[len"),
    "in a growing list": ("kept = []\n", "    kept += [x0]\n", "kept +="),
    "in a comprehension": ("", "kept = [a for a, b in loader]\n", "kept ="),
    "in list()": ("", "kept = list(loader)\n", "kept ="),
}


STORE = """\
class Store:
    def __init__(self, path):
        self.file = open(path, "rb")

    def {method}(self, index):
        self.file.seek(index)
        return self.file.read(1)


class Bytes(Dataset):
    def __init__(self, path):
        self.store = Store(path)

    def __len__(self):
        return 9

    def __getitem__(self, index):
        return torch.tensor(int(self.store{read})), index


data = Bytes("a.bin")
loader = DataLoader(data, 64)
"""


@pytest.mark.parametrize(
    ("method", "read"),
    [("get", ".get(index)"), ("__getitem__", "[index]"), ("__call__", "(index)")],
    ids=["a method", "an item", "a call"],
)
def test_what_reads_through_an_open_file_is_not_in_memory(method: str, read: str) -> None:
    left(HEAD + STORE.format(method=method, read=read) + READ, kept_open("open", 'self.file = open(path, "rb")'))


def test_a_file_that_is_read_when_the_data_set_is_made_leaves_its_items_in_memory() -> None:
    code = STORE.format(method="__getitem__", read="[index]").replace('open(path, "rb")', "open(path).read()")
    code = code.replace("        self.file.seek(index)\n", "").replace("self.file.read(1)", "self.file[index]")

    text = "its items are made of what is in memory: to send one from a worker takes longer than to make it"
    left(HEAD + code + READ, text)


def test_items_that_torchvisions_data_set_makes_are_not_in_memory() -> None:
    code = """\
class Indexed(datasets.FakeData):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x, index


data = Indexed(9, transform=to_tensor)
loader = DataLoader(data, 64)
"""

    left(HEAD + code + READ, "what super().__getitem__() does in a worker process is not known (line [super()])")


@pytest.mark.parametrize(("before", "after", "line"), BATCHES.values(), ids=BATCHES.keys())
def test_batches_that_are_kept(before: str, after: str, line: str) -> None:
    left(around(before, after, read="for x0, y in loader:\n    x = x0.cuda()\n"), KEPT.format(line))


ZIPPED = "other = DataLoader(data, 9)\nfor (x, _), (y, _) in zip(loader, other):\n    x, y = x.cuda(), y.cuda()\n"
LATE = "batches = iter(loader)\nnoise = torch.randn(3)\nfor _ in range(3):\n    x = next(batches)[0].cuda()\n"
PROMISES = {
    "bitwise: nothing draws": (around(""), Promise.BITWISE),
    "random: zip() starts two loaders before either draws its order": (around("", read=ZIPPED), Promise.RANDOM),
    "random: something draws between the start and the first batch": (around("", read=LATE), Promise.RANDOM),
    "random: noise of a library": (item("skimage.util.random_noise(index)"), Promise.RANDOM),
    "random: OpenCV's numbers": (item("cv2.randu(self.paths, 0, 1)"), Promise.RANDOM),
    "random: a transform of sound masks": (made("self.mask = torchaudio.transforms.TimeMasking(3)"), Promise.RANDOM),
    "random: dropout": (item("nn.functional.dropout(to_tensor)"), Promise.RANDOM),
    "random: an item seeds the script's numbers": (item("random.seed(index)"), Promise.RANDOM),
}


@pytest.mark.parametrize(("code", "promise"), PROMISES.values(), ids=PROMISES.keys())
def test_the_promise(code: str, promise: Promise) -> None:
    assert {(each.rewrites, each.promise) for each in run(LoaderWorkers, code).sites} == {(True, promise)}
