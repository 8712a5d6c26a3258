"""Which lines edits touch, and which do not go together."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

import pytest

from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.values import (
    AddArgument,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Import,
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
    from collections.abc import Callable, Iterable

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


@pytest.mark.parametrize(
    ("text", "edit", "lines"),
    [
        pytest.param("x\nf()", lambda m: AddArgument(m, find(m, ast.Call), "n", "1"), (2, 2), id="on the call's line"),
        pytest.param("f(\n a,\n b,\n)", lambda m: AddArgument(m, find(m, ast.Call), "n", "1"), (4, 3), id="a new line"),
        pytest.param("f(\n a,\n b\n)", lambda m: AddArgument(m, find(m, ast.Call), "n", "1"), (3, 3), id="a new comma"),
        pytest.param(
            "f(\n a, b,\n)",
            lambda m: AddArgument(m, find(m, ast.Call), "n", "1"),
            (2, 2),
            id="the last argument's line",
        ),
        pytest.param(
            "f(\n a,\n **b\n)",
            lambda m: AddArgument(m, find(m, ast.Call), "n", "1"),
            (3, 2),
            id="a new line before a spread",
        ),
        pytest.param(
            "f(a,\n  b)",
            lambda m: RemoveArgument(m, find(m, ast.Call), find(m, ast.Name, "b")),
            (1, 2),
            id="a removed line and the comma before it",
        ),
        pytest.param(
            "x = [\n a,\n b,\n]",
            lambda m: RemoveItem(m, find(m, ast.List), find(m, ast.Name, "b")),
            (3, 3),
            id="a removed item",
        ),
        pytest.param(
            "x = [\n a,\n b]",
            lambda m: RemoveItem(m, find(m, ast.List), find(m, ast.Name, "a")),
            (2, 2),
            id="a removed first item",
        ),
        pytest.param("x = {\n 'a': 1,\n}", lambda m: AddItem(m, find(m, ast.Dict), "n", "1"), (3, 2), id="a new item"),
        pytest.param(
            "def f(\n  a,\n  *,\n  b,\n): pass",
            lambda m: AddParameter(m, find(m, ast.FunctionDef), "n"),
            (3, 2),
            id="a new parameter",
        ),
        pytest.param(
            "f(\n a)", lambda m: Surround(m, find(m, ast.Call), "(", ")"), (1, 2), id="an expression of two lines"
        ),
        pytest.param(
            "a\n# b\nb", lambda m: Insert(m, statement(m, "b"), "n", "before"), (3, 2), id="before a statement"
        ),
        pytest.param(
            "a\n@d\nclass b: pass",
            lambda m: Insert(m, statement(m, "class"), "n", "before"),
            (2, 1),
            id="before a decorator",
        ),
        pytest.param(
            "if x:\n    b\n    # end\nc",
            lambda m: Insert(m, statement(m, "if"), "n", "after"),
            (4, 3),
            id="after a suite with a comment",
        ),
        pytest.param(
            "a\nb\nc(\n)\n", lambda m: Wrap(m, tuple(m.tree.body[1:]), "with w:"), (2, 4), id="all wrapped lines"
        ),
        pytest.param(
            "@d\ndef f():\n    a\n",
            lambda m: Remove(m, statement(m, "def")),
            (1, 3),
            id="a function with its decorator",
        ),
        pytest.param(
            "for x in y:\n    a\n    b\n", lambda m: Move(m, statement(m, "b"), find(m, ast.For)), (3, 3), id="a move"
        ),
        pytest.param("a\nwith w:\n    b\n", lambda m: Unwrap(m, find(m, ast.With)), (2, 3), id="header and suite"),
        pytest.param(
            "x\ndef f(): pass", lambda m: Decorate(m, find(m, ast.FunctionDef), "d"), (2, 1), id="above the function"
        ),
        pytest.param(
            "@d(\n)\ndef f(): pass",
            lambda m: Decorate(m, find(m, ast.FunctionDef), "d"),
            (3, 2),
            id="below the decorators",
        ),
        pytest.param(
            "@d\ndef f():\n    a", lambda m: Rename(m, find(m, ast.FunctionDef), "g"), (2, 2), id="the header's line"
        ),
        pytest.param("import os\nx", lambda m: Import(m, "import re"), (2, 1), id="after the imports"),
        pytest.param("# only", lambda m: Import(m, "import re"), (2, 1), id="at the end of comments"),
    ],
)
def test_touched_lines(text: str, edit: Callable[[Module], Edit], lines: tuple[int, int]) -> None:
    assert conflicts.touched_lines(edit(Module("train.py", text))) == lines


def test_a_move_changes_the_place_it_leaves_and_the_one_it_goes_to() -> None:
    module = Module("train.py", "for x in y:\n    a\n    b\n")

    moved = Move(module, statement(module, "b"), find(module, ast.For))

    assert conflicts.places(moved) == [(3, 3), (1, 0)]


TEXT = """\
import torch
loss = f(a(b, k=1), c)
x = {'d': 1}
with w:
    y = loss
    z = 1
