"""What each edit does to the text, byte by byte, in the layouts that people write."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

import pytest

from codemods.dataflow.source import Module
from codemods.editing import conflicts, problems
from codemods.editing.apply import NotEditableError, apply
from codemods.editing.values import (
    AddArgument,
    AddElse,
    AddItem,
    AddParameter,
    Decorate,
    Edit,
    Import,
    ImportName,
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
from codemods.facts.reason import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Node = TypeVar("Node", bound=ast.AST)


def find(module: Module, kind: type[Node], code: str = "") -> Node:
    """The first node of the kind, from the outside in, whose text starts with the code."""
    return next(node for node in ast.walk(module.tree) if isinstance(node, kind) and module.code(node).startswith(code))


def edited(text: str, edits: Callable[[Module], Iterable[Edit]]) -> str:
    """The text after the edits, which must be possible, fit together and leave Python."""
    module = Module("train.py", text)
    accepted = conflicts.Accepted()
    for edit in edits(module):
        assert problems.problem(edit) is None
        assert accepted.add([edit]) is None
    result = apply(module, accepted.edits)
    ast.parse(result)
    return result


# --- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f()", "f(new=1)", id="the first argument has no comma"),
        pytest.param("f( )", "f(new=1)", id="the first argument takes the place of a blank"),
        pytest.param("f(a)", "f(a, new=1)", id="on one line"),
        pytest.param("f( a )", "f( a, new=1 )", id="blanks inside the parentheses stay"),
        pytest.param("f(a,)", "f(a, new=1,)", id="a trailing comma stays trailing"),
        pytest.param("f(a,b=2)", "f(a,b=2, new=1)", id="commas without blanks are not imitated"),
        pytest.param("f(a, **kw)", "f(a, new=1, **kw)", id="before a spread dictionary"),
        pytest.param("f(**kw)", "f(new=1, **kw)", id="before the only spread dictionary"),
        pytest.param("f(*a)", "f(*a, new=1)", id="after a spread list"),
        pytest.param("f(g(x for x in y))", "f(g(x for x in y), new=1)", id="after a call of a generator"),
        pytest.param("f((x for x in y))", "f((x for x in y), new=1)", id="after a generator in parentheses"),
        pytest.param(
            "f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    new=1,\n)", id="one per line, with a last comma"
        ),
        pytest.param(
            "f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    new=1\n)", id="one per line, without a last comma"
        ),
        pytest.param("f(a,\n  b)", "f(a,\n  b,\n  new=1)", id="one per line, aligned to the parenthesis"),
        pytest.param("f(\n    a\n)", "f(\n    a,\n    new=1\n)", id="one argument on a line of its own"),
        pytest.param("f(\n    a, b\n)", "f(\n    a, b, new=1\n)", id="several on one line stay on one line"),
        pytest.param("f(a, b,\n  c)", "f(a, b,\n  c, new=1)", id="filled lines stay filled"),
        pytest.param("f(a, b,\n  c,\n  d)", "f(a, b,\n  c,\n  d,\n  new=1)", id="the last ones on lines of their own"),
        pytest.param(
            "f(\n    a, b,\n    c,\n    d,\n)",
            "f(\n    a, b,\n    c,\n    d,\n    new=1,\n)",
            id="the last ones on lines of their own, with a last comma",
        ),
        pytest.param("f([\n  1,\n])", "f([\n  1,\n], new=1)", id="after an argument of several lines"),
        pytest.param(
            "f(\n    a,  # why a\n    # b=2,\n)",
            "f(\n    a,  # why a\n    # b=2,\n    new=1,\n)",
            id="comments stay with what they are about",
        ),
        pytest.param(
            "f(\n    a,\n    b  # why b\n)",
            "f(\n    a,\n    b,  # why b\n    new=1\n)",
            id="the comma goes before the comment of the last argument",
        ),
        pytest.param("f(a, b,  # why\n)", "f(a, b, new=1,  # why\n)", id="a comment on a shared line stays at its end"),
        pytest.param("f(  # why\n)", "f(  # why\nnew=1)", id="a comment in an empty call stays"),
        pytest.param(
            "f(\n    a,\n    # the rest\n    **kw,\n)",
            "f(\n    a,\n    # the rest\n    new=1,\n    **kw,\n)",
            id="one per line, before a spread dictionary",
        ),
        pytest.param("f(a,\r\n  b)\r\n", "f(a,\r\n  b,\r\n  new=1)\r\n", id="CRLF"),
        pytest.param("f(\n\ta,\n\tb,\n)", "f(\n\ta,\n\tb,\n\tnew=1,\n)", id="tabs"),
        pytest.param("x = 'é' + 'ü'; f('ö')", "x = 'é' + 'ü'; f('ö', new=1)", id="after letters of several bytes"),
        pytest.param("if x: f(a); g(b)", "if x: f(a, new=1); g(b)", id="in a suite on the header's line"),
        pytest.param("x = \\\n  f(a)", "x = \\\n  f(a, new=1)", id="after a continued line"),
        pytest.param("x = lambda a: f(a)", "x = lambda a: f(a, new=1)", id="in a lambda"),
        pytest.param("if (n := f(a)): pass", "if (n := f(a, new=1)): pass", id="in a walrus"),
        pytest.param("@f(a)\nclass A: pass", "@f(a, new=1)\nclass A: pass", id="in a class's decorator"),
        pytest.param("class A(f(a)): pass", "class A(f(a, new=1)): pass", id="among a class's bases"),
        pytest.param("def g(x=f(a)) -> int: pass", "def g(x=f(a, new=1)) -> int: pass", id="in a default"),
        pytest.param("x = f(f'{a!r}')", "x = f(f'{a!r}', new=1)", id="beside an f-string"),
        pytest.param(
            "match f(a):\n    case 1: pass", "match f(a, new=1):\n    case 1: pass", id="in the subject of a match"
        ),
    ],
)
def test_an_argument_is_added_in_the_layout_of_the_call(before: str, after: str) -> None:
    assert edited(before, lambda module: [AddArgument(module, find(module, ast.Call, "f("), "new", "1")]) == after


LONG = "x" * 90
"""A name that leaves room for one short argument on its line."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"loader = f({LONG})\n",
            f"loader = f({LONG},\n           first='{'a' * 60}', second=1)\n",
            id="below the first argument, as many as fit",
        ),
        pytest.param(
            f"def g():\n    loader = f(a, {LONG})\n",
            f"def g():\n    loader = f(a, {LONG},\n               first='{'a' * 60}', second=1)\n",
            id="in a function",
        ),
        pytest.param(
            f"loader = f(\n    a, {LONG}\n)\n",
            f"loader = f(\n    a, {LONG},\n    first='{'a' * 60}', second=1\n)\n",
            id="in a hanging indent",
        ),
        pytest.param(
            f"loader = f(a,\n           b, {LONG})\n",
            f"loader = f(a,\n           b, {LONG},\n           first='{'a' * 60}', second=1)\n",
            id="in the layout of a call of several lines",
        ),
        pytest.param(
            f"loader = f(a,\n           {LONG})\n",
            f"loader = f(a,\n           {LONG},\n           first='{'a' * 60}',\n           second=1)\n",
            id="one argument to a line stays one to a line",
        ),
        pytest.param(
            f"loader = f({LONG}, **more)\n",
            f"loader = f({LONG},\n           first='{'a' * 60}', second=1, **more)\n",
            id="before a spread dictionary",
        ),
        pytest.param(
            f"loader = f({LONG * 2})\n",
            f"loader = f({LONG * 2}, first='{'a' * 60}', second=1)\n",
            id="a line that is wide already stays a line",
        ),
        pytest.param(
            f"x, y = f({LONG}), g(y)\n",
            f"x, y = f({LONG}, first='{'a' * 60}', second=1), g(y)\n",
            id="one of several calls stays on its line",
        ),
        pytest.param(
            f"loaders = {{x: f({LONG}, len(x))\n           for x in y}}\n",
            f"loaders = {{x: f({LONG}, len(x),\n                first='{'a' * 60}', second=1)\n           for x in y}}\n",
            id="in a comprehension, with calls inside",
        ),
        pytest.param(
            f"if x:\n\tloader = f({LONG})\n",
            f"if x:\n\tloader = f({LONG}, first='{'a' * 60}', second=1)\n",
            id="behind tabs, whose width is anybody's, the line stays a line",
        ),
    ],
)
def test_a_line_that_would_get_too_wide_is_broken(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        call = find(module, ast.Call, "f(")
        return [AddArgument(module, call, "first", f"'{'a' * 60}'"), AddArgument(module, call, "second", "1")]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"f({{'a': {'x' * 85}, 'b': 1}}, y)\n", "'b': 1, 'new': one}"),
        (f"f({{'a': {'x' * 100}, 'b': 1}}, y)\n", "'b': 1,\n   'new': one}"),
        (f"def g():\n    return {{'a': {'x' * 92}}}\n", ",\n            'new': one}"),
        (f"f({{'a': {'x' * 100},\n   'b': 1}}, y)\n", "'b': 1,\n   'new': one}"),
    ],
    ids=["it fits", "a call", "an indented line", "several lines already"],
)
def test_an_item_of_a_dictionary_gets_a_line_where_it_does_not_fit(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        return [AddItem(module, find(module, ast.Dict), "new", "one")]

    assert after in edited(before, edits)


def test_a_line_is_broken_where_a_wrap_makes_it_too_wide() -> None:
    before = f"first\nf({'x' * 106})\n"

    def edits(module: Module) -> list[Edit]:
        return [AddArgument(module, find(module, ast.Call), "new", "1234")]

    def wrapped(module: Module) -> list[Edit]:
        return [*edits(module), Wrap(module, (module.tree.body[1],), "with w:")]

    assert edited(before, edits) == before.replace(")", ", new=1234)")
    assert edited(before, wrapped) == f"first\nwith w:\n    f({'x' * 106},\n      new=1234)\n"


@pytest.mark.parametrize(
    ("argument", "after"),
    [
        pytest.param("x" * 88, f"y = f({'x' * 88}, first=of_another)\n", id="with what goes, it fits"),
        pytest.param("x" * 100, f"y = f({'x' * 100},\n      first=of_another)\n", id="it is too wide as well"),
    ],
)
def test_what_goes_behind_a_call_makes_room_for_its_arguments(argument: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        whole = find(module, ast.Call)
        call = find(module, ast.Attribute).value
        assert isinstance(call, ast.Call)
        return [AddArgument(module, call, "first", "of_another"), Replace(module, whole, "{made}", (("made", call),))]

    assert edited(f"y = f({argument}).type_as(other)\n", edits) == after


def test_arguments_come_in_the_order_of_the_edits_and_equal_ones_once() -> None:
    def edits(module: Module) -> list[Edit]:
        call = find(module, ast.Call)
        return [AddArgument(module, call, name, "1") for name in ("b", "a", "b")]

    assert edited("f()", edits) == "f(b=1, a=1)"


@pytest.mark.parametrize(
    ("value", "after"),
    [
        pytest.param("a and\n  b", "f(new=a and\n  b)", id="lines that only parentheses hold together"),
        pytest.param("x for x in y", "f(new=(x for x in y))", id="a generator gets parentheses"),
        pytest.param("(1, 2)", "f(new=(1, 2))", id="a tuple keeps its own"),
        pytest.param("a := 1", "f(new=(a := 1))", id="a walrus gets parentheses"),
        pytest.param("device.type == 'cuda'", "f(new=device.type == 'cuda')", id="a comparison needs none"),
    ],
)
def test_an_arguments_value_is_any_expression(value: str, after: str) -> None:
    assert edited("f()", lambda module: [AddArgument(module, find(module, ast.Call), "new", value)]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f(old=1)", "f()", id="the only one"),
        pytest.param("f(\n    old=1,\n)", "f()", id="the only one on a line of its own"),
        pytest.param("f(a, old=1)", "f(a)", id="the last one"),
        pytest.param("f(a, old=1,)", "f(a,)", id="the last one before a trailing comma"),
        pytest.param("f(a,\n  old=1)", "f(a)", id="the last one on a line of its own"),
        pytest.param("f(\n    a,\n    old=1,\n)", "f(\n    a,\n)", id="the last line"),
        pytest.param(
            "f(\n    a,  # why a\n    old=1  # why\n)", "f(\n    a  # why a\n)", id="the last line with comments"
        ),
        pytest.param("f(\n    a,  # why a\n    old=1)", "f(\n    a  # why a\n)", id="the last before a comment"),
        pytest.param("f(old=1, b=2)", "f(b=2)", id="the first one"),
        pytest.param("f(old=1,\n  b=2)", "f(b=2)", id="the first line"),
        pytest.param("f(\n    old=1,  # why\n    b=2,\n)", "f(\n    b=2,\n)", id="the first line with its comment"),
        pytest.param(
            "f(\n    old=1,\n    # why b\n    b=2,\n)",
            "f(\n    # why b\n    b=2,\n)",
            id="the next one's comment stays",
        ),
        pytest.param("f(a, old=1, b=2)", "f(a, b=2)", id="one in the middle"),
        pytest.param("f(a, old=1,\n  b=2)", "f(a,\n  b=2)", id="the last on its line"),
        pytest.param(
            "f(\n    a,  # why a\n    old=1,  # why\n    b=2,\n)",
            "f(\n    a,  # why a\n    b=2,\n)",
            id="a line in the middle",
        ),
    ],
)
def test_an_argument_is_removed_with_its_line_and_comment(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        call = find(module, ast.Call)
        return [RemoveArgument(module, call, next(each for each in call.keywords if each.arg == "old"))]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("[old]", "[]", id="the only one"),
        pytest.param("[a, old]", "[a]", id="the last one"),
        pytest.param("[a, old, ]", "[a, ]", id="the last one before a trailing comma"),
        pytest.param("[ a, old ]", "[ a ]", id="within blanks"),
        pytest.param("[a,\n old]", "[a]", id="the last one on a line of its own"),
        pytest.param("[\n    a,  # why a\n    old,  # why\n]", "[\n    a,  # why a\n]", id="the last line"),
        pytest.param("[\n    a,\n    # why\n    old\n]", "[\n    a\n    # why\n]", id="a comment above stays"),
        pytest.param("[old, b]", "[b]", id="the first one"),
        pytest.param("[\n    a,\n    old,\n    b,\n]", "[\n    a,\n    b,\n]", id="a line in the middle"),
        pytest.param("[a, old, old]", "[a]", id="two of them"),
        pytest.param("[f(a), old]", "[g]", id="beside another that is replaced"),
    ],
)
def test_an_item_of_a_list_is_removed_with_its_line_and_comment(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        display = find(module, ast.List)
        removed = [RemoveItem(module, display, each) for each in display.elts if module.code(each) == "old"]
        return [*removed, *(Replace(module, call, "g") for call in module.nodes(ast.Call))]

    assert edited(before, edits) == after


def test_arguments_are_removed_and_added_in_one_call() -> None:
    def edits(module: Module) -> list[Edit]:
        call = find(module, ast.Call)
        return [
            AddArgument(module, call, "new", "1"),
            RemoveArgument(module, call, call.args[-1]),
            RemoveArgument(module, call, call.keywords[0]),
        ]

    assert edited("f(a, b, c=1, **kw)", edits) == "f(a, new=1, **kw)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("{}", '{"new": 1}', id="the first item"),
        pytest.param("{'a': 2}", "{'a': 2, 'new': 1}", id="in single quotes as the others"),
        pytest.param('{"a": 2,}', '{"a": 2, "new": 1,}', id="a trailing comma stays trailing"),
        pytest.param("{'a':2}", "{'a':2, 'new':1}", id="no blank after the colon as the last one"),
        pytest.param("{'a': 2, **b}", "{'a': 2, **b, 'new': 1}", id="after a spread, which it overrides"),
        pytest.param("{k: 2}", '{k: 2, "new": 1}', id="after keys that are no strings"),
        pytest.param(
            "{\n    'a': 2,\n    'b': 3  # why\n}",
            "{\n    'a': 2,\n    'b': 3,  # why\n    'new': 1\n}",
            id="one per line",
        ),
        pytest.param("{\r\n  'a': 2,\r\n}", "{\r\n  'a': 2,\r\n  'new': 1,\r\n}", id="CRLF"),
    ],
)
def test_an_item_is_added_in_the_layout_of_the_dictionary(before: str, after: str) -> None:
    assert (
        edited(f"x = {before}", lambda module: [AddItem(module, find(module, ast.Dict), "new", "1")]) == f"x = {after}"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def f(): pass", "def f(new=None): pass", id="the first one"),
        pytest.param("def f(a, b=1): pass", "def f(a, b=1, new=None): pass", id="the last one"),
        pytest.param("def f(a, /): pass", "def f(a, /, new=None): pass", id="after positional-only parameters"),
        pytest.param("def f(*a): pass", "def f(new=None, *a): pass", id="before *args"),
        pytest.param("def f(a, *, b): pass", "def f(a, new=None, *, b): pass", id="before keyword-only parameters"),
        pytest.param("def f(a, **k): pass", "def f(a, new=None, **k): pass", id="before **kwargs"),
        pytest.param(
            "async def f(\n    self,\n    a: int = 1,  # why\n) -> int:\n    pass",
            "async def f(\n    self,\n    a: int = 1,  # why\n    new=None,\n) -> int:\n    pass",
            id="one per line",
        ),
    ],
)
def test_a_parameter_is_added_after_the_positional_ones(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        function = next(each for each in module.tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
        return [AddParameter(module, function, "new", "None")]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def f(a): pass", "def f(a, new): pass", id="after those without"),
        pytest.param("def f(a, b=1): pass", "def f(a, b=1, *, new): pass", id="after one with a default"),
        pytest.param("def f(b=1, /): pass", "def f(b=1, /, *, new): pass", id="after a positional-only one"),
        pytest.param("def f(b=1, *a): pass", "def f(b=1, *a, new): pass", id="after *args"),
        pytest.param("def f(b=1, *, c): pass", "def f(b=1, *, c, new): pass", id="after keyword-only parameters"),
        pytest.param("def f(b=1, **k): pass", "def f(b=1, *, new, **k): pass", id="before **kwargs"),
        pytest.param(
            "def f(\n    a,\n    b=1\n):\n    pass",
            "def f(\n    a,\n    b=1,\n    *,\n    new\n):\n    pass",
            id="one per line",
        ),
    ],
)
def test_a_parameter_without_a_default_is_passed_by_its_name_where_others_have_one(before: str, after: str) -> None:
    assert edited(before, lambda module: [AddParameter(module, find(module, ast.FunctionDef), "new")]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a         # one\nb  # two\n", "f(a)      # one\nb  # two\n", id="there is room"),
        pytest.param("a    # one\nb  # two\n", "f(a)    # one\nb  # two\n", id="there is not enough room"),
        pytest.param("a  # one\n", "f(a)  # one\n", id="it stands in no column"),
    ],
)
def test_a_comment_keeps_its_column_behind_code_that_gets_wider(before: str, after: str) -> None:
    assert edited(before, lambda module: [Surround(module, find(module, ast.Name), "f(", ")")]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "a         # one\nbc        # two\n", "with x:\n    a     # one\n    bc    # two\n", id="there is room"
        ),
        pytest.param(
            "a   # one\nbcd  # two\n", "with x:\n    a   # one\n    bcd  # two\n", id="there is not enough for all"
        ),
    ],
)
def test_comments_keep_their_column_behind_code_that_moves(before: str, after: str) -> None:
    assert edited(before, lambda module: [Wrap(module, tuple(module.tree.body), "with x:")]) == after


