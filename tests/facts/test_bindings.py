"""What names, attributes and lists are given, by every place that binds or fills them."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.bindings import Bindings, set_before


def assigned(text: str, written: str = "x") -> list[str | None]:
    """What is given to the last expression in the text that is written so."""
    known = script(text)
    nodes = known.module.nodes(ast.Name, ast.Attribute)
    reads = [each for each in nodes if ast.unparse(each) == written and isinstance(each.ctx, ast.Load)]
    last = max(reads, key=lambda each: each.lineno)
    found = Bindings(known.flow).assignments(known.module, last)
    return [None if each is None else ast.unparse(each) for _, each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\nx = 2\nprint(x)", ["2"], id="the statement before"),
        pytest.param("x = 1\nif c:\n    x = 2\nprint(x)", ["2", "1"], id="on each way, the last one first"),
        pytest.param("x, y = 1, 2\nprint(x)", ["1"], id="as an item"),
        pytest.param("y, x = call()\nprint(x)", ["call()[1]"], id="as a part of what is returned"),
        pytest.param("x = 1\nx += 2\nprint(x)", ["1"], id="changed in place"),
        pytest.param("for x in y:\n    print(x)", [None], id="by a loop"),
        pytest.param("x = 1\ndef f():\n    global x\n    x = 2\nprint(x)", [None], id="from inside a function"),
        pytest.param("def f(x):\n    print(x)\nf(1)\nf(2)", ["1", "2"], id="by each call"),
        pytest.param("def f(x):\n    print(x)\nrun(f)", [None], id="by calls that are not seen"),
    ],
)
def test_what_a_name_is_given(text: str, expected: list[str | None]) -> None:
    assert assigned(text) == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param("self.x = 2", ["1", "2"], id="in its class"),
        pytest.param("other.x = 2", ["1", None], id="by another name"),
        pytest.param("pass", ["1"], id="nowhere else"),
    ],
)
def test_what_an_attribute_is_given(method: str, expected: list[str | None]) -> None:
    text = f"class A:\n    def __init__(self):\n        self.x = 1\n    def change(self, other):\n        {method}\n"

    assert assigned(f"{text}    def show(self):\n        print(self.x)\n", "self.x") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("items = [1]\nprint([1])", True, id="written out"),
        pytest.param("items = []\nprint([])", False, id="empty"),
        pytest.param("items = []\nfor i in range(3):\n    items.append(i)\nprint(items)", True, id="in a loop"),
        pytest.param("items = []\nfor i in y:\n    items.append(i)\nprint(items)", False, id="in a loop of any length"),
        pytest.param("items = []\nif c:\n    items.append(1)\nprint(items)", False, id="perhaps"),
        pytest.param("items = []\nitems.append(1)\nitems.clear()\nprint(items)", False, id="it is emptied"),
        pytest.param("print([i for i in range(3)])", True, id="a comprehension"),
        pytest.param("print([i for i in range(3) if c])", False, id="a comprehension that chooses"),
    ],
)
def test_whether_a_list_has_items(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(text)
    call = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert Bindings(known.flow).is_filled(known.module, call.args[0]) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = 1\nprint(x)", "1", id="the statement before"),
        pytest.param("x = 1\nif c:\n    x = 2\nprint(x)", None, id="one between may do so"),
        pytest.param("x = y = 1\nprint(x)", None, id="two names at once"),
    ],
)
def test_what_a_statement_before_gives(text: str, expected: str | None) -> None:
    known = script(text)
    (name,) = (each for each in known.module.nodes(ast.Name) if each.id == "x" and isinstance(each.ctx, ast.Load))
    found = set_before(known.module, name)

    assert (None if found is None else ast.unparse(found)) == expected
