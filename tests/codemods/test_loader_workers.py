from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Choices, Promise
from codemods.facts.causes import OF_ALL
from codemods.facts.target import Target
from codemods.rules.loader_workers import LoaderWorkers

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.results import Rewrite

HEAD = """\
import argparse
import random

import h5py
import numpy as np
import torch
from PIL import Image
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info
from torch.utils.data import random_split
from torchvision import datasets, transforms

to_tensor = transforms.ToTensor()
"""
MNIST = 'data = datasets.MNIST("data", transform=to_tensor)\n'
ANY_DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
WHERE_CUDA = 'num_workers=4 if device.type == "cuda" else 0'


def main(code: str) -> str:
    """The code inside a function that is called under the guard, where it needs none of its own."""
    lines = "".join(f"    {line}" if line.strip() else line for line in code.splitlines(keepends=True))
    return f'\n\ndef main():\n{lines}\n\nif __name__ == "__main__":\n    main()\n'


def moved(device: str = "cuda()") -> str:
    return f"for x, y in loader:\n    x, y = x.{device}, y.{device}\n"


ON_CUDA = moved()
ON_DEVICE = moved("to(device)")


def left(code: str, because: str) -> None:
    """It is left; ``(line [text])`` stands for the line in which the text first stands."""
    marked = re.search(r"\(line \[(.*?)\]\)", because)
    if marked is not None:
        because = because.replace(marked[0], f"(line {line_of(code, marked[1])})")
    check_leaves(LoaderWorkers, code, because)


def rewrites(before: str, after: str) -> None:
    check_rewrites(LoaderWorkers, HEAD + main(before), HEAD + main(after))


def leaves(code: str, because: str) -> None:
    left(HEAD + main(code), because)


def line_of(code: str, text: str) -> int:
    """The line of the whole script in which the text stands."""
    return code[: code.index(text)].count("\n") + 1


COUNTS = {
    "always, where batches always go to CUDA": (
        MNIST + "loader = DataLoader(data, 64)\n" + ON_CUDA,
        MNIST + "loader = DataLoader(data, 64, num_workers=4)\n" + ON_CUDA,
    ),
    "where the script's device is CUDA": (
        ANY_DEVICE + MNIST + "loader = DataLoader(data, 64)\n" + ON_DEVICE,
        ANY_DEVICE + MNIST + f"loader = DataLoader(data, 64, {WHERE_CUDA})\n" + ON_DEVICE,
    ),
    "where there is CUDA, as the device is bound too late": (
        MNIST + "loader = DataLoader(data, 64)\n" + ANY_DEVICE + ON_DEVICE,
        MNIST
        + "loader = DataLoader(data, 64, num_workers=4 if torch.cuda.is_available() else 0)\n"
        + ANY_DEVICE
        + ON_DEVICE,
    ),
    "under the script's own flag": (
        MNIST + "use_cuda = torch.cuda.is_available()\nloader = DataLoader(data, 64)\n"
        "for x, y in loader:\n    if use_cuda:\n        x = x.cuda()\n",
        MNIST
        + "use_cuda = torch.cuda.is_available()\nloader = DataLoader(data, 64, num_workers=4 if use_cuda else 0)\n"
        "for x, y in loader:\n    if use_cuda:\n        x = x.cuda()\n",
    ),
    "of batches that are converted before they are moved": (
        MNIST + "loader = DataLoader(data, 64)\nfor x, y in loader:\n    x = x.double().cuda()\n",
        MNIST + "loader = DataLoader(data, 64, num_workers=4)\nfor x, y in loader:\n    x = x.double().cuda()\n",
    ),
    "where a generator of the script yields from it": (
        MNIST + "def endless(batches):\n    while True:\n        yield from batches\nloader = DataLoader(data, 64)\n"
        "for x, y in endless(loader):\n    x = x.cuda()\n",
        MNIST
        + "def endless(batches):\n    while True:\n        yield from batches\n"
        + "loader = DataLoader(data, 64, num_workers=4)\n"
        "for x, y in endless(loader):\n    x = x.cuda()\n",
    ),
    "instead of a literal 0": (
        MNIST + "loader = DataLoader(data, 64, num_workers=0)\n" + ON_CUDA,
        MNIST + "loader = DataLoader(data, 64, num_workers=4)\n" + ON_CUDA,
    ),
    "instead of a literal 0 by position": (
        MNIST + "loader = DataLoader(data, 64, True, None, None, 0)\n" + ON_CUDA,
        MNIST + "loader = DataLoader(data, 64, True, None, None, 4)\n" + ON_CUDA,
    ),
    "beside a dictionary that does not hold the number": (
        MNIST + 'kwargs = {"batch_size": 64}\nloader = DataLoader(data, **kwargs)\n' + ON_CUDA,
        MNIST + 'kwargs = {"batch_size": 64}\nloader = DataLoader(data, num_workers=4, **kwargs)\n' + ON_CUDA,
    ),
    "instead of the 1 of a dictionary for CUDA": (
        MNIST
        + "use_cuda = torch.cuda.is_available()\nkwargs = {'num_workers': 1, 'pin_memory': True} if use_cuda else {}\n"
        "loader = DataLoader(data, 64, **kwargs)\n" + ON_CUDA,
        MNIST
        + "use_cuda = torch.cuda.is_available()\nkwargs = {'num_workers': 4, 'pin_memory': True} if use_cuda else {}\n"
        "loader = DataLoader(data, 64, **kwargs)\n" + ON_CUDA,
    ),
    "instead of the 1 that update() merges in for CUDA": (
        MNIST + "kwargs = {'batch_size': 64}\nif torch.cuda.is_available():\n    kwargs.update({'num_workers': 1})\n"
        "loader = DataLoader(data, **kwargs)\n" + ON_CUDA,
        MNIST + "kwargs = {'batch_size': 64}\nif torch.cuda.is_available():\n    kwargs.update({'num_workers': 4})\n"
        "loader = DataLoader(data, **kwargs)\n" + ON_CUDA,
    ),
}