# --- expressions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "template", "after"),
    [
        pytest.param("y = a(x)", "b", "y = b", id="by a name"),
        pytest.param("y = -a(x)", "b + c", "y = -(b + c)", id="parentheses where the new expression binds less"),
        pytest.param("y = a(x)", "b + c", "y = b + c", id="no parentheses after an equals sign"),
        pytest.param("y = [a(x), 1]", "b + c", "y = [b + c, 1]", id="no parentheses in a list"),
        pytest.param("y = g(*a(x))", "b or c", "y = g(*(b or c))", id="parentheses after a star"),
        pytest.param("y = (a(x))", "b + c", "y = (b + c)", id="parentheses that are there stay"),
        pytest.param("y = a(x).z", "1", "y = (1).z", id="a number before an attribute"),
        pytest.param("y = a(x)if z else 1", "b", "y = (b)if z else 1", id="no blank before the next word"),
        pytest.param("y = a(x), 1", "b, c", "y = (b, c), 1", id="a tuple inside a tuple"),
        pytest.param("for y in a(x): pass", "b if c else d", "for y in b if c else d: pass", id="in a for"),
        pytest.param("y = z[a(x)]", "b if c else d", "y = z[b if c else d]", id="in an index"),
        pytest.param("y = a(x)", "{{'k': {x}}}", "y = {'k': x}", id="braces are doubled"),
        pytest.param("y = a(b + c)", "{x}.sum()", "y = (b + c).sum()", id="a hole before an attribute"),
        pytest.param("y = a(b + c)", "g({x}, 1)", "y = g(b + c, 1)", id="a hole as an argument"),
        pytest.param("y = a((b, c))", "g({x})", "y = g((b, c))", id="a tuple in a hole keeps its parentheses"),
        pytest.param("y = a(b\n   .c)", "{x}", "y = (b\n   .c)", id="lines in a hole outside of brackets"),
        pytest.param("y = a(b\n   .c)", "g({x})", "y = g(b\n   .c)", id="lines in a hole inside of brackets"),
        pytest.param("y = a(b  # why\n)", "g({x})", None, id="a comment would be lost"),
        pytest.param("y = a('#')", "g({x})", "y = g('#')", id="no comment in a string"),
        pytest.param("y = a(b(  # why\n))", "g({x})", "y = g(b(  # why\n))", id="a comment in a hole stays"),
    ],
)
def test_an_expression_is_replaced(before: str, template: str, after: str | None) -> None:
    module = Module("train.py", before)
    call = find(module, ast.Call, "a(")
    edit = Replace(module, call, template, (("x", call.args[0]),) if "{x}" in template else ())
    if after is None:
        refused = problems.problem(edit)
        assert refused is not None
        assert refused.text == "a comment inside the expression would be lost"
    else:
        assert edited(before, lambda _: [edit]) == after or apply(module, [edit]) == after


