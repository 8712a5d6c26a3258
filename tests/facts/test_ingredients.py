"""Where does the script change what items are made of."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.workers.ingredients import changes_of_what_is_read, why_changed_while_read, why_class_is_changed
from codemods.facts.workers.payload import worker_code
from codemods.facts.workers.persistence import why_workers_end

HEAD = """\
import argparse
import heapq
import random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
class Sizes:
    largest = 3
    def __init__(self):
        self.now = 3
    def grow(self):
        self.now += 1
class Data(Dataset):
    level = 0
    def __init__(self, given=None):
        self.given, self.items = given, []
        for index in range(8):
            self.items.append(index)
    @classmethod
    def set_level(cls, level):
        cls.level = level
    def relabel(self):
        type(self).level = 4
    def __getitem__(self, index):
        return self.items[index], {item}
args = argparse.ArgumentParser().parse_args()
options, labels, size, sizes, net = {{"noise": 0.0}}, [0] * 8, 8, Sizes(), nn.Linear(1, 1)
array, tensor = np.ones(8), torch.ones(8)
def set_size(new):
    global size
    size = new
def mix(values):
    random.shuffle(values)
data = Data({given})
loader = DataLoader(data, num_workers=2)
"""
EPOCHS = "for epoch in range(3):\n    for x in loader:\n        {}\n    {}\n"
CHANGES = {
    "a name that is bound in the loop over epochs": ("size", "None", "size = 3"),
    "a name that a function sets": ("size", "None", "set_size(3)"),
    "the number of the epoch": ("epoch", "None", "pass"),
    "an attribute of its class": ("self.level", "None", "Data.level = 3"),
    "one that is counted up": ("self.level", "None", "Data.level += 3"),
    "one that a method of the class sets": ("self.level", "None", "Data.set_level(3)"),
    "one that a method of the object sets": ("self.level", "None", "data.relabel()"),
    "one of the object's class": ("self.level", "None", "data.__class__.level = 3"),
    "one that is set by its name": ("self.level", "None", "setattr(Data, 'level', 3)"),
    "an attribute of another class": ("Sizes.largest", "None", "Sizes.largest = 3"),
    "an attribute of an object with a name": ("sizes.now", "None", "sizes.now = 3"),
    "a method of an object with a name": ("sizes.now", "None", "sizes.grow()"),
    "an item of a dictionary with a name": ("options['noise']", "None", "options['noise'] = 1"),
    "an item of one that it was given": ("self.given['noise']", "options", "options['noise'] += 1"),
    "several items of it": ("self.given['noise']", "options", "options.update(noise=1)"),
    "a list that it was given": ("self.given[index]", "labels", "labels[0] = 1"),
    "a list that grows": ("self.given[index]", "labels", "labels.extend([1])"),
    "a list that grows in place": ("self.given[index]", "labels", "labels += [1]"),
    "a list that loses an item": ("self.given[index]", "labels", "del labels[0]"),
    "a list that a function is given": ("self.given[index]", "labels", "mix(labels)"),
    "a list that a function of Python's is given": ("self.given[index]", "labels", "heapq.heapify(labels)"),
    "an array": ("self.given[index]", "array", "array *= 2"),
    "an array that is shuffled": ("self.given[index]", "array", "np.random.shuffle(array)"),
    "an array that a function of NumPy's writes into": ("self.given[index]", "array", "np.copyto(array, 1)"),
    "an array that is filled": ("self.given[index]", "array", "array.fill(2)"),
    "a tensor": ("self.given[index]", "tensor", "tensor.mul_(2)"),
    "a tensor that is a result": ("self.given[index]", "tensor", "torch.mul(tensor, 2, out=tensor)"),
    "a weight of a model": ("self.given(index)", "net", "net.weight.data.fill_(3)"),
    "each weight of a model": ("self.given(index)", "net", "[p.data.mul_(0.9) for p in net.parameters()]"),
    "weights of a model": ("self.given(index)", "net", "net.load_state_dict(options)"),
    "a list in a list": ("self.given[1][index]", "[3, labels]", "labels[0] = 1"),
    "options that it was given": ("self.given.level", "args", "args.level = 3"),
    "options that are set by their name": ("self.given.level", "args", "setattr(args, 'level', 3)"),
    "options as a dictionary": ("self.given.level", "args", "vars(args)['level'] = 3"),
    "options with a name": ("args.level", "None", "args.level = 3"),
}


@pytest.mark.parametrize(("item", "given", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_what_items_are_made_of_is_changed(item: str, given: str, change: str) -> None:
    head = HEAD.format(item=item, given=given)
    between, meanwhile = (script(head + EPOCHS.format(*some)) for some in (("pass", change), (change, "pass")))

    assert any(changes_of_what_is_read(worker_code(between.flow, between.loaders[0]))) or "relabel" in change
    reason = why_workers_end(between, worker_code(between.flow, between.loaders[0]))
    assert reason is not None
    assert reason.code == "dataset-changes"
    assert why_changed_while_read(worker_code(between.flow, between.loaders[0])) is None or item == "epoch"
    assert why_changed_while_read(worker_code(meanwhile.flow, meanwhile.loaders[0])) is not None or item == "epoch"


KEPT = {
    "nothing": ("index", "None", "pass"),
    "an attribute of its class that no item is made of": ("index", "None", "Data.level = 3"),
    "a name that no item is made of": ("index", "None", "size = 3"),
    "a local name that is called so": ("size", "None", "print([size for size in labels])"),
    "a dictionary that it was not given": ("self.given['noise']", "dict(options)", "options['noise'] = 1"),
    "a list that only the script has": ("self.given[index]", "[1, 2]", "labels[0] = 1"),
    "a list of which it was given a copy": ("self.given[index]", "list(labels)", "labels[0] = 1"),
    "an array that has another name then": ("self.given[index]", "array", "other = array * 2"),
    "a number": ("self.given", "labels[0] + 1", "count = 1; count += 1"),
    "a weight of another model": ("self.given(index)", "net", "nn.Linear(1, 1).weight.data.fill_(3)"),
    "another model": ("self.given(index)", "net", "nn.Linear(1, 1).load_state_dict(options)"),
    "an option that no item is made of": ("self.given.level", "args", "args.lr = 3"),
    "an option whose value it was given": ("self.given", "args.level", "args.level = 3"),
    "a list that is only read": ("self.given[index]", "labels", "print(labels[0], labels.index(0))"),
    "what it holds and does not read": ("index", "labels", "labels[0] = 1"),
    "another data set": ("index", "None", "other = Data()"),
}


@pytest.mark.parametrize(("item", "given", "change"), KEPT.values(), ids=KEPT.keys())
def test_items_stay_as_they_are(item: str, given: str, change: str) -> None:
    known = script(HEAD.format(item=item, given=given) + EPOCHS.format(change, change))

    assert why_workers_end(known, worker_code(known.flow, known.loaders[0])) is None
    assert why_changed_while_read(worker_code(known.flow, known.loaders[0])) is None


READ = "import numpy as np\nfrom torch.utils.data import DataLoader, Dataset\n"
MAKING = """\
class Data(Dataset):
    def __init__(self):
        self.rows = read()
    def __getitem__(self, index):
        return self.rows[index]