@pytest.mark.parametrize(("before", "after"), COUNTS.values(), ids=COUNTS.keys())
def test_workers_are_given(before: str, after: str) -> None:
    rewrites(before, after)


def parser(option: str) -> str:
    return f"parser = argparse.ArgumentParser()\nparser.add_argument({option})\nopt = parser.parse_args()\n"


OPTIONS = {
    "--n_cpu": ('"--n_cpu", type=int, default=8', "n_cpu"),
    "--num-workers": ('"--num-workers", type=int', "num_workers"),
    "-j, --workers": ('"-j", "--workers", default=4', "workers"),
    "--threads, which nothing else reads": ('"--threads", type=int', "threads"),
    "its dest": ('"--cpus", type=int, dest="workers"', "workers"),
}


@pytest.mark.parametrize(("option", "name"), OPTIONS.values(), ids=OPTIONS.keys())
def test_the_scripts_own_option_is_passed(option: str, name: str) -> None:
    before = parser(option) + ANY_DEVICE + MNIST + "loader = DataLoader(data, 64)\n" + ON_DEVICE
    rewrites(before, before.replace("(data, 64)", f"(data, 64, num_workers=opt.{name})"))


GLOBAL = (
    "def main():\n    global opt\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--workers', type=int)\n"
    "{before}    loader = DataLoader(datasets.MNIST('data', transform=to_tensor), 64)\n{after}"
    "    for x, y in loader:\n        x = x.cuda()\nif __name__ == '__main__':\n    main()\n"
)
PARSED = "    opt = parser.parse_args()\n"


def test_an_option_is_passed_by_the_global_name_that_the_function_gives_the_options() -> None:
    before = GLOBAL.format(before=PARSED, after="")
    rewrites(before, before.replace(", 64)", ", 64, num_workers=opt.workers)"))


def test_options_that_are_parsed_after_the_loader_is_made_have_no_name_yet() -> None:
    code = HEAD + GLOBAL.format(before="", after=PARSED)
    left(code, "the script's option --workers cannot be named where the loader is made")


def test_an_option_that_is_no_number_is_not_passed() -> None:
    before = parser('"--workers"') + MNIST + "loader = DataLoader(data, 64)\n" + ON_CUDA
    rewrites(before, before.replace("(data, 64)", "(data, 64, num_workers=4)"))


def test_threads_that_something_else_reads_are_not_passed() -> None:
    head = parser('"--threads", type=int') + "torch.set_num_threads(opt.threads)\n" + MNIST
    before = head + "loader = DataLoader(data, 64)\n" + ON_CUDA
    rewrites(before, before.replace("(data, 64)", "(data, 64, num_workers=4)"))


