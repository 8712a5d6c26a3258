"""How arguments, parameters and items are added: what ``test_apply.py`` does not show of layouts."""

from __future__ import annotations

from typing import cast

import libcst as cst
import pytest

from codemods.editing.listed import add_item, add_names, place_in_order, quoted


@pytest.mark.parametrize(
    ("key", "others", "expected"),
    [
        pytest.param("a", [], '"a"', id="there is no other"),
        pytest.param("a", ["'b'"], "'a'", id="as the other one"),
        pytest.param("a", ["1", "'b'", '"c"'], "'a'", id="as the first that is a string"),
        pytest.param('a"', ['"b"'], "'a\"'", id="a quote in it"),
        pytest.param("a\\", ['"b"'], '"a\\\\"', id="a backslash in it"),
    ],
)
def test_the_quotes_of_a_key(key: str, others: list[str], expected: str) -> None:
    assert quoted(key, others) == expected


def test_constants_come_before_classes_and_these_before_functions() -> None:
    assert sorted(["zip", "Adam", "PI", "abs", "Zed"], key=place_in_order) == ["PI", "Adam", "Zed", "abs", "zip"]


@pytest.mark.parametrize(
    ("line", "names", "expected"),
    [
        pytest.param("from a import b, d", ["c"], "from a import b, c, d", id="in their order"),
        pytest.param("from a import d, b", ["c"], "from a import d, b, c", id="at the end where there is none"),
        pytest.param("from a import b", ["b"], "from a import b", id="it is there"),
        pytest.param("from a import (b)", ["C"], "from a import (C, b)", id="a class before a function"),
        pytest.param(
            "from a import (\n    b,\n    d,\n)",
            ["c"],
            "from a import (\n    b,\n    c,\n    d,\n)",
            id="a line for each",
        ),
    ],
)
def test_names_join_an_import(line: str, names: list[str], expected: str) -> None:
    statement = cast("cst.SimpleStatementLine", cst.parse_statement(line))

    assert cst.Module([]).code_for_node(add_names(statement, names)).rstrip() == expected


@pytest.mark.parametrize(
    ("dictionary", "expected"),
    [
        pytest.param("{}", "{'k': v}", id="the first"),
        pytest.param("{'a': 1}", "{'a': 1, 'k': v}", id="another"),
        pytest.param(
            "{\n    'a': 1,\n    'b': 2,\n}", "{\n    'a': 1,\n    'b': 2,\n    'k': v,\n}", id="a line for each"
        ),
    ],
)
def test_an_item_joins_a_dictionary(dictionary: str, expected: str) -> None:
    node = cast("cst.Dict", cst.parse_expression(dictionary))

    assert cst.Module([]).code_for_node(add_item(node, "'k'", cst.Name("v"))) == expected
