"""What names were given where they are read."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.reaching import reaching


def given(text: str, at: str = "answer") -> list[str] | None:
    """What the name may have been given that is read in the statement ``answer = name``."""
    tree = ast.parse(text)
    scope: ast.AST = next((each for each in tree.body if isinstance(each, ast.FunctionDef)), tree)
    asked = [each for each in ast.walk(tree) if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == at]
    name = asked[-1].value
    assert isinstance(name, ast.Name)
    found = reaching(scope).given(name)
    return None if found is None else [ast.unparse(each) for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("p = f(x)\nanswer = p", ["f(x)"], id="one assignment"),
        pytest.param("p = f(x)\np = g(p)\nanswer = p", ["g(p)"], id="the last of two"),
        pytest.param("p = f(x)\nq = p\np = 1\nanswer = q", ["f(x)"], id="by another name"),
        pytest.param("if a:\n    p = f(x)\nelse:\n    p = g(x)\nanswer = p", ["f(x)", "g(x)"], id="two branches"),
        pytest.param("p = f(x)\nfor i in y:\n    answer = p\n    p = g(x)", ["f(x)", "g(x)"], id="a later pass"),
        pytest.param("for p in y:\n    answer = p", None, id="an item"),
        pytest.param("p, q = f(x)\nanswer = p", None, id="a part"),
        pytest.param("p, q = f(x), g(x)\nanswer = q", ["g(x)"], id="a part that is written out"),
        pytest.param("p = f(x)\np += 1\nanswer = p", None, id="a sum"),
        pytest.param("def f(p):\n    answer = p", None, id="a parameter"),
        pytest.param("def f(p):\n    p = g(p)\n    answer = p", ["g(p)"], id="a parameter that is given something"),
        pytest.param("answer = p", None, id="nothing that is seen"),
    ],
)
def test_what_a_name_was_given(text: str, expected: list[str] | None) -> None:
    assert given(text) == expected


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("p = f(x)\nprint(p)\np = 1\nprint(p)", [2], id="until it is given something else"),
        pytest.param("p = f(x)\nq = p\nprint(q)", [2, 3], id="by both names"),
        pytest.param("p = f(x)\n\ndef g():\n    return p", [4], id="in a function within"),
        pytest.param("p = f(x)\n\ndef g(p):\n    return p", [], id="not in a function that has its own"),
        pytest.param("p = 0\nwhile p:\n    p = f(x)", [2], id="in the test of a loop, in its second pass"),
        pytest.param("p = f(x)\np += 1", [2], id="in a sum"),
        pytest.param("p = f(x)\nprint([p for _ in y])", [2], id="in a comprehension"),
    ],
)
def test_who_reads_what_an_expression_gave(text: str, lines: list[int]) -> None:
    tree = ast.parse(text)
    value = next(each for each in ast.walk(tree) if isinstance(each, ast.Call) and ast.unparse(each) == "f(x)")

    assert [each.lineno for each in reaching(tree).readers(value)] == lines
