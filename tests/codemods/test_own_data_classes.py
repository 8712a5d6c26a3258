"""What the rules about data say of classes of the project around data sets, and of loaders of functools.partial."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kit import run

from codemods.rules.dataset_materialize import DatasetMaterialize
from codemods.rules.dataset_on_device import DatasetOnDevice
from codemods.rules.loader_batched_index import LoaderBatchedIndex

if TYPE_CHECKING:
    from codemods.codemod import Codemod

HEAD = """\
from functools import partial
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms


class Rows(Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index][0], index


class Numbered(TensorDataset):
    def __getitem__(self, index):
        return *super().__getitem__(index), index


tensors = TensorDataset(torch.zeros(1000, 3))
images = datasets.MNIST("data", transform=transforms.ToTensor())
model = torch.nn.Linear(3, 1).cuda()
"""
READ = """\
for epoch in range(9):
    for x, _ in loader:
        model(x.cuda()).sum().backward()
"""


def said(rule: type[Codemod], loader: str) -> set[tuple[str, str]]:
    """The cause and the class or data set in question, of each site that is left."""
    return {
        (each.code, each.message) for each in run(rule, f"{HEAD}loader = {loader}\n{READ}").sites if not each.rewrites
    }


def own(name: str, line: int, than: str) -> tuple[str, str]:
    text = f"class {name} is the script's own (line {line}), and may make other items than the {than}"
    return "own-dataset-class", f"{text}: give the loader the {than} where it does not"


PARTIAL = (
    "partial-loader",
    "what functools.partial makes is not followed: call DataLoader itself where its data set is given",
)
MADE_ANEW = (
    "own-dataset-class",
    "class Rows is the script's own (line 7), and may make other items in each epoch:"
    " give the loader a TensorDataset of its items where it does not",
)


@pytest.mark.parametrize(
    ("rule", "loader", "expected"),
    [
        pytest.param(
            LoaderBatchedIndex,
            "DataLoader(Rows(tensors), 50)",
            own("Rows", 7, "TensorDataset"),
            id="a class holds tensors",
        ),
        pytest.param(
            LoaderBatchedIndex,
            "DataLoader(Numbered(torch.zeros(1000, 3)), 50)",
            own("Numbered", 18, "TensorDataset"),
            id="a class derives from it",
        ),
        pytest.param(
            DatasetOnDevice,
            "DataLoader(Rows(tensors), 50)",
            own("Rows", 7, "TensorDataset"),
            id="it could be on the device",
        ),
        pytest.param(DatasetMaterialize, "DataLoader(Rows(images), 50)", MADE_ANEW, id="a class holds images"),
        pytest.param(LoaderBatchedIndex, "partial(DataLoader, batch_size=50)(tensors)", PARTIAL, id="partial"),
        pytest.param(DatasetOnDevice, "partial(DataLoader, batch_size=50)(tensors)", PARTIAL, id="partial of tensors"),
        pytest.param(
            DatasetMaterialize, "partial(DataLoader, images)()", PARTIAL, id="partial has the data set already"
        ),
    ],
)
def test_it_is_left_by_the_rules_about_data(rule: type[Codemod], loader: str, expected: tuple[str, str]) -> None:
    assert said(rule, loader) == {expected}


@pytest.mark.parametrize(
    ("rule", "loader"),
    [
        pytest.param(LoaderBatchedIndex, "DataLoader(Rows(images), 50)", id="no tensors"),
        pytest.param(LoaderBatchedIndex, "partial(DataLoader, batch_size=50)(images)", id="partial of no tensors"),
        pytest.param(DatasetMaterialize, "[Rows(images)[0]]", id="no loader reads it"),
    ],
)
def test_it_is_no_question_of_the_rule(rule: type[Codemod], loader: str) -> None:
    assert said(rule, loader) == set()
