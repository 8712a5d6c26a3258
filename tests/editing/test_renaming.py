"""Calls with a first argument more, and imports of other packages, as the file has them."""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.apply import apply
from codemods.editing.renaming import called_with, imported_from
from codemods.facts.reason import Reason


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f()", "g(0)", id="no argument"),
        pytest.param("f(a, b)", "g(0, x=a, y=b)", id="arguments that have a name now"),
        pytest.param("f( k={1: 2} )", "g( 0, k={1: 2} )", id="braces and blanks"),
        pytest.param("f(**k)", "g(0, **k)", id="a dictionary"),
        pytest.param("f(\n    a,  # why\n    k=2,\n)", "g(\n    0,\n    x=a,  # why\n    k=2,\n)", id="several lines"),
        pytest.param("f(a,\n  k=2)", "g(0, x=a,\n  k=2)", id="lines that begin beside the first"),
        pytest.param("f(  # why\n    a\n)", "g(  # why\n    0,\n    x=a\n)", id="a comment behind the bracket"),
        pytest.param("f(k=(a or b), l=( c ))", "g(0, k=(a or b), l=( c ))", id="parentheses"),
        pytest.param("f(k=a, # (\n  l=b)", "g(0, k=a, # (\n  l=b)", id="a parenthesis in a comment"),
        pytest.param("f(f(a))", "g(0, x=f(a))", id="a call within"),
    ],
)
def test_a_call_has_another_first_argument(before: str, after: str) -> None:
    module = Module("train.py", before + "\n")
    call = min(module.nodes(ast.Call), key=lambda each: each.col_offset)
    edit = called_with(module, call, "g", "0", ("x", "y"))

    assert not isinstance(edit, Reason)
    assert apply(module, [edit]) == after + "\n"


def test_its_lines_stay_where_they_are_in_a_block() -> None:
    before = "for x in y:\n    with f(\n        a,  # why\n        k=2,\n    ):\n        pass\n"
    module = Module("train.py", before)
    edit = called_with(module, module.nodes(ast.Call)[0], "g", "0", ("x",))

    assert not isinstance(edit, Reason)
    assert apply(module, [edit]) == before.replace("f(", "g(\n        0,").replace("a,", "x=a,")


@pytest.mark.parametrize("code", ["(f)(a)", "f(\n)", "f(a for a in b)"])
def test_a_call_without_a_place_for_it_is_left(code: str) -> None:
    module = Module("train.py", code + "\n")
    found = called_with(module, module.nodes(ast.Call)[0], "g", "0")

    assert isinstance(found, Reason)
    assert found.code == "not-editable"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("from a.b import c, d as e", "from a.x import c, d as e", id="all names"),
        pytest.param("from a.b import c, z  # why", "from a.b import z  # why\nfrom a.x import c", id="some names"),
        pytest.param(
            "from a.b import (\n    c,  # one\n    d,\n)", "from a.x import (\n    c,  # one\n    d,\n)", id="lines"
        ),
        pytest.param("from a.q import b", "from a import b", id="the package itself"),
        pytest.param("import a.b as b", "import a.x as b", id="the package by a name"),
    ],
)
def test_an_import_brings_the_names_from_elsewhere(before: str, after: str) -> None:
    module = Module("train.py", before + "\n")
    renamed = {"a.b.c": "a.x.c", "a.b.d": "a.x.d", "a.b": "a.x", "a.q.b": "a.b"}
    start = module.tree.body[0]
    assert isinstance(start, (ast.Import, ast.ImportFrom))
    edit = imported_from(module, start, renamed)

    assert not isinstance(edit, Reason)
    assert apply(module, [edit]) == after + "\n"


def test_an_import_of_several_lines_that_brings_others_is_left() -> None:
    module = Module("train.py", "from a.b import (\n    c,\n    z,\n)\n")
    start = module.tree.body[0]
    assert isinstance(start, ast.ImportFrom)

    assert isinstance(imported_from(module, start, {"a.b.c": "a.x.c"}), Reason)
