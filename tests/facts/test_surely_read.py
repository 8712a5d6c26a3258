"""What torch calls whenever a loop reads a loader."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.surely_read import surely_read

DATA = """\
import torch
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

class Rows(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return index

class Others(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return index

def join(items):
    return torch.tensor(items)

"""
ALL = {"Rows.__getitem__", "Rows.__len__", "join"}
MADE = "loader = DataLoader(Rows(), collate_fn=join)\n"
READ = "for x in loader:\n    pass\n"


def run(text: str) -> dict[str, list[int]]:
    """The functions that are run, each with the lines of the loops, of which the first after the classes is 1."""
    known = script(DATA + text)
    found = {}
    for function, readings in surely_read(known.flow).items():
        owner = known.flow.owner(function)
        name = f"{owner.name}." if owner is not None else ""
        lines = [getattr(each.loop, "lineno", 0) - DATA.count("\n") for each in readings]
        found[name + getattr(function, "name", "lambda")] = lines
    return found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(MADE + READ, 2, id="a loop"),
        pytest.param(f"{MADE}for step, x in enumerate(tqdm(loader)):\n    pass\n", 2, id="counted, with a bar"),
        pytest.param(
            f"{MADE}bar = tqdm(loader)\nfor step, x in enumerate(bar):\n    pass\n", 3, id="a bar with a name"
        ),
        pytest.param(
            f"{MADE}with tqdm(loader) as bar:\n    for x in bar:\n        pass\n", 3, id="a bar that is closed"
        ),
        pytest.param(f"{MADE}total = [x.sum() for x in loader]\n", 2, id="a list"),
        pytest.param(
            f"{MADE}def train(batches):\n    for x in batches:\n        pass\ntrain(loader)\n", 3, id="passed on"
        ),
        pytest.param("for x in DataLoader(Rows(), collate_fn=join):\n    pass\n", 1, id="without a name"),
    ],
)
def test_what_reading_a_loader_runs(text: str, line: int) -> None:
    assert run(text) == {each: [line] for each in ALL}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(MADE, set(), id="never read"),
        pytest.param(f"{MADE}bar = tqdm(loader)\n", set(), id="a bar that is never read"),
        pytest.param(f"{MADE}bar = tqdm(loader)\nbar = []\nfor x in bar:\n    pass\n", set(), id="another bar"),
        pytest.param(f"{MADE}total = (x.sum() for x in loader)\n", set(), id="a generator that nobody asks"),
        pytest.param(f"{MADE}def endless():\n    for x in loader:\n        yield x\n", set(), id="in a generator"),
        pytest.param(f"{MADE}count = len(loader)\n", set(), id="counted alone"),
        pytest.param(f"{MADE}for x in first(loader):\n    pass\n", set(), id="a function that is not known"),
        pytest.param(f"{MADE}if flag:\n    loader = [1]\n{READ}", set(), id="a list, perhaps"),
        pytest.param(
            f"def other(items):\n    return items\nloader = DataLoader(Rows(), collate_fn=join if flag else other)\n{READ}",
            {"Rows.__getitem__", "Rows.__len__"},
            id="one of two functions joins",
        ),
        pytest.param(
            f"{MADE}loader.collate_fn = max\n{READ}", {"Rows.__getitem__", "Rows.__len__"}, id="another function later"
        ),
        pytest.param(
            f"loader = DataLoader(Rows() if flag else Others(), collate_fn=join)\n{READ}",
            {"join"},
            id="one of two data sets",
        ),
        pytest.param(
            f"{MADE}if flag:\n    loader = DataLoader(Others(), collate_fn=join)\n{READ}",
            {"join"},
            id="one of two loaders",
        ),
        pytest.param(
            f"loader = DataLoader(Rows(), sampler=order, collate_fn=join)\n{READ}",
            {"Rows.__getitem__", "join"},
            id="a sampler may not ask how many there are",
        ),
        pytest.param(
            f"loader = DataLoader(torch.utils.data.Subset(Rows(), [0]))\n{READ}",
            {"Rows.__getitem__"},
            id="a part of it",
        ),
        pytest.param(f"loader = DataLoader(Rows(), **options)\n{READ}", set(), id="what it is given is not known"),
        pytest.param(
            f"class Many(Rows):\n    def __getitems__(self, indices):\n        return indices\n"
            f"loader = DataLoader(Many())\n{READ}",
            set(),
            id="items are taken several at a time",
        ),
        pytest.param(
            f"class Part(torch.utils.data.Subset):\n    def __getitem__(self, index):\n        return index\n"
            f"loader = DataLoader(Part(Rows(), [0]))\n{READ}",
            set(),
            id="its base takes several at a time",
        ),
        pytest.param(
            f"class Stream(torch.utils.data.IterableDataset):\n    def __getitem__(self, index):\n        return index\n"
            f"loader = DataLoader(Stream())\n{READ}",
            set(),
            id="it is iterated over",
        ),
        pytest.param(
            f"from frames import Table\nclass Part(Table):\n    def __getitem__(self, index):\n        return index\n"
            f"loader = DataLoader(Part())\n{READ}",
            set(),
            id="its base is not known",
        ),
        pytest.param(
            f"torch.utils.data.DataLoader = Other\n{MADE}{READ}", set(), id="the script replaces what reads it"
        ),
    ],
)
def test_what_may_not_run(text: str, expected: set[str]) -> None:
    assert set(run(text)) == expected
