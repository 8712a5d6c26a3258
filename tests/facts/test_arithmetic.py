"""What Python's operators and functions make of amounts."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.cost.amounts import UNKNOWN, AtMost, Layer
from codemods.facts.cost.arithmetic import apply, operate

LAYER = Layer("torch.nn.Linear")


@pytest.mark.parametrize(
    ("operation", "operands", "expected"),
    [
        pytest.param(ast.Add(), (2, 3), 5, id="a sum"),
        pytest.param(ast.FloorDiv(), (7, 2), 3, id="a quotient"),
        pytest.param(ast.USub(), (2,), -2, id="a sign"),
        pytest.param(ast.Mult(), ([1], 3), [1, 1, 1], id="a list, repeated"),
        pytest.param(ast.In(), (1, [1, 2]), True, id="an item"),
        pytest.param(ast.Eq(), ("a", "b"), False, id="a comparison"),
        pytest.param(ast.Pow(), (2, 10), 1024, id="a power"),
        pytest.param(ast.Div(), (1, 0), UNKNOWN, id="by zero"),
        pytest.param(ast.Add(), (1, "a"), UNKNOWN, id="of two sorts"),
        pytest.param(ast.Add(), (1, UNKNOWN), UNKNOWN, id="with what is not known"),
        pytest.param(ast.Eq(), ([1], [UNKNOWN]), UNKNOWN, id="a comparison with what is not known"),
        pytest.param(ast.Mult(), ([1], 2000), UNKNOWN, id="a list that gets too long"),
        pytest.param(ast.Mult(), (10**16, 2), UNKNOWN, id="a number that gets too large"),
        pytest.param(ast.Pow(), (2, 65), UNKNOWN, id="a power that gets too large"),
        pytest.param(ast.Mod(), ("%s", "a"), UNKNOWN, id="a text that is filled"),
        pytest.param(ast.MatMult(), (2, 3), UNKNOWN, id="another operator"),
        pytest.param(ast.Add(), (LAYER, 1), UNKNOWN, id="a layer"),
    ],
)
def test_operators(operation: ast.AST, operands: tuple[object, ...], expected: object) -> None:
    assert operate(operation, *operands) == expected


@pytest.mark.parametrize(
    ("operation", "operands", "expected"),
    [
        pytest.param(ast.Add(), (AtMost(2), 3), 5, id="a sum"),
        pytest.param(ast.Mult(), (AtMost(2), AtMost(3)), 6, id="a product"),
        pytest.param(ast.Sub(), (AtMost(2), 1), UNKNOWN, id="a difference"),
        pytest.param(ast.Mult(), (AtMost(2), -1), UNKNOWN, id="of another sign"),
        pytest.param(ast.Lt(), (AtMost(2), 3), UNKNOWN, id="a comparison"),
    ],
)
def test_a_bound_stays_one_where_it_can(operation: ast.AST, operands: tuple[object, ...], expected: object) -> None:
    found = operate(operation, *operands)

    assert found == expected
    assert isinstance(found, AtMost) is (expected is not UNKNOWN)


@pytest.mark.parametrize(
    ("name", "given", "keywords", "expected"),
    [
        pytest.param("builtins.max", [1, 3], {}, 3, id="the largest"),
        pytest.param("builtins.zip", [[1, 2], [3, 4]], {}, [(1, 3), (2, 4)], id="pairs"),
        pytest.param("builtins.enumerate", [["a"]], {"start": 1}, [(1, "a")], id="counted from 1"),
        pytest.param("builtins.reversed", [[1, 2]], {}, [2, 1], id="backwards"),
        pytest.param("math.ceil", [1.5], {}, 2, id="rounded up"),
        pytest.param("builtins.len", [range(5000)], {}, 5000, id="the length of what is too long to follow"),
        pytest.param("builtins.list", [range(5000)], {}, UNKNOWN, id="all of that"),
        pytest.param("builtins.int", ["a"], {}, UNKNOWN, id="what is no number"),
        pytest.param("builtins.open", ["a"], {}, UNKNOWN, id="another function"),
        pytest.param("builtins.len", [LAYER], {}, UNKNOWN, id="a layer"),
        pytest.param("builtins.len", [UNKNOWN], {}, UNKNOWN, id="what is not known"),
        pytest.param("builtins.sum", [[AtMost(3), 1]], {}, UNKNOWN, id="the sum of a bound"),
        pytest.param("builtins.len", [[AtMost(3), 1]], {}, 2, id="how many there are, one of them a bound"),
    ],
)
def test_functions(name: str, given: list[object], keywords: dict[str, object], expected: object) -> None:
    assert apply(name, given, keywords) == expected


def test_a_bound_that_is_made_a_whole_number_stays_one() -> None:
    assert isinstance(apply("builtins.int", [AtMost(3)], {}), AtMost)
