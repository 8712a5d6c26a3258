"""Why can a data set not be read in workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.workers.obstacles import Start, why_not_copied, why_not_sent, why_on_device, why_unknown
from codemods.facts.workers.payload import WorkerCode, worker_code

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """\
import h5py
import random
import threading
import numpy as np
import torch
import library
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms as T
{before}
class Data(Dataset):
    def __init__(self):
        {init}
    def __getitem__(self, index):
        return {item}
    def count(self):
        yield 1
    @property
    def last(self):
        return self.db[-1]
    def read(self, index):
        return self.db[index]
class Folder(datasets.ImageFolder):
    def __init__(self, root):
        {init}
"""
STORED = "self.db = library.Db()"


def code(
    item: str = "index", init: str = "self.x = 1", before: str = "", data: str = "Data()", options: str = ""
) -> WorkerCode:
    text = HEAD.format(item=item, init=init, before=before)
    known = script(f"{text}loader = DataLoader({data}, num_workers=2, {options})\n")
    return worker_code(known.flow, known.loaders[-1])


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(partial(code), None, id="a class of the project"),
        pytest.param(partial(code, data="datasets.MNIST('d', transform=T.ToTensor())"), None, id="torchvision's"),
        pytest.param(
            partial(code, data="datasets.MNIST('d', transform=make())"), "unknown-worker-code", id="a transform"
        ),
        pytest.param(partial(code, data="library.Data()"), "unknown-worker-code", id="another library's"),
        pytest.param(partial(code, data="make()"), "unknown-dataset", id="a name that is not known"),
        pytest.param(partial(code, "library.decode(index)"), "unknown-worker-code", id="a call of another library"),
        pytest.param(partial(code, "np.load(index)"), None, id="a call of NumPy"),
        pytest.param(partial(code, "self.x.whatever()"), None, id="a method of its data"),
        pytest.param(partial(code, init=STORED), None, id="what another library made lies there"),
        pytest.param(partial(code, "self.db[index]", STORED), "unknown-worker-code", id="an item of what it made"),
        pytest.param(partial(code, "repr(self)", STORED), "unknown-worker-code", id="all is handed on"),
        pytest.param(partial(code, "getattr(self, 'db')", STORED), "unknown-worker-code", id="an attribute by a text"),
        pytest.param(partial(code, "self.last", STORED), "unknown-worker-code", id="a property reads it"),
        pytest.param(partial(code, "map(self.read, index)", STORED), "unknown-worker-code", id="a method is handed on"),
        pytest.param(
            partial(code, init=STORED, data="Folder('d')"), "unknown-worker-code", id="a base of a library reads it"
        ),
    ],
)
def test_what_runs_in_workers_may_not_be_known(made: Callable[[], WorkerCode], reason: str | None) -> None:
    why = why_unknown(made())

    assert (None if why is None else why.code) == reason


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(
            partial(code, "MEAN[index]", before="MEAN = torch.zeros(3).cuda()"), True, id="a tensor of the module"
        ),
        pytest.param(partial(code, "MEAN[index]", before="MEAN = torch.zeros(3)"), False, id="a tensor on the host"),
        pytest.param(
            partial(code, "self.net(index)", "self.net = NET", "NET = nn.Linear(3, 3)\nNET.cuda()"),
            True,
            id="a model that is moved",
        ),
        pytest.param(partial(code, "self.net(index)", "self.net = NET", "NET = nn.Linear(3, 3)"), False, id="a model"),
    ],
)
def test_workers_would_use_cuda(made: Callable[[], WorkerCode], expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert (why_on_device(made()) is not None) is expected


def test_what_lies_there_has_to_be_sent_to_workers_that_are_not_forked() -> None:
    stored = code(init=STORED)

    because = why_not_sent(stored, Start.ANYHOW)
    assert because is not None
    assert (
        because.text == "whether library.Db(), which its data set holds, can be sent to a worker process is not known"
    )
    assert why_not_sent(stored, Start.FORKED) is None


LOCAL = "def make():\n    def inner(batch):\n        return batch\n    return inner\n"
CLOSED = "def make():\n    size = [1]\n    def inner(batch):\n        return batch, size\n    return inner\n"


@pytest.mark.parametrize(
    ("made", "spawned", "forked"),
    [
        pytest.param(partial(code), None, None, id="a class of the module"),
        pytest.param(partial(code, options="collate_fn=lambda batch: batch"), "not-picklable", None, id="a lambda"),
        pytest.param(
            partial(code, before=LOCAL, options="collate_fn=make()"), "not-picklable", None, id="an inner function"
        ),
        pytest.param(
            partial(code, before=CLOSED, options="collate_fn=make()"),
            "not-picklable",
            "unseen-by-workers",
            id="an inner function that reads what may change",
        ),
        pytest.param(partial(code, init="self.x = self.count()"), "not-picklable", "not-picklable", id="a generator"),
        pytest.param(
            partial(code, before="loader = DataLoader([1])", init="self.x = loader"),
            "not-picklable",
            "not-picklable",
            id="a loader",
        ),
    ],
)
def test_what_cannot_be_sent(made: Callable[[], WorkerCode], spawned: str | None, forked: str | None) -> None:
    reasons = (why_not_sent(made(), Start.ANYHOW), why_not_sent(made(), Start.FORKED))

    assert tuple(None if each is None else each.code for each in reasons) == (spawned, forked)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(partial(code, init="self.x = np.zeros(3)"), None, id="an array"),
        pytest.param(partial(code, init="self.x = open('f')"), "open-handle", id="a file that stays open"),
        pytest.param(partial(code, init="self.x = open('f').read()"), None, id="what was in a file"),
        pytest.param(partial(code, init="self.x = h5py.File('f')['x']"), "open-handle", id="a part of an archive"),
        pytest.param(partial(code, init="self.x = h5py.File('f')['x'][:]"), None, id="an array of an archive"),
        pytest.param(partial(code, init="self.x = [open(f) for f in 'ab']"), "open-handle", id="a list of files"),
        pytest.param(partial(code, init="self.x = threading.Lock()"), "open-handle", id="a lock"),
        pytest.param(partial(code, "FILE.read()", before="FILE = open('f')"), "open-handle", id="a file of the module"),
        pytest.param(partial(code, init="random.seed(0)"), "seeded-when-made", id="it seeds"),
        pytest.param(
            partial(code, init="self.x = np.random.RandomState(0)"), "seeded-when-made", id="a generator of its own"
        ),
    ],
)
def test_what_copies_would_get_wrong(made: Callable[[], WorkerCode], reason: str | None) -> None:
    why = why_not_copied(made())

    assert (None if why is None else why.code) == reason
