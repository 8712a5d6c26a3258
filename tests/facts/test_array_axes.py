"""Which arrays surely have an axis."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.array_axes import has_axis_of_its_own

SCRIPT = """\
import numpy as np
import torch
from torch.utils.data import DataLoader


class Points(torch.utils.data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return np.zeros((8, 3)), index


loader = DataLoader(Points(), {arguments})
other = DataLoader(Points(), batch_size=None)


def train(loader):
    for step, (points, labels) in enumerate(loader):
        {body}
        use({data})


train(loader)
"""


def answer(body: str, data: str = "points", arguments: str = "batch_size=4") -> bool:
    """Whether what is given to ``use()`` is said to have an axis."""
    known = script(SCRIPT.format(body=body, data=data, arguments=arguments))
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "use")
    return has_axis_of_its_own(known.loaders, known.module, call.args[0])


@pytest.mark.parametrize(
    ("body", "data"),
    [
        pytest.param("points = points.data.numpy()", "points", id="a batch as an array"),
        pytest.param("labels = labels.detach().cpu().numpy()", "labels", id="on its way through methods"),
        pytest.param("pass", "labels.numpy()", id="where it is given"),
        pytest.param("array = labels.numpy()\n        again = array", "again", id="by another name"),
        pytest.param("labels = step\n        labels[0] = 1", "labels", id="parts of it are taken"),
    ],
)
def test_it_has_an_axis(body: str, data: str) -> None:
    assert answer(body, data)


@pytest.mark.parametrize(
    ("body", "data"),
    [
        pytest.param("label = labels[0].numpy()", "label", id="a part of a batch"),
        pytest.param("label = labels.sum().numpy()", "label", id="what is computed of it"),
        pytest.param("labels = torch.tensor(3)", "labels.numpy()", id="another tensor has its name"),
        pytest.param("labels = labels.numpy() if step else step", "labels", id="or a number"),
        pytest.param("for labels in labels: pass", "labels.numpy()", id="a row of it"),
        pytest.param("count = step", "count", id="the number of the iteration"),
    ],
)
def test_it_may_have_none(body: str, data: str) -> None:
    assert not answer(body, data)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("batch_size=None", id="items as they are"),
        pytest.param("batch_size=4, collate_fn=lambda items: items[0]", id="a function of its own"),
    ],
)
def test_a_loader_may_not_stack_items(arguments: str) -> None:
    assert not answer("pass", "labels.numpy()", arguments)


def test_another_loader_that_is_read_there_may_not_stack_them() -> None:
    code = SCRIPT.format(body="pass", data="labels.numpy()", arguments="batch_size=4") + "train(other)\n"
    known = script(code)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "use")

    assert not has_axis_of_its_own(known.loaders, known.module, call.args[0])
