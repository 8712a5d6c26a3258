"""Where scripts of old say ``volatile=True``."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.volatile import is_volatile, may_be_volatile

HEAD = """\
import torch
from torch.autograd import Variable
def to_var(x, **options):
    return Variable(x, **options)
def note(x, volatile):
    return x
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("Variable(x, volatile=True)", (True, True), id="it is said"),
        pytest.param("Variable(x, volatile=1)", (True, True), id="a number that is true"),
        pytest.param("torch.autograd.Variable(x, volatile=True)", (True, True), id="by its long name"),
        pytest.param("to_var(x, volatile=True)", (True, True), id="the script's function hands it on"),
        pytest.param("Variable(x, volatile=not training)", (False, True), id="it depends"),
        pytest.param("Variable(x, volatile=False)", (False, False), id="the opposite"),
        pytest.param("Variable(x, requires_grad=True)", (False, False), id="another option"),
        pytest.param("Variable(x)", (False, False), id="nothing is said"),
        pytest.param("note(x, volatile=True)", (False, False), id="a function with such a parameter"),
        pytest.param("other(x, volatile=True)", (False, False), id="what is not known"),
    ],
)
def test_what_is_volatile(code: str, expected: tuple[bool, bool]) -> None:
    known = script(HEAD + code)
    call = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert (is_volatile(known.flow, call), may_be_volatile(known.flow, call)) == expected
