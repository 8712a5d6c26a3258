"""Sums and lists that a loop keeps in a dictionary: ``stats["loss"] += loss.item()``."""

from __future__ import annotations

import pytest
from deferring import ITERATION, indented
from kit import check_leaves, check_rewrites

from codemods.rules.defer_sync import DeferSync
from tests.training import run_script

HEAD = """\
import json
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(6, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(torch.randn(4 + i % 3, 6), torch.randint(3, (4 + i % 3,))) for i in range(7)]
log = []

"""
CALL = "\n\nprint(json.dumps([train(), train()]), log)\n"


def function(start: str, inside: str, end: str) -> str:
    """A function that trains, with lines before its loop, at the end of the loop and after it."""
    return (
        HEAD + "def train():\n" + indented(start + "\n" + ITERATION, 4) + indented(inside, 8) + indented(end, 4) + CALL
    )


def epochs(start: str, each: str, inside: str, end: str) -> str:
    """The same in epochs: with lines before them, in each before and after the loop."""
    loop = indented(each + "\n" + ITERATION, 4) + indented(inside, 8)
    return function_of(start + "\nfor epoch in range(3):\n" + loop + indented(end, 4) + "return 0")


def function_of(body: str) -> str:
    return HEAD + "def train():\n" + indented(body, 4) + CALL


LOSS = ('d["loss"] += loss.item()', 'd["loss"] += loss.detach().double()')
FLOAT = 'd["loss"] = float(d["loss"])\n'
COUNT = ('d["n"] += (out.argmax(1) == y).sum().item()', 'd["n"] += (out.argmax(1) == y).sum()')
INT = 'd["n"] = int(d["n"])\n'
KEPT = ('d["all"].append(loss.item())', 'd["all"].append(loss.detach())')
ITEMS = 'd["all"] = [each.item() for each in d["all"]]\n'

WRITTEN = {
    "a sum of floats that is divided": ('d = {"loss": 0.0}', LOSS, FLOAT, 'd["loss"] /= 7\nreturn d'),
    "a sum that is returned alone": ('d = {"loss": 0.0}', LOSS, FLOAT, 'return d["loss"] / 7'),
    "a count": ('d = {"loss": 0.0, "n": 0}', COUNT, INT, "return d"),
    "a dictionary made by keywords": ("d = dict(loss=0.0, n=0)", COUNT, INT, "return d"),
    "an annotated dictionary": ('d: dict = {"loss": 0.0}', LOSS, FLOAT, "return d"),
    "a start of its own": ('d = {}\nd["loss"] = 0.0', LOSS, FLOAT, "return d"),
    "a start of its own, with another key after it": ('d = {}\nd["loss"] = 0.0\nd["n"] = 0', LOSS, FLOAT, "return d"),
    "floats from 0 that are divided": ('d = {"loss": 0}', LOSS, FLOAT, 'return d["loss"] / 7'),
    "a list": ('d = {"all": [], "n": 0}', KEPT, ITEMS, "return d"),
    "a list of what has a name": (
        'd = {"all": []}',
        ('v = loss.item()\nd["all"].append(v)', 'v = loss.detach()\nd["all"].append(v)'),
        ITEMS,
        "return d",
    ),
    "a list in one branch of an iteration": (
        'd = {"all": []}',
        ('if len(x) > 4:\n    d["all"].append(loss.item())', 'if len(x) > 4:\n    d["all"].append(loss.detach())'),
        ITEMS,
        'return sum(d["all"])',
    ),
    "read every so many iterations": (
        'd = {"loss": 0.0}',
        (
            'd["loss"] += loss.item()\nif i % 3 == 2:\n    print(d["loss"] / 3)\n    d["loss"] = 0.0',
            'd["loss"] += loss.detach().double()\nif i % 3 == 2:\n    print(float(d["loss"]) / 3)\n    d["loss"] = 0.0',
        ),
        FLOAT,
        "return d",
    ),
    "another item is read in each iteration": (
        'd = {"loss": 0.0, "n": 0}',
        (
            'd["loss"] += loss.item()\nd["n"] += 1\nprint(d["n"])',
            'd["loss"] += loss.detach().double()\nd["n"] += 1\nprint(d["n"])',
        ),
        FLOAT,
        "return d",
    ),
    "written out": (
        'd = {"loss": 0.0}',
        ("d['loss'] = d['loss'] + loss.item()", "d['loss'] = d['loss'] + loss.detach().double()"),
        "d['loss'] = float(d['loss'])\n",
        "return d",
    ),
    "read by nobody": ('d = {"loss": 0.0, "n": 0}', LOSS, "", 'return d["n"]'),
    "read before the loop, where it is a number": ('d = {"loss": 0.0}\nprint(d["loss"])', LOSS, FLOAT, "return d"),
    "all items are gone through": ('d = {"loss": 0.0}', LOSS, FLOAT, "return {k: v / 7 for k, v in d.items()}"),
}


@pytest.mark.parametrize(("start", "inside", "asked", "end"), WRITTEN.values(), ids=list(WRITTEN))
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_an_item_stays_on_the_device(start: str, inside: tuple[str, str], asked: str, end: str) -> None:
    before, after = function(start, inside[0], end), function(start, inside[1], asked + end)

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


def test_several_items_of_one_dictionary() -> None:
    start, end = 'd = {"loss": 0.0, "n": 0, "all": []}', "return d"
    before = function(start, f"{LOSS[0]}\n{COUNT[0]}\n{KEPT[0]}", end)
    after = function(start, f"{LOSS[1]}\n{COUNT[1]}\n{KEPT[1]}", FLOAT + INT + ITEMS + end)

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


