"""What legacy constructors make whose elements are all given one value."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.fillings import calls_of_chain
from codemods.facts.devices.legacy_fills import LegacyFill, legacy_fill


def fill(code: str, above: str = "", imports: str = "import torch") -> LegacyFill | None:
    """What is said of ``code``, a legacy constructor with one call behind it."""
    known = script(f"{imports}\nx = torch.zeros(2, 3)\n{above}answer = {code}\n")
    filling = known.module.tree.body[-1].value  # type: ignore[attr-defined]
    maker = filling.func.value
    assert isinstance(maker, ast.Call)
    return legacy_fill(known, f"torch.{ast.unparse(maker.func).rpartition('.')[2]}", (filling, maker))


@pytest.mark.parametrize(
    ("code", "function", "number_format"),
    [
        pytest.param("torch.FloatTensor(2, n).zero_()", "torch.zeros", None, id="several sizes"),
        pytest.param("torch.FloatTensor(2).fill_(0.0)", "torch.zeros", None, id="one size"),
        pytest.param("torch.FloatTensor(x.size(0) * 2).fill_(1)", "torch.ones", None, id="one that is computed"),
        pytest.param("torch.FloatTensor(x.shape).fill_(1)", "torch.ones", None, id="a shape"),
        pytest.param("torch.FloatTensor(x.shape[1]).fill_(1)", "torch.ones", None, id="an item of a shape"),
        pytest.param("torch.FloatTensor(y.size() + (n,)).fill_(1)", "torch.ones", None, id="more than a shape"),
        pytest.param("torch.FloatTensor(2).fill_(n)", "torch.full", "torch.float32", id="another value"),
        pytest.param("torch.FloatTensor(2).fill_(True)", "torch.full", "torch.float32", id="a truth"),
        pytest.param("torch.LongTensor(2).fill_(len(x))", "torch.full", "torch.int64", id="integers"),
        pytest.param("torch.ByteTensor(2).fill_(1)", "torch.ones", "torch.uint8", id="of another format"),
    ],
)
def test_it_can_be_made_otherwise(code: str, function: str, number_format: str | None) -> None:
    found = fill(code)

    assert found is not None
    assert (found.function, found.number_format) == (function, number_format)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("torch.FloatTensor(n).zero_()", id="what may be a list"),
        pytest.param("torch.FloatTensor((2, 3)).zero_()", id="a tuple"),
        pytest.param("torch.FloatTensor(y.shape).zero_()", id="the shape of what may be an array, a tuple"),
        pytest.param("torch.FloatTensor(y.shape[0]).zero_()", id="an item of it"),
        pytest.param("torch.FloatTensor(*x.size()).zero_()", id="what is unpacked"),
        pytest.param("torch.FloatTensor().zero_()", id="nothing"),
        pytest.param("torch.FloatTensor(2, device='cpu').zero_()", id="a device that is given"),
        pytest.param("torch.FloatTensor(2).fill_(value=1)", id="a value that is named"),
        pytest.param("torch.FloatTensor(2).fill_(*x)", id="a value that is unpacked"),
        pytest.param("torch.LongTensor(2).fill_(n)", id="what may be cut to an integer"),
    ],
)
def test_it_is_not_known_to_be_the_same(code: str) -> None:
    assert fill(code) is None


@pytest.mark.parametrize(
    ("body", "is_known"),
    [
        pytest.param("n = y.size(0)", True, id="a size"),
        pytest.param("n = y.size(0) + 1\n    n = n * 2", True, id="what is computed of one"),
        pytest.param("n = y.size(0)\n    if y:\n        n = y.tolist()", False, id="a list at times"),
        pytest.param("for _ in y:\n        n = n + 1", False, id="what may be anything at first"),
        pytest.param("pass", False, id="a parameter"),
    ],
)
def test_a_size_may_have_a_name(body: str, *, is_known: bool) -> None:
    known = script(f"import torch\ndef f(y, n):\n    {body}\n    return torch.LongTensor(n).zero_()\n")
    (filling,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each.func).endswith("zero_"))
    assert isinstance(filling.func, ast.Attribute)
    maker = filling.func.value
    assert isinstance(maker, ast.Call)

    assert (legacy_fill(known, "torch.LongTensor", (filling, maker)) is not None) is is_known


@pytest.mark.parametrize(
    ("above", "imports"),
    [
        pytest.param("torch.set_default_dtype(torch.float64)\n", "import torch", id="another format by default"),
        pytest.param("torch.set_default_device('cuda')\n", "import torch", id="another device by default"),
        pytest.param("class A:\n    def size(self, i):\n        return [2]\n", "import torch", id="sizes of its own"),
    ],
)
def test_the_script_says_otherwise(above: str, imports: str) -> None:
    assert fill("torch.FloatTensor(y.size(0)).zero_()", above, imports) is None


def test_the_new_name_cannot_be_written() -> None:
    known = script("from torch import FloatTensor\nanswer = FloatTensor(2, 3).zero_()\n")
    filling = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert legacy_fill(known, "torch.FloatTensor", (filling, filling.func.value)) is None


@pytest.mark.parametrize(
    ("code", "number_format"),
    [
        pytest.param("torch.FloatTensor(2, 3)", None, id="several sizes"),
        pytest.param("torch.LongTensor(2)", "torch.int64", id="one size, of another format"),
        pytest.param("torch.FloatTensor(x.size())", None, id="a shape"),
    ],
)
@pytest.mark.parametrize("after", ["", ".view(-1).fill_(1)"])
def test_what_nothing_fills_at_once_is_empty(code: str, number_format: str | None, after: str) -> None:
    known = script(f"import torch\nx = torch.zeros(2, 3)\nanswer = {code}{after}\n")
    steps = tuple(calls_of_chain(known, known.module.tree.body[-1].value))  # type: ignore[attr-defined]
    found = legacy_fill(known, ast.unparse(steps[-1].func), steps)

    assert found is not None
    assert (found.call, found.function, found.value) == (steps[-1], "torch.empty", None)
    assert found.number_format == number_format
