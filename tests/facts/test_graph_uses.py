"""Where the graph of a model call goes."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.graph_uses import GraphUses
from codemods.facts.training.iterations import Iterations
from codemods.facts.training.modes import Modes

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
kept = []
def through(x):
    return model(x) * 2
def number(x):
    return model(x).sum().item()
@torch.no_grad()
def without(x):
    return model(x)
def inner(x):
    with torch.no_grad():
        y = through(x)
    return y
def keeping(x):
    y = model(x)
    kept.append(y)
    return y.item()
def double(t):
    return t * 2
"""


def uses(text: str) -> tuple[GraphUses, ast.Call]:
    """The uses, and the call that stands in ``CALL(…)``."""
    known = script(HEAD + text)
    found = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "CALL").args[0]
    assert isinstance(found, ast.Call)
    return GraphUses(known.flow, Modes(known.flow, known.modules), Iterations(known.flow, known.modules)), found


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("model(x)", True, id="a model"),
        pytest.param("through(x)", True, id="a function that hands a graph on"),
        pytest.param("number(x)", False, id="a function that hands a number on"),
        pytest.param("without(x)", False, id="a function without gradients"),
        pytest.param("inner(x)", False, id="a function that calls without gradients what hands a graph on"),
        pytest.param("double(x)", False, id="a function that calls no model"),
        pytest.param("other(x)", False, id="what is not known"),
    ],
)
def test_what_computes_a_graph(call: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    found, node = uses(f"CALL({call})")

    assert found.computes(node) is expected


def is_unused(text: str) -> bool:
    """The same of a call that is assigned to ``y``."""
    known = script(HEAD + text)
    found = GraphUses(known.flow, Modes(known.flow, known.modules), Iterations(known.flow, known.modules))
    module = known.module
    assigned = next(each for each in module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "out")
    assert isinstance(assigned.value, ast.Call)
    return found.is_unused(module, assigned.value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("out = model(x)\n", id="nothing is done with it"),
        pytest.param("out = model(x)\nprint(out.sum())\n", id="it is printed"),
        pytest.param("out = model(x)\nscore = out.sum().item()\nkept.append(score)\n", id="a number of it is kept"),
        pytest.param("out = model(x)\nout = out.detach()\nkept.append(out)\n", id="it is kept without its graph"),
        pytest.param("def run(x):\n    out = model(x)\n    return out.argmax(1)\n", id="indices are returned"),
        pytest.param(
            "seen = []\nout = model(x)\nseen.append(out)\nprint(len(seen))\n", id="a list that nobody trains on"
        ),
    ],
)
def test_nothing_trains_on_it(text: str) -> None:
    assert is_unused(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("out = model(x)\nout.sum().backward()\n", id="a backward"),
        pytest.param("out = model(x)\nloss = double(out).mean()\nloss.backward()\n", id="through a function"),
        pytest.param("out = model(x)\nlibrary(out)\n", id="code that is not seen"),
        pytest.param("out = model(x)\nkept.append(out)\nsum(kept).backward()\n", id="a list takes it along"),
        pytest.param("def run(x):\n    out = model(x)\n    kept.append(out)\n", id="a list of the module keeps it"),
        pytest.param("out = keeping(x)\n", id="the function keeps it"),
        pytest.param("def run(x):\n    out = model(x)\n    return out\n", id="it is returned"),
        pytest.param(
            "def run(x):\n    out = model(x)\n    def later():\n        return out\n    return later\n",
            id="a function inside takes it along",
        ),
        pytest.param(
            "out = model(x)\ndef later():\n    out.sum().backward()\n", id="a function of the module reads it"
        ),
        pytest.param(
            "out = model(x)\nlast = out * 2\ndef later():\n    last.sum().backward()\n",
            id="a function of the module reads what is made of it",
        ),
        pytest.param(
            "out = model(x)\nkept.append(out)\ndef later():\n    sum(kept).backward()\n",
            id="a function of the module reads a list that takes it along",
        ),
    ],
)
def test_something_may_train_on_it(text: str) -> None:
    assert not is_unused(text)


def test_the_functions_that_are_given_graphs() -> None:
    known = script(HEAD + "double(model(x))\ndouble(x)\n")
    found = GraphUses(known.flow, Modes(known.flow, known.modules), Iterations(known.flow, known.modules))

    assert {getattr(each, "name", ""): set(names) for each, names in found.given_graphs.items()} == {"double": {"t"}}
