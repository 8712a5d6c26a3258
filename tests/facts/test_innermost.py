from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.attention_scores import Operand
from codemods.facts.models.innermost import is_last_moved, needs_copy

START = """\
import torch

def attend(x, given, flag):
    B, T, C = x.shape
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("answer = x", False, id="nothing is moved"),
        pytest.param("answer = x.transpose(1, 2)", True, id="the last of three"),
        pytest.param("answer = given.transpose(1, 2)", False, id="of so many dimensions as are not known"),
        pytest.param("answer = given.transpose(-1, -2)", True, id="counted from behind"),
        pytest.param("answer = x.transpose(0, 1)", False, id="the last stays"),
        pytest.param("answer = x.mT", True, id="turned"),
        pytest.param("answer = given.permute(0, 2, 3, 1)", True, id="permuted"),
        pytest.param("answer = given.permute(0, 2, 1, 3)", False, id="permuted, the last stays"),
        pytest.param("answer = x.mT.transpose(1, 2)", False, id="turned back"),
        pytest.param("answer = given.permute(0, 2, 3, 1).view(B, -1, C)", True, id="viewed"),
        pytest.param(
            "y = x.mT * 2\nq, k = y.chunk(2, dim=2)\nanswer = q", True, id="a part of what is kept under a name"
        ),
        pytest.param("q, k = x.mT, x\nanswer = q", True, id="one of a tuple"),
        pytest.param("q, k = x.mT, x\nanswer = k", False, id="the other of the tuple"),
        pytest.param("answer = x.mT.contiguous()", False, id="copied"),
        pytest.param("answer = torch.relu(x.mT)", False, id="another operator"),
        pytest.param("y = x\nif flag:\n    y = x.mT\nanswer = y", False, id="a branch"),
    ],
)
def test_what_the_code_puts_last(code: str, expected: bool) -> None:  # noqa: FBT001 - expected
    found = script(START + "".join(f"    {line}\n" for line in code.splitlines()))
    (node,) = (each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert is_last_moved(found.flow, found.module, node) is expected
    # What turns it once more undoes that.
    assert needs_copy(found.flow, found.module, Operand(node, ".transpose(-2, -1)", depth=-2)) is not expected
