"""What a sum on the device may be made of: numbers of Python's."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.sums import is_number

HEAD = """\
import argparse
args = argparse.ArgumentParser().parse_args()
def train(batches):
    size = 8
    for x in batches:
        x = x.cuda()
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("3", True, id="an integer"),
        pytest.param("-0.5 * 3", True, id="a product"),
        pytest.param("True", False, id="a truth value"),
        pytest.param("len(x)", True, id="a length"),
        pytest.param("x.size(0) / x.numel()", True, id="sizes"),
        pytest.param("x.shape[0] * x.shape[-1]", True, id="parts of a shape"),
        pytest.param("x.size()[0]", True, id="a part of a size"),
        pytest.param("size", True, id="a name of one"),
        pytest.param("x", False, id="a tensor"),
        pytest.param("x.sum()", False, id="a tensor's sum"),
        pytest.param("args.weight", True, id="what the user chooses"),
        pytest.param("batches.weight", False, id="an attribute of something else"),
    ],
)
def test_numbers_of_python_s(expression: str, *, expected: bool) -> None:
    known = script(f"{HEAD}        answer = {expression}\ntrain(nobody())\n")
    answer = next(each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert is_number(known.flow, known.module, answer.value) is expected
