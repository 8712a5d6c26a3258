"""What are workers sent, what do they run, and does it draw random numbers."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.workers.payload import WorkerCode, worker_code

HEAD = """\
import random
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info
from torchvision import datasets, transforms as T
SCALE = 2
class Files(Dataset):
    def __init__(self, transform=None):
        self.files = []
        self.table = torch.zeros(8, 3)
        self.transform = transform
    def __getitem__(self, index):
        return {}
    def load(self, index):
        return Image.open(self.files[index])
    def unused(self):
        return random.random()
def collate(batch):
    return torch.stack(batch)
"""


def code(dataset: str, item: str = "self.load(index)", options: str = "") -> WorkerCode:
    known = script(f"{HEAD.format(item)}loader = DataLoader({dataset}, {options})\n")
    (loader,) = known.loaders
    return worker_code(known.flow, loader)


def names(found: WorkerCode) -> set[str]:
    return {getattr(each, "name", "lambda") for each in found.functions}


@pytest.mark.parametrize(
    ("dataset", "options", "expected"),
    [
        pytest.param("Files()", "", {"__getitem__", "load"}, id="what an item calls"),
        pytest.param("Files()", "collate_fn=collate", {"__getitem__", "load", "collate"}, id="the collate function"),
        pytest.param("Files(lambda x: x)", "", {"__getitem__", "load", "lambda"}, id="a transform that it holds"),
        pytest.param("datasets.MNIST('d', transform=T.Lambda(lambda x: x))", "", {"lambda"}, id="of a library's"),
        pytest.param("TensorDataset(torch.zeros(3))", "", set(), id="none of the project's"),
    ],
)
def test_the_functions_that_run_in_workers(dataset: str, options: str, expected: set[str]) -> None:
    assert names(code(dataset, options=options)) == expected


@pytest.mark.parametrize(
    ("dataset", "item", "expected"),
    [
        pytest.param("Files()", "self.load(index)", True, id="an image is decoded"),
        pytest.param("Files()", "np.load(self.files[index])", True, id="a file is read"),
        pytest.param("Files()", "self.files[index].read_text()", True, id="a path is read"),
        pytest.param("Files()", "self.table[index]", False, id="a row of a table"),
        pytest.param("datasets.ImageFolder('d', T.ToTensor())", "1", True, id="image files that are converted"),
        pytest.param("TensorDataset(torch.zeros(3))", "1", False, id="tensors"),
    ],
)
def test_whether_an_item_is_work(dataset: str, item: str, expected: bool) -> None:  # noqa: FBT001 - expected
    assert code(dataset, item).does_work is expected


@pytest.mark.parametrize(
    ("dataset", "item", "expected"),
    [
        pytest.param("Files()", "random.random()", True, id="Python"),
        pytest.param("Files()", "np.random.rand()", True, id="NumPy"),
        pytest.param("Files()", "torch.rand(3)", True, id="torch"),
        pytest.param("Files()", "self.table.clone().normal_()", True, id="a method of tensors"),
        pytest.param("Files(T.RandomCrop(3))", "self.transform(index)", True, id="a random transform"),
        pytest.param("Files()", "torch.manual_seed(index)", True, id="it seeds"),
        pytest.param("Files(T.CenterCrop(3))", "self.transform(index)", False, id="a transform without chance"),
        pytest.param("Files()", "self.load(index)", False, id="nothing is drawn"),
        pytest.param("Files()", "library.augment(index)", True, id="a library's function that may draw"),
    ],
)
def test_whether_an_item_draws(dataset: str, item: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    text = HEAD.replace("import random\n", "import library\nimport random\n").format(item)
    (loader,) = (known := script(f"{text}loader = DataLoader({dataset})\n")).loaders

    assert worker_code(known.flow, loader).draws is expected


def test_the_names_of_the_module_that_workers_read() -> None:
    found = code("Files()", "[SCALE for SCALE in self.files] or helper(SCALE)")
    read = {name for _, name in found.names_read}

    assert "SCALE" in read
    assert "index" not in read
    assert found.reads(found.loader.module, "SCALE")
    assert not found.reads(found.loader.module, "OTHER")


def test_a_name_that_a_comprehension_binds_is_not_read() -> None:
    assert "SCALE" not in {name for _, name in code("Files()", "[SCALE for SCALE in self.files]").names_read}


def test_a_stream_that_asks_for_its_part() -> None:
    stream = "class Stream(IterableDataset):\n    def __iter__(self):\n        {}\n        yield 1\n"
    found = []
    for line in ("get_worker_info()", "pass"):
        known = script(f"{HEAD.format('1')}{stream.format(line)}loader = DataLoader(Stream())\n")
        found.append(worker_code(known.flow, known.loaders[0]).is_sharded)

    assert found == [True, False]
