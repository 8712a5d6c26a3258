"""What names were given where they are read."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.reaching import reaching, targets


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
        pytest.param(
            "def f(p, c):\n    if c:\n        p = g(p)\n    answer = p",
            None,
            id="a parameter that is given something on one way",
        ),
        pytest.param(
            "def f(c):\n    global p\n    if c:\n        p = g()\n    answer = p", None, id="a name of the module"
        ),
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


def bound_at(text: str) -> list[int] | None:
    """The lines of the targets that may bind the name last that is read in ``answer = name``."""
    tree = ast.parse(text)
    scope: ast.AST = next((each for each in tree.body if isinstance(each, ast.FunctionDef)), tree)
    asked = [
        each for each in ast.walk(tree) if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "answer"
    ]
    name = asked[-1].value
    assert isinstance(name, ast.Name)
    found = targets(scope).of(name)
    return None if found is None else [each.lineno for each in found]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("p = 1\np = 2\nanswer = p", [2], id="the last of two"),
        pytest.param("if a:\n    p = 1\nelse:\n    p = 2\nanswer = p", [2, 4], id="one of two branches"),
        pytest.param(
            "for i, (p, q) in y:\n    answer = p\n    p = p[:8]", [1], id="each pass of the loop binds it anew"
        ),
        pytest.param(
            "for p in y:\n    while a:\n        answer = p\n        p = 1", [1, 4], id="a loop within does not"
        ),
        pytest.param("p = 1\np += 1\nanswer = p", [2], id="a sum is bound anew"),
        pytest.param("p = 1\na and (p := 2)\nanswer = p", [1, 2], id="perhaps, in an expression"),
        pytest.param("p = 1\n(p := 2)\nanswer = p", [2], id="surely, in an expression"),
        pytest.param("p = 1\nif a:\n    import p\nanswer = p", None, id="an import"),
        pytest.param("match y:\n    case [p]:\n        answer = p", None, id="a part of a pattern"),
        pytest.param("def f(p, a):\n    if a:\n        p = 1\n    answer = p", None, id="a parameter, perhaps"),
    ],
)
def test_where_a_name_is_bound_last(text: str, lines: list[int] | None) -> None:
    assert bound_at(text) == lines


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        pytest.param("pass", True, id="nothing"),
        pytest.param("y = 1", True, id="another name"),
        pytest.param("x = 1", False, id="it is bound anew"),
        pytest.param("if y:\n        x = 1", False, id="it may be bound anew"),
    ],
)
def test_whether_two_reads_are_bound_alike(between: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    (function,) = ast.parse(f"def f(x, y):\n    print(x)\n    {between}\n    print(x)\n").body
    reads = sorted(
        (each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == "x"), key=lambda n: n.lineno
    )
    reads = [each for each in reads if isinstance(each.ctx, ast.Load)]

    assert targets(function).are_bound_alike(reads[0], reads[-1]) is expected
