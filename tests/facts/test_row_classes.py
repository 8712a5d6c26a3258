from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.row_classes import row_class, why_not_many

CODE = """\
import numpy as np
import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    def __init__(self, x, y):
        self.x = x
        self.y = y
        self.lines = list(y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        {}


data = Rows({})
"""
ARRAYS = "np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])"


def indexed(item: str, given: str = ARRAYS, change: tuple[str, str] = ("", "")) -> list[str] | None:
    """What reading an item indexes."""
    found = script(CODE.format(item.replace("\n", "\n        "), given).replace(*change))
    last = list(found.module.nodes(ast.Assign))[-1]
    (value,) = found.flow.values(last.value)
    own = row_class(found.flow, value)
    return None if own is None else [ast.unparse(each) for each in own.arrays]


@pytest.mark.parametrize(
    ("item", "arrays"),
    [
        pytest.param("return self.x[i], self.y[i]", ["self.x", "self.y"], id="rows"),
        pytest.param("return self.x[i]", ["self.x"], id="one row"),
        pytest.param("return {'x': self.x[i], 'y': self.y[i]}", ["self.x", "self.y"], id="by name"),
        pytest.param("return [self.x[i], self.y[i]]", ["self.x", "self.y"], id="in a list"),
        pytest.param("'A row.'\nx = torch.tensor(self.x[i])\nreturn x, self.y[i]", ["self.x", "self.y"], id="a name"),
        pytest.param("return torch.from_numpy(self.x[i]).float()", ["self.x"], id="in another format"),
        pytest.param("return torch.as_tensor(self.x[i], dtype=torch.float32)", ["self.x"], id="in a given format"),
        pytest.param("return self.x[i].astype(np.float32)", ["self.x"], id="in a format of NumPy's"),
        pytest.param("return torch.tensor(self.x[i]).to(torch.float32)", ["self.x"], id="into a format"),
        pytest.param(
            "if torch.is_tensor(i):\n    i = i.tolist()\nreturn self.x[i]", ["self.x"], id="a tensor as an index, too"
        ),
    ],
)
def test_a_class_that_only_indexes(item: str, arrays: list[str]) -> None:
    assert indexed(item) == arrays


@pytest.mark.parametrize(
    "item",
    [
        pytest.param("return self.x[i] / 2", id="computed: single numbers may become others than arrays do"),
        pytest.param("return torch.tensor(self.x[i]).unsqueeze(0)", id="the first axis is another one then"),
        pytest.param("return self.x[i].to('cuda')", id="moved"),
        pytest.param("return self.x[i].sum()", id="all rows would be added up"),
        pytest.param("return int(self.y[i])", id="one number of Python's"),
        pytest.param("return self.x[i], i", id="its index"),
        pytest.param("return self.x[i, 0]", id="a part of a row"),
        pytest.param("return self.x[i:i + 3]", id="several rows"),
        pytest.param("return torch.LongTensor(self.y[i])", id="a number would be a size"),
        pytest.param("return torch.tensor(self.x[i], requires_grad=True)", id="other arguments"),
        pytest.param("return torch.tensor(self.x[i], dtype=self.x.dtype)", id="a format that is not known"),
        pytest.param("return normalize(self.x[i])", id="a function that is not known"),
        pytest.param("print(i)\nreturn self.x[i]", id="it does something else"),
        pytest.param("i = i + 1\nreturn self.x[i]", id="the index changes"),
        pytest.param("if i > 3:\n    i = 3\nreturn self.x[i]", id="the index is looked at"),
        pytest.param("return {**self.x[i]}", id="items of a mapping"),
        pytest.param("x = self.x[i]", id="nothing is returned"),
    ],
)
def test_a_class_that_does_more(item: str) -> None:
    assert indexed(item) is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("(Dataset)", "(torch.utils.data.IterableDataset)"), id="another base"),
        pytest.param(("(Dataset)", "(some.Base)"), id="a base that is not known"),
        pytest.param(("(Dataset)", ""), id="no base"),
        pytest.param(
            ("    def __len__", "    def __getitems__(self, i):\n        pass\n\n    def __len__"), id="several"
        ),
        pytest.param(("    def __getitem__", "    @cache\n    def __getitem__"), id="decorated"),
        pytest.param(("(self, i)", "(self, i, raw=False)"), id="another parameter"),
        pytest.param(("\n\ndata = ", "\n\nRows.__getitem__ = other\ndata = "), id="replaced"),
    ],
)
def test_a_class_that_is_read_otherwise(change: tuple[str, str]) -> None:
    assert indexed("return self.x[i]", change=change) is None


def test_a_librarys_data_set_is_none() -> None:
    found = script("from torchvision.datasets import MNIST\ndata = MNIST('data')\n")
    (value,) = found.flow.values(list(found.module.nodes(ast.Assign))[-1].value)
    assert row_class(found.flow, value) is None


def why(given: str, item: str = "return self.x[i]") -> str | None:
    found = script(CODE.format(item, given))
    (value,) = found.flow.values(list(found.module.nodes(ast.Assign))[-1].value)
    own = row_class(found.flow, value)
    assert own is not None
    reason = why_not_many(found, own)
    return None if reason is None else reason.code


@pytest.mark.parametrize(
    ("given", "code"),
    [
        pytest.param(ARRAYS, None, id="two axes: a row lies in order"),
        pytest.param("np.array([[1.0, 2.0]]).T, np.array([0, 1])", None, id="also where the array does not"),
        pytest.param("torch.randn(9, 3, 8, 8), 0", None, id="tensors that lie in order"),
        pytest.param("torch.randn(9, 8, 8, 3).permute(0, 3, 1, 2), 0", "unknown-layout", id="permuted"),
        pytest.param("np.load('x.npy'), 0", "unknown-layout", id="an array of any layout"),
        pytest.param("[1, 2, 3], 0", "unknown-array", id="a list takes no list"),
        pytest.param("something(), 0", "unknown-array", id="not known"),
        pytest.param("*something()", "unknown-array", id="not seen"),
    ],
)
def test_says_why_a_list_of_indices_is_not_the_same(given: str, code: str | None) -> None:
    assert why(given) == code


def test_a_property_may_return_tensors_of_any_layout() -> None:
    method = "    @property\n    def z(self):\n        return torch.randn(9, 8, 8, 3).permute(0, 3, 1, 2)\n\n"
    code = CODE.replace("    def __len__", f"{method}    def __len__").format("return self.z[i]", ARRAYS)
    found = script(code)
    (value,) = found.flow.values(list(found.module.nodes(ast.Assign))[-1].value)
    own = row_class(found.flow, value)

    assert own is not None
    assert why_not_many(found, own) is not None


def test_says_so_of_a_list_that_the_class_makes() -> None:
    assert why(ARRAYS, "return self.lines[i]") == "unknown-array"
