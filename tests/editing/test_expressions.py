"""How an expression is put into a template."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from codemods.editing.expressions import Fill, braced, is_roomy, value, with_placeholders


@pytest.mark.parametrize(
    ("template", "expression", "expected"),
    [
        pytest.param("{x}.float()", "a + b", "(a + b).float()", id="a sum before a dot"),
        pytest.param("{x}.float()", "f(a)", "f(a).float()", id="a call before a dot"),
        pytest.param("{x}.float()", "(a + b)", "(a + b).float()", id="what has parentheses"),
        pytest.param("f({x})", "a + b", "f(a + b)", id="an argument"),
        pytest.param("f({x})", "a, b", "f((a, b))", id="a tuple as an argument"),
        pytest.param("f({x})", "(i for i in y)", "f((i for i in y))", id="a generator as an argument"),
        pytest.param("y[{x}]", "a + b", "y[a + b]", id="an index"),
        pytest.param("y = {x}", "a if b else c", "y = a if b else c", id="what is assigned"),
        pytest.param("-{x}", "a + b", "-(a + b)", id="behind a sign"),
        pytest.param("y = {x}", "a +\\\n b", "y = a +\\\n b", id="what goes on behind a backslash"),
    ],
)
def test_parentheses_stand_where_they_are_needed(template: str, expression: str, expected: str) -> None:
    node = cst.parse_expression(expression)
    filled = cst.parse_module(with_placeholders(template, {"x": node})).visit(Fill({"x": node}))

    assert filled.code == expected


def test_what_is_between_braces_is_no_hole() -> None:
    assert with_placeholders(braced("{a: {b}}"), {}) == "{a: {b}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("y = x", True, id="what is assigned"),
        pytest.param("f(x)", True, id="an argument"),
        pytest.param("f(a=x)", True, id="an argument by its name"),
        pytest.param("y[x]", True, id="an index"),
        pytest.param("[x, 1]", True, id="an item"),
        pytest.param("{1: x}", True, id="a value of a dictionary"),
        pytest.param("x()", False, id="what is called"),
        pytest.param("x[1]", False, id="what is indexed"),
        pytest.param("f(**x)", False, id="what is unpacked"),
        pytest.param("{**x}", False, id="what is unpacked in a dictionary"),
        pytest.param("x + 1", False, id="an operand"),
        pytest.param("x.y", False, id="before a dot"),
    ],
)
def test_where_any_expression_may_stand(text: str, *, expected: bool) -> None:
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    (place,) = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == "x"]

    assert is_roomy(parents[place], place) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a + b", "a + b"), ("a, b", "(a, b)"), ("(a, b)", "(a, b)"), ("a +\nb", "a +\nb")],
    ids=["a sum", "a tuple", "a tuple with parentheses", "two lines"],
)
def test_a_value_between_brackets(text: str, expected: str) -> None:
    assert cst.Module([]).code_for_node(value(text)).rstrip() == expected
