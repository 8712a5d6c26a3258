from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.applied import applied, layers, whole_number

START = (
    "import torch\nimport torch.nn.functional as F\nfrom torch import nn, softmax as smooth\ndrop = nn.Dropout(0.1)\n"
)


def last_call(code: str) -> tuple[object, ast.Call]:
    found = script(START + code)
    (call,) = [each.value for each in found.module.nodes(ast.Expr) if isinstance(each.value, ast.Call)]
    return found.flow, call


@pytest.mark.parametrize(
    ("code", "name", "tensor"),
    [
        pytest.param("F.softmax(x, dim=-1)\n", "softmax", "x", id="a function"),
        pytest.param("x.softmax(-1)\n", "softmax", "x", id="a method"),
        pytest.param("smooth(x, -1)\n", "softmax", "x", id="a function by another name"),
        pytest.param("F.softmax(dim=-1, input=x)\n", "softmax", "x", id="the tensor by its name"),
    ],
)
def test_an_operator_has_one_name(code: str, name: str, tensor: str) -> None:
    flow, call = last_call(code)
    found = applied(flow, call)  # type: ignore[arg-type]

    assert found is not None
    assert (found.name, ast.unparse(found.tensor)) == (name, tensor)
    assert whole_number(found.argument(0, "dim")) == -1


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("print(x)\n", id="no operator"),
        pytest.param("F.softmax(*x)\n", id="arguments that cannot be told apart"),
        pytest.param("F.softmax(x, **o)\n", id="names that cannot"),
        pytest.param("drop(x)\n", id="a layer"),
    ],
)
def test_what_is_no_operator(code: str) -> None:
    flow, call = last_call(code)

    assert applied(flow, call) is None  # type: ignore[arg-type]


def test_layers_are_those_of_torch_that_are_given_one_tensor() -> None:
    flow, call = last_call("drop(x)\n")
    assert [each.name for each in layers(flow, call)] == ["torch.nn.Dropout"]  # type: ignore[arg-type]

    flow, call = last_call("drop(x, 1)\n")
    assert layers(flow, call) == []  # type: ignore[arg-type]

    flow, call = last_call("F.relu(x)\n")
    assert layers(flow, call) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "number"), [("-1", -1), ("2", 2), ("True", None), ("n", None), ("2.0", None), ("-n", None)]
)
def test_a_whole_number_that_is_written_out(code: str, number: int | None) -> None:
    assert whole_number(ast.parse(code, mode="eval").body) == number