def test_edits_inside_a_hole_survive() -> None:
    def edits(module: Module) -> list[Edit]:
        outer, inner = find(module, ast.Call, "a("), find(module, ast.Call, "b(")
        return [Replace(module, outer, "g({x})", (("x", inner),)), AddArgument(module, inner, "new", "1")]

    assert edited("y = a(b(c))", edits) == "y = g(b(c, new=1))"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("loss.backward()", "s.scale(loss).backward()", id="a name"),
        pytest.param("(loss + x).backward()", "s.scale(loss + x).backward()", id="parentheses that are idle then go"),
        pytest.param("(loss +\n x).backward()", "(s.scale(loss +\n x)).backward()", id="parentheses around lines stay"),
        pytest.param("return_((loss))", "return_((s.scale(loss)))", id="parentheses elsewhere stay"),
        pytest.param("f(loss for i in x)", "f(s.scale(loss) for i in x)", id="in a generator"),
    ],
)
def test_an_expression_is_surrounded(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        node = next(each for each in ast.walk(module.tree) if isinstance(each, ast.BinOp) or _is_loss(each))
        assert isinstance(node, ast.expr)
        return [Surround(module, node, "s.scale(", ")")]

    assert edited(before, edits) == after


def _is_loss(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "loss"


def test_an_argument_and_a_surrounding_of_one_call() -> None:
    def edits(module: Module) -> list[Edit]:
        call = find(module, ast.Call)
        return [Surround(module, call, "g({'a': ", "})"), AddArgument(module, call, "new", "1")]

    assert edited("f(a)", edits) == "g({'a': f(a, new=1)})"


# --- statements -----------------------------------------------------------------------------------------------------


def body(module: Module) -> list[ast.stmt]:
    """The statements of the function or class that the module starts with, or of the module."""
    first = module.tree.body[0]
    return first.body if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else module.tree.body


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb\n", "a\nwith w:\n    b\n", id="at module level"),
        pytest.param("a\nb", "a\nwith w:\n    b", id="without a final newline"),
        pytest.param("def f():\n  a\n  b\n", "def f():\n  a\n  with w:\n    b\n", id="by the file's own unit"),
        pytest.param(
            "a\nb(x,\n        y)\nif c:\n  d\n",
            "a\nwith w:\n  b(x,\n          y)\nif c:\n  d\n",
            id="by the unit of blocks, not of aligned arguments",
        ),
        pytest.param(
            "def f():\n    a\n    b\nif c:\n  d\nif e:\n  f\n",
            "def f():\n    a\n    with w:\n        b\nif c:\n  d\nif e:\n  f\n",
            id="by the unit of its own block, not of most",
        ),
        pytest.param("def f():\n\ta\n\tb\n", "def f():\n\ta\n\twith w:\n\t\tb\n", id="by tabs"),
        pytest.param("def f():\r\n    a\r\n    b\r\n", "def f():\r\n    a\r\n    with w:\r\n        b\r\n", id="CRLF"),
        pytest.param(
            "a\n\n# why b\nb  # b\n# after\n",
            "a\n\n# why b\nwith w:\n    b  # b\n# after\n",
            id="comments above stay above",
        ),
        pytest.param("a\nb = '''x\n  y'''\n", "a\nwith w:\n    b = '''x\n  y'''\n", id="strings of several lines stay"),
        pytest.param("a\nb(\n  x,\n)\n", "a\nwith w:\n    b(\n      x,\n    )\n", id="lines in brackets move"),
        pytest.param("a\nb(\n\n)\n", "a\nwith w:\n    b(\n\n    )\n", id="empty lines get no blanks"),
        pytest.param("a\nb = \\\n  c\n", "a\nwith w:\n    b = \\\n      c\n", id="continued lines move"),
        pytest.param(
            "a\nfor x in y:\n    b\n    # end\nelse:\n    c\n",
            "a\nwith w:\n    for x in y:\n        b\n        # end\n    else:\n        c\n",
            id="a loop with its else",
        ),
        pytest.param(
            "a\n@d\nclass C:\n    x\n", "a\nwith w:\n    @d\n    class C:\n        x\n", id="a decorated class"
        ),
        pytest.param("a\nif x: y; z\n", "a\nwith w:\n    if x: y; z\n", id="a suite on its header's line"),
        pytest.param("a\nb;\n", "a\nwith w:\n    b;\n", id="a semicolon at the end"),
        pytest.param(
            "a\ntry:\n  b\nfinally:\n  c\n",
            "a\nwith w:\n  try:\n    b\n  finally:\n    c\n",
            id="a try with its finally",
        ),
    ],
)
def test_a_statement_is_wrapped(before: str, after: str) -> None:
    assert edited(before, lambda module: [Wrap(module, (body(module)[1],), "with w:")]) == after


