from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.decoded import decoded

IMPORTS = "from torch.utils.data import TensorDataset, default_collate\nfrom torchvision.datasets import MNIST\n"


def read(code: str) -> list[str] | None:
    """The names of what the last statement's data set was read from."""
    found = script(IMPORTS + code)
    last = found.module.tree.body[-1]
    assert isinstance(last, ast.Assign)
    (value,) = found.flow.values(last.value)
    values = decoded(found.flow, value)
    return None if values is None else sorted(each.name for each in values)


def test_a_data_set_of_the_items_of_another_one() -> None:
    assert read("d = TensorDataset(*default_collate(list(MNIST('data'))))\n") == ["torchvision.datasets.MNIST"]


def test_one_that_takes_the_name_of_the_other() -> None:
    code = "d = MNIST('data')\nd = TensorDataset(*default_collate(list(d)))\n"
    assert read(code) == ["torchvision.datasets.MNIST"]


def test_one_whose_tensors_are_moved_on_the_way() -> None:
    code = "d = TensorDataset(*(x.to('cuda') for x in default_collate(list(MNIST('data')))))\n"
    assert read(code) == ["torchvision.datasets.MNIST"]


def test_images_that_were_transformed_by_one_call_and_moved() -> None:
    code = (
        "from torchvision.transforms import ToTensor\ntransform = ToTensor()\nd = MNIST('data', transform=transform)\n"
        "x = transform(d.data.flatten(0, 1).numpy()).view(d.data.unsqueeze(1).shape)\n"
        "d = TensorDataset(x.to('cuda'), d.targets.cuda())\n"
    )
    assert read(code) == ["torchvision.datasets.MNIST"]


@pytest.mark.parametrize(
    "made",
    [
        "MNIST('data')",
        "TensorDataset(x)",
        "TensorDataset(*default_collate(x))",
        "TensorDataset(*x)",
        "TensorDataset(*default_collate(list(x, y)))",
        "TensorDataset(*list(x))",
        "TensorDataset(*(x.to(torch.float64) for x in default_collate(list(MNIST('data')))))",
        "TensorDataset(*(x.float() for x in default_collate(list(MNIST('data')))))",
        "TensorDataset(*(y.to('cuda') for x in default_collate(list(MNIST('data')))))",
        "TensorDataset(*(x.to('cuda') for x in default_collate(list(MNIST('data'))) if x))",
    ],
)
def test_others_are_not(made: str) -> None:
    assert read(f"import torch\nx = y = 1\nd = {made}\n") is None
