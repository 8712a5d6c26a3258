"""Which objects of the script are meters of a function, and how they are told numbers."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.signatures import arguments_of
from codemods.facts.training.own_meters import own_meter
from codemods.facts.training.totals import told

CODE = """\
import time
class Meter:
    def __init__(self):
        self.sum, self.last, self.all = 0.0, {{}}, []
    def update(self, value, n=1):
        {inside}
def f(xs):
    {made}
    for x in xs:
        m.update(x, 2)
f([1])
"""


@pytest.mark.parametrize(
    ("inside", "made", "expected"),
    [
        pytest.param("self.sum += value * n", "m = Meter()", True, id="adds"),
        pytest.param("self.last[n] = float(value)", "m = Meter()", True, id="sets an item"),
        pytest.param("if value > 3:\n            self.all.append(value)", "m = Meter()", True, id="appends"),
        pytest.param("self.at = time.time()", "m = Meter()", False, id="reads a clock"),
        pytest.param("self.all.sort()", "m = Meter()", False, id="calls another method"),
        pytest.param("other.append(value)", "m = Meter()", False, id="appends to something else"),
        pytest.param("value.last = n", "m = Meter()", False, id="changes what it is given"),
        pytest.param("value[0] = n", "m = Meter()", False, id="changes an item of what it is given"),
        pytest.param("global last\n        last = value", "m = Meter()", False, id="changes a global name"),
        pytest.param("assert value > 0", "m = Meter()", False, id="may end the script"),
        pytest.param("self.f = lambda: value", "m = Meter()", False, id="makes a function"),
        pytest.param("self.sum += value", "m = [Meter()][0]", False, id="taken of a list"),
        pytest.param("self.sum += value", "m = Meter()\n    m = Meter()", True, id="one of two"),
        pytest.param("self.sum += value", "m = Meter()\n    m = set()", False, id="one of two kinds"),
        pytest.param("self.sum += value", "m = Meter()\n    del m\n    m = Meter()", False, id="its name ends"),
        pytest.param("self.sum += value", "m, n = Meter(), 3", True, id="beside something else"),
        pytest.param("self.sum += value", "m = n = Meter()", False, id="with two names"),
        pytest.param("self.sum += value", "m = set()", False, id="of Python"),
    ],
)
def test_a_meter_of_a_function(inside: str, made: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(CODE.format(inside=inside, made=made))
    loop = next(iter(known.module.nodes(ast.For)))
    found = own_meter(known.flow, known.module, loop, loop.body[0])

    assert (None if found is None else found.class_.name) == ("Meter" if expected else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("m.update(x, n=2)", ("m", ["x", "2"]), id="a keyword"),
        pytest.param("m.add(x)", ("m", ["x"]), id="by add"),
        pytest.param("m.update(*x)", None, id="unpacked"),
        pytest.param("m.update(**x)", None, id="unpacked keywords"),
        pytest.param("m.forget(x)", None, id="another method"),
        pytest.param("self.m.update(x)", None, id="an attribute"),
        pytest.param("y = m.update(x)", None, id="its result is used"),
    ],
)
def test_what_a_meter_is_told(text: str, expected: tuple[str, list[str]] | None) -> None:
    found = told(ast.parse(text).body[0])

    assert (None if found is None else (found[0], [ast.unparse(each) for each in arguments_of(found[1])])) == expected
