"""Where few passes of a loop ask a meter, or make it anew."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.meter_reads import tellings
from codemods.facts.training.own_meters import Meter, own_meter
from codemods.facts.training.totals import told

CODE = """\
import time
class Meter:
    def __init__(self):
        self.sum = 0.0
    def update(self, value):
        self.sum += value
    def reset(self):
        self.sum = 0.0
def f(xs, kept):
    m = Meter()
    for i, x in enumerate(xs):
        m.update(x)
{inside}
f([1], [])
"""


def found(inside: str) -> list[str] | str:
    """Before which statements the meter is told, and where it is made anew; else the text of the reason."""
    known = script(CODE.format(inside="".join(f"        {each}\n" for each in inside.splitlines())))
    module = known.module
    (loop,) = (each for each in module.nodes(ast.For) if ast.unparse(each.iter) == "enumerate(xs)")
    own = own_meter(known.flow, module, loop, loop.body[0])
    assert own is not None
    additions = tuple(each for each in module.nodes(ast.Expr) if told(each) is not None)
    places = tellings(known.flow, Meter(module, loop, "m", additions, own=own))
    if isinstance(places, Reason):
        return places.text
    return [f"{ast.unparse(each.anchor)}{' | new' if each.is_new else ''}" for each in places]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("pass", [], id="nowhere"),
        pytest.param("if i % 9 == 0:\n    x = 1\n    print(m.sum)\n    m.reset()", ["print(m.sum)"], id="read"),
        pytest.param("if i % 9 == 0:\n    m = Meter()\n    print(m.sum)", ["m = Meter() | new"], id="made anew"),
        pytest.param("if i % 9 == 0:\n    print(m.sum)\n    m = Meter()", ["print(m.sum)"], id="read before"),
        pytest.param(
            "if i % 9 == 0:\n    print(m.sum)\nif i % 8 == 0:\n    m.reset()", ["print(m.sum)", "m.reset()"], id="twice"
        ),
        pytest.param(
            "if i % 9 == 0:\n    if x:\n        print(m.sum)\n    m.reset()",
            ["if x:\n    print(m.sum)"],
            id="under a condition of its own",
        ),
        pytest.param(
            "if i % 9 == 0:\n    now = time.time()\n    print(m.sum)", ["now = time.time()"], id="below a clock"
        ),
        pytest.param("if i % 9 == 0:\n    return m", ["return m"], id="at the end of the loop"),
    ],
)
def test_where_it_is_told(inside: str, expected: list[str]) -> None:
    assert found(inside) == expected


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("print(m.sum)", "'m' is read in each iteration", id="each pass reads it"),
        pytest.param("if i % 9 == 0:\n    kept.append(m)", "other code may keep 'm'", id="somebody keeps it"),
        pytest.param("if i % 9 == 0:\n    kept.append(m.update)", "other code may keep 'm'", id="a method is kept"),
        pytest.param("m = Meter()", "'m' is made anew in each iteration", id="each pass makes one"),
        pytest.param("if i % 9 == 0:\n    m.update(2)\n    print(m.sum)", "'m' is told something", id="told there"),
    ],
)
def test_why_it_is_told_in_each_pass(inside: str, expected: str) -> None:
    said = found(inside)

    assert isinstance(said, str)
    assert said.startswith(expected)
