"""Samplers that draw each batch by what the loop changes, and those that do not."""

from __future__ import annotations

import pytest
from kit import check_leaves, run

from codemods.codemod import Promise
from codemods.rules.loader_workers import LoaderWorkers

HEAD = """\
import heapq
import itertools
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, SubsetRandomSampler, WeightedRandomSampler
from torchvision import datasets, transforms

data = datasets.ImageFolder("data", transforms.ToTensor())
"""
HARD = """

class Hard(Sampler):
    def __init__(self, n):
        self.n = n
        self.scores = torch.ones(n)
        self.seen = 0
        self.order = list(range(n))

    def __len__(self):
        return self.n

    def __iter__(self):
{order}

    def draw(self):
        return int(torch.multinomial(self.scores, 1))

    def draws(self):
        for _ in range(self.n):
            yield self.draw()

    def update(self, index, loss):
        self.scores[index] = loss

    def rebind(self, scores):
        self.scores = scores

    def count(self, n):
        self.seen += n


"""
LAZY = "for _ in range(self.n):\n    yield int(torch.multinomial(self.scores, 1))"
UPDATE = "sampler.update(index, loss)"
SAMPLER = "sampler = Hard(len(data))\n"
LOADER = "loader = DataLoader(data, sampler=sampler)\n"
READ = "    for x, index in loader:\n        x = x.cuda()\n        loss = x.sum().item()\n"


def indented(text: str, by: int = 4) -> str:
    return "".join(f"{' ' * by}{line}\n" if line else "\n" for line in text.splitlines())


def trained(change: str, sampler: str = SAMPLER, loader: str = LOADER, read: str = READ) -> str:
    """The loop over such a loader, and what it changes after each batch."""
    body = sampler + loader + "for epoch in range(10):\n" + read + indented(change, 8)
    return "\n\ndef main():\n" + indented(body) + "\n\nif __name__ == '__main__':\n    main()\n"


def drawn(order: str, change: str = UPDATE, sampler: str = SAMPLER, loader: str = LOADER) -> str:
    """A sampler with this ``__iter__``."""
    return HEAD + HARD.format(order=indented(order, 8).rstrip()) + trained(change, sampler, loader)


