"""What an iteration uses a number for that it reads from the device."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.number_uses import use_in_passes

HEAD = """\
import torch
def train(model, batches, losses):
    for i, x in enumerate(batches):
"""


@pytest.mark.parametrize(
    ("body", "expected", "decides"),
    [
        pytest.param("print(model(x).item())", "print() is given it in each iteration", True, id="printed"),
        pytest.param(
            "losses.append(model(x).item())", "append() keeps it in each iteration", False, id="kept in a list"
        ),
        pytest.param(
            "n = model(x).item()",
            "it is kept in 'n' in each iteration, and nothing reads that",
            True,
            id="kept, and not seen to be read",
        ),
        pytest.param(
            "n, x = n + model(x).item(), 2",
            "it is given to one of several names in each iteration",
            False,
            id="to one of several names",
        ),
        pytest.param("x.n = model(x).item()", "it is kept in 'x.n' in each iteration", False, id="in an attribute"),
        pytest.param(
            "n = model(x).item()\nprint(n)", "print() is given 'n' in each iteration", True, id="printed by a name"
        ),
        pytest.param(
            "n = model(x).item()\nlosses.append(n)\nprint(f'{i}: {n:.3f}')",
            "print() is given 'n' in each iteration",
            True,
            id="the use that needs the number goes before one that keeps it",
        ),
        pytest.param(
            "n = model(x).item()\nif i % 10 == 0:\n    print(n)",
            "'n' is read from the device in each iteration, and used in few",
            True,
            id="few iterations use it",
        ),
        pytest.param(
            "x = x * model(x).item()",
            "it is kept in 'x' in each iteration, and nothing reads that",
            True,
            id="a product that is kept",
        ),
        pytest.param("while model(x).item() > 1:\n    x = 2", "the iteration goes on by it", True, id="asked for"),
    ],
)
def test_what_a_number_is_used_for(*, body: str, expected: str, decides: bool) -> None:
    module = script(HEAD + "".join(f"        {each}\n" for each in body.splitlines())).module
    [loop] = module.nodes(ast.For)
    [read] = [each for each in module.nodes(ast.Call) if ast.unparse(each) == "model(x).item()"]

    use = use_in_passes(module, loop, read, "it")

    assert use is not None
    assert (use.text, use.decides) == (expected, decides)
