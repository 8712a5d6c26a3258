"""Which functions call what they are given before they return?"""

from __future__ import annotations

import pytest

from codemods.library.solvers import calls_at_once


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("scipy.integrate.solve_ivp", True, id="a solver"),
        pytest.param("scipy.integrate.RK45", False, id="a class, whose objects keep it"),
        pytest.param("builtins.sorted", True, id="a function of Python"),
        pytest.param("builtins.map", False, id="an iterator, which calls it later"),
    ],
)
def test_functions_that_call_what_they_are_given_at_once(name: str, *, expected: bool) -> None:
    assert calls_at_once(name) is expected
