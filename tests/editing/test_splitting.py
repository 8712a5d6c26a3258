"""When is ``x, y = f(x), g(y)`` written as two statements?"""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.splitting import split, width


def lines(text: str, added: int, known: str = "to") -> list[str] | None:
    """The statements that the last one becomes; calls of a method are known to do nothing else."""
    module = Module("train.py", text)
    calls = [each for each in module.nodes(ast.Call) if ast.unparse(each.func).endswith(known)]
    edit = split(module, module.tree.body[-1], calls, added)
    if edit is None:
        return None
    return edit.template.format(**{name: ast.unparse(node) for name, node in edit.holes}).split("\n")


@pytest.mark.parametrize(
    ("text", "added", "expected"),
    [
        pytest.param("x, y = x.to(d), y.to(d)\n", 10, None, id="it fits"),
        pytest.param("x, y = x.to(d), y.to(d)\n", 70, ["x = x.to(d)", "y = y.to(d)"], id="it gets too wide"),
        pytest.param("x, y = x.to(d), y.to(d)  # both\n", 70, ["x = x.to(d)", "y = y.to(d)"], id="with a comment"),
        pytest.param("x, y = y.to(d), x.to(d)\n", 70, None, id="the names are exchanged"),
        pytest.param("x, y = x.to(d), f(y)\n", 70, None, id="a call may change the first"),
        pytest.param("x, y = x.to(d), (z := y)\n", 70, None, id="something else is bound"),
        pytest.param("x, y = f()\n", 90, None, id="there is one value"),
        pytest.param("x[0], y = x.to(d), y.to(d)\n", 70, None, id="an item is assigned"),
        pytest.param("a = 1; x, y = x.to(d), y.to(d)\n", 70, None, id="it shares its line"),
        pytest.param("x, y = (x.to(d),\n        y.to(d))\n", 70, None, id="it has two lines"),
        pytest.param(
            "wide = " + " + ".join(["value"] * 14) + "\nx, y = x.to(d), y.to(d)\n", 70, None, id="others are as wide"
        ),
    ],
)
def test_what_is_split(text: str, added: int, expected: list[str] | None) -> None:
    assert lines(text, added) == expected


def test_lines_may_be_as_wide_as_one_that_an_earlier_change_took_away() -> None:
    assert width(Module("train.py", "x = 1\n")) == 88
    assert width(Module("train.py", "x = 1\n", earlier_width=104)) == 104
    assert width(Module("train.py", "x = 1\n", widest=100, earlier_width=104)) == 100
