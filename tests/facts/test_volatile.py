"""Where scripts of old say ``volatile=True``."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.volatile import is_idle, is_volatile, may_be_volatile

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


def idle(code: str) -> bool:
    """Whether the first ``Variable(…)`` of some code asks for what is so already."""
    known = script(f"import torch\nfrom torch.autograd import Variable\n{code}")
    call = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "Variable")
    return is_idle(known.flow, known.whole.graph_uses.modes, call)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("with torch.no_grad():\n    Variable(x, volatile=True)\n", True, id="under no_grad"),
        pytest.param("Variable(x, volatile=True)\n", False, id="anywhere"),
        pytest.param("def get(x, test=False):\n    return Variable(x, volatile=test)\n", False, id="nobody calls it"),
        pytest.param(
            "def get(x, test=False):\n    return Variable(x, volatile=test)\nget(1)\n"
            "with torch.no_grad():\n    get(1, True)\n",
            True,
            id="who asks for it has no gradients",
        ),
        pytest.param(
            "def get(x, test=False):\n    return Variable(x, volatile=test)\nget(1, test=True)\n", False, id="one asks"
        ),
        pytest.param(
            "def get(x, test=True):\n    return Variable(x, volatile=test)\nget(1)\n", False, id="by default, too"
        ),
        pytest.param(
            "def get(x, test=False):\n    return Variable(x, volatile=test)\nget(*all_of_it)\n",
            False,
            id="it is not seen",
        ),
    ],
)
def test_where_volatile_is_idle(code: str, *, expected: bool) -> None:
    assert idle(code) is expected
