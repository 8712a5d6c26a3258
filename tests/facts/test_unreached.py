from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.unreached import never_runs


@pytest.mark.parametrize(
    ("body", "calls", "expected"),
    [
        pytest.param("if a:\n        PLACE", "f()", True, id="a default that is false"),
        pytest.param("if a:\n        PLACE", "f(False)", True, id="given what the default is"),
        pytest.param("if a:\n        PLACE", "f(True)", False, id="given something else"),
        pytest.param("if a:\n        PLACE", "f()\nf(a=True)", False, id="given something else once"),
        pytest.param("if a:\n        PLACE", "f(input())", False, id="given what is not known"),
        pytest.param("if a:\n        PLACE", "f(**read())", False, id="given whatever is read"),
        pytest.param("if a:\n        pass\n    else:\n        PLACE", "f()", False, id="in the other branch"),
        pytest.param("if not a:\n        pass\n    else:\n        PLACE", "f()", True, id="of the opposite"),
        pytest.param("if a and c:\n        PLACE", "f()", True, id="beside what is not known"),
        pytest.param("if a or c:\n        PLACE", "f()", False, id="or what is not known"),
        pytest.param("if b is not None:\n        PLACE", "f()", True, id="a default of None"),
        pytest.param("if b is None:\n        PLACE", "f()", False, id="where it is None"),
        pytest.param("if a == 'se':\n        PLACE", "f('cbam')", True, id="another text"),
        pytest.param("if a != 'se':\n        PLACE", "f('cbam')", False, id="not that text"),
        pytest.param("if a == 'se':\n        PLACE", "f('se')\nf('cbam')", False, id="one of two texts"),
        pytest.param("a = c\n    if a:\n        PLACE", "f()", False, id="written to before"),
        pytest.param("if d:\n        PLACE", "f()", False, id="no parameter"),
        pytest.param("if a > 0:\n        PLACE", "f()", False, id="a comparison of sizes"),
        pytest.param("PLACE", "f()", False, id="no condition"),
    ],
)
def test_what_a_parameter_with_one_value_decides(body: str, calls: str, *, expected: bool) -> None:
    known = script(f"import sys\nc = sys.argv\nd = False\ndef f(a=False, b=None):\n    {body}\n{calls}\n")
    (place,) = [each for each in known.module.nodes(ast.Name) if each.id == "PLACE"]
    assert never_runs(known.flow, place) is expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("@gin.configurable\ndef f(a=False):\n    if a:\n        PLACE\nf()\n", id="a function"),
        pytest.param(
            "@gin.configurable\nclass F:\n    def __init__(self, a=False):\n        if a:\n            PLACE\nF()\n",
            id="a class",
        ),
    ],
)
def test_a_decorator_may_give_parameters_other_values(text: str) -> None:
    known = script(f"import gin\n{text}")
    (place,) = [each for each in known.module.nodes(ast.Name) if each.id == "PLACE"]
    assert not never_runs(known.flow, place)
