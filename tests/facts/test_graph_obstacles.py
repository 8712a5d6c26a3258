"""Why code may need the graphs that it computes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.reason import HERE
from codemods.facts.training.graph_obstacles import GraphObstacles, flag
from codemods.facts.training.graph_uses import GraphUses
from codemods.facts.training.iterations import Iterations
from codemods.facts.training.modes import Modes

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = """\
import torch
from torch import nn
class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.state = torch.zeros(4)
    def forward(self, x):
        self.state = self.layer(x + self.state)
        return self.state
model = nn.Linear(4, 4)
memory = Memory()
kept = []
"""


def obstacles(text: str) -> tuple[GraphObstacles, Script]:
    known = script(HEAD + text)
    uses = GraphUses(known.flow, Modes(known.flow, known.modules), Iterations(known.flow, known.modules))
    return GraphObstacles(known.flow, known.modules, uses), known


def functions(known: Script) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [*known.module.nodes(ast.FunctionDef), *known.module.nodes(ast.AsyncFunctionDef)]


def of_function(text: str) -> tuple[str, str] | None:
    """Why the last function cannot do without gradients."""
    found, known = obstacles(text)
    reason = found.of_function(functions(known)[-1], None)
    return None if reason is None else (reason.code, reason.text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("def report(x):\n    print(model(x))\nreport(1)\n", id="what it computes is printed"),
        pytest.param("def report(x):\n    return model(x).argmax(1)\n", id="what it returns has no graph"),
        pytest.param("def report(x):\n    return model(x)\nprint(report(1))\n", id="its result is printed"),
        pytest.param("def report(x):\n    kept.append(model(x).item())\nreport(1)\n", id="a number is kept"),
        pytest.param(
            "import functools\n@functools.lru_cache()\ndef report(x):\n    print(model(x))\n",
            id="a decorator that is known",
        ),
    ],
)
def test_nothing_keeps_a_function_from_doing_without(text: str) -> None:
    assert of_function(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "def report(x):\n    kept.append(model(x))\nreport(1)\n",
            ("graph-escapes", f"it keeps a tensor for later ({HERE})"),
            id="a tensor is kept",
        ),
        pytest.param(
            "def report(x):\n    return model(x)\n",
            ("graph-escapes", "it returns tensors to code outside this file, which may train on them"),
            id="nobody here calls it",
        ),
        pytest.param(
            "def report(x):\n    return model(x)\nreport(1).sum().backward()\n",
            ("graph-escapes", f"what it returns may be trained on ({HERE})"),
            id="what it returns is trained on",
        ),
        pytest.param(
            "def report(x):\n    return model(x)\ny = report(1)\ny = y * 2\ny.sum().backward()\n",
            ("graph-escapes", f"what it returns may be trained on ({HERE})"),
            id="what is made of its result is trained on",
        ),
        pytest.param(
            "@wrapped\ndef report(x):\n    print(model(x))\n",
            ("not-editable", f"@wrapped may need the function as it is ({HERE})"),
            id="a decorator that is not known",
        ),
        pytest.param(
            "async def report(x):\n    print(model(x))\n",
            ("not-editable", "it is a coroutine: a decorator would not act while it runs"),
            id="a coroutine",
        ),
        pytest.param(
            "def report(x):\n    print(memory(x))\nreport(1)\n",
            ("graph-escapes", f"the model keeps self.state from one call to the next ({HERE})"),
            id="a model with a memory",
        ),
        pytest.param(
            "def report(x):\n    print(model(x))\nwith torch.autocast('cuda'):\n    report(1)\n",
            ("shared-autocast", f"it shares an autocast block, which may keep weights without a graph ({HERE})"),
            id="its call is under autocast",
        ),
    ],
)
def test_why_a_function_needs_its_graphs(text: str, expected: tuple[str, str]) -> None:
    assert of_function(text) == expected


def of_statements(text: str, count: int = 1) -> tuple[str, str] | None:
    """Why the first statements of the text cannot do without gradients."""
    found, known = obstacles(text)
    rest = known.module.tree.body[len(ast.parse(HEAD).body) :]
    reason = found.of_statements(known.module, tuple(rest[:count]))
    return None if reason is None else (reason.code, reason.text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("y = model(x)\nprint(y)\n", None, id="it is printed"),
        pytest.param("y = model(x)\ny.sum().backward()\n", "graph-escapes", id="it is trained on later"),
        pytest.param("y = model(x).detach()\ny.sum().backward()\n", None, id="it is trained on without its graph"),
        pytest.param("model(x).sum().backward()\n", "also-trains", id="it trains"),
        pytest.param("with torch.profiler.profile():\n    y = model(x)\n", "script-decides", id="it is profiled"),
        pytest.param("y = memory(x)\n", "graph-escapes", id="a model with a memory"),
        pytest.param("g = torch.autograd.grad(model(x).sum(), x)\n", "needs-gradients", id="gradients are needed"),
    ],
)
def test_why_statements_need_their_graphs(text: str, code: str | None) -> None:
    reason = of_statements(text)

    assert (None if reason is None else reason[0]) == code


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("x, training", "training"),
        ("x, *, optimizer=None", "optimizer"),
        ("mode, x", "mode"),
        ("x, train_loader", None),
        ("", None),
    ],
)
def test_the_parameter_that_says_whether_it_trains(signature: str, expected: str | None) -> None:
    (function,) = ast.parse(f"def run({signature}):\n    pass\n").body

    assert isinstance(function, ast.FunctionDef)
    assert flag(function) == expected


def test_only_a_function_that_trains_has_to_be_told() -> None:
    found, known = obstacles("def run(x, training):\n    model(x)\n")

    function = functions(known)[-1]

    assert found.of_training(function, None) is None
    reason = found.of_training(function, function.body[0])
    assert reason is not None
    assert reason.text == f"the function also trains, as its parameter 'training' says ({HERE})"