def read():
    {}
    return rows
loader = DataLoader(Data(), num_workers=2)
for epoch in range(3):
    for x in loader:
        pass
    other = Data()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("rows = []\n    rows.append(1)", True),
        ("rows = []\n    rows += [1]", True),
        ("rows = {}\n    for i in range(9):\n        rows[i] = i", True),
        ("rows = np.zeros(9)\n    rows *= 2", True),
        ("rows = np.zeros(9)\n    np.copyto(rows, 1)", True),
        ("rows = kept\n    rows.append(1)", False),
        ("rows = kept\n    rows += [1]", False),
        ("rows = kept or []\n    rows.append(1)", False),
        ("global rows\n    rows = kept\n    rows += [1]", False),
    ],
    ids=[
        "a list",
        "a list that is added to",
        "a dictionary",
        "an array",
        "an array by a function",
        "a list that is kept",
        "one that is added to",
        "a list that may be a kept one",
        "a name of the module",
    ],
)
def test_a_function_fills_what_it_makes_anew(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    known = script(READ + "kept = []\n" + MAKING.format(body))

    assert (why_workers_end(known, worker_code(known.flow, known.loaders[0])) is None) is expected


@pytest.mark.parametrize(("item", "given", "change"), CHANGES.values(), ids=CHANGES.keys())
def test_it_may_be_changed_before_the_first_epoch_and_after_the_last(item: str, given: str, change: str) -> None:
    text = HEAD.format(item=item, given=given) + change + "\n" + EPOCHS.format("pass", "pass") + change + "\n"
    known = script(text)
    reason = why_workers_end(known, worker_code(known.flow, known.loaders[0]))

    assert reason is None or item == "epoch"


def test_it_is_changed_between_two_trainings() -> None:
    fit = "def fit():\n    for epoch in range(3):\n        for x in loader:\n            pass\n"
    known = script(HEAD.format(item="self.given.level", given="args") + fit + "fit()\nargs.level = 3\nfit()\n")
    reason = why_workers_end(known, worker_code(known.flow, known.loaders[0]))

    assert reason is not None
    assert reason.code == "dataset-changes"


CLOSURE = """\
from torch.utils.data import DataLoader
def main(data, options):
    size = 8
    def pad(items):
        return items[:size]
    loader = DataLoader(range(9), num_workers=2, collate_fn=pad)
    for epoch in range(3):
        for x in loader:
            pass
        {}
main()
"""


@pytest.mark.parametrize(
    ("change", "lines"),
    [("size = epoch", [3, 10]), ("other = epoch", []), ("def inner():\n            size = epoch", [])],
    ids=["the name that it reads", "another name", "a name of another function"],
)
def test_a_function_reads_a_name_of_the_one_around_it(change: str, lines: list[int]) -> None:
    known = script(CLOSURE.format(change))
    found = [node.lineno for _, node in changes_of_what_is_read(worker_code(known.flow, known.loaders[0]))]

    assert found == lines


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("torch.optim.SGD(net.parameters(), lr=1)", True),
        ("torch.optim.SGD(list(net.parameters()), lr=1)", True),
        ("torch.optim.SGD([{'params': net.parameters()}], lr=1)", True),
        ("torch.optim.SGD(parameters_of(net), lr=1)", True),
        ("torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1)", False),
    ],
    ids=["its parameters", "a list of them", "a group of them", "what is not known", "those of another model"],
)
def test_an_optimizer_changes_the_model_that_items_are_made_by(optimizer: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    text = HEAD.format(item="self.given(index)", given="net") + f"optimizer = {optimizer}\n"
    known = script(text + EPOCHS.format("optimizer.step()", "pass"))

    assert (why_changed_while_read(worker_code(known.flow, known.loaders[0])) is not None) is expected


LEVEL = """\
class Data(Dataset):
    level = 0
    def __getitem__(self, index):
        return self.level
    {}
loader = DataLoader(Data(), num_workers=2)
def main():
    {}
{}
"""


@pytest.mark.parametrize(
    ("method", "function", "statement", "is_unseen"),
    [
        ("pass", "Data.level = 3", "main()", True),
        ("@classmethod\n    def set(cls):\n        cls.level = 3", "Data.set()", "main()", True),
        ("pass", "pass", "if __name__ == '__main__':\n    Data.level = 3", True),
        ("pass", "pass", "Data.level = 3", False),
        ("pass", "Data.other = 3", "main()", False),
    ],
    ids=["by a function", "by a method", "under the main guard", "by the module", "of what no worker reads"],
)
def test_the_class_is_changed_where_only_the_script_runs(
    method: str,
    function: str,
    statement: str,
    is_unseen: bool,  # noqa: FBT001 - the expectation
) -> None:
    known = script(READ + LEVEL.format(method, function, statement))
    reason = why_class_is_changed(worker_code(known.flow, known.loaders[0]))

    assert (reason is not None and reason.code == "unseen-by-workers") is is_unseen


def test_another_module_sets_the_name() -> None:
    data = """\
from torch.utils.data import Dataset
SIZE = 8
class Data(Dataset):
    def __getitem__(self, index):
        return [0] * SIZE
"""
    train = "import data\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data.Data(), num_workers=2)\n"
    known = script(train + EPOCHS.format("pass", "data.SIZE = epoch"), data=data)
    reason = why_workers_end(known, worker_code(known.flow, known.loaders[0]))

    assert reason is not None
    assert reason.code == "dataset-changes"


@pytest.mark.parametrize(("start", "is_changed"), [("import helper\n", True), ("", False)], ids=["imported", "another"])
def test_the_options_of_another_script(start: str, is_changed: bool) -> None:  # noqa: FBT001 - the expectation
    helper = "import argparse\nargs = argparse.ArgumentParser().parse_args()\nif __name__ == '__main__':\n    args.level = 3\n"
    known = script(start + HEAD.format(item="self.given.level", given="args"), helper=helper)

    changed = {module.name for module, _ in changes_of_what_is_read(worker_code(known.flow, known.loaders[0]))}
    assert ("helper" in changed) is is_changed
