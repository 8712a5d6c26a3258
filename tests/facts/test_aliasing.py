"""May a tensor share the memory of the array that it is made of."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.aliasing import is_alone, is_copied
from codemods.facts.data.arrays import Arrays

HEAD = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
buffer = torch.zeros(8, 3)
"""


def alone(body: str) -> bool:
    """Whether nothing else looks at the array of the only ``torch.tensor``."""
    known = script(HEAD + body)
    arrays = Arrays(known.flow)
    (call,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "torch.tensor"]
    array = arrays.array(known.module, call.args[0])
    assert array is not None
    return is_alone(arrays, known.module, call, array)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = torch.tensor(np.zeros(3))", id="a new array"),
        pytest.param(
            "def f():\n    a = np.zeros(3)\n    return torch.tensor(a)\nf()", id="a name that is not used again"
        ),
        pytest.param(
            "def f():\n    a = np.zeros(3)\n    t = torch.tensor(a)\n    return t, a.shape, len(a)\nf()", id="its size"
        ),
        pytest.param("x = np.zeros(3)\nx -= 1\nx = torch.tensor(x)", id="the tensor takes the name"),
    ],
)
def test_nothing_else_looks_at_the_array(body: str) -> None:
    assert alone(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            "def f():\n    a = np.zeros(3)\n    t = torch.tensor(a)\n    a[0] = 1\n    return t\nf()", id="written to"
        ),
        pytest.param(
            "def f():\n    a = np.zeros(3)\n    t = torch.tensor(a)\n    return t, a\nf()", id="returned as well"
        ),
        pytest.param("a = np.zeros(3)\nfor i in range(3):\n    t = torch.tensor(a)", id="made once, used in each pass"),
        pytest.param("a = np.zeros(3)\ndef f():\n    return torch.tensor(a)\nf()", id="of the module"),
        pytest.param("x = np.zeros(3)\ny = x\nx = torch.tensor(x)", id="another name holds it"),
        pytest.param(
            "class A:\n    def __init__(self):\n        self.a = np.zeros(3)\n    def f(self):\n        return torch.tensor(self.a)\nA().f()",
            id="an attribute",
        ),
    ],
)
def test_something_may_look_at_the_array(body: str) -> None:
    assert not alone(body)


def copied(body: str, format_: str | None = "float64") -> bool:
    known = script(HEAD + body)
    (call,) = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "torch.tensor"]
    return is_copied(known.flow, known.loaders, known.module, call, format_)


DATA = """\
class Rows(Dataset):
    def __init__(self):
        self.rows = np.zeros((8, 3))
    def __getitem__(self, index):
        return torch.tensor(self.rows[index])
    def __len__(self):
        return 8
rows = Rows()
"""


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = torch.tensor(a).cuda()", id="to CUDA"),
        pytest.param("t = torch.tensor(a).to('cuda')", id="to a CUDA device"),
        pytest.param("t = torch.tensor(a).float()", id="to another number format"),
        pytest.param("t = torch.stack([torch.tensor(a), torch.tensor])", id="into one of several"),
        pytest.param("buffer[0] = torch.tensor(a)", id="into a part of a tensor"),
        pytest.param("buffer[0] = torch.tensor(a).view(-1)", id="into a part of a tensor, in another shape"),
        pytest.param(f"{DATA}loader = DataLoader(rows, 4)", id="into a batch"),
    ],
)
def test_the_tensor_is_copied_at_once(body: str) -> None:
    assert copied(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = torch.tensor(a)", id="it is kept"),
        pytest.param("t = torch.tensor(a).double()", id="to the format that it has"),
        pytest.param("t = torch.tensor(a).to(device)", id="to a device that is not known"),
        pytest.param("t = torch.tensor(a).to('cpu')", id="to where it is"),
        pytest.param("things[0] = torch.tensor(a)", id="into a part of something else"),
        pytest.param(f"{DATA}loader = DataLoader(rows, batch_size=None)", id="a loader that hands items on"),
        pytest.param(f"{DATA}loader = DataLoader(rows, 4, collate_fn=list)", id="a loader that keeps items"),
        pytest.param(f"{DATA}loader = DataLoader(rows, 4)\nrows[0]", id="an item that is taken past the loader"),
        pytest.param(
            f"{DATA}loader = DataLoader(rows, 4)\nloader.dataset[0]", id="an item that the loader's data set gives"
        ),
    ],
)
def test_the_memory_may_stay_shared(body: str) -> None:
    assert not copied(body)


def test_a_format_that_is_not_known_may_be_the_same() -> None:
    assert not copied("t = torch.tensor(a).float()", None)
