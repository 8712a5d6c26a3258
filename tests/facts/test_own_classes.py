"""Which classes of the project make items of a library's data set."""

from __future__ import annotations

import ast

from probe import script

from codemods.facts.data.own_classes import holder, why_own

TENSORS = "torch.utils.data.TensorDataset"
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


def test_who_holds_a_data_set() -> None:
    known = script(f"{HEAD}loader = DataLoader(ConcatDataset([Rows(images), tensors]), 50)\n")
    names = {each.id: known.flow.values(each) for each in known.module.nodes(ast.Name)}
    (images,), (tensors,) = names["images"], names["tensors"]
    held = holder(known, images)

    assert held is not None
    assert held.name == "Rows"
    assert holder(known, tensors) is None
    assert why_own(known.flow, (images, tensors), TENSORS) is None
