"""Where edits are refused, and why."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING, TypeVar

import pytest

from codemods.dataflow.source import Module
from codemods.editing import problems
from codemods.editing.values import (
    AddArgument,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Insert,
    Move,
    Remove,
    RemoveArgument,
    RemoveItem,
    Rename,
    Replace,
    Surround,
    Unwrap,
    Wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from codemods.facts.reason import Reason

Node = TypeVar("Node", bound=ast.AST)


def find(module: Module, kind: type[Node], code: str = "") -> Node:
    """The first node of the kind, from the outside in, whose text starts with the code."""
    return next(node for node in ast.walk(module.tree) if isinstance(node, kind) and module.code(node).startswith(code))


def statement(module: Module, code: str) -> ast.stmt:
    return find(module, ast.stmt, code)


def said(module: Module, reason: Reason | None) -> str | None:
    """The reason for who reads the module."""
    return None if reason is None else reason.words.said(module).text


def problem(edit: Edit) -> str | None:
    """What stands against the edit."""
    return said(edit.module, problems.problem(edit))


SHARED = "several statements stand in line 1"
ON_HEADER = "the suite is written on the header's line"
CONTINUED = "the statement stands on a line that a backslash continues"
FUTURE = "nothing can stand before a __future__ import"
GENERATOR = "the call's only argument is a generator without parentheses of its own"
PART = "the code is only a part of an expression"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("a\nb\nc\n", None, id="on a line of its own"),
        pytest.param("a\nb;\nc\n", None, id="before a semicolon that parts nothing"),
        pytest.param("a; b\n", SHARED, id="after a semicolon"),
        pytest.param("b; a\n", SHARED, id="before a semicolon"),
        pytest.param("a; \\\nb\n", CONTINUED, id="after a semicolon and a backslash"),
        pytest.param("if x: b\n", ON_HEADER, id="on the line of an if"),
        pytest.param("if x: a; b\n", ON_HEADER, id="second on the line of an if"),
        pytest.param("if x: \\\n  b\n", CONTINUED, id="on the continued line of an if"),
        pytest.param("class C: b\n", ON_HEADER, id="on the line of a class"),
        pytest.param("match x:\n    case 1: b\n", ON_HEADER, id="on the line of a case"),
        pytest.param("try:\n    a\nfinally: b\n", ON_HEADER, id="on the line of a finally"),
        pytest.param("if x:\n    a\nelif y:\n    b\n", None, id="in the suite of an elif"),
        pytest.param("if x:  # why: not\n    b\n", None, id="after a header with a comment"),
        pytest.param("'''\n'''; b\n", "several statements stand in line 2", id="after a string of several lines"),
        pytest.param("a\n\fb\n", "a form feed stands before code in this file", id="after a form feed"),
        pytest.param("a\n\f\nb\n", None, id="below a form feed"),
    ],
)
def test_statements_have_whole_lines_of_their_own(text: str, reason: str | None) -> None:
    module = Module("train.py", text)
    anchor = statement(module, "b")
    edits: list[Edit] = [
        Insert(module, anchor, "new", "before"),
        Insert(module, anchor, "new", "after"),
        Wrap(module, (anchor,), "with w:"),
        Remove(module, anchor),
        Replace(module, anchor, "new"),
    ]
    assert {problem(edit) for edit in edits} == {reason}


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        pytest.param(
            "if x:\n    a\nelif y:\n    b\n",
            lambda m: Wrap(m, (statement(m, "elif"),), "with w:"),
            "an elif cannot be changed without its if",
            id="wrapping an elif",
        ),
        pytest.param(
            "if x:\n    a\nelse:\n    if y:\n        b\n",
            lambda m: Wrap(m, (statement(m, "if y"),), "with w:"),
            None,
            id="wrapping an if in an else",
        ),
        pytest.param(
            "if x:\n    a\nelse:\n    b\n",
            lambda m: Wrap(m, (statement(m, "a"), statement(m, "b")), "with w:"),
            "the statements are not neighbours in one suite",
            id="wrapping statements of two suites",
        ),
        pytest.param(
            "a\nc\nb\n",
            lambda m: Wrap(m, (statement(m, "a"), statement(m, "b")), "with w:"),
            "the statements are not neighbours in one suite",
            id="wrapping with a gap",
        ),
        pytest.param(
            '"""Docs."""\na\n',
            lambda m: Wrap(m, tuple(m.tree.body), "with w:"),
            "a docstring cannot be moved",
            id="wrapping a docstring",
        ),
        pytest.param(
            "from __future__ import annotations\n",
            lambda m: Wrap(m, tuple(m.tree.body), "with w:"),
            FUTURE,
            id="wrapping a __future__ import",
        ),
        pytest.param(
            "def f():\n    '''Docs.'''\n",
            lambda m: Insert(m, statement(m, "'''"), "new", "before"),
            "nothing can stand before a docstring",
            id="inserting before a docstring",
        ),
        pytest.param(
            "def f():\n    '''Docs.'''\n",
            lambda m: Insert(m, statement(m, "'''"), "new", "after"),
            None,
            id="inserting after a docstring",
        ),
        pytest.param(
            '"""Docs."""\nfrom __future__ import annotations\n',
            lambda m: Insert(m, m.tree.body[0], "new", "after"),
            FUTURE,
            id="inserting before a __future__ import",
        ),
        pytest.param(
            "if x:\n    a\nelse:\n    b\n",
            lambda m: Unwrap(m, find(m, ast.If)),
            "the if has an else",
            id="unwrapping an if with an else",
        ),
        pytest.param(
            "for x in y: a\n",
            lambda m: Move(m, statement(m, "a"), find(m, ast.For)),
            ON_HEADER,
            id="moving what stands on the header's line",
        ),
        pytest.param("with w: a\n", lambda m: Unwrap(m, find(m, ast.With)), ON_HEADER, id="unwrapping one line"),
        pytest.param(
            "with w:\n    a; b\n", lambda m: Unwrap(m, find(m, ast.With)), None, id="unwrapping a shared line"
        ),
        pytest.param(
            "if x:\n    def f(): pass\n", lambda m: Decorate(m, find(m, ast.FunctionDef), "d"), None, id="decorating"
        ),
        pytest.param("def f(): pass\n", lambda m: Rename(m, find(m, ast.FunctionDef), "g"), None, id="renaming"),
    ],
)
def test_statements_stay_where_they_must(text: str, edit: Callable[[Module], Edit], reason: str | None) -> None:
    assert problem(edit(Module("train.py", text))) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("f(a, **kw)", None, id="a spread may hold it: the rules ask"),
        pytest.param("f(new=1)", "the call already passes new", id="passed already"),
        pytest.param("f(x for x in y)", GENERATOR, id="a generator without parentheses"),
        pytest.param("f((x for x in y))", None, id="a generator in parentheses"),
        pytest.param("f((x for x in y), 1)", None, id="a generator among others"),
        pytest.param("x = f'{f(a)}'", "the code stands in an f-string", id="in an f-string"),
        pytest.param("x = f'{a:{f(a)}}'", "the code stands in an f-string", id="in the format of an f-string"),
        pytest.param("if x: f(a); b", None, id="on a shared line"),
    ],
)
def test_an_argument_is_refused(text: str, reason: str | None) -> None:
    module = Module("train.py", text)
    assert problem(AddArgument(module, find(module, ast.Call, "f("), "new", "1")) == reason


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        pytest.param(
            "f(a, b)",
            lambda m: RemoveArgument(m, find(m, ast.Call), find(m, ast.Name, "a")),
            "the argument is not the call's, or not its last positional one",
            id="removing a positional argument before others",
        ),
        pytest.param(
            "x = [a, f(b)]",
            lambda m: RemoveItem(m, find(m, ast.List), find(m, ast.Name, "b")),
            "the code is no item of the list",
            id="removing what is inside of an item",
        ),
        pytest.param(
            "x = {'a': 1}",
            lambda m: AddItem(m, find(m, ast.Dict), "a", "2"),
            "the dictionary already has a",
            id="a key that is there",
        ),
        pytest.param(
            "def f(a, *, b): pass",
            lambda m: AddParameter(m, find(m, ast.FunctionDef), "b"),
            "the function already has a parameter b",
            id="a parameter that is there",
        ),
        pytest.param("x[1:2]", lambda m: Replace(m, find(m, ast.Slice), "y"), PART, id="a slice"),
        pytest.param("x[1, 2]", lambda m: Replace(m, find(m, ast.Tuple), "y"), PART, id="several indices"),
        pytest.param("f(*x)", lambda m: Replace(m, find(m, ast.Starred), "y"), PART, id="a spread argument"),
        pytest.param(
            "f(x for x in y)", lambda m: Surround(m, find(m, ast.GeneratorExp), "g(", ")"), GENERATOR, id="a generator"
        ),
        pytest.param(
            "x = 1", lambda m: Surround(m, find(m, ast.Name), "g(", ")"), "the expression is assigned to", id="a target"
        ),
        pytest.param(
            "match x:\n    case 1:\n        pass",
            lambda m: Replace(m, find(m, ast.Constant), "2"),
            "the code is a pattern of a match statement",
            id="a pattern",
        ),
        pytest.param(
            "x = f(a  # why\n)",
            lambda m: Replace(m, find(m, ast.Call), "y"),
            "a comment inside the expression would be lost",
            id="a comment",
        ),
        pytest.param(
            "f(a, b)",
            lambda m: Replace(m, find(m, ast.Name, "a"), "g({x})", (("x", find(m, ast.Name, "b")),)),
            "the template takes code from outside the replaced code",
            id="a hole outside",
        ),
        pytest.param(
            "f(x for x in y)",
            lambda m: Replace(m, find(m, ast.Call), "list({x})", (("x", find(m, ast.GeneratorExp)),)),
            GENERATOR,
            id="a generator in a hole",
        ),
    ],
)
def test_expressions_are_refused(text: str, edit: Callable[[Module], Edit], reason: str) -> None:
    assert problem(edit(Module("train.py", text))) == reason


def test_placing_needs_no_libcst() -> None:
    code = "import sys; import codemods.editing.conflicts; sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        pytest.param('"""Doc."""\nx = 1\n', True, id="of the module: an import would stand below it as below one"),
        pytest.param("f(1)\nx = 1\n", False, id="another expression"),
    ],
)
def test_what_surrounds_a_docstring_is_refused(text: str, *, refused: bool) -> None:
    module = Module("train.py", text)
    (first, _) = module.tree.body
    assert isinstance(first, ast.Expr)

    found = problems.problem(Surround(module, first.value, "g(", ")"))

    assert (found is not None and found.text == "a docstring would be none any more") is refused
