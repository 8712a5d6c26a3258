"""Which conditions decide whether a line runs."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.options import deciding, is_off, is_true

HEAD = """\
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
parser.add_argument("--train", action="store_true")
args = parser.parse_args()
model = nn.Linear(4, 1)
"""
TRAIN = "model(torch.ones(4)).backward()\n"


def conditions(code: str) -> list[str]:
    """The conditions that decide whether ``print()`` runs."""
    known = script(HEAD + code)
    (call,) = (
        each for each in known.module.nodes(ast.Call) if isinstance(each.func, ast.Name) and each.func.id == "print"
    )
    return [ast.unparse(each.test) for each in deciding(known, known.module, call)]


DECIDING = {
    "none": ("print()\n", []),
    "an option": ("if args.debug:\n    print()\n", ["args.debug"]),
    "an option, behind and": ("args.debug and print()\n", ["args.debug"]),
    "around a call of its function": ("def f():\n    print()\n\nif args.debug:\n    f()\n", ["args.debug"]),
    "whether there is CUDA": ("if torch.cuda.is_available():\n    print()\n", []),
    "the main guard": ('if __name__ == "__main__":\n    print()\n', []),
    "whether the script trains": (f"if args.train:\n    print()\n    {TRAIN}", []),
    "whether a function is called that trains": (
        f"def train():\n    print()\n    {TRAIN}\nif args.train:\n    train()\n",
        [],
    ),
}


@pytest.mark.parametrize(("code", "expected"), DECIDING.values(), ids=DECIDING)
def test_the_conditions_that_are_about_the_line_alone(code: str, expected: list[str]) -> None:
    assert conditions(code) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("if args.debug:\n    print()\n", True),
        ("if not args.debug:\n    print()\n", False),
        ("if args.debug:\n    pass\nelse:\n    print()\n", False),
        ("DEBUG = 0\nif DEBUG:\n    print()\n", True),
        ("if input():\n    print()\n", False),
    ],
    ids=["off by default", "on by default", "otherwise", "a constant", "not known"],
)
def test_what_is_off(code: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    known = script(HEAD + code)
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "print()")

    assert [is_off(known, each) for each in deciding(known, known.module, call)] == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("True", True), ("0", False), ("args.debug", False), ("input()", None), ("NAMED", True)],
    ids=["a constant", "a number", "an option", "not known", "a name"],
)
def test_what_an_argument_is(value: str, expected: bool | None) -> None:  # noqa: FBT001 - a column of the table
    known = script(f"{HEAD}NAMED = 1\nanswer = {value}\n")
    statement = known.module.tree.body[-1]
    assert isinstance(statement, ast.Assign)

    assert is_true(known, statement.value) is expected
