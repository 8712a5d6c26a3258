"""Where statements and expressions begin and end in the text."""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.positions import before, end_line, first_line, first_node, index_in, inside, whole

DECORATED = "x = 1\n@a\n@b\ndef f():\n    pass\n"


def test_a_decorated_function_starts_with_its_first_decorator() -> None:
    module = Module("train.py", DECORATED)
    function = module.tree.body[1]

    assert (first_line(function), end_line(function)) == (2, 5)
    assert ast.unparse(first_node(function)) == "a"
    assert DECORATED.encode()[slice(*whole(module, function))].decode() == "a\n@b\ndef f():\n    pass"
    assert before(module, function) == "@"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("if a:\n    x = 1\n", "    ", id="its indentation"),
        pytest.param("if é: x = 1\n", "if é: ", id="what shares its line"),
        pytest.param("y = 2; x = 1\n", "y = 2; ", id="the statement before it"),
    ],
)
def test_what_stands_before_a_statement_on_its_line(text: str, expected: str) -> None:
    module = Module("train.py", text)
    (statement,) = [each for each in module.nodes(ast.Assign) if ast.unparse(each) == "x = 1"]

    assert before(module, statement) == expected


def test_an_expression_is_its_own_span() -> None:
    module = Module("train.py", "é = f(1)\n")
    (call,) = module.nodes(ast.Call)

    assert module.text.encode()[slice(*whole(module, call))] == b"f(1)"


def test_of_statements_that_read_alike_the_same_one_is_found() -> None:
    suite = ast.parse("x\nx\nx\n").body

    assert [index_in(suite, each) for each in suite] == [0, 1, 2]


@pytest.mark.parametrize(
    ("inner", "expected"),
    [((2, 4), True), ((1, 5), True), ((0, 4), False), ((2, 6), False)],
    ids=["within", "the same", "begins before", "ends after"],
)
def test_what_lies_inside(inner: tuple[int, int], *, expected: bool) -> None:
    assert inside(inner, (1, 5)) is expected