GENERATOR = """

def batches(loader):
    for x, index in loader:
        yield x.cuda(), index


"""
CHANGED = {
    "a method stores a score": drawn(LAZY),
    "a method stores the scores anew": drawn(LAZY, "sampler.rebind(loss)"),
    "an attribute is stored": drawn(LAZY, "sampler.scores = loss"),
    "an attribute is stored by its name": drawn(LAZY, "setattr(sampler, 'scores', loss)"),
    "an item is stored": drawn(LAZY, "sampler.scores[index] = loss"),
    "an item is stored through the loader": drawn(LAZY, "loader.sampler.scores[index] = loss"),
    "a method is called through the loader": drawn(LAZY, "loader.sampler.update(index, loss)"),
    "a method is called through the loader's own batches": drawn(LAZY, "loader.batch_sampler.sampler.update(0, loss)"),
    "through a batch sampler": drawn(
        LAZY, loader="loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 4, False))\n"
    ),
    "through a batch sampler, by the loader": drawn(
        LAZY,
        "loader.batch_sampler.sampler.update(index, loss)",
        loader="loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 4, False))\n",
    ),
    "changed in place": drawn(LAZY, "sampler.scores.mul_(0.9)"),
    "changed by assignment": drawn(LAZY, "sampler.scores *= 0.9"),
    "changed by another name": drawn(LAZY, "scores *= 0.9", SAMPLER + "scores = sampler.scores\n"),
    "a method draws": drawn("for _ in range(self.n):\n    yield self.draw()"),
    "a generator draws": drawn("return self.draws()"),
    "a generator draws, item by item": drawn("yield from self.draws()"),
    "a generator expression draws": drawn("return (self.draw() for _ in range(self.n))"),
    "map draws": drawn("return map(lambda _: self.draw(), range(self.n))"),
    "while there is something left": drawn("i = 0\nwhile i < self.n:\n    yield self.draw()\n    i += 1"),
    "below the first yield": drawn("yield 0\nyield from self.scores.argsort().tolist()"),
    "its list is shuffled": drawn("return iter(self.order)", "random.shuffle(sampler.order)"),
    "its list loses an item": drawn("for i in self.order:\n    yield i", "sampler.order.remove(index)"),
    "its heap": drawn(
        "for _ in range(self.n):\n    yield self.order[0]", "heapq.heappushpop(sampler.order, index)"
    ),
    "a list is its order": HEAD
    + trained("random.shuffle(order)", "order = list(range(len(data)))\n", "loader = DataLoader(data, sampler=order)\n"),
    "the indices of torch's subset": HEAD
    + trained("sampler.indices[0] = 1", "sampler = SubsetRandomSampler(list(range(9)))\n"),
    "the size of torch's batches": HEAD
    + trained("batches.batch_size += 1", "batches = BatchSampler(RandomSampler(data), 4, False)\n",
              "loader = DataLoader(data, batch_sampler=batches)\n"),
    "another function trains": HEAD
    + HARD.format(order=indented(LAZY, 8).rstrip())
    + "def step(sampler, index, loss):\n    sampler.update(index, loss)\n\n"
    + trained("step(sampler, index, loss)"),
    "a generator reads the loader": HEAD
    + HARD.format(order=indented(LAZY, 8).rstrip())
    + GENERATOR
    + trained(UPDATE, read="    for x, index in batches(loader):\n        loss = x.sum().item()\n"),
    "an iterator over the loader": HEAD
    + HARD.format(order=indented(LAZY, 8).rstrip())
    + trained(
        UPDATE,
        read="    ready = iter(loader)\n    for _ in range(len(loader)):\n        x, index = next(ready)\n"
        "        loss = x.cuda().sum().item()\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", CHANGED.values(), ids=CHANGED.keys())
def test_what_the_loop_changes(code: str) -> None:
    (site,) = run(LoaderWorkers, code).sites

    assert (site.rewrites, site.code) == (False, "sampler-changes")


def test_the_reason() -> None:
    code = drawn(LAZY)
    line = code[: code.index("self.scores[index] = loss")].count("\n") + 1

    because = f"what its sampler draws each batch by is changed while it is read (line {line}), and workers draw several ahead"
    check_leaves(LoaderWorkers, code, because)


def test_a_model_chooses() -> None:
    order = "for _ in range(self.n):\n    yield int(self.model(self.scores).argmax())"
    code = drawn(order, "pass", "net = nn.Linear(9, 9)\nsampler = Hard(9)\nsampler.model = net\n")
    line = code[: code.index("self.model(")].count("\n") + 1

    because = (
        f"its sampler asks a model which batch is next (line {line}), and workers draw several ahead of the training"
    )
    check_leaves(LoaderWorkers, code, because)


UNCHANGED = {
    "nothing is changed": drawn(LAZY, "pass"),
    "only a count, which it does not draw by": drawn(LAZY, "sampler.count(1)"),
    "all are drawn at once": drawn("return iter(torch.multinomial(self.scores, self.n).tolist())"),
    "all are drawn at once, and yielded": drawn("yield from torch.multinomial(self.scores, self.n).tolist()"),
    "all are drawn before the loop": drawn(
        "order = torch.multinomial(self.scores, self.n).tolist()\nfor i in order:\n    yield i"
    ),
    "all are drawn for the loop": drawn("for i in torch.multinomial(self.scores, self.n).tolist():\n    yield i"),
    "a list comprehension": drawn("return iter([self.draw() for _ in range(self.n)])"),
    "between epochs": HEAD
    + HARD.format(order=indented(LAZY, 8).rstrip())
    + trained("pass", read="    sampler.update(0, 1)\n" + READ),
    "between epochs, with an iterator": HEAD
    + HARD.format(order=indented(LAZY, 8).rstrip())
    + trained(
        "pass",
        read="    sampler.update(0, 1)\n    ready = iter(loader)\n    for _ in range(len(loader)):\n"
        "        x, index = next(ready)\n        x = x.cuda()\n",
    ),
    "the weights of torch's, which draws all at once": HEAD
    + trained("sampler.weights[0] = loss", "sampler = WeightedRandomSampler(torch.ones(9), 9)\n"),
    "another sampler of the class": drawn(LAZY, "pass", SAMPLER + "other = Hard(3)\nother.seen = 3\n"),
}  # fmt: skip


@pytest.mark.parametrize("code", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_what_the_loop_leaves(code: str) -> None:
    (site,) = run(LoaderWorkers, code).sites

    assert site.rewrites, site.message


PROMISES = {
    "torch draws all at once": ("RandomSampler(data)", Promise.BITWISE),
    "in chunks, of a generator of its own": ("RandomSampler(data, True)", Promise.BITWISE),
    "in chunks, of a generator that the loop may share": (
        "RandomSampler(data, replacement=True, generator=torch.Generator())",
        Promise.RANDOM,
    ),
    "all at once, of a generator that the loop may share": (
        "RandomSampler(data, replacement=False, generator=torch.Generator())",
        Promise.BITWISE,
    ),
}


@pytest.mark.parametrize(("sampler", "promise"), PROMISES.values(), ids=PROMISES.keys())
def test_what_is_promised(sampler: str, promise: Promise) -> None:
    (site,) = run(LoaderWorkers, HEAD + trained("pass", f"sampler = {sampler}\n")).sites

    assert (site.rewrites, site.promise) == (True, promise)