EPOCHS = {
    "made in each epoch": ("best = 9.9", 'd = {"loss": 0.0}', 'best = min(best, d["loss"])\nlog.append(d)'),
    "started in each epoch": ("d = {}", 'd["loss"] = 0.0', 'print(d["loss"], d)'),
    "goes on with a sum over all epochs": (
        'd = {"loss": 0.0}',
        "print(epoch)",
        'print(d["loss"], json.dumps(dict(d)))',
    ),
}


@pytest.mark.parametrize(("start", "each", "end"), EPOCHS.values(), ids=list(EPOCHS))
def test_an_item_of_epochs(start: str, each: str, end: str) -> None:
    before, after = epochs(start, each, LOSS[0], end), epochs(start, each, LOSS[1], FLOAT + end)

    check_rewrites(DeferSync, before, after)
    assert run_script(before) == run_script(after)


LEFT = {
    "the item is printed in each iteration": (
        function('d = {"loss": 0.0}', LOSS[0] + '\nprint(d["loss"])', "return d"),
        "'d['loss']' is read in each iteration (line 23): do that every so many iterations",
    ),
    "the dictionary is shown in each iteration": (
        function('d = {"loss": 0.0}', LOSS[0] + "\nprint(d)", "return d"),
        "'d' is used in the loop (line 23): use it after the loop",
    ),
    "an item is read by a key that is not known": (
        function('d = {"loss": 0.0}', LOSS[0] + "\nfor key in ('loss',):\n    print(d[key])", "return d"),
        "'d' is used in the loop (line 24): use it after the loop",
    ),
    "few passes keep the dictionary, and see it change": (
        function('d = {"loss": 0.0}', LOSS[0] + "\nif i % 3 == 0:\n    log.append(d)", "return d"),
        "'d' is used in the loop (line 24): use it after the loop",
    ),
    "something else has the dictionary": (
        function('d = {"loss": 0.0}\nlog.append(d)', LOSS[0], "return d"),
        "other code may have 'd' already (line 15)",
    ),
    "something has the dictionary since the last epoch": (
        epochs('d = {"loss": 0.0}', "print(epoch)", LOSS[0], "log.append(d)"),
        "other code may have 'd' already (line 25)",
    ),
    "a function of it sees it": (
        function('d = {"loss": 0.0}\nshow = lambda: print(d)', LOSS[0] + "\nshow()", "return d"),
        "another function reads 'd' (line 15)",
    ),
    "a handler reads it": (
        function_of(
            'd = {"loss": 0.0}\ntry:\n'
            + indented(ITERATION, 4)
            + indented(LOSS[0], 8)
            + "except KeyboardInterrupt:\n    pass\nreturn d"
        ),
        "'d' may be read after an exception has left the loop (line 26)",
    ),
    "what runs at the end reads it": (
        function_of(
            'd = {"loss": 0.0}\ntry:\n'
            + indented(ITERATION, 4)
            + indented(LOSS[0], 8)
            + "finally:\n    print(d)\nreturn 0"
        ),
        "'d' may be read after an exception has left the loop (line 25)",
    ),
    "it starts from an integer, and is returned whole": (
        function('d = {"loss": 0}', LOSS[0], "return d"),
        "where nothing was added, 'd['loss']' is 0, and would be 0.0 (line 23): start it from 0.0",
    ),
    "it starts from what is no number": (
        function('d = {"loss": log}', LOSS[0], "return d"),
        "'d['loss']' is not known to start from a number that is written out (line 22)",
    ),
    "the loop sets it to something else": (
        function('d = {"loss": 0.0}', LOSS[0] + '\nif i % 3 == 0:\n    d["loss"] = best(i)', "return d"),
        "'d['loss']' is not known to start from a number that is written out (line 22)",
    ),
    "a list that something else has": (
        function('d = {"all": []}\nlog.append(d["all"])', KEPT[0], "return d"),
        "other code may have 'd['all']' already (line 15)",
    ),
    "a list that is read in each iteration": (
        function('d = {"all": []}', KEPT[0] + '\nprint(d["all"][-1])', "return d"),
        "'d['all']' is used in the loop (line 23): use it after the loop",
    ),
    "a sum that is weighted by itself": (
        function('d = {"loss": 0.0}', 'd["loss"] += loss.item() * d["loss"]', "return d"),
        "whether 'd['loss']' is a number of Python's is not known (line 22)",
    ),
    "a dictionary that the caller gave": (
        HEAD
        + "def train(d={'loss': 0.0}):\n"
        + indented(ITERATION, 4)
        + indented(LOSS[0], 8)
        + "    return d\n"
        + CALL,
        "other code may read 'd['loss']' while the loop runs (line 21): add up under a name of the function",
    ),
    "one of two dictionaries": (
        function('d = {"loss": 0.0}\nd = d or {"loss": 1.0}', LOSS[0], "return d"),
        "other code may read 'd['loss']' while the loop runs (line 23): add up under a name of the function",
    ),
    "an item that may be missing, where there is nothing to add": (
        function('d = {}\nif log:\n    d["loss"] = 0.0', LOSS[0], "return d"),
        "other code may read 'd['loss']' while the loop runs (line 24): add up under a name of the function",
    ),
    "a dictionary that makes items where they are asked for": (
        function("import collections\nd = collections.defaultdict(float)", LOSS[0], "return d"),
        "other code may read 'd['loss']' while the loop runs (line 23): add up under a name of the function",
    ),
    "a dictionary that others may overwrite": (
        function('d = {"loss": 0.0, **dict(log)}', LOSS[0], "return d"),
        "other code may read 'd['loss']' while the loop runs (line 22): add up under a name of the function",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEFT.values(), ids=list(LEFT))
def test_an_item_is_left(code: str, because: str) -> None:
    check_leaves(DeferSync, code, because)
