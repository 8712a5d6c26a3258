"""What holds of a script's options where the user gives none."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.workers.arguments import by_default

OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--lucky", type=int, default=-1)
parser.add_argument("--strict", action="store_true")
parser.add_argument("--loose", action="store_false")
parser.add_argument("--level", action="count")
parser.add_argument("--size", default=compute())
parser.add_argument("--name", default="run")
parser.add_argument("--root", required=True)
parser.add_argument("--cache", required=False)
args = parser.parse_args()
"""
TESTS = {
    "args.seed is not None": False,
    "args.seed is None": True,
    "args.seed": False,
    "args.lucky != -1": False,
    "args.lucky == -1": True,
    "args.lucky > 0": False,
    "args.lucky <= 0": True,
    "args.strict": False,
    "not args.strict": True,
    "args.loose": True,
    "args.name == 'run'": True,
    "args.strict or args.loose": True,
    "args.strict and args.other": False,
    "args.strict or args.other": None,
    "args.level": None,
    "args.size": None,
    "args.other": None,
    "args.root is None": None,
    "args.cache is None": True,
    "args.seed > 0": None,
    "something()": None,
}


@pytest.mark.parametrize(("test", "holds"), TESTS.items(), ids=TESTS)
def test_without_options_it_holds(test: str, holds: object) -> None:
    known = script(f"{OPTIONS}if {test}:\n    pass\n")
    (branch,) = known.module.nodes(ast.If)

    assert by_default(known, branch.test) is holds


def test_a_parameter_is_what_its_only_call_gives() -> None:
    known = script(
        f"{OPTIONS}def settle(seed):\n    if seed is None:\n        pass\nsettle(args.seed)\nsettle(args.seed)\n"
    )
    (branch,) = known.module.nodes(ast.If)

    assert by_default(known, branch.test) is True


def test_a_parameter_that_calls_give_different_things_is_not_known() -> None:
    known = script(f"{OPTIONS}def settle(seed):\n    if seed is None:\n        pass\nsettle(args.seed)\nsettle(3)\n")
    (branch,) = known.module.nodes(ast.If)

    assert by_default(known, branch.test) is None
