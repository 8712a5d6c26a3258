"""How the lines of a block keep their comments: what ``test_apply.py`` does not show."""

from __future__ import annotations

import ast
from typing import cast

import libcst as cst
import pytest

from codemods.dataflow.source import Module
from codemods.editing.positions import leading
from codemods.editing.suites import blank_lines_before, filled, fold, lines_of, with_less_space

BLOCK = "if a:\n    # above\n\n    x = 1\n    y = 2  # behind\n    # below\n"


def block() -> cst.IndentedBlock:
    (statement,) = cst.parse_module(BLOCK).body
    return cast("cst.IndentedBlock", cast("cst.If", statement).body)


def test_statements_are_lines_with_what_is_above_them() -> None:
    lines = lines_of(cast("list[cst.SimpleStatementLine]", list(block().body)))

    assert [type(each) for each in lines] == [
        cst.EmptyLine,
        cst.EmptyLine,
        cst.SimpleStatementLine,
        cst.SimpleStatementLine,
    ]


def test_lines_are_folded_into_the_statements_that_they_were() -> None:
    body = cast("list[cst.SimpleStatementLine]", list(block().body))
    statements, left = fold(lines_of(body))

    assert [len(each.leading_lines) for each in statements] == [2, 0]
    assert left == []


def test_a_block_without_statements_passes() -> None:
    comment = cast("cst.SimpleStatementLine", block().body[0]).leading_lines[0]
    empty = filled(block(), [comment])

    assert isinstance(empty.body[0], cst.SimpleStatementLine)
    assert isinstance(empty.body[0].body[0], cst.Pass)
    assert len(empty.body[0].leading_lines) == 1


@pytest.mark.parametrize(
    ("line", "columns", "expected"),
    [
        pytest.param("x = 1      # c", 4, "x = 1  # c", id="as much as there is"),
        pytest.param("x = 1        # c", 4, "x = 1    # c", id="there is more"),
        pytest.param("x = 1     # c", 4, "x = 1     # c", id="there would be too little"),
        pytest.param("x = 1", 4, "x = 1", id="no comment"),
        pytest.param("x = 1    # c", 0, "x = 1    # c", id="it does not move"),
    ],
)
def test_a_comment_keeps_its_column(line: str, columns: int, expected: str) -> None:
    statement = cast("cst.SimpleStatementLine", cst.parse_statement(line))

    assert cst.Module([]).code_for_node(with_less_space(statement, columns)).rstrip() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("import os\n", 0), ("x = 1\n", 1), ("def f():\n    pass\n", 2), ("class A:\n    pass\n", 2)],
    ids=["nothing", "imports", "a statement", "a function", "a class"],
)
def test_how_far_imports_stand_from_what_follows(text: str, expected: int) -> None:
    assert blank_lines_before(Module("train.py", text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("if a:\n\tx = 1\n", "\t"), ("x = 1\n", ""), ("if a:\n    x = 1\n", "    ")]
)
def test_the_blanks_before_a_statement(text: str, expected: str) -> None:
    module = Module("train.py", text)
    (statement,) = module.nodes(ast.Assign)

    assert leading(module, statement) == expected