def test_comments_between_wrapped_statements_move_with_them() -> None:
    before = "a\n# why b\nb\n\n# why c\nc\nd\n"
    after = "a\n# why b\nwith w:\n    b\n\n    # why c\n    c\nd\n"
    assert edited(before, lambda module: [Wrap(module, tuple(module.tree.body[1:3]), "with w:")]) == after


@pytest.mark.parametrize(
    ("before", "test", "after"),
    [
        ("if a:\n    b\nc\n", "", "if a:\n    b\nelse:\n    one\n    two\nc\n"),
        ("if a:\n    b\n    # of b\n\nc\n", "", "if a:\n    b\n    # of b\nelse:\n    one\n    two\n\nc\n"),
        ("if a:\n  b\n\nc\n", "d", "if a:\n  b\nelif d:\n  one\n  two\n\nc\n"),
        ("if a:\n    b\n# of c\nc\n", "", "if a:\n    b\nelse:\n    one\n    two\n# of c\nc\n"),
        (
            "def f():\n\tif a:\n\t\tb\n\treturn c\n",
            "",
            "def f():\n\tif a:\n\t\tb\n\telse:\n\t\tone\n\t\ttwo\n\treturn c\n",
        ),
    ],
    ids=["plain", "a comment below its suite", "with a test and two blanks", "a comment of the next", "tabs"],
)
def test_an_else_below_an_if(before: str, test: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        (branch,) = module.nodes(ast.If)
        return [AddElse(module, branch, "one", test), AddElse(module, branch, "two", test)]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("if a:\n    b\nelse:\n    c\n", f"{HERE} has an else already"),
        ("if a: b\n", "the suite is written on the header's line"),
    ],
)
def test_no_else_where(text: str, because: str) -> None:
    module = Module("train.py", text)
    (branch,) = module.nodes(ast.If)
    reason = problems.problem(AddElse(module, branch, "one"))

    assert reason is not None
    assert reason.text == because


