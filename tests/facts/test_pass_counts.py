"""Whether a loop surely ends soon."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.pass_counts import is_short

HEAD = """\
import argparse
import itertools
import numpy
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--many", type=int, default=10_000_000)
parser.add_argument("--any", type=int)
args = parser.parse_args()
data = [1, 2]
"""


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param("for x in data:", True, id="over data"),
        pytest.param("for x in range(len(data)):", True, id="the length of data"),
        pytest.param("for x in range(1000):", True, id="a small number"),
        pytest.param("for x in range(1001):", False, id="a large number"),
        pytest.param("for x in range(args.steps):", True, id="an option, by default"),
        pytest.param("for x in range(1, args.steps + 1):", True, id="one more"),
        pytest.param("for x in range(int(args.steps * 20)):", True, id="a product"),
        pytest.param("for x in range(args.steps * 21):", False, id="a larger product"),
        pytest.param("for x in range(args.many // 10_000):", True, id="a part of a large number"),
        pytest.param("for x in range(args.many // args.steps):", False, id="a part that the user chooses"),
        pytest.param("for x in range(args.many):", False, id="a large default"),
        pytest.param("for x in range(args.any):", False, id="no default"),
        pytest.param("for x in range(args.any * 2):", False, id="twice no default"),
        pytest.param("for x in range(-20 * -args.steps):", False, id="signs"),
        pytest.param("n = args.steps * 3\nfor x in range(n):", True, id="by a name"),
        pytest.param("n = args.steps * 30\nfor x in range(n):", False, id="too large by a name"),
        pytest.param(
            "args.steps = args.steps * 30\nfor x in range(args.steps):", False, id="an option that is overwritten"
        ),
        pytest.param("args.n = args.steps * 30\nfor x in range(args.n):", False, id="an attribute that is made of one"),
        pytest.param("n = 3\nwhile data:\n    n = n * 2\nfor x in range(n):", False, id="a number that grows"),
        pytest.param(
            "order = numpy.arange(args.any)\nfor x in range(0, args.any, args.steps):", True, id="parts of an index"
        ),
        pytest.param(
            "order = torch.randperm(args.any)\nfor x in range(0, args.any, args.any):", True, id="parts at random"
        ),
        pytest.param("order = numpy.arange(args.any)\nfor x in range(args.any):", False, id="each item of an index"),
        pytest.param(
            "order = numpy.arange(args.many)\nfor x in range(0, args.any, 2):", False, id="an index of other items"
        ),
        pytest.param(
            "def order():\n    return numpy.arange(args.any)\nfor x in range(0, args.any, 2):",
            False,
            id="an index of another function",
        ),
        pytest.param(
            "order = numpy.zeros(args.any)\nfor x in range(0, args.any, 2):", False, id="an array that is no index"
        ),
        pytest.param("for x in range(0, args.any, 2):", False, id="parts of nothing that is seen"),
        pytest.param("for x in range(0, 1000, args.any):", True, id="any steps of a small number"),
        pytest.param("for x in itertools.count():", False, id="no end"),
        pytest.param("while data:", False, id="a condition"),
    ],
)
def test_a_loop(loop: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{HEAD}{loop}\n    pass\n")
    last = [each for each in known.module.tree.body if isinstance(each, (ast.For, ast.While))][-1]

    assert is_short(known, known.module, last, 1000) is expected


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("train(args.steps * 2)", True, id="its call"),
        pytest.param("train(3)\ntrain(n=4)", True, id="all calls"),
        pytest.param("train(3)\ntrain(args.any)", False, id="not one of them"),
        pytest.param("train(*nobody())", False, id="a call that is not seen through"),
        pytest.param("", False, id="no call"),
    ],
)
def test_a_loop_that_a_parameter_counts(calls: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(f"{HEAD}def train(n):\n    for x in range(n):\n        pass\n{calls}\n")
    loop = next(iter(known.module.nodes(ast.For)))

    assert is_short(known, known.module, loop, 1000) is expected


def test_a_parameter_that_is_bound_anew_is_not_known() -> None:
    known = script(f"{HEAD}def train(n):\n    n = n ** 9\n    for x in range(n):\n        pass\ntrain(3)\n")
    loop = next(iter(known.module.nodes(ast.For)))

    assert not is_short(known, known.module, loop, 1000)
