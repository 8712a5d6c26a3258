"""What writes to its arguments, held against the installed torch: its signatures, and what its functions do."""

from __future__ import annotations

import ast
import inspect
from operator import attrgetter
from typing import Any

import pytest
import torch
from torch.nn import functional

from codemods.library.writing import writing, written


def taking_inplace() -> dict[str, int]:
    """The functions of ``torch.nn.functional`` with an argument ``inplace``, and its position."""
    found = {}
    for name, function in vars(functional).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            names = list(inspect.signature(function).parameters)
            if "inplace" in names:
                found[f"torch.nn.functional.{name}"] = names.index("inplace")
    return found


def test_all_functions_that_take_inplace_are_known() -> None:
    known = {name: each.position for name, each in writing().items() if each.asked == "inplace"}

    assert known == taking_inplace()


@pytest.mark.parametrize("name", sorted(each for each in writing() if each.startswith("torch.nn.functional.")))
def test_arguments_stand_where_they_are_said_to(name: str) -> None:
    parameters = list(inspect.signature(attrgetter(name.removeprefix("torch."))(torch)).parameters.values())
    known = writing()[name]

    assert {each: parameters[position].name for each, position in known.written.items()} == {
        each: each for each in known.written
    }
    assert parameters[known.position].name == known.asked
    assert bool(parameters[known.position].default) is known.by_default


X = torch.linspace(-4, 4, 16).reshape(2, 8)
INDICES = torch.tensor([[0, 1]])
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        each: (f"f(z, {'0.5, ' * (position - 1)}True)", {"z": X})
        for each, position in taking_inplace().items()
        if "dropout" not in each
    },
    **{each: ("f(z, 0.5, True, True)", {"z": X}) for each in taking_inplace() if "dropout" in each},
    "torch.nn.functional.rrelu": ("f(z, 0.1, 0.2, False, True)", {"z": X}),
    "torch.nn.functional.threshold": ("f(z, 0.1, 0.2, True)", {"z": X}),
    "torch.nn.functional.hardtanh": ("f(z, -0.1, 0.2, inplace=True)", {"z": X}),
    "torch.nn.functional.batch_norm": ("f(x, z, y, None, None, True)", {"z": torch.zeros(8), "y": torch.ones(8)}),
    "torch.nn.functional.instance_norm": ("f(x[None], z, y)", {"z": torch.zeros(2), "y": torch.ones(2)}),
    "torch.batch_norm": (
        "f(x, None, None, z, y, True, 0.1, 1e-5, False)",
        {"z": torch.zeros(8), "y": torch.ones(8)},
    ),
    "torch.instance_norm": (
        "f(x[None], None, None, z, y, True, 0.1, 1e-5, False)",
        {"z": torch.zeros(2), "y": torch.ones(2)},
    ),
    "torch.nn.functional.embedding": ("f(i, z, None, 0.1)", {"z": X}),
    "torch.nn.functional.embedding_bag": ("f(i, z, max_norm=0.1)", {"z": X}),
}


@pytest.mark.filterwarnings("ignore:dropout.d")
@pytest.mark.parametrize("name", sorted(writing()))
def test_what_is_said_to_be_written_is(name: str) -> None:
    text, given = CALLS[name]
    state = {each: value.clone() for each, value in given.items()}
    torch.manual_seed(0)
    eval(text, {"f": attrgetter(name.removeprefix("torch."))(torch), "x": X, "i": INDICES, **state})  # noqa: S307 - from above

    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    named = {ast.unparse(each) for each in written(name, call)}
    assert {each for each in state if not torch.equal(state[each], given[each])} == named - {"i"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("torch.nn.functional.relu", "f(z)", [], id="not asked"),
        pytest.param("torch.nn.functional.relu", "f(z, False)", [], id="refused"),
        pytest.param("torch.nn.functional.relu", "f(z, flag)", ["z"], id="a setting"),
        pytest.param("torch.nn.functional.relu", "f(inplace=True, input=z)", ["z"], id="by name"),
        pytest.param("torch.nn.functional.relu", "f(z, **options)", ["z", "options"], id="options not seen"),
        pytest.param("torch.nn.functional.dropout", "f(*given)", ["*given"], id="arguments not seen"),
        pytest.param("torch.nn.functional.batch_norm", "f(x, mean, var)", [], id="the statistics are read"),
        pytest.param("torch.nn.functional.batch_norm", "f(x, None, var, training=True)", ["var"], id="one of them"),
        pytest.param("torch.nn.functional.instance_norm", "f(x, mean, var)", ["mean", "var"], id="by default"),
        pytest.param("torch.nn.functional.embedding", "f(i, weight, max_norm=None)", [], id="no norm"),
        pytest.param("torch.add", "f(z, 1)", [], id="another function"),
    ],
)
def test_what_is_written(name: str, text: str, expected: list[str]) -> None:
    call = ast.parse(text, mode="eval").body

    assert isinstance(call, ast.Call)
    assert [ast.unparse(each) for each in written(name, call)] == expected