def test_two_branches_below_one_if_conflict() -> None:
    module = Module("train.py", "if a:\n    b\n")
    (branch,) = module.nodes(ast.If)

    assert conflicts.conflict([AddElse(module, branch, "one")], [AddElse(module, branch, "two")]) is None
    assert conflicts.conflict([AddElse(module, branch, "one", "c")], [AddElse(module, branch, "two")]) is not None
    assert conflicts.conflict([Unwrap(module, branch)], [AddElse(module, branch, "two")]) is not None


def test_comments_next_to_the_first_statement_go_along_where_they_should() -> None:
    def edits(module: Module) -> list[Edit]:
        statements = tuple(module.tree.body[1:])
        return [
            Wrap(module, statements[:1], "with w:"),
            Wrap(module, statements, "if x:", takes_along=True),
            Insert(module, statements[0], "c", "before"),
        ]

    before = "a\n# of the part\n\n# of the statement\n# it says why\nb\nd\n"
    after = (
        "a\n# of the part\n\nif x:\n    # of the statement\n    # it says why\n    c\n    with w:\n        b\n    d\n"
    )
    assert edited(before, edits) == after


def test_what_is_inserted_after_the_last_statement_goes_along_where_it_should() -> None:
    def edits(module: Module) -> list[Edit]:
        a, b, _ = module.tree.body
        return [
            Insert(module, b, "after", "after"),
            Wrap(module, (b,), "with w:"),
            Wrap(module, (a, b), "if x:", takes_along=True),
        ]

    assert edited("a\nb\nc\n", edits) == "if x:\n    a\n    with w:\n        b\n    after\nc\n"


def test_insertions_of_one_place_share_an_if() -> None:
    def edits(module: Module) -> list[Edit]:
        a, b = module.tree.body
        return [
            Insert(module, a, "if x:\n    one()", "after"),
            Insert(module, a, "if x:\n    two()\n    three()", "after"),
            Insert(module, a, "if y:\n    four()", "after"),
            Insert(module, a, "if x:\n    five()", "after"),
            Insert(module, b, "if x:\n    six()\nelse:\n    seven()", "after"),
            Insert(module, b, "if x:\n    eight()", "after"),
        ]

    after = (
        "a\nif x:\n    one()\n    two()\n    three()\nif y:\n    four()\nif x:\n    five()\n"
        "b\nif x:\n    six()\nelse:\n    seven()\nif x:\n    eight()\n"
    )
    assert edited("a\nb\n", edits) == after


def test_wraps_nest_and_of_equal_ones_the_later_is_outside() -> None:
    def edits(module: Module) -> list[Edit]:
        a, b, c = module.tree.body
        return [
            Wrap(module, (a, b), "with inner:"),
            Wrap(module, (b,), "with innermost:"),
            Wrap(module, (a, b), "with outer:"),
            Wrap(module, (a, b, c), "if x:"),
        ]

    assert edited("a\nb\nc\n", edits) == (
        "if x:\n"
        "    with outer:\n"
        "        with inner:\n"
        "            a\n"
        "            with innermost:\n"
        "                b\n"
        "    c\n"
    )


def test_insertions_at_the_edges_of_a_wrap_land_inside_or_outside() -> None:
    def edits(module: Module) -> list[Edit]:
        first, last = module.tree.body
        return [
            Insert(module, first, "in1", "before", outside=False),
            Insert(module, first, "out1", "before"),
            Insert(module, last, "in2", "after", outside=False),
            Insert(module, last, "out2", "after"),
            Insert(module, last, "between", "before"),
            Wrap(module, (first, last), "with w:"),
        ]

    assert edited("# top\n\n# why\na\nb\n", edits) == (
        "# top\n\n# why\nout1\nwith w:\n    in1\n    a\n    between\n    b\n    in2\nout2\n"
    )


