"""What has run when a statement of the home is reached."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.order import calls_in_one_run, may_have_run, runs_only_before


def order(text: str) -> tuple[bool, bool]:
    """Whether ``NODE`` may have run when ``HERE`` ends, and whether it runs only before it."""
    known = script(text)
    (node,) = [each for each in known.module.nodes(ast.Name) if each.id == "NODE"]
    (here,) = [each for each in known.module.nodes(ast.Name) if each.id == "HERE"]
    statement = known.module.statement(here)
    found = (known.flow, node, known.module, statement)
    return may_have_run(*found), runs_only_before(*found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("NODE\nHERE\n", (True, True), id="above"),
        pytest.param("HERE\nNODE\n", (False, False), id="below"),
        pytest.param("def f():\n    NODE\nf()\nHERE\n", (True, True), id="a call above"),
        pytest.param("def f():\n    NODE\nHERE\nf()\n", (False, False), id="a call below"),
        pytest.param("def f():\n    NODE\nf()\nHERE\nf()\n", (True, False), id="calls on both sides"),
        pytest.param("def f():\n    NODE\nHERE\n", (False, False), id="nobody calls it"),
        pytest.param("def f():\n    NODE\n    f()\nf()\nHERE\n", (True, True), id="it calls itself"),
        pytest.param("def f():\n    NODE\n    HERE\nf()\n", (True, True), id="in one function"),
    ],
)
def test_what_runs_before(text: str, expected: tuple[bool, bool]) -> None:
    assert order(text) == expected


@pytest.mark.parametrize(
    ("calls", "count"),
    [
        ("", 0),
        ("f()\n", 1),
        ("f()\nf()\n", 2),
        ("if c:\n    f()\nelse:\n    f()\n", 1),
        ("if c:\n    f()\nelif d:\n    f()\nelse:\n    f()\n", 1),
        ("if c:\n    f()\nif d:\n    f()\n", 2),
        ("if f():\n    pass\nelse:\n    f()\n", 2),
    ],
)
def test_how_many_calls_one_run_makes(calls: str, count: int) -> None:
    known = script(f"def f():\n    return 1\n{calls}")
    function = known.module.tree.body[0]
    assert isinstance(function, ast.FunctionDef)

    assert calls_in_one_run(known.flow, function) == count
