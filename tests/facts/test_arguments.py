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


@pytest.mark.parametrize(
    ("before", "test", "holds"),
    [
        pytest.param("fast = not args.strict", "fast", True, id="the opposite has a name"),
        pytest.param("fast = not args.strict", "not fast", False, id="the opposite of that"),
        pytest.param("fast = not args.strict and not args.loose", "fast", False, id="of several options"),
        pytest.param("fast = not args.strict and cuda()", "fast", None, id="and of what is not known"),
        pytest.param("strict = args.strict", "strict", False, id="the option itself has a name"),
        pytest.param("fast = not args.strict", "args.strict", False, id="the option beside its opposite"),
        pytest.param(
            "fast = not args.strict\nif args.seed:\n    fast = args.strict",
            "fast",
            None,
            id="the name is given two things",
        ),
        pytest.param("class Run: pass\nrun = Run()\nrun.fast = not args.strict", "run.fast", None, id="an attribute"),
        pytest.param(
            "class Run: pass\nrun = Run()\nrun.strict_ = args.strict\nif not args.strict: print()",
            "run.strict_",
            False,
            id="an attribute, of what is only tested",
        ),
    ],
)
def test_the_opposite_of_an_option_is_no_such_option(before: str, test: str, holds: bool | None) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{OPTIONS}{before}\nif {test}:\n    pass\n")
    branch = list(known.module.nodes(ast.If))[-1]

    assert by_default(known, branch.test) is holds


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        pytest.param("not args.strict", None, id="the opposite"),
        pytest.param("args.strict", False, id="the option"),
    ],
)
def test_a_parameter_may_be_given_the_opposite_of_an_option(given: str, holds: bool | None) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{OPTIONS}def settle(strict):\n    if strict:\n        pass\nsettle({given})\n")
    (branch,) = known.module.nodes(ast.If)

    assert by_default(known, branch.test) is holds


FILLED = "    used = None\n    if args.strict:\n        used = 'native'\n"


@pytest.mark.parametrize(
    ("before", "test", "holds"),
    [
        pytest.param(FILLED, "used == 'native'", False, id="a name is given something under an option"),
        pytest.param(FILLED.replace("args.strict", "args.loose"), "used == 'native'", None, id="under one that is on"),
        pytest.param(FILLED.replace("args.strict", "cuda()"), "used == 'native'", None, id="under what is not known"),
        pytest.param(FILLED + "    used = find()\n", "used == 'native'", None, id="something unknown besides"),
        pytest.param(
            FILLED + "    for used in (1, 2):\n        pass\n", "used is None", None, id="a loop gives it too"
        ),
        pytest.param(
            FILLED + "    def other():\n        nonlocal used\n        used = 1\n",
            "used is None",
            None,
            id="a function inside gives it too",
        ),
        pytest.param("    global used\n" + FILLED, "used is None", None, id="a name of the module"),
        pytest.param(
            "    used = None\n    if args.strict:\n        args.other = True\n    if args.other and cuda():\n        used = 1\n",
            "used is None",
            None,
            id="under an option that is not declared",
        ),
        pytest.param(
            "    used = None\n    if args.strict:\n        args.cache = True\n    if args.cache and cuda():\n        used = 1\n",
            "used is None",
            True,
            id="under an option that another one fills in",
        ),
        pytest.param(
            "    used = None\n    if cuda():\n        args.cache = True\n    if args.cache:\n        used = 1\n",
            "used is None",
            None,
            id="under an option that may be filled in",
        ),
        pytest.param(
            "    one = other = None\n    if args.strict:\n        one = 1\n    if one:\n        other = 1\n",
            "other is None",
            None,
            id="two names at once",
        ),
        pytest.param(
            "    one = None\n    other = None\n    if other:\n        one = 1\n    if one:\n        other = 1\n",
            "other is None",
            True,
            id="two names by each other",
        ),
    ],
)
def test_what_statements_give_without_options(before: str, test: str, holds: bool | None) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{OPTIONS}def main():\n{before}    if {test}:\n        pass\nmain()\n")
    branch = list(known.module.nodes(ast.If))[-1]

    assert by_default(known, branch.test) is holds
