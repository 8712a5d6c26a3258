"""Which sums a loop keeps in a name, and who would see a tensor there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.training.totals import Held, Total, added, decayed

if TYPE_CHECKING:
    from codemods.dataflow.source import Module


def total(text: str) -> Total:
    """The sum ``s`` of the loop that adds ``x`` to it."""
    return total_of(script(text).module)


def total_of(module: Module) -> Total:
    statements = [each for each in module.nodes(ast.AugAssign, ast.Assign) if added(each) is not None]
    loop = next(
        each for one in statements[:1] for each in module.ancestors(one) if isinstance(each, (ast.For, ast.While))
    )
    return Total(module, loop, "s", tuple(each for each in statements if each in ast.walk(loop)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("s += x", ("s", "x"), id="in place"),
        pytest.param("s -= x", ("s", "x"), id="subtracted"),
        pytest.param("s = s + x", ("s", "x"), id="written out"),
        pytest.param("s = x + s", ("s", "x"), id="the other way round"),
        pytest.param("s = x - s", None, id="subtracted the other way round"),
        pytest.param("s *= x", None, id="multiplied"),
        pytest.param("self.s += x", None, id="an attribute"),
        pytest.param("s += [x]", None, id="a list, which is appended to"),
    ],
)
def test_what_is_added(text: str, expected: tuple[str, str] | None) -> None:
    found = added(ast.parse(text).body[0])

    assert (None if found is None else (found[0], ast.unparse(found[1]))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("s = s * 0.9 + x", ("s", "x", "0.9"), id="the old part first"),
        pytest.param("s = 0.1 * x + (1 - 0.1) * s", ("s", "0.1 * x", "1 - 0.1"), id="the new part first"),
        pytest.param("s = s * 0.9 + s", None, id="the new part is made of it, too"),
        pytest.param("s = s * s + x", None, id="it is its own factor"),
        pytest.param("s = t * 0.9 + x", None, id="of another one"),
        pytest.param("s = s / 2 + x", None, id="a division"),
        pytest.param("s = s * 0.9 - x", None, id="a difference"),
    ],
)
def test_what_a_moving_average_is_made_of(text: str, expected: tuple[str, str, str] | None) -> None:
    found = decayed(ast.parse(text).body[0])

    assert (None if found is None else (found[0], *map(ast.unparse, found[1:]))) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("s = 0.0\nfor x in X:\n    s += x\n", {Held.FLOAT}, id="a float"),
        pytest.param("s = n = 0\nfor x in X:\n    s += x\n", {Held.INTEGER}, id="an integer"),
        pytest.param("s, n = -1, 0.5\nfor x in X:\n    s += x\n", {Held.INTEGER}, id="one of two"),
        pytest.param("s = True\nfor x in X:\n    s += x\n", {Held.OTHER}, id="a truth value"),
        pytest.param("s = f()\nfor x in X:\n    s += x\n", {Held.OTHER}, id="something else"),
        pytest.param("for x in X:\n    s += x\n", {Held.OTHER}, id="nothing"),
        pytest.param("s = 0.0\nif X:\n    s = 0\nfor x in X:\n    s += x\n", {Held.FLOAT, Held.INTEGER}, id="either"),
        pytest.param(
            "s = 0.0\nfor x in X:\n    s += x\n    if x:\n        s = 0\n", {Held.FLOAT, Held.INTEGER}, id="anew"
        ),
        pytest.param("def f(s):\n    for x in X:\n        s += x\n", {Held.OTHER}, id="what a function is given"),
        pytest.param(
            "s = 0.0\nfor e in E:\n    for x in X:\n        s += x\n    s /= 2\n",
            {Held.FLOAT},
            id="a float over epochs",
        ),
        pytest.param(
            "s = 0.0\nfor e in E:\n    for x in X:\n        s += x\n    s = f(s)\n",
            {Held.FLOAT, Held.OTHER},
            id="something else then",
        ),
        pytest.param("s = 0\nfor x in X:\n    s = float(s)\n    s += x\n", {Held.FLOAT}, id="made a float"),
    ],
)
def test_where_a_sum_starts(text: str, expected: set[Held]) -> None:
    assert total(text).starts == expected


@pytest.mark.parametrize(
    ("text", "inside", "after"),
    [
        pytest.param("s = 0.0\nfor x in X:\n    s += x\nprint(s)\n", [], True, id="after the loop"),
        pytest.param("s = 0.0\nfor x in X:\n    s += x\ns /= 2\n", [], True, id="divided after the loop"),
        pytest.param("s = 0.0\nfor x in X:\n    s += x\ns = 1.0\nprint(s)\n", [], False, id="after a new start"),
        pytest.param("s = 0.0\nfor x in X:\n    print(s)\n    s += x\n", [3], False, id="in the loop"),
        pytest.param(
            "s = 0.0\nfor x in X:\n    s += x\n    s = 0.0\n    print(s)\n", [], False, id="in the loop, anew"
        ),
        pytest.param("s = 0.0\nwhile s < 3:\n    s += x\n", [2], False, id="before each pass"),
        pytest.param(
            "while s < 3:\n    s = 0.0\n    for x in X:\n        s += x\n", [], True, id="before each pass around"
        ),
        pytest.param(
            "s = 0.0\nfor e in E:\n    print(s)\n    for x in X:\n        s += x\n",
            [],
            True,
            id="in the next pass around",
        ),
        pytest.param(
            "for e in E:\n    s = 0.0\n    print(s)\n    for x in X:\n        s += x\n",
            [],
            False,
            id="before it starts anew",
        ),
    ],
)
def test_where_the_sum_is_read(text: str, inside: list[int], *, after: bool) -> None:
    found = total(text)

    assert [each.lineno for each in found.read_inside] == inside
    assert found.is_read_after is after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("def f():\n    s = 0.0\n    for x in X:\n        s += x\n    return s\n", None, id="nobody"),
        pytest.param(
            "def f():\n    s = 0.0\n    for x in X:\n        s += x\n    return s\n\ndef g():\n    global s\n    s = f()\n",
            None,
            id="another function has a global name alike",
        ),
        pytest.param(
            "def f():\n    s = 0.0\n    def g():\n        nonlocal s\n    for x in X:\n        s += x\n    g()\n",
            "other functions see 's'",
            id="a function in this one changes it",
        ),
        pytest.param(
            "s = 0.0\nfor x in X:\n    s += x\ndef f():\n    return s\n", "another function reads 's'", id="a function"
        ),
        pytest.param(
            "s = 0.0\nfor x in X:\n    s += x\ndef f(s):\n    return s\n", None, id="a function with such a name"
        ),
        pytest.param(
            "def f():\n    global s\n    s = 0.0\n    for x in X:\n        s += x\n",
            "other functions see 's'",
            id="all",
        ),
        pytest.param(
            "s = 0.0\nfor x in X:\n    s += x\n    eval(x)\n", "eval() may see 's'", id="what looks at all names"
        ),
        pytest.param(
            "s = 0.0\ntry:\n    for x in X:\n        s += x\nexcept KeyboardInterrupt:\n    pass\nprint(s)\n",
            "'s' may be read after an exception has left the loop",
            id="what runs after an exception",
        ),
        pytest.param(
            "s = 0.0\ntry:\n    for x in X:\n        s += x\nfinally:\n    print(s)\n",
            "'s' may be read after an exception has left the loop",
            id="what runs in any case",
        ),
        pytest.param(
            "s = 0.0\ntry:\n    for x in X:\n        s += x\nexcept KeyboardInterrupt:\n    s = 1.0\nprint(s)\n",
            None,
            id="what starts anew after an exception",
        ),
        pytest.param(
            "s = 0.0\nfor x in X:\n    try:\n        s += x\n    except ValueError:\n        continue\nprint(s)\n",
            None,
            id="what goes on after an exception in the loop",
        ),
        pytest.param(
            "class A:\n    def __exit__(self, *a):\n        return True\n"
            "s = 0.0\nwith A():\n    for x in X:\n        s += x\nprint(s)\n",
            "'s' may be read after an exception that is suppressed",
            id="what runs after a block of the project that suppresses it",
        ),
        pytest.param(
            "class A:\n    def __exit__(self, *a):\n        print(a)\n"
            "s = 0.0\nwith A():\n    for x in X:\n        s += x\nprint(s)\n",
            None,
            id="what does not run, as the block of the project hands it on",
        ),
        pytest.param(
            "import contextlib\n@contextlib.contextmanager\ndef quiet():\n    try:\n        yield\n"
            "    except ValueError:\n        pass\n"
            "s = 0.0\nwith quiet():\n    for x in X:\n        s += x\nprint(s)\n",
            "'s' may be read after an exception that is suppressed",
            id="what runs after a block of a generator that suppresses it",
        ),
        pytest.param(
            "import torch\ns = 0.0\nwith torch.no_grad():\n    for x in X:\n        s += x\nprint(s)\n",
            None,
            id="what a block of torch's is around",
        ),
        pytest.param(
            "s = 0.0\nwith suppress(KeyboardInterrupt):\n    for x in X:\n        s += x\nprint(s)\n",
            "'s' may be read after an exception that is suppressed",
            id="what runs after a suppressed exception",
        ),
    ],
)
def test_who_sees_the_tensor(text: str, expected: str | None) -> None:
    known = script(text)
    reason = total_of(known.module).why_seen(known.flow)

    assert (None if reason is None else reason.text.partition(" (")[0]) == expected


@pytest.mark.parametrize(
    ("end", "is_told"),
    [
        pytest.param("print(s)", True, id="printed"),
        pytest.param("print(s / 3)", False, id="divided"),
        pytest.param("s /= 3\nprint(s)", False, id="divided in place"),
        pytest.param("print(s * 3)", True, id="multiplied"),
        pytest.param("print(f'{s:.2f}')", False, id="in a text of digits"),
        pytest.param("print(f'{s}')", True, id="in a text"),
        pytest.param("print('%d %%' % s)", False, id="in an old text of digits"),
        pytest.param("print('%s: %.1f' % (s, s))", True, id="in an old text, once without digits"),
        pytest.param("print('%s: %.1f' % ('s', s))", False, id="in an old text beside another"),
        pytest.param("print('{} {:.1f}'.format(1, s))", False, id="formatted beside another"),
        pytest.param("print('{:.1f} {}'.format(1, s))", True, id="formatted without digits"),
        pytest.param("print('{0:.1f}'.format(s))", True, id="formatted by its place, which is not counted"),
        pytest.param("print(s > 3)", False, id="compared"),
    ],
)
def test_what_tells_an_integer_from_a_float(end: str, *, is_told: bool) -> None:
    known = script(f"s = 0\nfor x in X:\n    s += x\n{end}\n")

    assert (total_of(known.module).why_told_apart(known.flow) is not None) is is_told


@pytest.mark.parametrize(
    ("returned", "after", "is_told"),
    [
        pytest.param("s", "print(run() / 3)", False, id="divided at once"),
        pytest.param("s", "s = run()\nprint(s / 3)", False, id="divided"),
        pytest.param("s, 1", "t, n = run()\nprint(t / 3, n)", False, id="of a tuple, divided"),
        pytest.param("1, s", "t, n = run()\nprint(t, n / 3)", False, id="of a tuple, at the end"),
        pytest.param("s", "s = run()\nprint(s / 3)\ns = 5\nprint(s)", False, id="another number has its name later"),
        pytest.param("s", "def twice():\n    return run()\nprint(twice() / 3)", False, id="returned once more"),
        pytest.param("s", "def twice():\n    s = run()\n    print(s > 2)\ntwice()", False, id="in a function"),
        pytest.param("s", "print(run())", True, id="printed"),
        pytest.param("s", "print(run() / 3)\nprint(run())", True, id="printed by one of two callers"),
        pytest.param("s, 1", "t, n = run()\nprint(t)", True, id="of a tuple, printed"),
        pytest.param("s, 1", "t = run()\nprint(t[0] / 3)", True, id="of a tuple that is kept"),
        pytest.param("s, 1", "*t, n = run()\nprint(t / 3, n)", True, id="of a tuple, in a list"),
        pytest.param("[s]", "(t,) = run()\nprint(t / 3)", True, id="of a list"),
        pytest.param("s", "t = run()\ndef show():\n    print(t)\nshow()", True, id="another function prints it"),
        pytest.param("s", "t = u = run()\nprint(t / 3, u)", True, id="it has two names"),
        pytest.param("s", "log.append(run())", True, id="it is kept"),
        pytest.param("s", "call(run)\nprint(run() / 3)", True, id="other code may call it"),
        pytest.param("s", "", True, id="nobody calls it"),
        pytest.param("s", "def again():\n    return again() or run()\nagain()", True, id="nothing comes of it"),
    ],
)
def test_what_callers_tell_apart(returned: str, after: str, *, is_told: bool) -> None:
    known = script(f"def run():\n    s = 0\n    for x in X:\n        s += x\n    return {returned}\n{after}\n")

    assert (total_of(known.module).why_told_apart(known.flow) is not None) is is_told


def test_a_sum_that_surely_starts_from_a_float_is_one() -> None:
    known = script("s = 0.0\nfor x in X:\n    s += x\nprint(s)\n")

    assert total_of(known.module).why_told_apart(known.flow) is None