@pytest.mark.parametrize(
    ("before", "code", "where", "after"),
    [
        pytest.param("a\nb\n", "new", "before", "a\nnew\nb\n", id="before"),
        pytest.param(
            "def f():\n  a\n  b\n",
            "x\n\ny(\n\n)",
            "before",
            "def f():\n  a\n  x\n\n  y(\n\n  )\n  b\n",
            id="empty lines get no blanks",
        ),
        pytest.param("a\nb", "new", "after", "a\nb\nnew", id="after the last line without a newline"),
        pytest.param("a\n# why b\nb\n", "new", "before", "a\n# why b\nnew\nb\n", id="comments above stay above"),
        pytest.param("a\nb  # b\n\n\nc\n", "new", "after", "a\nb  # b\nnew\n\n\nc\n", id="before the blank lines"),
        pytest.param(
            "a\nif x:\n    y\n    # end\nc\n",
            "new",
            "after",
            "a\nif x:\n    y\n    # end\nnew\nc\n",
            id="after a suite",
        ),
        pytest.param("a\n@d\ndef f(): pass\n", "new", "before", "a\nnew\n@d\ndef f(): pass\n", id="before decorators"),
        pytest.param(
            "class C:\n  a\n  b\n",
            "# why\nif x:\n    y\nz",
            "after",
            "class C:\n  a\n  b\n  # why\n  if x:\n    y\n  z\n",
            id="several lines in the file's own indentation",
        ),
        pytest.param(
            "def f():\r\n\ta\r\n\tb\r\n",
            "if x:\n    y",
            "before",
            "def f():\r\n\ta\r\n\tif x:\r\n\t\ty\r\n\tb\r\n",
            id="CRLF and tabs",
        ),
        pytest.param(
            "async def f():\n    a\n    await b\n",
            "await c",
            "after",
            "async def f():\n    a\n    await b\n    await c\n",
            id="in a coroutine",
        ),
    ],
)
def test_statements_are_inserted(before: str, code: str, where: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        return [Insert(module, body(module)[1], code, "before" if where == "before" else "after")]

    assert edited(before, edits) == after


def test_inserted_blocks_are_indented_by_the_unit_of_blocks_not_of_aligned_arguments() -> None:
    before = "a(x,\n        y)\nif c:\n  d\n"

    def edits(module: Module) -> list[Edit]:
        return [Insert(module, module.tree.body[0], "if e:\n    f()", "after")]

    assert edited(before, edits) == "a(x,\n        y)\nif e:\n  f()\nif c:\n  d\n"


def test_insertions_at_one_place_come_in_the_order_of_the_edits() -> None:
    def edits(module: Module) -> list[Edit]:
        (a,) = module.tree.body
        return [Insert(module, a, code, where) for where in ("before", "after") for code in ("one", "two")]

    assert edited("a\n", edits) == "one\ntwo\na\none\ntwo\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb  # why b\nc\n", "a\nc\n", id="with the comment on its line"),
        pytest.param("a\n\n# above\nb\nc\n", "a\n\n# above\nc\n", id="comments above it stay"),
        pytest.param("a\n\nb\n\nc\n", "a\n\nc\n", id="one of the blank lines around it goes along"),
        pytest.param("def f():\n    b\n\n    c\n", "def f():\n    c\n", id="no blank line begins a suite"),
        pytest.param("a\n\n# above\nb\n\nc\n", "a\n\n# above\n\nc\n", id="a comment stays apart from what is below"),
        pytest.param("def f():\n    b\nc\n", "def f():\n    pass\nc\n", id="an emptied suite keeps a pass"),
        pytest.param(
            "def f():\n    # one\n    b\n    # two\n",
            "def f():\n    # one\n    pass\n    # two\n",
            id="the pass stands between the comments",
        ),
        pytest.param("a\nb", "a", id="without a final newline"),
        pytest.param("match x:\n    case 1:\n        b\n", "match x:\n    case 1:\n        pass\n", id="in a match"),
        pytest.param("b\n", "", id="the only statement of the module"),
        pytest.param("# top\nb\n# end\n", "# top\n# end\n", id="comments of the module stay"),
        pytest.param(
            "try:\n    a\nexcept E:\n    b\nelse:\n    c\n",
            "try:\n    a\nexcept E:\n    pass\nelse:\n    c\n",
            id="in a handler",
        ),
    ],
)
def test_a_statement_is_removed(before: str, after: str) -> None:
    assert edited(before, lambda module: [Remove(module, find(module, ast.Expr, "b"))]) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\n# above\nb\n\nc\n", "a\n\nc\n", id="a gap follows"),
        pytest.param("a\n# above\nb\n# next\nc\n", "a\n# next\nc\n", id="a comment follows"),
        pytest.param("a\n# above\nb\nb2\n# next\nc\n", "a\n# next\nc\n", id="it heads several"),
        pytest.param("a\n# above\nb\n# more\nb2\n\nc\n", "a\n\nc\n", id="each has one of its own"),
        pytest.param("a\n\n# one\n# two\nb\n\nc\n", "a\n\nc\n", id="lines of one comment"),
        pytest.param("a\n# far\n\n# above\nb\n\nc\n", "a\n# far\n\nc\n", id="one that is not next to it stays"),
        pytest.param("a\n# above\nb\n", "a\n", id="nothing follows"),
        pytest.param("a\n# above\nb\nc\n", "a\n# above\nc\n", id="it heads what stays"),
        pytest.param("a\n# above\nb\nb2\nc\n\nd\n", "a\n# above\nc\n\nd\n", id="it heads what stays, too"),
        pytest.param("a\n# fmt: off\nb\n\nc\n", "a\n# fmt: off\n\nc\n", id="a formatter reads it"),
        pytest.param("a\n# pylint: disable=all\nb\n\nc\n", "a\n# pylint: disable=all\n\nc\n", id="a linter reads it"),
        pytest.param("a\n# %%\nb\n\nc\n", "a\n# %%\n\nc\n", id="it starts a cell"),
        pytest.param("a\n#region b\nb\n\nc\n", "a\n#region b\n\nc\n", id="it starts a region"),
    ],
)
def test_a_comment_goes_with_the_only_statements_that_it_heads(before: str, after: str) -> None:
    def removed(module: Module) -> list[Edit]:
        return [
            Remove(module, each, with_heading=True)
            for each in module.tree.body
            if isinstance(each, ast.Expr) and module.code(each).startswith("b")
        ]

    assert edited(before, removed) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("with w:  # gone\n    a\n    b\nc\n", "a\nb\nc\n", id="a with"),
        pytest.param(
            "# why\nwith w:\n    # a\n    a\n    # end\n", "# why\n# a\na\n# end\n", id="comments move with it"
        ),
        pytest.param(
            "if w:\n    a(\n      x)\n    if b:\n        c\n", "a(\n  x)\nif b:\n    c\n", id="an if, lines in brackets"
        ),
        pytest.param("with w:\n    a = \\\n        b\n", "a = \\\n    b\n", id="continued lines"),
        pytest.param("with w:\n    a = '''\n    b'''\n", "a = '''\n    b'''\n", id="strings of several lines stay"),
        pytest.param("with w:\r\n\ta\r\n", "a\r\n", id="CRLF and tabs"),
    ],
)
def test_a_block_is_unwrapped(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        statement = module.tree.body[0]
        assert isinstance(statement, (ast.With, ast.If))
        return [Unwrap(module, statement)]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("for x in y:\n    a\n    b\n", "a\nfor x in y:\n    b\n", id="a statement"),
        pytest.param(
            "x\n# loop\nfor x in y:\n    b\n\n    # why\n    a  # here\n\n    c\n",
            "x\n# why\na  # here\n# loop\nfor x in y:\n    b\n\n    c\n",
            id="comments move with it, and stay with the loop",
        ),
        pytest.param(
            "for x in y:\n    # far\n\n    a\n    b\n", "a\nfor x in y:\n    # far\n\n    b\n", id="a comment apart"
        ),
        pytest.param("for x in y:\n    a\n\n    b\n", "a\nfor x in y:\n    b\n", id="no gap is left at the top"),
        pytest.param(
            "for x in y:\n    b\n    a\n\n    c\n", "a\nfor x in y:\n    b\n\n    c\n", id="a gap below stays"
        ),
        pytest.param(
            "def f():\n    for x in y:\n        a(\n            1,\n        )\n        b\n",
            "def f():\n    a(\n        1,\n    )\n    for x in y:\n        b\n",
            id="lines in brackets",
        ),
        pytest.param(
            "for x in y:\n    a = 1 + \\\n        2\n    b\n",
            "a = 1 + \\\n    2\nfor x in y:\n    b\n",
            id="continued lines",
        ),
        pytest.param("for x in y:\n    a\n", "a\nfor x in y:\n    pass\n", id="an emptied suite"),
        pytest.param("for x in y:\r\n\ta\r\n\tb\r\n", "a\r\nfor x in y:\r\n\tb\r\n", id="CRLF and tabs"),
    ],
)
def test_a_statement_is_moved_above_a_loop(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        return [Move(module, find(module, ast.stmt, "a"), find(module, ast.For))]

    assert edited(before, edits) == after


def test_several_statements_keep_their_order_above_a_loop() -> None:
    def edits(module: Module) -> list[Edit]:
        loop = find(module, ast.For)
        return [Move(module, loop.body[2], loop), Move(module, loop.body[0], loop)]

    assert edited("for x in y:\n    a\n    b\n    c\n    d\n", edits) == "a\nc\nfor x in y:\n    b\n    d\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("b\n\n    # why\n    a\n    c\n\n    d", "b\n\n    d", id="between blank lines, one stays"),
        pytest.param("b\n    a\n    c\n\n    d", "b\n\n    d", id="the one below stays"),
        pytest.param("b\n\n    a\n    c\n    d", "b\n\n    d", id="the one above stays"),
    ],
)
def test_several_statements_leave_one_gap(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        loop = find(module, ast.For)
        return [Move(module, each, loop) for each in loop.body[1:3]]

    assert edited(f"for x in y:\n    {before}\n", edits).partition("for x")[2] == f" in y:\n    {after}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("a\nb = f(x)  # why\n", "a\nb = g(f(x))  # why\n", id="the comment on its line stays"),
        pytest.param("a\n# above\nb = f(\n  x)\n", "a\n# above\nb = g(f(\n  x))\n", id="comments above it stay"),
    ],
)
def test_a_statement_is_replaced_by_one(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        return [Replace(module, module.tree.body[1], "b = g({x})", (("x", find(module, ast.Call)),))]

    assert edited(before, edits) == after


def test_a_statement_is_replaced_by_several_in_the_files_indentation() -> None:
    def edits(module: Module) -> list[Edit]:
        statement, call = body(module)[1], find(module, ast.Call)
        template = "if {x}:\n    b = {{}}\nelse:\n    b = {x}"
        return [Replace(module, statement, template, (("x", call),)), AddArgument(module, call, "new", "1")]

    before = "def f():\n  a\n  b = f(x)  # why\n  c\n"
    after = "def f():\n  a\n  # why\n  if f(x, new=1):\n    b = {}\n  else:\n    b = f(x, new=1)\n  c\n"
    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("def f(): pass\n", "@d(1)\ndef f(): pass\n", id="the first decorator"),
        pytest.param(
            "# why\n@a\n# b\ndef f(): pass\n", "# why\n@a\n@d(1)\n# b\ndef f(): pass\n", id="the innermost one"
        ),
        pytest.param(
            "class C:\r\n\tasync def f(): pass\r\n",
            "class C:\r\n\t@d(1)\r\n\tasync def f(): pass\r\n",
            id="of a method",
        ),
    ],
)
def test_a_function_is_decorated(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        nodes = (node for node in ast.walk(module.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        return [Decorate(module, next(nodes), "d(1)")]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("async def  f (a) : pass\n", "async def  g (a) : pass\n", id="what else the line has stays"),
        pytest.param(
            "class C:\n    x = 1\n\n    # why\n    @d\n    def f(self):\n        return self.f()\n",
            "class C:\n    x = 1\n\n    # why\n    y = 2\n\n    @d\n    def g(self):\n        return self.f()\n",
            id="below what is inserted before it",
        ),
    ],
)
def test_a_function_is_renamed(before: str, after: str) -> None:
    def edits(module: Module) -> list[Edit]:
        nodes = (node for node in ast.walk(module.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        function = next(nodes)
        new = [Insert(module, function, "y = 2\n\n", "before")] if function.decorator_list else []
        return [*new, Rename(module, function, "g")]

    assert edited(before, edits) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("", "NEW\n", id="an empty module"),
        pytest.param("# only\n", "# only\nNEW\n", id="a module of comments"),
        pytest.param("x = 1\n", "NEW\n\nx = 1\n", id="without imports"),
        pytest.param("def f(): pass\n", "NEW\n\n\ndef f(): pass\n", id="without imports above a function"),
        pytest.param("@a\nclass C: pass\n", "NEW\n\n\n@a\nclass C: pass\n", id="without imports above a class"),
        pytest.param('"""Docs."""\n\nx = 1\n', '"""Docs."""\n\nNEW\n\nx = 1\n', id="after the docstring"),
        pytest.param(
            '"""Docs."""\nfrom __future__ import annotations\n\nx = 1\n',
            '"""Docs."""\nfrom __future__ import annotations\nNEW\n\nx = 1\n',
            id="after __future__ imports",
        ),
        pytest.param(
            "import os\nimport sys\n\nx = 1\nimport re\n",
            "import os\nimport sys\nNEW\n\nx = 1\nimport re\n",
            id="after the first imports",
        ),
        pytest.param(
            "import os\nos.environ['A'] = '1'\nimport torch\nfrom torch import nn\nimport torchvision\n",
            "import os\nos.environ['A'] = '1'\nimport torch\nfrom torch import nn\nNEW\nimport torchvision\n",
            id="after the first imports of its package",
        ),
        pytest.param("import os; x = 1\ny\n", "import os; x = 1\nNEW\ny\n", id="after a shared line"),
        pytest.param(
            "try:\n    import torch\nexcept ImportError:\n    torch = None\n",
            "NEW\ntry:\n    import torch\nexcept ImportError:\n    torch = None\n",
            id="never inside a try",
        ),
        pytest.param(
            "#!/usr/bin/env python\r\nimport torch\r\n", "#!/usr/bin/env python\r\nimport torch\r\nNEW\r\n", id="CRLF"
        ),
    ],
)
def test_an_import_goes_beside_the_imports(before: str, after: str) -> None:
    code = "from torch.amp import autocast"
    assert edited(before, lambda module: [Import(module, code)]) == after.replace("NEW", code)


NAMED = [
    pytest.param("from re import purge\n", "from re import compile, purge, sub\n", id="in the order of the names"),
    pytest.param("from re import split, purge\n", "from re import split, purge, compile, sub\n", id="that have none"),
    pytest.param(
        "from re import A, Match, purge\n", "from re import A, Match, compile, purge, sub\n", id="as sorters do"
    ),
    pytest.param("from re import purge  # why\n", "from re import compile, purge, sub  # why\n", id="before a comment"),
    pytest.param(
        "from re import (\n    purge,\n)\n",
        "from re import (\n    compile,\n    purge,\n    sub,\n)\n",
        id="on own lines",
    ),
    pytest.param("from re import sub\n", "from re import compile, sub\n", id="what is there already"),
    pytest.param("import re\nx\n", "import re\nfrom re import compile, sub\nx\n", id="in a statement of their own"),
    pytest.param("from re import *\n", "from re import *\nfrom re import compile, sub\n", id="beside a star"),
    pytest.param(
        "import os; from re import purge\n",
        "import os; from re import purge\nfrom re import compile, sub\n",
        id="shared line",
    ),
    pytest.param(
        f"from re import {'a' * 100}\n",
        f"from re import {'a' * 100}\nfrom re import compile, sub\n",
        id="too wide a line",
    ),
    pytest.param(
        "def f():\n    from re import purge\n",
        "from re import compile, sub\n\n\ndef f():\n    from re import purge\n",
        id="top only",
    ),
]


@pytest.mark.parametrize(("before", "after"), NAMED)
def test_names_join_an_import(before: str, after: str) -> None:
    assert edited(before, lambda module: [ImportName(module, "re", name) for name in ("sub", "compile")]) == after


def test_an_added_argument_takes_the_place_of_one_that_goes() -> None:
    def edits(module: Module) -> list[Edit]:
        (call,) = module.nodes(ast.Call)
        return [RemoveArgument(module, call, call.keywords[0]), AddArgument(module, call, "c", "d" * 60)]

    line = f"f(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, {'b' * 50}=1)\n"
    assert edited(line, edits) == f"f(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, c={'d' * 60})\n"
    wide = line.replace("=1", f"=1, e={'e' * 20}")
    assert edited(wide, edits) == f"f(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, e={'e' * 20},\n  c={'d' * 60})\n"


def test_one_empty_line_sets_several_insertions_apart() -> None:
    def edits(module: Module) -> list[Edit]:
        imported = module.tree.body[0]
        return [Insert(module, imported, code, "after") for code in ("\none = 1", "\ntwo = 2")]

    assert edited("import re\n\nf()\n", edits) == "import re\n\none = 1\ntwo = 2\n\nf()\n"


def test_an_import_comes_before_what_is_inserted_beside_it() -> None:
    def edits(module: Module) -> list[Edit]:
        first = module.tree.body[0]
        after = Insert(module, first, "re.purge()", "after", outside=False)
        return [after, Import(module, "import re"), Import(module, "import copy")]

    assert edited("import os\n", edits) == "import os\nimport re\nimport copy\nre.purge()\n"
    assert edited("# why\nx\n", lambda m: edits(m)[1:2]) == "# why\nimport re\n\nx\n"


# --- the whole text -------------------------------------------------------------------------------------------------


def test_without_edits_the_text_stays() -> None:
    text = "x = (\f1 ,\t2)\r\ny\r"
    assert apply(Module("train.py", text), []) == text


def test_every_byte_outside_the_edits_stays() -> None:
    before = (
        "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n\n\f\nimport  os ;import sys\r\n\nx=[1 , 2,]   # é  \n"
        "if x :\n\tfor y in x :   pass\n\telse :\n\t\tz =  '''\r\n \t'''  ;  u = `f`(x)\n   \n# end"
    ).replace("`f`", "f")
    after = before.replace("f(x)", "f(x, new=1)")
    assert edited(before, lambda module: [AddArgument(module, find(module, ast.Call), "new", "1")]) == after


def test_edits_of_every_kind_fit_into_one_pass() -> None:
    def edits(module: Module) -> list[Edit]:
        call = find(module, ast.Call, "DataLoader")
        function = find(module, ast.FunctionDef)
        loop = function.body[0]
        assert isinstance(loop, ast.For)
        move = find(module, ast.Call, "x.to")
        return [
            AddArgument(module, call, "pin_memory", "True"),
            AddArgument(module, move, "non_blocking", "True"),
            Decorate(module, function, "torch.no_grad()"),
            Wrap(module, (loop.body[1],), "with torch.autocast('cuda'):"),
            Import(module, "import copy"),
            Remove(module, loop.body[2]),
        ]

    before = """\
import torch

loader = DataLoader(data, batch_size=64)

def test(model):
    for x in loader:
        x = x.to(device)
        y = model(x)  # forward
        torch.cuda.synchronize()
"""
    after = """\
import torch
import copy

loader = DataLoader(data, batch_size=64, pin_memory=True)

@torch.no_grad()
def test(model):
    for x in loader:
        x = x.to(device, non_blocking=True)
        with torch.autocast('cuda'):
            y = model(x)  # forward
"""
    assert edited(before, edits) == after


def test_a_text_that_libcst_cannot_keep_is_refused() -> None:
    module = Module("train.py", "a\n\ff(x)\n")
    with pytest.raises(NotEditableError, match=r"^train\.py: LibCST does not keep"):
        apply(module, [AddArgument(module, find(module, ast.Call), "new", "1")])


def test_deep_nesting_is_refused() -> None:
    module = Module("train.py", "x = " + "-" * 900 + "f(1)\n")
    with pytest.raises(NotEditableError, match=r"^train\.py: nested too deeply"):
        apply(module, [AddArgument(module, find(module, ast.Call), "new", "1")])
