"""Which dictionaries are of one function alone, and what their items hold before a loop."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.totals_of_items import ItemTotal, item_of, own_dictionary

LOOP = "    for x in xs:\n        d['s'] += x\n"


def start(head: str) -> str | None:
    """What the item holds before the loop, if the dictionary is the function's own."""
    module = script(f"def f(xs, given):\n{head}{LOOP}    return d\nf([1], {{}})\n").module
    statement = next(each for each in module.nodes(ast.AugAssign) if item_of(each) is not None)
    loop = next(each for each in module.ancestors(statement) if isinstance(each, ast.For))
    item = item_of(statement)
    assert item is not None
    found = own_dictionary(module, loop, item)
    return None if found is None else ast.unparse(found.value)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        pytest.param("    d = {'s': 0.0}\n", "0.0", id="written out"),
        pytest.param("    d = {'s': 1, 's': 2}\n", "2", id="the last of two"),
        pytest.param("    d = dict(s=0)\n", "0", id="by keywords"),
        pytest.param("    d = {}\n    d['s'] = 3\n", "3", id="set later"),
        pytest.param("    d = {'s': 0}\n    d['s'] = 3\n    d['t'] = 4\n", "3", id="set again"),
        pytest.param("    d = {'s': 0}\n    if xs:\n        d['s'] = 3\n", "0", id="perhaps set again"),
        pytest.param("    if xs:\n        d = {'s': 0}\n", None, id="perhaps made"),
        pytest.param("    d = {}\n", None, id="not there"),
        pytest.param("    d = given\n", None, id="given"),
        pytest.param("    d = e = {'s': 0}\n", None, id="of two names"),
        pytest.param("    dict = list\n    d = dict(s=0)\n", None, id="no dict of Python's"),
        pytest.param("    d = {'s': 0, **given}\n", None, id="with what others give"),
        pytest.param("    d = dict(s=0, **given)\n", None, id="with keywords that others give"),
        pytest.param("    d = dict(given, s=0)\n", None, id="of another one"),
        pytest.param("    d = {'s': 0}\n    import os as d\n", None, id="bound by an import, too"),
        pytest.param("    d = {'s': 0}\n    def d(): pass\n", None, id="bound by a definition, too"),
    ],
)
def test_what_a_dictionary_of_a_function_holds_before_a_loop(head: str, expected: str | None) -> None:
    assert start(head) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("d['s'] += x", "d['s']", id="added"),
        pytest.param("d['s'] = d['s'] + x", "d['s']", id="written out"),
        pytest.param("d['s'].append(x)", "d['s']", id="appended"),
        pytest.param("d['s'] = x", None, id="set"),
        pytest.param("s += x", None, id="a name"),
        pytest.param("d.s += x", None, id="an attribute"),
    ],
)
def test_the_item_that_is_added_to(text: str, expected: str | None) -> None:
    found = item_of(ast.parse(text).body[0])

    assert (None if found is None else ast.unparse(found)) == expected


def test_a_dictionary_of_a_class_is_no_functions_own() -> None:
    module = script("class C:\n    d = {'s': 0}\n    for x in (1, 2):\n        d['s'] += x\n").module
    loop, statement = next(iter(module.nodes(ast.For))), next(iter(module.nodes(ast.AugAssign)))
    item = item_of(statement)

    assert item is not None
    assert own_dictionary(module, loop, item) is None


def test_where_an_item_is_read() -> None:
    text = (
        "def f(xs):\n    d = {'s': 0.0, 't': 1}\n    print(d['s'])\n"
        f"{LOOP}        print(d['s'], d['t'])\n    d['s'] /= 2\n    d['t'] /= 2\n    return d\n"
    )
    module = script(text).module
    statement = next(each for each in module.nodes(ast.AugAssign) if item_of(each) is not None)
    loop = next(each for each in module.ancestors(statement) if isinstance(each, ast.For))
    item = item_of(statement)
    assert item is not None
    kept = own_dictionary(module, loop, item)
    assert kept is not None
    total = ItemTotal(module, loop, "d['s']", (statement,), item=item, dictionary=kept)

    assert [(ast.unparse(each), each.lineno) for each in total.read_inside] == [("d['s']", 6)]
    assert [(ast.unparse(each), each.lineno) for each in total.read_after] == [("d['s']", 7), ("d", 9)]
