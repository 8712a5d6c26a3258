"""Forward analyses, by one that says which texts a name may be."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

import pytest

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.source import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

_NONE: frozenset[str] = frozenset()


class _Texts(ForwardAnalysis[frozenset[str]]):
    """Which texts an expression may be, or hold; what `show` is given is noted."""

    def __init__(self, names: dict[str, frozenset[str]] | None = None) -> None:
        super().__init__(names or {}, _NONE)
        self.shown: dict[int, frozenset[str]] = {}
        self.stores: list[str] = []
        self.dropped: dict[int, bool] = {}

    def join(self, one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
        return one | other

    def of(self, node: ast.expr) -> frozenset[str]:
        match node:
            case ast.Constant(str() as text):
                return frozenset({text})
            case ast.Name(name):
                return self.names.get(name, _NONE)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehended(node)
        return _NONE.union(*(self.of(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)))

    def unpacked(self, node: ast.expr, count: int) -> Sequence[frozenset[str]]:
        match node:
            case ast.Call(ast.Name("pair")):
                return [frozenset({"first"}), *[frozenset({"other"})] * (count - 1)]
        return super().unpacked(node, count)

    def collected(self, held: frozenset[str]) -> frozenset[str]:
        return frozenset(f"[{each}]" for each in held)

    def entered(self, node: ast.expr) -> frozenset[str]:
        return frozenset(f"entered {each}" for each in self.of(node))

    def stored(self, target: ast.Attribute | ast.Subscript, held: frozenset[str]) -> None:
        self.stores.append(f"{ast.unparse(target)}: {' '.join(sorted(held))}")

    def done(self, node: ast.Call | ast.Yield | ast.YieldFrom, *, is_statement: bool) -> None:
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "show":
            self.dropped[node.lineno] = is_statement
            held = _NONE.union(*map(self.of, node.args))
            self.shown[node.lineno] = self.shown.get(node.lineno, _NONE) | held


def _run(code: str) -> _Texts:
    walk = _Texts()
    walk.run(ast.parse(textwrap.dedent(code)).body)
    return walk


def _shown(code: str) -> list[str]:
    """What each `show(…)` of the code is given, in the order of the lines."""
    shown = _run(code).shown
    return [" ".join(sorted(shown[line])) for line in sorted(shown)]


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param("x = 'a'\nx = 'b'\nshow(x)", "b", id="a name holds what it was bound to last"),
        pytest.param("x: str = 'a'\ny: str\nshow(x, y)", "a", id="an annotation alone binds nothing"),
        pytest.param("x = 'a'\nx += 'b'\nshow(x)", "a b", id="+= adds to what was held"),
        pytest.param("x = y = 'a'\nx = 'b'\nshow(y)", "a", id="several targets each hold the value"),
        pytest.param("x = 'a'\ndel x\nshow(x)", "", id="a deleted name holds nothing"),
        pytest.param("x, y = 'a', 'b'\ndel (x, y)\nshow(x, y)", "", id="several names are deleted"),
        pytest.param("x = 'a'\nimport x\nshow(x)", "", id="an import binds its name anew"),
        pytest.param("x = 'a'\ndef x(): ...\nshow(x)", "", id="a function binds its name anew"),
        pytest.param("x = 'a'\nclass x: ...\nshow(x)", "", id="a class binds its name anew"),
        pytest.param("def f():\n    x = 'a'\nshow(x)", "", id="a function's names are its own"),
    ],
)
def test_straight_code(code: str, given: str) -> None:
    assert _shown(code) == [given]


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param("x, y = 'a', 'b'\nshow(y)", "b", id="a tuple is bound item by item"),
        pytest.param("x, (y, z) = 'a', ('b', 'c')\nshow(z)", "c", id="tuples in tuples, too"),
        pytest.param("x, y = 'a', 'b'\nx, y = y, x\nshow(x)", "b", id="names change places"),
        pytest.param("x, y = pair()\nshow(y)", "other", id="the analysis says what a call's parts hold"),
        pytest.param("x, (y, z) = pair()\nshow(y)", "other", id="parts of a part hold what it holds"),
        pytest.param("x, *y = pair()\nshow(y)", "[other]", id="a star binds a list"),
        pytest.param("x, *y = 'a', 'b', 'c'\nshow(x)", "a b c", id="behind a star positions are not known"),
        pytest.param("[x, y] = ['a', 'b']\nshow(x)", "a", id="lists of targets are as tuples"),
        pytest.param("x, y = *z, 'b'\nshow(x)", "b", id="a star in the value makes positions unknown"),
    ],
)
def test_unpacking(code: str, given: str) -> None:
    assert _shown(code) == [given]


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param("x = 'a'\nif c:\n    x = 'b'\nshow(x)", "a b", id="one branch may be jumped over"),
        pytest.param("if c:\n    x = 'a'\nelse:\n    x = 'b'\nshow(x)", "a b", id="both branches"),
        pytest.param("x = 'a'\nif c:\n    x = 'b'\n    return\nshow(x)", "a", id="a branch that returns"),
        pytest.param("x = 'a'\nif c:\n    x = 'b'\n    raise E\nshow(x)", "a", id="a branch that raises"),
        pytest.param("if c:\n    x = 'a'\nelif d:\n    x = 'b'\nelse:\n    x = 'c'\nshow(x)", "a b c", id="elif"),
        pytest.param("match s:\n    case 1:\n        x = 'a'\nshow(x)", "a", id="a match that may take no case"),
        pytest.param(
            "x = 'a'\nmatch s:\n    case 1:\n        x = 'b'\n    case _:\n        x = 'c'\nshow(x)",
            "b c",
            id="a match that takes one case",
        ),
        pytest.param("match 'a':\n    case [x, *y]:\n        show(x, y)", "a", id="a pattern's names hold the subject"),
        pytest.param("match 'a':\n    case {'k': 1, **x}:\n        show(x)", "a", id="the rest of a mapping, too"),
    ],
)
def test_branches(code: str, given: str) -> None:
    assert _shown(code) == [given]


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param("for x in 'a', 'b':\n    show(x)", "a b", id="a target holds an element"),
        pytest.param("for x in 'a':\n    pass\nshow(x)", "a", id="a target outlives its loop"),
        pytest.param("x = 'a'\nfor _ in s:\n    x = 'b'\nshow(x)", "a b", id="a loop may have no pass"),
        pytest.param(
            "x = y = z = 'a'\nfor _ in s:\n    z = y\n    y = x\n    x = 'b'\nshow(z)",
            "a b",
            id="what goes from pass to pass is followed to its end",
        ),
        pytest.param("x = 'a'\nfor _ in s:\n    show(x)\n    x = 'b'", "a b", id="the next pass starts with it"),
        pytest.param(
            "x = 'a'\nfor _ in s:\n    if c:\n        x = 'b'\n        continue\n    x = 'c'\nshow(x)",
            "a b c",
            id="continue",
        ),
        pytest.param(
            "x = 'a'\nfor _ in s:\n    x = 'b'\n    if c:\n        break\n    x = 'a'\nelse:\n    x = 'd'\nshow(x)",
            "b d",
            id="break jumps over else",
        ),
        pytest.param(
            "x = 'a'\nfor _ in s:\n    for _ in s:\n        break\n    else:\n        x = 'b'\n        break\nshow(x)",
            "a b",
            id="a break in else is that of the loop around",
        ),
        pytest.param("x = 'a'\nwhile True:\n    x = 'b'\n    if c:\n        break\nshow(x)", "b", id="while True"),
        pytest.param("while x := 'a':\n    show(x)", "a", id="a test that binds"),
        pytest.param("x = 'a'\nwhile c:\n    x = 'b'\nelse:\n    show(x)", "a b", id="while with else"),
    ],
)
def test_loops(code: str, given: str) -> None:
    assert _shown(code) == [given]


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param("with 'a' as x:\n    show(x)", "entered a", id="the analysis says what is entered"),
        pytest.param("with 'a' as x, x as y:\n    show(y)", "entered entered a", id="one after the other"),
        pytest.param("with 'a' as (x, y):\n    show(y)", "entered a", id="several names"),
    ],
)
def test_with(code: str, given: str) -> None:
    assert _shown(code) == [given]


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param(
            "x = 'a'\ntry:\n    x = 'b'\n    f()\nexcept E:\n    show(x)", "a b", id="a handler starts anywhere"
        ),
        pytest.param(
            "x = 'a'\ntry:\n    x = 'b'\n    if c:\n        x = 'c'\n        raise E\nexcept E:\n    show(x)",
            "a b c",
            id="what is raised in a branch",
        ),
        pytest.param("try:\n    x = 'a'\nexcept E:\n    x = 'b'\nshow(x)", "a b", id="after either"),
        pytest.param("try:\n    x = 'a'\nexcept E:\n    return\nshow(x)", "a", id="a handler that returns"),
        pytest.param("try:\n    x = 'a'\nexcept E:\n    pass\nelse:\n    x = 'b'\nshow(x)", "b", id="else"),
        pytest.param("x = 'a'\ntry:\n    x = 'b'\n    return\nfinally:\n    show(x)", "a b", id="finally runs anyway"),
        pytest.param("try:\n    return\nfinally:\n    pass\nshow('a')", None, id="but nothing is run after it then"),
        pytest.param(
            "for _ in s:\n    try:\n        break\n    finally:\n        x = 'a'\nshow(x)",
            "a",
            id="nor is it jumped over",
        ),
        pytest.param("e = 'a'\ntry:\n    pass\nexcept E as e:\n    show(e)", "", id="an exception has a name"),
        pytest.param(
            "x = 'a'\ntry:\n    try:\n        x = 'b'\n        f()\n    finally:\n        pass\nexcept E:\n    show(x)",
            "a b",
            id="an exception leaves two of them",
        ),
        pytest.param(
            "x = 'a'\ntry:\n    for _ in s:\n        x = 'b'\nexcept E:\n    show(x)",
            "a b",
            id="a next pass that raises",
        ),
        pytest.param("x = 'a'\ntry:\n    x = f()\nexcept E:\n    show(x)", "a", id="what raises binds nothing"),
    ],
)
def test_exceptions(code: str, given: str | None) -> None:
    assert _shown(code) == ([] if given is None else [given])


@pytest.mark.parametrize(
    ("code", "given"),
    [
        pytest.param("y = [x for x in 'a']\nshow(y)", "a", id="items of a list"),
        pytest.param("x = 'a'\ny = [x for x in 'b']\nshow(x)", "a", id="a comprehension's names are its own"),
        pytest.param("y = {x: z for x, z in pair()}\nshow(x)", "", id="and nothing to others"),
        pytest.param("y = [z for x in 'a' for z in x]\nshow(y)", "a", id="one loop in the other"),
        pytest.param("[show(x) for x in 'a']", "a", id="what is called in it"),
        pytest.param("y = [(z := x) for x in 'a']\nshow(z)", "a", id="what := binds in it is the function's"),
        pytest.param("z = 'b'\ny = [(z := x) for x in 'a']\nshow(z)", "a b", id="if there is an item"),
        pytest.param("f(y := 'a')\nshow(y)", "a", id=":= in an argument"),
        pytest.param("y = 'a'\nf((y := 'b'), show(y))", "b", id="what comes after := in one expression"),
        pytest.param("y = 'a'\nc and (y := 'b')\nshow(y)", "a b", id=":= that may not be evaluated"),
        pytest.param("y = 'a'\n(y := 'b') and c\nshow(y)", "b", id=":= that is always evaluated"),
        pytest.param("y = 'a'\n(y := 'b') if c else d\nshow(y)", "a b", id=":= in a conditional expression"),
        pytest.param("y = 'a'\nf(lambda: (y := 'b'))\nshow(y)", "a", id=":= in a lambda is its own"),
    ],
)
def test_expressions(code: str, given: str) -> None:
    assert _shown(code) == [given]


class _Tests(ForwardAnalysis[frozenset[str]]):
    """A name holds whether the last test of it held."""

    def join(self, one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
        return one | other

    def of(self, node: ast.expr) -> frozenset[str]:
        return frozenset({ast.unparse(node)})

    def tested(self, test: ast.expr, *, holds: bool) -> None:
        if isinstance(test, ast.Name):
            self.put(test.id, frozenset({str(holds)}))


@pytest.mark.parametrize(
    ("code", "held"),
    [
        pytest.param("if x:\n    y = x", {"True", "False"}, id="after both branches"),
        pytest.param("if x:\n    raise ValueError", {"False"}, id="where one of them ends"),
        pytest.param("if x:\n    pass\nelse:\n    raise ValueError", {"True"}, id="where the other ends"),
        pytest.param("raise ValueError\nif x:\n    pass", set(), id="never reached"),
    ],
)
def test_a_branch_is_told_how_its_test_came_out(code: str, held: set[str]) -> None:
    walk = _Tests({"x": _NONE}, _NONE)

    walk.run(ast.parse(code).body)

    assert walk.names.get("x", _NONE) == held


def test_unreachable_code_is_not_followed() -> None:
    assert _shown("show('a')\nreturn\nshow('b')") == ["a"]


@pytest.mark.parametrize(
    ("code", "jumped"),
    [
        pytest.param("x = 'a'\nif c:\n    x = 'b'\n    break", "b", id="by break"),
        pytest.param("x = 'a'\nif c:\n    x = 'b'\n    continue\nbreak", "a b", id="by continue"),
        pytest.param("x = 'a'\nif c:\n    x = 'b'\n    return", None, id="not by return, which leaves the function"),
        pytest.param("x = 'a'\nfor _ in s:\n    break", None, id="nor by a break of a loop among them"),
    ],
)
def test_statements_are_left(code: str, jumped: str | None) -> None:
    found = _run(code).jumped
    assert (None if found is None else " ".join(sorted(found["x"]))) == jumped


def test_a_jump_in_the_statements_themselves_goes_on_at_the_loop() -> None:
    module = Module("train.py", "for _ in s:\n    show(x)\n    HERE\n    x = 'b'\n    show(x)\nshow(x)")
    here = next(each for each in module.nodes(ast.Expr) if ast.unparse(each) == "HERE")
    walk = _Texts({"x": frozenset({"a"})})
    walk.run_after(module, here, {"x": frozenset({"c"})})
    assert {line: " ".join(sorted(held)) for line, held in walk.shown.items()} == {5: "b", 2: "b c", 6: "b c"}


def test_it_is_told_whether_a_call_is_all_of_a_statement() -> None:
    assert _run("show('a')\nx = show('a')\nf(show('a'))\n[show(x) for x in 'a']").dropped == {
        1: True,
        2: False,
        3: False,
        4: False,
    }


def test_attributes_and_items_are_told() -> None:
    assert _run("a.b, c[0] = 'x', 'y'\na.b += 'z'").stores == ["a.b: x", "c[0]: y", "a.b: z"]


_AFTER = {
    "what follows in the suite": ("if c:\n    HERE\n    show(x)\nelse:\n    show('b')", ["a"]),
    "what follows the branch": ("if c:\n    HERE\n    x = 'b'\nshow(x)", ["b"]),
    "the next pass": ("for _ in s:\n    show(x)\n    HERE", ["a"]),
    "what the next pass hands on": ("for _ in s:\n    HERE\n    show(y)\n    y = x", ["a"]),
    "a continue": ("for _ in s:\n    show(x)\n    HERE\n    continue\n    x = 'b'", ["a"]),
    "a break": ("for _ in s:\n    HERE\n    break\nshow(x)", ["a"]),
    "no next pass after a return": ("for _ in s:\n    show(x)\n    HERE\n    return", []),
    "else of a loop": ("for _ in s:\n    HERE\nelse:\n    show(x)", ["a"]),
    "from else of a loop, no pass": ("for _ in s:\n    show(x)\nelse:\n    HERE", []),
    "a handler": ("try:\n    HERE\n    x = 'b'\n    f()\nexcept E:\n    show(x)", ["a b"]),
    "from a handler, finally": ("try:\n    show(x)\nexcept E:\n    HERE\nfinally:\n    show(x)", ["a"]),
    "a case": ("match s:\n    case 1:\n        HERE\n    case 2:\n        show(x)\nshow(x)", ["a"]),
}


@pytest.mark.parametrize(("code", "given"), _AFTER.values(), ids=_AFTER)
def test_after_a_statement(code: str, given: list[str]) -> None:
    module = Module("train.py", textwrap.indent(code, "    ").join(("def f(s):\n", "\nshow('outside')\n")))
    here = next(each for each in module.nodes(ast.Expr) if ast.unparse(each) == "HERE")
    walk = _Texts({"x": frozenset({"a"})})
    walk.run_after(module, here)
    assert [" ".join(sorted(walk.shown[line])) for line in sorted(walk.shown) if walk.shown[line]] == given
