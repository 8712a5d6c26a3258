"""Tensors that are made of one number."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.values import library_names
from codemods.facts.devices.number_fills import NumberFill, number_fill

HEAD = "import torch\n\nSOS = 1\nx = torch.zeros(8, 4)\nn = x.size(0)\n"


def fill(code: str, head: str = HEAD) -> NumberFill | None:
    made = script(f"{head}y = {code}\n")
    calls = [each for each in made.module.nodes(ast.Call) if each.lineno == head.count("\n") + 1]
    maker = next(each for each in calls if library_names(made.flow.values(each.func)))
    (name,) = library_names(made.flow.values(maker.func))
    return number_fill(made, name, maker)


def shown(found: NumberFill) -> str:
    dtype = found.number_format or (ast.unparse(found.dtype) if found.dtype is not None else "")
    sizes = ", ".join(ast.unparse(each) for each in found.sizes)
    value = ast.unparse(found.value) if found.value is not None else ""
    return " ".join(filter(None, (found.function, f"({sizes})", value, dtype)))


FILLS = {
    "torch.tensor(0.0)": "torch.zeros ()",
    "torch.tensor(1.0)": "torch.ones ()",
    "torch.tensor(0)": "torch.full () 0",
    "torch.tensor(-0.0)": "torch.full () -0.0",
    "torch.tensor(0, dtype=torch.long)": "torch.zeros () torch.long",
    "torch.tensor(0.5, requires_grad=False)": "torch.full () 0.5",
    "torch.tensor([0.5])": "torch.full (1) 0.5",
    "torch.tensor([[0.0, 0.0]])": "torch.zeros (1, 2)",
    "torch.tensor((SOS,))": "torch.full (1) SOS",
    "torch.tensor([0.5] * n)": "torch.full (n) 0.5",
    "torch.tensor([SOS] * n, dtype=torch.long)": "torch.full (n) SOS torch.long",
    "torch.FloatTensor([0.5])": "torch.full (1) 0.5",
    "torch.FloatTensor([1])": "torch.ones (1)",
    "torch.FloatTensor([2])": "torch.full (1) 2 torch.float32",
    "torch.LongTensor([[SOS]])": "torch.full (1, 1) SOS torch.int64",
    "torch.as_tensor(0.5)": "torch.full () 0.5",
    "torch.tensor(n)": "torch.full () n",
    "torch.tensor(0).float()": "torch.zeros ()",
    "torch.tensor(n).float()": "torch.full () n torch.float32",
    "torch.LongTensor([n])": "torch.full (1) n torch.int64",
    "torch.LongTensor([SOS] * n)": "torch.full (n) SOS torch.int64",
    "torch.LongTensor([[0] * x.size(0)])": "torch.zeros (1, x.size(0)) torch.int64",
    "torch.LongTensor([[SOS for _ in range(n)]])": "torch.full (1, n) SOS torch.int64",
}


@pytest.mark.parametrize(("code", "expected"), FILLS.items(), ids=FILLS)
def test_how_else_it_is_made(code: str, expected: str) -> None:
    found = fill(code)

    assert found is not None
    assert shown(found) == expected


OTHERS = {
    "several numbers": "torch.tensor([1, 2])",
    "numbers of two types": "torch.tensor([1, 1.0])",
    "truth": "torch.tensor(True)",
    "an empty list": "torch.tensor([])",
    "an empty list would be one of floats": "torch.tensor([SOS] * n)",
    "as often as is not known": "torch.tensor([0.5] * input())",
    "fewer than none": "torch.LongTensor([SOS] * -1)",
    "lists of several lengths": "torch.tensor([[0.0], [0.0]])",
    "what may be a number of NumPy": "torch.tensor([input()])",
    "a size, as of old": "torch.FloatTensor(2)",
    "a float that is cut, as of old": "torch.LongTensor([n / 2])",
    "a number that changes from one to the next": "torch.LongTensor([i for i in range(n)])",
    "one that is cast": "torch.FloatTensor([i for i in range(n)])",
    "one in a format": "torch.tensor([i for i in range(n)], dtype=torch.long)",
    "one that it is computed of": "torch.FloatTensor([SOS * i + 1 for i in range(n)])",
    "one that has the name of a constant": "torch.FloatTensor([SOS for SOS in range(n)])",
    "only some of them": "torch.LongTensor([SOS for i in range(n) if i])",
    "another argument": "torch.tensor(0.5, pin_memory=True)",
    "what is unpacked": "torch.tensor([*x])",
}


@pytest.mark.parametrize("code", OTHERS.values(), ids=OTHERS)
def test_what_is_made_of_something_else(code: str) -> None:
    assert fill(code) is None


def test_it_may_have_no_name() -> None:
    found = fill("tensor(0.5)", "from torch import tensor\n")

    assert found is not None
    assert found.function is None


def test_another_number_format_may_be_the_default() -> None:
    assert fill("torch.FloatTensor([0.5])", f"{HEAD}torch.set_default_dtype(torch.float64)\n") is None
