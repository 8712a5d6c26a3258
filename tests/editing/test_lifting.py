"""Expressions that get a name by a statement before theirs: its text, whether it may stand there, and what it is for."""

from __future__ import annotations

import ast

import pytest

from codemods.dataflow.source import Module
from codemods.editing.lifting import can_stand_before, lifted, purpose
from codemods.facts.script import Script

IMPORTS = "import torch\nfrom torch.utils.data import DataLoader\n"


def made(text: str) -> tuple[Module, ast.Call]:
    """The only call of ``make`` in a module."""
    module = Module("train.py", IMPORTS + text)
    (call,) = [each for each in module.nodes(ast.Call) if ast.unparse(each.func) == "make"]
    return module, call


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = f(make(1), 2)\n", "a = make(1)", id="of one line"),
        pytest.param("x = f(make(1,\n           2), 3)\n", "a = make(1,\n         2)", id="below the first argument"),
        pytest.param(
            "def g():\n    x = f(\n        make(1,\n             2,  # two\n\n             3))\n",
            "a = make(1,\n         2,  # two\n\n         3)",
            id="in a function, with a comment and an empty line",
        ),
        pytest.param(
            "x = f(\n    make(  # one\n        1,\n    ), 2)\n",
            "a = make(  # one\n    1,\n)",
            id="indented from the beginning of its line",
        ),
        pytest.param("if g:\n\tx = f(\n\t\tmake([\n\t\t\t1,\n\t\t]))\n", "a = make([\n\t1,\n])", id="indented by tabs"),
        pytest.param("x = f(make(1,\n\t2))\n", None, id="a tab below the first argument"),
        pytest.param('x = f(make("""one\ntwo"""))\n', None, id="a text of two lines"),
        pytest.param("x = f(make(1, \\\n         2))\n", None, id="a backslash"),
    ],
)
def test_the_statement_that_gives_a_name(text: str, expected: str | None) -> None:
    assert lifted(*made(text), "a") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("x = DataLoader(make(), 64)", True, id="an argument"),
        pytest.param("x = {'a': DataLoader(dataset=make()), 'b': [DataLoader(1)]}", True, id="in a dictionary"),
        pytest.param("x = DataLoader(torch.ones(3)), DataLoader(make())", True, id="after what torch makes"),
        pytest.param("x = DataLoader(batch_size=g(), dataset=make())", False, id="after what others make"),
        pytest.param("x = DataLoader((y := 3), make())", False, id="after an assignment"),
        pytest.param("x = DataLoader(make()) if y else 1", False, id="in one of two cases"),
        pytest.param("x = y and DataLoader(make())", False, id="where something else is true"),
        pytest.param("x = lambda: DataLoader(make())", False, id="in a lambda"),
        pytest.param("x = [DataLoader(make()) for _ in y]", False, id="in a comprehension"),
        pytest.param("while DataLoader(make()):\n    pass", False, id="in a condition"),
    ],
)
def test_whether_it_can_stand_before_its_statement(text: str, *, expected: bool) -> None:
    module, call = made(f"{text}\n")
    assert can_stand_before(Script.of(module).flow, module, call) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train_loader = DataLoader(make())", "train_loader"),
        ("self.loader = DataLoader(dataset=make())", "loader"),
        ("loaders = {'train': DataLoader(make())}", "train"),
        ("loaders = {'to train': DataLoader(make())}", ""),
        ("loaders = dict(train=DataLoader(make()))", "train"),
        ("fit(model, test_loader=DataLoader(make()))", "test_loader"),
        ("a, b = DataLoader(1), DataLoader(make())", "b"),
        ("x = y = DataLoader(make())", ""),
        ("print(DataLoader(make()))", ""),
    ],
)
def test_what_it_is_for(text: str, expected: str) -> None:
    assert purpose(*made(f"{text}\n")) == expected
