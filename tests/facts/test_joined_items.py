"""Which functions that join items to batches make new tensors, and which hand items on or write to them."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.joined_items import hands_on_items

HEAD = """\
import random
import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, default_collate
"""
LOADER = "loader = DataLoader(data, collate_fn=join)\n"


def culprit(join: str) -> str | None:
    """What of the function may hand items on, as it is written."""
    asked = script(HEAD + join + LOADER)
    (loader,) = asked.loaders
    found = hands_on_items(asked.flow, loader)
    return None if found is None else ast.unparse(found).splitlines()[0]


@pytest.mark.parametrize(
    "join",
    [
        pytest.param("join = None\n", id="torch's own"),
        pytest.param("join = default_collate\n", id="torch's own by its name"),
        pytest.param("join = lambda b: torch.stack([x for x, y in b])\n", id="a lambda"),
        pytest.param(
            "def join(b):\n    return {'x': torch.stack([x for x, y in b]), 'n': len(b)}\n", id="a dictionary"
        ),
        pytest.param("def join(b):\n    x, y = zip(*b)\n    return torch.stack(x), torch.tensor(y)\n", id="unzipped"),
        pytest.param(
            "def join(b):\n    x, y = map(list, zip(*b))\n    return pad_sequence(x), torch.tensor(y)\n", id="lists"
        ),
        pytest.param(
            "def join(b):\n    out = np.zeros((len(b), 3))\n    for i, x in enumerate(b):\n        out[i] = x\n"
            "    return torch.from_numpy(out).float()\n",
            id="an array that is filled",
        ),
        pytest.param(
            "def join(b):\n    sizes = []\n    for x in b:\n        sizes.append(x.shape[0])\n"
            "    total = 0\n    total += len(b)\n    return default_collate(b), sizes, max(sizes), total\n",
            id="sizes and numbers",
        ),
        pytest.param(
            "def join(b):\n    names = list(b)\n    names.reverse()\n    return torch.stack(names)\n",
            id="a list of its own",
        ),
        pytest.param(
            "def join(b):\n    d = {}\n    d['x'] = torch.stack(b)\n    return d\n", id="a dictionary that is filled"
        ),
        pytest.param(
            "class Join:\n    def __init__(self):\n        self.n = 3\n    def __call__(self, b):\n"
            "        b.sort(key=len)\n        return torch.stack(b) * 2\njoin = Join()\n",
            id="an object of a class",
        ),
        pytest.param(
            "class Data:\n    def join(self, b):\n        return pad_sequence(b)\njoin = Data().join\n", id="a method"
        ),
        pytest.param(
            "class Data:\n    @staticmethod\n    def join(b):\n        b.reverse()\n        return pad_sequence(b)\n"
            "join = Data.join\n",
            id="a static method",
        ),
        pytest.param(
            "def join(b):\n    y = torch.stack(b)\n    y.mul_(2)\n    return y if len(b) > 1 else -y + 1\n",
            id="its own tensor is written to",
        ),
    ],
)
def test_batches_of_their_own(join: str) -> None:
    assert culprit(join) is None


@pytest.mark.parametrize(
    ("join", "what"),
    [
        pytest.param("def join(b):\n    return tuple(zip(*b))\n", "tuple(zip(*b))", id="the items"),
        pytest.param("def join(b):\n    return b[0]\n", "b[0]", id="one item"),
        pytest.param("def join(b):\n    return [x for x, y in b]\n", "[x for x, y in b]", id="a part of each"),
        pytest.param(
            "def join(b):\n    d = {}\n    d['x'] = b[0]\n    return d\n", "d", id="a dictionary that gets an item"
        ),
        pytest.param(
            "def join(b):\n    a = []\n    a.append(b[0])\n    return a\n", "a", id="a list that gets an item"
        ),
        pytest.param("def join(b):\n    return b[0].float()\n", "b[0].float()", id="perhaps the same format"),
        pytest.param("def join(b):\n    return b[0].long()\n", "b[0].long()", id="perhaps the same integers"),
        pytest.param("def join(b):\n    return b[0].view(-1)\n", "b[0].view(-1)", id="a view"),
        pytest.param("def join(b):\n    return torch.as_tensor(b[0])\n", "torch.as_tensor(b[0])", id="the same memory"),
        pytest.param("def join(b):\n    print(b)\n", "print(b)", id="a call that is not known"),
        pytest.param("def join(b):\n    yield b\n", "def join(b):", id="a generator"),
        pytest.param(
            "def join(b):\n    random.shuffle(b)\n    return torch.stack(b)\n",
            "random.shuffle(b)",
            id="its list is shuffled",
        ),
        pytest.param(
            "def join(b):\n    for x in b:\n        x.mul_(2)\n    return torch.stack(b)\n",
            "x.mul_(2)",
            id="each is doubled",
        ),
        pytest.param(
            "def join(b):\n    b[0][1] = 3\n    return torch.stack(b)\n", "b[0][1]", id="an item is written to"
        ),
        pytest.param(
            "def join(b):\n    xs = [x for x in b]\n    xs[0].zero_()\n    return torch.stack(xs)\n",
            "xs[0].zero_()",
            id="an item in a list of its own",
        ),
        pytest.param(
            "def join(b):\n    x = b[0]\n    x += 1\n    return x.clone()\n", "x += 1", id="an item is added to"
        ),
        pytest.param(
            "def join(b):\n    b[0].pop('x')\n    return default_collate(b)\n", "b[0].pop('x')", id="a key is taken out"
        ),
        pytest.param(
            "def join(b):\n    return torch.stack(b, out=b[0])\n",
            "torch.stack(b, out=b[0])",
            id="it writes into an item",
        ),
        pytest.param(
            "from functools import partial\njoin = partial(print)\n",
            "DataLoader(data, collate_fn=join)",
            id="a partial",
        ),
        pytest.param(
            "class Join:\n    def pad(self, x):\n        x.zero_()\n    def __call__(self, b):\n        self.pad(b[0])\n"
            "        return torch.stack(b)\njoin = Join()\n",
            "self.pad(b[0])",
            id="another method gets an item",
        ),
        pytest.param(
            "class Join:\n    def cat(self, b):\n        return b[0]\n    def __call__(self, b):\n"
            "        return self.cat(b)\njoin = Join()\n",
            "self.cat(b)",
            id="what another method returns",
        ),
        pytest.param(
            "class Join:\n    def __call__(self, b):\n        self.last = b[0]\n        return torch.stack(b)\njoin = Join()\n",
            "self.last",
            id="an item is kept by an object",
        ),
        pytest.param(
            "from transformers import BertTokenizer\ntokenizer = BertTokenizer.from_pretrained('x')\n"
            "def join(b):\n    return tokenizer.pad(b)\n",
            "tokenizer.pad(b)",
            id="an object of another library gets them",
        ),
        pytest.param(
            "def decorate(f):\n    return f\n@decorate\ndef join(b):\n    return torch.stack(b)\n",
            "DataLoader(data, collate_fn=join)",
            id="a decorator",
        ),
    ],
)
def test_items_that_are_handed_on(join: str, what: str) -> None:
    assert culprit(join) == what
