from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.facts.models.local_steps import Given, given_before, is_in_place, later_reads, may_change, names_of_one


def block(code: str) -> tuple[Module, list[ast.stmt]]:
    module = Module("a.py", code)
    return module, module.tree.body


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param("x = f()\ny = x\n", "Assign", id="an assignment"),
        pytest.param("x /= 2\ny = x\n", "AugAssign", id="in place by an operator"),
        pytest.param("x.mul_(2)\nprint(x)\ny = x\n", "Expr", id="in place by a method"),
        pytest.param("if m:\n    x = x + m\ny = x\n", "If", id="under a condition"),
    ],
)
def test_what_gave_a_name_its_value(code: str, kind: str) -> None:
    _, body = block(code)
    found = given_before(body, body[-1], "x")

    assert isinstance(found, Given)
    assert type(found.statement).__name__ == kind
    assert (found.condition is not None) is (kind == "If")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("x, z = f()\ny = x\n", id="one of several"),
        pytest.param("x = 1\nfor x in z: pass\ny = x\n", id="a loop"),
        pytest.param("x = 1\nx[0] = 2\ny = x\n", id="an item"),
        pytest.param("if m:\n    x = 1\nelse:\n    x = 2\ny = x\n", id="both branches"),
        pytest.param("def x(): pass\ny = x\n", id="a function"),
        pytest.param("import x\ny = x\n", id="an import"),
    ],
)
def test_what_gives_it_otherwise(code: str) -> None:
    _, body = block(code)

    assert isinstance(given_before(body, body[-1], "x"), ast.stmt)


def test_nothing_gives_it() -> None:
    _, body = block("z = x\nx.mean()\ny = x\n")

    assert given_before(body, body[-1], "x") is None


def test_what_may_change_a_name() -> None:
    _, body = block("x.data.add_(1)\nx.add(1)\nx.__init__()\n")

    assert [may_change(each, "x") for each in body] == [True, False, False]
    assert is_in_place("add_")
    assert not is_in_place("__init__")


def lines(code: str, first: int, last: int) -> list[int]:
    module, body = block(code)
    return [each.lineno for each in later_reads(module, body[first], body[last], "x")]


def test_reads_end_where_the_name_is_bound_anew() -> None:
    assert lines("x = 1\ny = x\nx = 2\nprint(x)\n", 0, 1) == [2]
    assert lines("x = 1\nx = x + 1\nprint(x)\n", 0, 1) == [2]
    assert lines("x = 1\ny = x\nprint(x)\ndel x\n", 0, 1) == [2, 3, 4]


def test_functions_and_earlier_code_of_a_loop_read_it_too() -> None:
    module = Module("a.py", "for i in z:\n    print(x)\n    x = i\n    y = x\n")
    body = module.tree.body[0].body  # type: ignore[attr-defined]
    assert [each.lineno for each in later_reads(module, body[1], body[2], "x")] == [2, 4]

    module = Module("a.py", "def f():\n    x = 1\n    y = x\n    x = 2\n    return lambda: x\n")
    body = module.tree.body[0].body  # type: ignore[attr-defined]
    assert [each.lineno for each in later_reads(module, body[0], body[1], "x")] == [3, 5]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        pytest.param("y = x\nz = y\n", ["x", "y", "z"], id="one after the other"),
        pytest.param("x = z.detach().view(1)\n", ["x", "z"], id="a view of another"),
        pytest.param("y = x.data[0]\nprint(w := x.float())\n", ["x", "w", "y"], id="an item, and what may be no copy"),
        pytest.param("y = z = x\n", ["x", "y", "z"], id="two at once"),
        pytest.param("y = x.clone()\nz = x + 1\nw = f(x)\nv = x.item()\n", ["x"], id="what is made of it"),
    ],
)
def test_the_names_of_one_tensor(code: str, names: list[str]) -> None:
    module, _ = block(code)
    found = names_of_one(module.tree, "x")

    assert (found[0], sorted(found)) == ("x", sorted(names))
