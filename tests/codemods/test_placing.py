"""Where edits are refused and why, which lines they touch, and which do not go together."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING, TypeVar

import pytest

from codemods.dataflow.source import Module
from codemods.editing import conflicts, problems
from codemods.editing.values import (
    AddArgument,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Import,
    Insert,
    Remove,
    RemoveArgument,
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


def problem(edit: Edit) -> str | None:
    """What stands against the edit."""
    return said(edit.module, problems.problem(edit))


# --- problems -------------------------------------------------------------------------------------------------------

SHARED = "line 1 holds several statements"
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
        pytest.param("'''\n'''; b\n", "line 2 holds several statements", id="after a string of several lines"),
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
        pytest.param("with w: a\n", lambda m: Unwrap(m, find(m, ast.With)), ON_HEADER, id="unwrapping one line"),
        pytest.param(
            "with w:\n    a; b\n", lambda m: Unwrap(m, find(m, ast.With)), None, id="unwrapping a shared line"
        ),
        pytest.param(
            "if x:\n    def f(): pass\n", lambda m: Decorate(m, find(m, ast.FunctionDef), "d"), None, id="decorating"
        ),
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


# --- lines ----------------------------------------------------------------------------------------------------------


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
        pytest.param("import os\nx", lambda m: Import(m, "import re"), (2, 1), id="after the imports"),
        pytest.param("# only", lambda m: Import(m, "import re"), (2, 1), id="at the end of comments"),
    ],
)
def test_touched_lines(text: str, edit: Callable[[Module], Edit], lines: tuple[int, int]) -> None:
    assert conflicts.touched_lines(edit(Module("train.py", text))) == lines


# --- conflicts ------------------------------------------------------------------------------------------------------

TEXT = """\
import torch
loss = f(a(b, k=1), c)
x = {'d': 1}
with w:
    y = loss
    z = 1
for i in j:
    pass
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