def test_an_option_that_cannot_be_named_there() -> None:
    code = HEAD + (
        "def made():\n" + '    return DataLoader(datasets.MNIST("data", transform=to_tensor), 64)\n'
        "def main():\n    parser = argparse.ArgumentParser()\n    parser.add_argument('--workers', type=int)\n"
        "    opt = parser.parse_args()\n    for x, y in made():\n        x = x.cuda()\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    left(code, "the script's option --workers cannot be named where the loader is made")


SILENT = {
    "a number is given": "loader = DataLoader(data, 64, num_workers=2)\n",
    "a number is given by position": "loader = DataLoader(data, 64, True, None, None, 2)\n",
    "the user chooses": parser('"--n", type=int') + "loader = DataLoader(data, 64, num_workers=opt.n)\n",
    "a dictionary holds it": 'kwargs = {"num_workers": 2}\nloader = DataLoader(data, 64, **kwargs)\n',
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT.keys())
def test_the_scripts_own_number_is_kept(code: str) -> None:
    check_silent(LoaderWorkers, HEAD + main(MNIST + code + ON_CUDA))


IMAGES = """\
class Images(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        self.length = len(self.paths)
        return self.length

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index])), index


"""


def own_data(code: str, loader: str = "loader = DataLoader(Images(['a.png']), 64)\n") -> str:
    return HEAD + code + main(loader + ON_CUDA)


PROMISES = {
    "bitwise: nothing is drawn": (MNIST, "data, 64", Promise.BITWISE),
    "bitwise: shuffled by torch": (MNIST, "data, 64, shuffle=True", Promise.BITWISE),
    "random: a transform draws": (
        'data = datasets.CIFAR10("data", transform=transforms.Compose([transforms.RandomCrop(32, 4), to_tensor]))\n',
        "data, 64",
        Promise.RANDOM,
    ),
    **{
        f"random: {step} draws": (
            f'data = datasets.MNIST("data", transform=transforms.Compose([to_tensor, transforms.v2.{step}()]))\n',
            "data, 64",
            Promise.RANDOM,
        )
        for step in ("JPEG", "ElasticTransform", "ScaleJitter", "GaussianNoise")
    },
    "random: a data set inside draws": (
        'data = Subset(datasets.MNIST("data", transform=transforms.RandomAffine(5)), range(9))\n',
        "data, 64",
        Promise.RANDOM,
    ),
    "random: the sampler is the script's": (
        MNIST + "class Order:\n    def __iter__(self):\n        yield random.randrange(9)\n",
        "data, 64, sampler=Order()",
        Promise.RANDOM,
    ),
    "random: collate_fn draws": (
        MNIST,
        "data, 64, collate_fn=mixed",
        Promise.RANDOM,
    ),
}


@pytest.mark.parametrize(("data", "arguments", "promise"), PROMISES.values(), ids=PROMISES.keys())
def test_the_promise(data: str, arguments: str, promise: Promise) -> None:
    mixed = "def mixed(items):\n    return torch.stack([x for x, _ in items]) * np.random.beta(1, 1), 0\n\n\n"
    result = run(LoaderWorkers, HEAD + mixed + main(f"{data}loader = DataLoader({arguments})\n" + ON_CUDA))
    assert [(site.promise, site.message) for site in result.sites] == [
        (promise, "the training waits while each batch is read and transformed")
    ]


def test_a_data_set_of_the_scripts_that_decodes() -> None:
    before = own_data(IMAGES)
    check_rewrites(LoaderWorkers, before, before.replace("64)", "64, num_workers=4)"))


def test_a_transform_that_nobody_gives_does_not_run() -> None:
    guarded = "        if self.transform is not None:\n            index = self.transform(index)\n        return to"
    before = own_data(IMAGES.replace("        return to", guarded))
    check_rewrites(LoaderWorkers, before, before.replace("64)", "64, num_workers=4)"))


IN_MEMORY = "its data set is in memory: to send its items from a worker takes longer than to index them"
INDEXES = "its items are made of what is in memory: to send one from a worker takes longer than to make it"
DATA = {
    "tensors in memory": ("data = TensorDataset(torch.randn(9, 2), torch.ones(9))\n", IN_MEMORY),
    "a part of tensors in memory": ("data = Subset(TensorDataset(torch.randn(9, 2)), range(3))\n", IN_MEMORY),
    "a random part of tensors in memory": (
        "data, _ = random_split(TensorDataset(torch.randn(9, 2)), [5, 4])\n",
        IN_MEMORY,
    ),
    "the items of another data set": (
        "from torch.utils.data import default_collate\n"
        'data = TensorDataset(*default_collate(list(datasets.MNIST("data", transform=to_tensor))))\n',
        "its items are decoded once, and are in memory then: to send them takes longer than to index them",
    ),
    "a list in memory": ("data = [(torch.ones(2), 1)]\n", IN_MEMORY),
    "a data set of a file that was not read": (
        "from animals import Cats\ndata = Cats()\n",
        "how animals.Cats() reads its items is not known",
    ),
    "a transform of a file that was not read": (
        'from animals import Blur\ndata = datasets.MNIST("data", transform=Blur())\n',
        "what animals.Blur() does in a worker process is not known",
    ),
    "a data set that is chosen": (
        "data = argparse.ArgumentParser().parse_args().data\n",
        "its data set is chosen when the script is started (args.data)",
    ),
    "a database that is opened before the workers start": (
        'data = datasets.LSUN("data", transform=to_tensor)\n',
        "torchvision.datasets.LSUN() opens its database before the workers start",
    ),
}


@pytest.mark.parametrize(("data", "because"), DATA.values(), ids=DATA.keys())
def test_data_that_is_left(data: str, because: str) -> None:
    leaves(data + "loader = DataLoader(data, 64)\n" + ON_CUDA, because)


OWN_COPY = "reading an item changes the data set or the script, and a worker changes only its own copy"
NOT_SENT = "cannot be sent to a worker process"
CLASSES = {
    "indexes tensors in memory": (
        IMAGES.replace("to_tensor(Image.open(self.paths[index]))", "torch.tensor(self.paths[index])"),
        INDEXES,
    ),
    "inherits from a class that was not read": (
        "from animals import Base\n" + IMAGES.replace("(Dataset)", "(Base)"),
        "what its data set inherits from animals.Base is not known",
    ),
    "calls what was not read": (
        "from animals import blur\n" + IMAGES.replace("to_tensor(Image", "blur(Image"),
        "what blur() does in a worker process is not known (line [blur(Image])",
    ),
    "calls what Python 2 had": (
        IMAGES.replace("to_tensor(Image", "xrange(Image"),
        "the script fails before any change; fix first: Python 3 has no xrange",
    ),
    "may call what Python 2 had": (
        IMAGES.replace("to_tensor(Image", "index and xrange(Image"),
        "Python 3 has no xrange(), which reading an item may call (line [xrange(Image])",
    ),
    "moves tensors to CUDA": (
        IMAGES.replace("to_tensor(Image.open(self.paths[index]))", "to_tensor(Image.open(self.paths[index])).cuda()"),
        "its data set moves tensors to a device itself (line [.cuda()])",
    ),
    "opens a file when it is made": (
        IMAGES.replace("self.paths = paths", 'self.paths = h5py.File("data.h5")'),
        "its data set keeps what h5py.File() opens before the workers start: open it in __getitem__ (line [h5py.File])",
    ),
    "keeps a text file open": (
        IMAGES.replace("self.paths = paths", 'self.paths = open("data.txt")'),
        "its data set keeps what open() opens before the workers start: open it in __getitem__ (line [= open(])",
    ),
    "owns a generator of random numbers": (
        IMAGES.replace("self.paths = paths", "self.rng = np.random.default_rng(0)\n        self.paths = paths"),
        "its data set owns a random number generator, which every worker would repeat",
    ),
    "seeds when it is made": (
        IMAGES.replace("self.paths = paths", "np.random.seed(0)\n        self.paths = paths"),
        "its data set seeds random numbers when it is made, unseen by workers (line [np.random.seed])",
    ),
    "fills a cache": (
        IMAGES.replace("        return to", "        self.cache[index] = 1\n        return to"),
        f"{OWN_COPY} (line [self.cache])",
    ),
    "counts": (
        IMAGES.replace("        return to", "        self.count += 1\n        return to"),
        f"{OWN_COPY} (line [self.count])",
    ),
    "appends to a list of its own": (
        IMAGES.replace("        return to", "        self.seen.append(index)\n        return to"),
        f"{OWN_COPY} (line [self.seen])",
    ),
    "appends to a list of the module": (
        "seen = []\n" + IMAGES.replace("        return to", "        seen.append(index)\n        return to"),
        f"{OWN_COPY} (line [seen.app])",
    ),
    "hands its lists on behind a star": (
        "def keep(seen, kept):\n    seen.append(3)\n\n\n"
        + IMAGES.replace("        return to", "        keep(*self.seen)\n        return to"),
        f"{OWN_COPY} (line [seen.app])",
    ),
    "sets a name of the module": (
        IMAGES.replace("        return to", "        global last\n        last = index\n        return to"),
        f"{OWN_COPY} (line [global])",
    ),
    "shuffles itself": (
        IMAGES.replace("        return to", "        random.shuffle(self.paths)\n        return to"),
        f"{OWN_COPY} (line [random.sh])",
    ),
    "changes itself in a method that it calls": (
        IMAGES.replace("        return to", "        self.note(index)\n        return to")
        + "    def note(self, index):\n        self.last = self.last + index\n",
        f"{OWN_COPY} (line [self.last])",
    ),
    "reads what only a function of the script sets": (
        IMAGES.replace("        return to", "        print(size)\n        return to")
        + "def choose():\n    global size\n    size = 3\n\n\nsize = 2\n",
        "the data set reads 'size' (line [print(size)]), which a function sets while the script runs: "
        "pass it to the data set",
    ),
}


@pytest.mark.parametrize(("data", "because"), CLASSES.values(), ids=CLASSES.keys())
def test_a_data_set_of_the_scripts_is_left_that(data: str, because: str) -> None:
    left(own_data(data), because)


def test_a_name_that_a_function_declares_global_and_only_reads_is_no_obstacle() -> None:
    shows = "def show():\n    global size\n    print(size)\n\n\nsize = 2\n"
    before = own_data(IMAGES.replace("        return to", "        print(size)\n        return to") + shows)

    check_rewrites(LoaderWorkers, before, before.replace("(['a.png']), 64)", "(['a.png']), 64, num_workers=4)"))


def test_what_is_read_from_an_open_file_is_not_in_memory() -> None:
    rows = (
        "class Rows(Dataset):\n    def __init__(self):\n        self.rows = h5py.File('rows.h5')\n\n"
        "    def __getitem__(self, i):\n        return self.rows['x'][i]\n"
    )
    because = (
        "its data set keeps what h5py.File() opens before the workers start: open it in __getitem__ (line [h5py.File])"
    )

    left(HEAD + rows + main("loader = DataLoader(Rows(), 64)\n" + ON_CUDA), because)


def test_what_is_written_up_to_an_own_size_is_not_its_own() -> None:
    masked = IMAGES.replace(
        "        return to", "        mask = np.ones(9)\n        mask[: self.size] = 0\n        return to"
    )
    before = HEAD + masked + main("loader = DataLoader(Images([]), 64)\n" + ON_CUDA)

    check_rewrites(LoaderWorkers, before, before.replace("64)", "64, num_workers=4)"))


def test_a_file_that_each_worker_opens_for_itself() -> None:
    lazy = IMAGES.replace("        return to", '        self.file = h5py.File("data.h5")\n        return to')
    before = own_data(lazy)
    check_rewrites(LoaderWorkers, before, before.replace("64)", "64, num_workers=4)"))


STREAM = """\
class Stream(IterableDataset):
    def __iter__(self):
        for path in ["a.png"]:
            yield to_tensor(Image.open(path)), 0


"""


def test_a_stream_that_is_not_sharded() -> None:
    check_leaves(
        LoaderWorkers,
        own_data(STREAM, "loader = DataLoader(Stream(), 64)\n"),
        "its data set is iterable and does not ask get_worker_info(): each worker would yield all of it",
    )


def test_a_stream_that_is_sharded() -> None:
    before = own_data(
        STREAM.replace('["a.png"]', "sorted(['a.png'])[get_worker_info().id :: 4]"),
        "loader = DataLoader(Stream(), 64)\n",
    )
    check_rewrites(LoaderWorkers, before, before.replace("64)", "64, num_workers=4)"))
    assert [site.promise for site in run(LoaderWorkers, before).sites] == [Promise.RANDOM]


ONE = "one worker is the script's own choice: 4 would read 4 batches side by side"
LEFT = {
    "collate_fn uses CUDA": (
        "loader = DataLoader(data, 64, collate_fn=on_gpu)\n" + ON_CUDA,
        "its collate_fn moves tensors to a device itself (line [torch.stack])",
    ),
    "batches stay on the CPU": (
        "loader = DataLoader(data, 64)\n" + moved('to("cpu")'),
        "its batches stay on the CPU: workers would take cores from the training",
    ),
    "batches are not moved": (
        "loader = DataLoader(data, 64)\nfor x, y in loader:\n    print(x)\n",
        "its batches are not moved to a device in this file: workers would take cores from training on the CPU",
    ),
    "another accelerator": (
        "loader = DataLoader(data, 64)\n" + moved('to("xpu")'),
        "its batches are moved to another accelerator than CUDA",
    ),
    "the loader is not read": ("loader = DataLoader(data, 64)\n", "its batches are not read in this file"),
    "only the first batch is read": (
        "loader = DataLoader(data, 64)\nx, y = next(iter(loader))\nx = x.cuda()\n",
        "only its first batch is read",
    ),
    "a first batch for each iteration": (
        "loader = DataLoader(data, 64)\n" + ON_CUDA + "    x, y = next(iter(loader))\n",
        "it is read anew for each batch, and workers would start each time (line [next(iter])",
    ),
    "a library reads it": (
        "loader = DataLoader(data, 64)\n" + ON_CUDA + "plot.show(loader)\n",
        "plot.show() reads it, in code that is not followed (line [plot.show])",
    ),
    "batches are kept": (
        "loader = DataLoader(data, 64)\nkept = []\nfor x, y in loader:\n    kept.append(y)\n    x = x.cuda()\n",
        "its batches are kept, and each tensor from a worker holds a file open (line [kept.append])",
    ),
    "a partial call makes it": (
        "import functools\nmake = functools.partial(DataLoader, batch_size=64)\nloader = make(data)\n" + ON_CUDA,
        "what functools.partial makes is not followed: give it num_workers there",
    ),
    "a number where the script has an option for it": (
        parser('"--workers", type=int, default=4') + "loader = DataLoader(data, 64, num_workers=2)\n" + ON_CUDA,
        "its number of workers is 2, whatever the user says: the option --workers is never read",
    ),
    "a number where click has an option for it": (
        "import click\n@click.command()\n@click.option('--workers', default=4)\n@click.option('--lr')\n"
        "def main(workers, lr):\n    print(lr)\nloader = DataLoader(data, 64, num_workers=2)\n" + ON_CUDA + "main()\n",
        "its number of workers is 2, whatever the user says: the option --workers is never read",
    ),
    "an option that nothing reads": (
        parser('"--n_cpu", type=int, default=4')
        + "print(opt)\nloader = DataLoader(data, 64)\nfor x, y in loader:\n    print(x)\n",
        "its batches are not moved to a device in this file: workers would take cores from training on the CPU;"
        " the script's option --n_cpu is never read",
    ),
    "an option that is read with all the others": (
        parser('"--n_cpu", type=int, default=4')
        + "plot.start(**vars(opt))\nloader = DataLoader(data, 64)\nfor x, y in loader:\n    print(x)\n",
        "its batches are not moved to a device in this file: workers would take cores from training on the CPU",
    ),
    "prefetch_factor is given": (
        "loader = DataLoader(data, 64, prefetch_factor=2)\n" + ON_CUDA,
        "it is given prefetch_factor, which DataLoader refuses without workers",
    ),
    "arguments that are not known": (
        "loader = DataLoader(data, **plot.arguments)\n" + ON_CUDA,
        "its arguments are given with **plot.arguments, and not all of its keys can be seen",
    ),
    "0 by name": (
        "workers = 0\nloader = DataLoader(data, 64, num_workers=workers)\n" + ON_CUDA,
        "workers is 0 there: give it another value",
    ),
    "the user's choice, which is 0": (
        parser('"--workers", type=int, default=0')
        + "loader = DataLoader(data, 64, num_workers=opt.workers)\n"
        + ON_CUDA,
        "the number of workers is the user's, and 0 by default: start the script with --workers 4",
    ),
    "the user's choice, which is 1": (
        parser('"--workers", type=int, default=1')
        + "loader = DataLoader(data, 64, num_workers=opt.workers)\n"
        + ON_CUDA,
        "the number of workers is the user's, and 1 by default: start the script with --workers 4",
    ),
    "one worker": ("loader = DataLoader(data, 64, num_workers=1)\n" + ON_CUDA, ONE),
    "one worker in a dictionary for every device": (
        "kwargs = {'num_workers': 1}\nloader = DataLoader(data, 64, **kwargs)\n" + ON_CUDA,
        ONE,
    ),
    "0 in a dictionary": (
        "kwargs = {'num_workers': 0}\nloader = DataLoader(data, 64, **kwargs)\n" + ON_CUDA,
        "num_workers is 0 in a dictionary that is given with **",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=LEFT.keys())
def test_loaders_that_are_left(code: str, because: str) -> None:
    head = HEAD + "import plot\ndef on_gpu(items):\n    return torch.stack(items).cuda()\n"
    left(head + main(MNIST + code), because)


def test_a_class_of_loaders_with_an_init_of_its_own() -> None:
    own = "class Loader(DataLoader):\n    def __init__(self, data):\n        super().__init__(data, 64)\n\n\n"
    code = HEAD + own + main(MNIST + "loader = Loader(data)\n" + ON_CUDA)
    left(code, "class Loader has an __init__ of its own: num_workers belongs into its call")


def test_one_worker_is_not_mentioned_where_none_would_do() -> None:
    data = "data = TensorDataset(torch.ones(9))\n"
    check_silent(LoaderWorkers, HEAD + main(data + "loader = DataLoader(data, 64, num_workers=1)\n" + ON_CUDA))


NO_TORCH = """\
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main():
    data = datasets.MNIST("data", transform=transforms.ToTensor())
    loader = DataLoader(data, 64)
    from torch import cuda, device
    where = device("cuda" if cuda.is_available() else "cpu")
    for x, y in loader:
        x, y = x.to(where), y.to(where)


if __name__ == "__main__":
    main()
"""


def test_torch_is_imported_where_it_has_no_name() -> None:
    after = NO_TORCH.replace("(data, 64)", "(data, 64, num_workers=4 if torch.cuda.is_available() else 0)")
    check_rewrites(LoaderWorkers, NO_TORCH, after.replace("DataLoader\n", "DataLoader\nimport torch\n", 1))


UNNAMED = {
    "the function binds torch later": NO_TORCH.replace(
        "    from torch import", "    import torch\n    from torch import"
    ),
    "the function declares torch": NO_TORCH.replace("    from", "    global torch\n    import torch\n    from"),
    "torch is something else": NO_TORCH.replace("    main()", "    torch = None\n    main()"),
}


@pytest.mark.parametrize("code", UNNAMED.values(), ids=UNNAMED.keys())
def test_torch_cannot_be_imported_where(code: str) -> None:
    check_leaves(LoaderWorkers, code, "torch cannot be imported before the loader is made")


def test_a_loader_that_is_made_for_each_batch_of_another() -> None:
    before = MNIST + "loader = DataLoader(data, 64, num_workers=2)\n" + ON_CUDA
    inner = "    few = DataLoader(Subset(data, range(8)), 8)\n    for z, _ in few:\n        z = z.cuda()\n"
    leaves(before + inner, "it is made anew for each batch of another loader (line [for x])")


def test_arguments_that_a_loader_in_memory_shares() -> None:
    code = (
        "kwargs = {'num_workers': 1} if torch.cuda.is_available() else {}\n"
        + MNIST
        + "loader = DataLoader(data, 64, **kwargs)\n"
        + ON_CUDA
        + "other = DataLoader(TensorDataset(torch.ones(2)), **kwargs)\nfor (z,) in other:\n    z = z.cuda()\n"
    )
    result = run(LoaderWorkers, HEAD + main(code))
    assert [site.message for site in result.sites] == [
        f"it shares its arguments with the loader in line 21: {IN_MEMORY}",
        IN_MEMORY,
    ]


def test_another_number() -> None:
    before = HEAD + main(MNIST + "loader = DataLoader(data, 64)\n" + ON_CUDA)
    settings = Settings(frozenset({"loader-workers"}), Promise.TRAINING, choices=Choices(workers=8))
    result = rewrite("train.py", before, settings, rounds=((LoaderWorkers,),))
    assert result.after == before.replace("64)", "64, num_workers=8)")


def test_what_is_only_bound_under_the_guard() -> None:
    code = (
        HEAD
        + IMAGES.replace("Image.open(self", "Image.open(root + self")
        + (
            'if __name__ == "__main__":\n    root = str("here")\n    loader = DataLoader(Images(["a"]), 64)\n'
            "    for x, y in loader:\n        x = x.cuda()\n"
        )
    )
    left(code, "the data set reads 'root' (line [root + self]), which is only bound under the __main__ guard")


def test_a_class_that_is_only_defined_under_the_guard() -> None:
    guarded = "".join(f"    {line}" if line.strip() else line for line in IMAGES.splitlines(keepends=True))
    code = (
        HEAD
        + 'if __name__ == "__main__":\n'
        + guarded
        + ('    loader = DataLoader(Images(["a"]), 64)\n    for x, y in loader:\n        x = x.cuda()\n')
    )
    forked(code, f"objects of class Images, which is defined under the __main__ guard, {NOT_SENT} (line 14)")


FORK = 'torch.multiprocessing.get_start_method() == "fork"'
LAMBDA = "a lambda cannot be sent to a worker process (line [lambda]): make it a function of the module"


def on_one_line(code: str) -> str:
    """The code with arguments where the first one stands: long ones go to a line of their own."""
    return re.sub(r",\n +", ", ", code)


def forked(code: str, why: str) -> None:
    """There are workers only where they are forked; ``(line [text])`` as above."""
    marked = re.search(r"\(line \[(.*?)\]\)", why)
    why = why.replace(marked[0], f"(line {line_of(code, marked[1])})") if marked is not None else why

    after = run(LoaderWorkers, code).after
    assert on_one_line(after) == on_one_line(re.sub(r"(loader = DataLoader\(.*)\)\n", rf"\1, {COUNT})\n", code))
    assert run(LoaderWorkers, after).after == after
    assert [each.message for each in run(LoaderWorkers, code).sites] == [
        f"the training waits while each batch is read and transformed; workers only where they are forked: {why}"
    ]


COUNT = f"num_workers=4 if {FORK} else 0"
UNSENT = {
    "a lambda as collate_fn": (MNIST + "loader = DataLoader(data, 64, collate_fn=lambda items: items)\n", LAMBDA),
    "a lambda as transform": (
        'data = datasets.MNIST("data", transform=transforms.Compose([transforms.Lambda(lambda x: x), to_tensor]))\n'
        "loader = DataLoader(data, 64)\n",
        LAMBDA,
    ),
    "a lambda as worker_init_fn": (MNIST + "loader = DataLoader(data, 64, worker_init_fn=lambda i: None)\n", LAMBDA),
    "a function of a function as collate_fn": (
        MNIST + "def collate(items):\n    return items\nloader = DataLoader(data, 64, collate_fn=collate)\n",
        f"collate(), which is defined inside a function, {NOT_SENT} (line [def collate])",
    ),
    "a class of a function as transform": (
        "class Blur:\n    def __call__(self, image):\n        return to_tensor(image)\n"
        'loader = DataLoader(datasets.MNIST("data", transform=Blur()), 64)\n',
        f"objects of class Blur, which is defined inside a function, {NOT_SENT} (line [class Blur])",
    ),
}


@pytest.mark.parametrize(("code", "why"), UNSENT.values(), ids=UNSENT)
def test_what_cannot_be_pickled_is_read_in_workers_that_are_forked(code: str, why: str) -> None:
    forked(HEAD + main(code + ON_CUDA), why)


def test_a_lambda_that_the_data_set_holds_is_read_in_workers_that_are_forked() -> None:
    forked(own_data(IMAGES.replace("self.transform = transform", "self.transform = lambda x: x")), LAMBDA)


CLOSED_OVER = {
    "a name that is bound again": "level = 0\nadd = lambda x: x + level\nlevel = 1\n",
    "a list": "seen = []\ndef add(x):\n    seen.append(1)\n    return x\n",
    "an object": "numbers = np.random.default_rng(0)\nadd = lambda x: x + numbers.normal()\n",
}


@pytest.mark.parametrize("code", CLOSED_OVER.values(), ids=CLOSED_OVER)
def test_a_function_that_reads_what_may_change_around_it_is_not_forked(code: str) -> None:
    loader = 'loader = DataLoader(datasets.MNIST("data", transform=transforms.Compose([add])), 64)\n'
    text = HEAD + main(code + loader + ON_CUDA)
    assert run(LoaderWorkers, text).after == text


def test_a_function_that_reads_constants_around_it_is_forked() -> None:
    code = "level = 2\nadd = lambda x: x + level\n"
    loader = 'loader = DataLoader(datasets.MNIST("data", transform=transforms.Compose([add])), 64)\n'
    forked(HEAD + main(code + loader + ON_CUDA), LAMBDA)


def test_where_cuda_is_chosen_both_are_asked() -> None:
    before = MNIST + ANY_DEVICE + "loader = DataLoader(data, 64, collate_fn=lambda i: i)\n" + ON_DEVICE
    after = run(LoaderWorkers, HEAD + main(before)).after

    assert f', num_workers=4 if device.type == "cuda" and {FORK} else 0)\n' in on_one_line(after)


def test_a_script_that_says_how_processes_start_is_not_asked() -> None:
    starting = (
        'torch.multiprocessing.set_start_method("spawn")\nloader = DataLoader(data, 64, collate_fn=lambda i: i)\n'
    )
    leaves(MNIST + starting + ON_CUDA, LAMBDA)


def test_a_script_with_an_option_for_workers_is_left() -> None:
    option = (
        'parser = argparse.ArgumentParser()\nparser.add_argument("--workers", type=int)\nargs = parser.parse_args()\n'
    )
    leaves(
        option + MNIST + "loader = DataLoader(data, 64, collate_fn=lambda i: i)\n" + ON_CUDA,
        f"{LAMBDA}; the script's option --workers is never read",
    )


PREPARED = """\
from accelerate import Accelerator
accelerator = Accelerator()
model = torch.nn.Linear(4, 2)
loader = DataLoader(data, 64)
model, loader = accelerator.prepare(model, loader)
for epoch in range(10):
    for x, y in loader:
        accelerator.backward(model(x).sum())
"""


def test_what_accelerate_prepares_keeps_its_workers() -> None:
    workers = "num_workers=4 if torch.cuda.is_available() else 0"
    rewrites(MNIST + PREPARED, MNIST + PREPARED.replace("(data, 64)", f"(data, 64, {workers})"))


def test_what_accelerate_prepares_may_be_read_anew_for_each_batch() -> None:
    reading = "    x, y = next(iter(loader))\n    accelerator.backward(model(x).sum())\n"
    code = PREPARED[: PREPARED.index("    for x, y")] + reading
    leaves(MNIST + code, "it may be read anew for each batch, and workers start each time (line [next(iter])")


# --- batches ahead --------------------------------------------------------------------------------------------------


def ahead(code: str, target: tuple[int, int] | None = (2, 1), batches: int = 4, **choices: bool) -> Rewrite:
    """The rule alone, where ``--prefetch`` is given."""
    rules = frozenset({"loader-workers"})
    chosen = Choices(prefetch=batches, **choices)  # type: ignore[arg-type]
    settings = Settings(rules, Promise.TRAINING, target=Target(target), choices=chosen)
    result = rewrite("train.py", code, settings, rounds=((LoaderWorkers,),))
    assert {site.code for site in result.sites if not site.rewrites} <= LoaderWorkers.causes | OF_ALL.keys()
    return result


AHEAD_IF_ANY = "prefetch_factor=4 if opt.workers > 0 else None"
OWN_OPTION = parser('"--workers", type=int, default=4')
AHEAD = {
    "with new workers": ("loader = DataLoader(data, 64)\n", "num_workers=4, prefetch_factor=4"),
    "with new workers where there is CUDA": (
        ANY_DEVICE + "loader = DataLoader(data, 64)\n",
        f'{WHERE_CUDA}, prefetch_factor=4 if device.type == "cuda" else None',
    ),
    "with new workers of the script's own option": (
        OWN_OPTION + "loader = DataLoader(data, 64)\n",
        f"num_workers=opt.workers, {AHEAD_IF_ANY}",
    ),
    "for workers that are there": (
        "loader = DataLoader(data, 64, num_workers=2)\n",
        "num_workers=2, prefetch_factor=4",
    ),
    "for one worker, which is the script's choice": (
        "loader = DataLoader(data, 64, num_workers=1)\n",
        "num_workers=1, prefetch_factor=4",
    ),
    "for workers of which there may be none": (
        OWN_OPTION + "loader = DataLoader(data, 64, num_workers=opt.workers)\n",
        f"num_workers=opt.workers, {AHEAD_IF_ANY}",
    ),
}


def filled(code: str, arguments: str) -> str:
    """The code with these arguments of the loader in the place of its number of workers."""
    return re.sub(r"DataLoader\(data, 64.*?\)\n", f"DataLoader(data, 64, {arguments})\n", code)


def joined(code: str) -> str:
    """The code with each call in one line."""
    return re.sub(r",\n +", ", ", code)


@pytest.mark.parametrize(("code", "arguments"), AHEAD.values(), ids=AHEAD.keys())
def test_workers_have_the_batches_ahead_that_were_asked_for(code: str, arguments: str) -> None:
    loop = ON_DEVICE if "device" in code else ON_CUDA
    before, after = HEAD + main(MNIST + code + loop), HEAD + main(MNIST + filled(code, arguments) + loop)
    result = ahead(before)
    assert joined(result.after) == joined(after)
    compile(result.after, "train.py", "exec")
    assert ahead(result.after).after == result.after
    assert "prefetch_factor" not in ahead(before, batches=2).after


def test_where_workers_are_forked_alone_so_are_the_batches_ahead() -> None:
    code = HEAD + MNIST + "loader = DataLoader(data, 64)\n" + ON_CUDA
    is_forked = 'torch.multiprocessing.get_start_method() == "fork"'
    result = ahead(code, main_guard=False)
    assert f"num_workers=4 if {is_forked} else 0, prefetch_factor=4 if {is_forked} else None" in joined(result.after)


def test_a_dictionary_for_cuda_has_it_beside_the_number_of_workers() -> None:
    kwargs = "kwargs = {'num_workers': 1} if torch.cuda.is_available() else {}\n"
    code = HEAD + main(MNIST + kwargs + "loader = DataLoader(data, 64, **kwargs)\n" + ON_CUDA)
    after = code.replace("{'num_workers': 1}", "{'num_workers': 4, 'prefetch_factor': 4}")
    assert ahead(code).after == after
    assert ahead(after).after == after


def test_new_workers_of_a_dictionary_that_reaches_a_loader_without_any_have_no_more_ahead() -> None:
    kwargs = "kwargs = {'num_workers': 1} if torch.cuda.is_available() else {}\n"
    other = "other = DataLoader(data, 64, **{**kwargs, 'num_workers': 0})\n"
    code = HEAD + main(MNIST + kwargs + "loader = DataLoader(data, 64, **kwargs)\n" + ON_CUDA + other)
    result = ahead(code)
    assert result.after == code.replace("{'num_workers': 1}", "{'num_workers': 4}")
    assert any("; without prefetch_factor: items of the dictionary" in site.message for site in result.sites)


OLD = "prefetch_factor=None needs torch 2.0, and the script may run on an older one"


def test_before_torch_2_it_is_not_written_where_there_may_be_no_workers() -> None:
    new = HEAD + main(ANY_DEVICE + MNIST + "loader = DataLoader(data, 64)\n" + ON_DEVICE)
    result = ahead(new, (1, 13))
    assert result.after == new.replace("data, 64", f"data, 64, {WHERE_CUDA}")
    assert f"; without prefetch_factor: {OLD}" in result.sites[0].message
    own = HEAD + main(OWN_OPTION + MNIST + "loader = DataLoader(data, 64, num_workers=opt.workers)\n" + ON_CUDA)
    result = ahead(own, (1, 13))
    assert (result.after, [site.message.startswith(OLD) for site in result.sites]) == (own, [True])
    always = HEAD + main(MNIST + "loader = DataLoader(data, 64, num_workers=2)\n" + ON_CUDA)
    assert "num_workers=2, prefetch_factor=4" in ahead(always, (1, 13)).after


def test_no_worker_is_sent_an_index_that_lies_on_the_gpu() -> None:
    made = "loader = DataLoader(data, 64, sampler=SubsetRandomSampler({}))\n"
    head = HEAD.replace("import random_split", "import SubsetRandomSampler, random_split")
    left(
        head + main(MNIST + made.format("torch.randperm(60000).cuda()") + ON_CUDA),
        "the indices of its sampler may be tensors on a device (line [torch.randperm]), which no worker can be sent:"
        " give it tolist() of them",
    )

    before = head + main(MNIST + made.format("torch.randperm(60000).cuda().tolist()") + ON_CUDA)
    check_rewrites(LoaderWorkers, before, before.replace("tolist()))", "tolist()), num_workers=4)"))


LEFT_AHEAD = {
    "its own number": ("loader = DataLoader(data, 64, num_workers=2, prefetch_factor=8)\n" + ON_CUDA, None),
    "its own number in a dictionary": (
        "kwargs = {'prefetch_factor': 8}\nloader = DataLoader(data, 64, num_workers=2, **kwargs)\n" + ON_CUDA,
        None,
    ),
    "a number of workers that is worked out": (
        "loader = DataLoader(data, 64, num_workers=plot.count())\n" + ON_CUDA,
        "its number of workers is worked out in the call: plot.count()",
    ),
    "a class with an __init__ of its own": (
        "class Own(DataLoader):\n    def __init__(self, data):\n        super().__init__(data, 64, num_workers=2)\n"
        "loader = Own(data)\n" + ON_CUDA,
        "class Own has an __init__ of its own: prefetch_factor belongs into its call",
    ),
    "what only the first batch is read of": (
        "loader = DataLoader(data, 64, num_workers=2)\nx, y = next(iter(loader))\nx = x.cuda()\n",
        "only its first batch is read",
    ),
    "what stays on the CPU": (
        "loader = DataLoader(data, 64, num_workers=2)\nfor x, y in loader:\n    print(x)\n",
        "its batches are not moved to a device in this file",
    ),
    "a dictionary of which a loader without workers takes the rest": (
        "kwargs = {'num_workers': 2}\nloader = DataLoader(data, 64, **kwargs)\n"
        "other = DataLoader(data, 64, **{**kwargs, 'num_workers': 0})\n" + ON_CUDA,
        "items of the dictionary that is given to it with ** are copied, or taken out of it (line",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT_AHEAD.values(), ids=LEFT_AHEAD.keys())
def test_where_workers_have_no_other_number_of_batches_ahead(code: str, because: str | None) -> None:
    text = HEAD + "import plot\n" + main(MNIST + code)
    result = ahead(text)
    assert result.after == text
    assert because is None or any(site.message.startswith(because) for site in result.sites)
    assert because is not None or not result.sites


def test_more_than_are_drawn_at_once_change_what_is_drawn() -> None:
    sampler = "loader = DataLoader(data, 64, sampler=plot.Own(data), num_workers=2)\n"
    (site,) = ahead(HEAD + "import plot\n" + main(MNIST + sampler + ON_CUDA)).sites
    assert (site.rewrites, site.promise) == (True, Promise.RANDOM)


def test_what_functools_partial_makes_is_told_of() -> None:
    made = "make = functools.partial(DataLoader, num_workers=2)\nloader = make(data, 64)\n"
    (site,) = ahead(HEAD + "import functools\n" + main(MNIST + made + ON_CUDA)).sites
    assert site.message == "what functools.partial makes is not followed: give it prefetch_factor there"
