"""Where does reading an item change what other readings see."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.workers.changes import why_changed
from codemods.facts.workers.payload import worker_code

HEAD = """\
import itertools, heapq, random
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
STATE = {}
class Data(Dataset):
    number = 0
    def __init__(self):
        self.array = np.zeros((8, 3))
        self.tensor = torch.zeros(8, 3)
        self.items = [{} for _ in range(8)]
        self.cache = {}
        self.steps = itertools.count()
        self.count = 0
    def __len__(self):
        return 8
    def double(self, x):
        x[0] = x[0] * 2
    def __getitem__(self, index):
"""


def changes(body: str, *, stay: bool = False) -> bool:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}{lines}        return index\nloader = DataLoader(Data(), num_workers=2)\n")
    (loader,) = known.loaders
    return why_changed(worker_code(known.flow, loader), stay=stay) is not None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("self.count += 1", id="a count"),
        pytest.param("self.cache[index] = 3", id="an item of a dict"),
        pytest.param("self.items.append(index)", id="a list grows"),
        pytest.param("del self.items[index]", id="a list shrinks"),
        pytest.param("self.double(self.array[index])", id="a method that is given a view"),
        pytest.param("x = self.array[index]\nx -= 1", id="a view of an array"),
        pytest.param("x = self.tensor[index]\nx.sub_(1)", id="a view of a tensor"),
        pytest.param("x = self.tensor[index].numpy()\nx[0] = 1", id="an array of a tensor"),
        pytest.param("if (x := self.array[index]) is not None:\n    x[0] = 1", id="a name that an expression binds"),
        pytest.param("np.add(self.array, 1, out=self.array)", id="out"),
        pytest.param("np.copyto(self.array[index], 1)", id="a function that fills an array"),
        pytest.param("self.array[index].fill(0)", id="a method that fills an array"),
        pytest.param("random.shuffle(self.items)", id="the order"),
        pytest.param("np.random.RandomState(0).shuffle(self.items)", id="the order, by a generator"),
        pytest.param("heapq.heappush(self.items, index)", id="a heap"),
        pytest.param("next(self.steps)", id="an iterator"),
        pytest.param("for each in self.items:\n    each['seen'] = index", id="what a loop hands out"),
        pytest.param("for i, each in enumerate(self.items):\n    each['seen'] = i", id="what enumerate hands out"),
        pytest.param("for a, b in zip([{}], self.items):\n    b['seen'] = a", id="the part of zip that is its own"),
        pytest.param("x = self.array[index]\nif index:\n    x = x.copy()\nx -= 1", id="a copy on one way alone"),
        pytest.param(
            "x = self.array[index].copy()\nfor _ in range(2):\n    x -= 1\n    x = self.array[index]",
            id="a view in the second pass of a loop",
        ),
        pytest.param("x = self.array[index]\ndef inner():\n    x[0] = 1\ninner()", id="a function within"),
        pytest.param(
            "def inner():\n    x = self.array[index]\n    x[0] = 1\ninner()", id="a view in a function within"
        ),
        pytest.param("for key, each in self.cache.items():\n    each.append(key)", id="the values of a dict"),
        pytest.param("global STATE\nSTATE = {}", id="a global name"),
        pytest.param("STATE['last'] = index", id="a dict of the module"),
        pytest.param("type(self).number += 1", id="an attribute of the class"),
        pytest.param("setattr(self, 'last', index)", id="an attribute by its name"),
    ],
)
def test_reading_changes_what_others_see(body: str) -> None:
    assert changes(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("x = self.array[index].copy()\nx[0] = 1", id="a copy of an array"),
        pytest.param("x = self.tensor[index].clone()\nx.mul_(2)", id="a copy of a tensor"),
        pytest.param("x = self.array[index]\nx = x - 1", id="a new array"),
        pytest.param("x = self.array[index]\nif index:\n    x = x - 1\n    x /= 2", id="a new array in a branch"),
        pytest.param(
            "x = self.array[index]\nif index:\n    x = x - 1\nelse:\n    x = x.copy()\nx /= 2",
            id="a new array on each way",
        ),
        pytest.param(
            "for a, b in zip(torch.ones(2), self.items):\n    a.sub_(len(b))", id="the part of zip that is new"
        ),
        pytest.param(
            "for i, a in enumerate(np.ones(2)):\n    a -= self.count", id="what enumerate hands out of a new one"
        ),
        pytest.param("x = self.array[self.array > 0]\nx += 1", id="what a mask selects"),
        pytest.param("x = self.array[[0, 1]]\nx += 1", id="what a list selects"),
        pytest.param("x = []\nx.append(index)", id="a list of its own"),
        pytest.param("count = self.count\ncount += 1", id="a number"),
        pytest.param("x = list(self.items)\nx.append(3)", id="a copy of a list"),
        pytest.param("x = dict(self.items[index])\nx['a'] = 1", id="a copy of a dict"),
        pytest.param("x = {}\nx['a'] = self.array[index]\ndel x['a']", id="a dict of its own"),
        pytest.param("order = list(range(8))\nrandom.shuffle(order)", id="an order of its own"),
        pytest.param("first = next(iter(self.items))", id="an iterator of its own"),
        pytest.param("for each in enumerate([1, 2]):\n    print(each)", id="a loop of its own"),
    ],
)
def test_reading_changes_nothing(body: str) -> None:
    assert not changes(body)


def test_a_cache_serves_workers_that_stay() -> None:
    body = "if index not in self.cache:\n    self.cache[index] = self.array[index]\nx = self.cache[index]"

    assert changes(body)
    assert not changes(body, stay=True)
    assert changes(body + "\nself.count += 1", stay=True)


def test_what_is_shared_is_followed_through_any_number_of_functions() -> None:
    last = 12
    links = [f"def f{each}(x):\n    f{each + 1}(x)\n" for each in range(last)]
    functions = "".join([*links, f"def f{last}(x):\n    x[0] = 1\n"])
    # The last function is met first, so that each look at all of them follows the array into one more.
    calls = "".join(f"        f{each}(np.zeros(3))\n" for each in reversed(range(last + 1)))
    text = f"{functions}{HEAD}{calls}        f0(self.array[index])\n        return index\n"
    known = script(f"{text}loader = DataLoader(Data(), num_workers=2)\n")
    (loader,) = known.loaders

    assert why_changed(worker_code(known.flow, loader)) is not None
