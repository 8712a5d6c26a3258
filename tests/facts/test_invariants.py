"""What is the same in each pass of a loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.invariants import Invariants, names_of

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.reason import Reason

TOP = "import torch\nfrom torch.utils.data import DataLoader, Subset\n"


def why(text: str, **others: str) -> str | None:
    """Why the last assignment to ``answer`` is not the same in each pass of the first loop."""
    found = script(TOP + text, **others)
    loop = found.module.nodes(ast.For, ast.While)[0]
    statement = next(
        each for each in found.module.nodes(ast.Assign) if [name.id for name in names_of(each)][:1] == ["answer"]
    )
    reason = Invariants(found, found.module, loop).why_statement_varies(statement)
    return None if reason is None else _said(reason, found.module)


def _said(reason: Reason, module: Module) -> str:
    return reason.words.said(module).text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("for i in range(3):\n    answer = 1, 'a', [2], {3: 4}\n", id="constants and what holds them"),
        pytest.param("n = 3\nfor i in range(3):\n    answer = n * 2 + 1 if n > 2 else -n\n", id="numbers"),
        pytest.param("n = 3\nfor i in range(3):\n    answer = f'{n}'\n", id="a text"),
        pytest.param("n = 3\nfor i in range(3):\n    answer = range(max(n, 2))\n", id="functions of numbers"),
        pytest.param("for i in range(3):\n    size = 2\n    answer = size\n", id="a name of the loop that stays"),
        pytest.param("for i in range(3):\n    answer = lambda i, n=3: i + n\n", id="a function with names of its own"),
        pytest.param("for i in range(3):\n    answer = torch.float32\n", id="an attribute of a library"),
        pytest.param("a = {1: 2}\nfor i in range(3):\n    answer = a[1]\n", id="an item of what stays"),
        pytest.param(
            "class A:\n    def __init__(self, n):\n        self.n = n\na = A(3)\nfor i in range(3):\n    answer = a.n\n",
            id="an attribute that is written before",
        ),
    ],
)
def test_what_stays(text: str) -> None:
    assert why(text) is None


@pytest.mark.parametrize(
    ("text", "because"),
    [
        pytest.param("for i in range(3):\n    answer = i\n", "'i' changes from one pass", id="the loop's variable"),
        pytest.param("for i in range(3):\n    answer = [i]\n", "'i' changes from one pass", id="in a list"),
        pytest.param("for i in range(3):\n    answer = lambda x: x + i\n", "'i' changes from", id="in a function"),
        pytest.param(
            "answer = 0\nfor i in range(3):\n    answer = answer + 1\n", "'answer' is given another value", id="a sum"
        ),
        pytest.param(
            "for i in range(3):\n    if i:\n        n = 3\n    answer = n\n", "'n' changes", id="under a condition"
        ),
        pytest.param(
            "for i in range(3):\n    n = 3\n    answer = n\n    n = 4\n", "'n' changes from one", id="bound twice"
        ),
        pytest.param(
            "for i in range(3):\n    a = [1]\n    answer = a[0]\n    a[0] = 2\n", "'a' is changed", id="an item"
        ),
        pytest.param(
            "def grow(list_):\n    list_.append(1)\na = [1]\nfor i in range(3):\n    answer = a[0]\n    grow(a)\n",
            "'list_' is changed in the loop (line 4)",
            id="a list that a function changes",
        ),
        pytest.param(
            "import some\na = some.thing()\nfor i in range(3):\n    answer = a[0]\n",
            "it is not known whether 'a' is the same",
            id="an item of something unknown",
        ),
        pytest.param(
            "import some\na = some.thing()\nfor i in range(3):\n    answer = a + 1\n",
            "it is not known whether 'a' is the same",
            id="a sum of something unknown",
        ),
        pytest.param("for i in range(3):\n    answer = [x for x in (1, 2)]\n", "it is not known", id="a comprehension"),
        pytest.param(
            "class A:\n    @property\n    def n(self):\n        return torch.rand(1)\na = A()\n"
            "for i in range(3):\n    answer = a.n\n",
            "'a.n' is computed each time",
            id="a property",
        ),
        pytest.param(
            "class A:\n    n = 3\na = A()\nfor i in range(3):\n    answer = a.n\n    setattr(a, 'n', i)\n",
            "'a.n' is written in the loop (line 8)",
            id="setattr",
        ),
        pytest.param(
            "model = torch.nn.Linear(1, 1)\nfor i in range(3):\n    answer = model.training\n    model.eval()\n",
            "it is not known whether 'model.training' is the same",
            id="an attribute that a library changes",
        ),
        pytest.param(
            "for i in range(3):\n    answer = open('a')\n", "open() is not known to make the same", id="a file"
        ),
        pytest.param(
            "def f():\n    return f()\nfor i in range(3):\n    answer = f()\n", "f() may do more", id="a recursion"
        ),
        pytest.param(
            "def f(*a):\n    return a\nb = 1, 2\nfor i in range(3):\n    answer = f(*b)\n",
            "it is not known",
            id="a star",
        ),
        pytest.param(
            "def f():\n    if True:\n        return 1\nfor i in range(3):\n    answer = f()\n",
            "f() does more than build (line 4)",
            id="a function that decides",
        ),
        pytest.param(
            "def f():\n    return n\nfor i in range(3):\n    n = i\n    answer = f()\n",
            "'i' changes from one pass",
            id="a name of the loop that a function reads",
        ),
        pytest.param(
            "def f():\n    def g():\n        nonlocal n\n        n += 1\n    n = 1\n    for i in range(3):\n"
            "        answer = n\n        g()\nf()\n",
            "'n' is given a value by g() (line 4)",
            id="a name that an inner function changes",
        ),
    ],
)
def test_what_may_vary(text: str, because: str) -> None:
    assert because in (why(text) or "")


def test_what_the_same_is_made_of_is_noted_once_and_in_no_other_order() -> None:
    found = script(f"{TOP}for i in range(3):\n    a = 1\n    b = a + 1\n    answer = [a, b]\n")
    invariants = Invariants(found, found.module, found.module.nodes(ast.For)[0])

    assert invariants.why_statement_varies(found.module.nodes(ast.Assign)[2]) is None
    assert [ast.unparse(each) for each in invariants.statements] == ["a = 1", "b = a + 1", "answer = [a, b]"]


def test_a_function_of_another_module_has_names_of_its_own() -> None:
    text = "from data import build\nfor i in range(3):\n    n = i\n    answer = build(3)\n"

    assert why(text, data="n = 4\ndef build(m):\n    size = m * n\n    return [size]\n") is None
    assert "'n' is given a value by grow() (data.py, line 2)" in (
        why(text, data="n = 4\ndef grow():\n    global n\n    n = 5\ndef build(m):\n    return [m * n]\n") or ""
    )


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("a = 1", ["a"]),
        ("a: int = 1", ["a"]),
        ("a, b = 1, 2", ["a", "b"]),
        ("a: int", []),
        ("a = b = 1", []),
        ("a.b = 1", []),
        ("a, *b = c", []),
        ("a += 1", []),
        ("print(a)", []),
    ],
)
def test_the_names_of_an_assignment(statement: str, names: list[str]) -> None:
    assert [each.id for each in names_of(ast.parse(statement).body[0])] == names