for i in j:
    pass
v = [s, t]
"""


def added(edit: Callable[[Module], Edit], other: Callable[[Module], Edit]) -> set[str | None]:
    """The reasons given for the second of two edits, in both orders."""
    reasons = set()
    for first, second in ((edit, other), (other, edit)):
        module = Module("train.py", TEXT)
        accepted = conflicts.Accepted()
        assert accepted.add([first(module)]) is None
        reasons.add(said(module, accepted.add([second(module)])))
    return reasons


def test_a_function_gets_one_new_name() -> None:
    module = Module("train.py", "def f(): pass\n")
    accepted = conflicts.Accepted()

    assert accepted.add([Rename(module, find(module, ast.FunctionDef), "g")]) is None
    reason = accepted.add([Rename(module, find(module, ast.FunctionDef), "h")])

    assert said(module, reason) == "another change gives the function on line 1 another name"


def call(module: Module, code: str = "f(") -> ast.Call:
    return find(module, ast.Call, code)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(lambda m: Replace(m, call(m), "g"), lambda m: Replace(m, call(m), "h"), id="two replacements"),
        pytest.param(
            lambda m: Replace(m, call(m), "g"),
            lambda m: AddArgument(m, call(m), "n", "1"),
            id="an argument of a replaced call",
        ),
        pytest.param(
            lambda m: Replace(m, call(m), "g"),
            lambda m: AddArgument(m, call(m, "a("), "n", "1"),
            id="an argument inside a replaced call",
        ),
        pytest.param(
            lambda m: Replace(m, call(m), "g"),
            lambda m: Surround(m, call(m), "g(", ")"),
            id="a replaced expression surrounded",
        ),
        pytest.param(
            lambda m: Replace(m, call(m), "g({x})", (("x", find(m, ast.Name, "c")),)),
            lambda m: AddArgument(m, call(m, "a("), "n", "1"),
            id="an edit beside the hole",
        ),
        pytest.param(
            lambda m: Surround(m, call(m), "g(", ")"), lambda m: Surround(m, call(m), "h(", ")"), id="two surroundings"
        ),
        pytest.param(
            lambda m: AddArgument(m, call(m), "n", "1"),
            lambda m: AddArgument(m, call(m), "n", "2"),
            id="two values for an argument",
        ),
        pytest.param(
            lambda m: AddArgument(m, call(m, "a("), "k", "1"),
            lambda m: RemoveArgument(m, call(m, "a("), call(m, "a(").keywords[0]),
            id="an argument removed and added",
        ),
        pytest.param(
            lambda m: Replace(m, call(m, "a(").keywords[0].value, "2"),
            lambda m: RemoveArgument(m, call(m, "a("), call(m, "a(").keywords[0]),
            id="an argument removed and replaced",
        ),
        pytest.param(
            lambda m: RemoveItem(m, find(m, ast.List), find(m, ast.List).elts[0]),
            lambda m: Replace(m, find(m, ast.List).elts[0], "v"),
            id="an item removed and replaced",
        ),
        pytest.param(
            lambda m: AddItem(m, find(m, ast.Dict), "n", "1"),
            lambda m: AddItem(m, find(m, ast.Dict), "n", "2"),
            id="two values for an item",
        ),
        pytest.param(
            lambda m: Remove(m, m.tree.body[1]),
            lambda m: AddArgument(m, call(m), "n", "1"),
            id="an edit of a removed statement",
        ),
        pytest.param(
            lambda m: Remove(m, m.tree.body[1]),
            lambda m: Wrap(m, (m.tree.body[1],), "if x:"),
            id="a removed statement wrapped",
        ),
        pytest.param(
            lambda m: Remove(m, m.tree.body[3]), lambda m: Unwrap(m, find(m, ast.With)), id="a removed block unwrapped"
        ),
        pytest.param(
            lambda m: Remove(m, m.tree.body[3]),
            lambda m: Insert(m, statement(m, "z"), "n", "before"),
            id="an insertion in a removed block",
        ),
        pytest.param(
            lambda m: Unwrap(m, find(m, ast.With)),
            lambda m: Replace(m, find(m, ast.Name, "w"), "v"),
            id="an edit of an unwrapped header",
        ),
        pytest.param(
            lambda m: Wrap(m, tuple(m.tree.body[1:3]), "if x:"),
            lambda m: Wrap(m, tuple(m.tree.body[2:4]), "if y:"),
            id="crossing wraps",
        ),
    ],
)
def test_edits_that_do_not_fit_together(one: Callable[[Module], Edit], other: Callable[[Module], Edit]) -> None:
    reasons = added(one, other)
    assert None not in reasons
    assert all("another change" in str(reason) and " on line " in str(reason) for reason in reasons)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            lambda m: AddArgument(m, call(m), "n", "1"), lambda m: AddArgument(m, call(m), "n", "1"), id="equal edits"
        ),
        pytest.param(
            lambda m: AddArgument(m, call(m), "n", "1"), lambda m: AddArgument(m, call(m), "o", "1"), id="two arguments"
        ),
        pytest.param(
            lambda m: AddArgument(m, call(m), "n", "1"),
            lambda m: Surround(m, call(m), "g(", ")"),
            id="an argument and a surrounding",
        ),
        pytest.param(
            lambda m: Replace(m, call(m), "g({x})", (("x", call(m, "a(")),)),
            lambda m: AddArgument(m, call(m, "a("), "n", "1"),
            id="an edit in a hole",
        ),
        pytest.param(
            lambda m: Remove(m, m.tree.body[1]),
            lambda m: Insert(m, m.tree.body[1], "n", "before"),
            id="an insertion before a removed statement",
        ),
        pytest.param(
            lambda m: Replace(m, m.tree.body[1], "n"),
            lambda m: Wrap(m, (m.tree.body[1],), "if x:"),
            id="a replaced statement wrapped",
        ),
        pytest.param(
            lambda m: Unwrap(m, find(m, ast.With)),
            lambda m: Remove(m, statement(m, "z")),
            id="an edit in an unwrapped suite",
        ),
        pytest.param(
            lambda m: Unwrap(m, find(m, ast.With)),
            lambda m: Wrap(m, (m.tree.body[3],), "if x:"),
            id="an unwrapped block wrapped",
        ),
        pytest.param(
            lambda m: Wrap(m, tuple(m.tree.body[1:4]), "if x:"),
            lambda m: Wrap(m, (m.tree.body[2],), "if y:"),
            id="nested wraps",
        ),
        pytest.param(
            lambda m: Wrap(m, tuple(m.tree.body[1:3]), "if x:"),
            lambda m: Wrap(m, tuple(m.tree.body[1:3]), "if y:"),
            id="two wraps of the same",
        ),
        pytest.param(
            lambda m: Wrap(m, tuple(m.tree.body[1:3]), "if x:"),
            lambda m: AddArgument(m, call(m), "n", "1"),
            id="an edit in a wrap",
        ),
        pytest.param(
            lambda m: Import(m, "import os"), lambda m: Remove(m, m.tree.body[0]), id="an import beside a removed one"
        ),
    ],
)
def test_edits_that_fit_together(one: Callable[[Module], Edit], other: Callable[[Module], Edit]) -> None:
    assert added(one, other) == {None}


def test_edits_of_two_modules_never_conflict() -> None:
    one, other = Module("train.py", TEXT), Module("model.py", TEXT)
    accepted = conflicts.Accepted()
    assert accepted.add([Remove(one, one.tree.body[1])]) is None
    assert accepted.add([AddArgument(other, call(other), "n", "1")]) is None


def test_a_finding_is_accepted_whole_or_not_at_all() -> None:
    module = Module("train.py", TEXT)
    first: list[Edit] = [AddArgument(module, call(module), "n", "1")]
    refused: Iterable[Edit] = [Import(module, "import os"), AddArgument(module, call(module), "n", "2")]
    last: list[Edit] = [*first, Import(module, "import re")]
    accepted = conflicts.Accepted()
    assert [said(module, accepted.add(edits)) for edits in (first, refused, last)] == [
        None,
        "another change passes another n on line 2",
        None,
    ]
    assert accepted.edits == (*first, Import(module, "import re"))


def test_a_finding_at_odds_with_itself_is_refused() -> None:
    module = Module("train.py", TEXT)
    edits: list[Edit] = [Remove(module, module.tree.body[1]), AddArgument(module, call(module), "n", "1")]
    assert said(module, conflicts.conflict(edits, [])) == "it overlaps another change on line 2"
