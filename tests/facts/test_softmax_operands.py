"""What ``torch.log_softmax`` cannot take."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.softmax_operands import why_no_softmax


def why(before: str, operand: str, dimension: str = "1") -> str:
    """The first words of why it takes no such operand."""
    known = script(f"import torch\n{before}\ntorch.logsumexp({operand}, {dimension})\n")
    call = [each for each in known.module.nodes(ast.Call) if ast.unparse(each.func) == "torch.logsumexp"][-1]
    reason = why_no_softmax(known, known.module, *call.args)
    return reason.text if reason is not None else ""


@pytest.mark.parametrize(
    ("before", "operand", "dimension", "expected"),
    [
        pytest.param("x = torch.randn(2, 3)", "x", "-1", "", id="floats"),
        pytest.param("x = torch.randn(2, 3)\nd = 1", "x", "d", "", id="a name of a number"),
        pytest.param("x = torch.randn(2, 3)\nd = 0, 1", "x", "d", "whether 'd' is one", id="a tuple"),
        pytest.param("x = torch.tensor([1.0, 2])", "x", "0", "", id="floats that are written out"),
        pytest.param("x = torch.tensor([1, 2], dtype=torch.float32)", "x", "0", "", id="asked for as floats"),
        pytest.param("x = torch.tensor([1, 2])", "x", "0", "what is summed may be int", id="integers"),
        pytest.param(
            "x = torch.tensor([True, False])", "x", "0", "", id="truth values, of which there is no difference"
        ),
        pytest.param(
            "x = torch.randint(0, 9, (3,))", "x", "0", "what is summed may be int", id="integers that are drawn"
        ),
        pytest.param("x = torch.randint(0, 9, (3,), dtype=torch.float32)", "x", "0", "", id="drawn as floats"),
        pytest.param("x = torch.arange(3).long()", "x", "0", "what is summed may be int", id="a cast"),
        pytest.param("x = torch.fft.fft(torch.randn(2, 3))", "x", "1", "what is summed may be c", id="complex numbers"),
        pytest.param(
            "class A:\n    def __getattr__(self, name):\n        return torch.randn(2, 3)\na = A()",
            "a.x",
            "1",
            "a function computes 'a.x'",
            id="an attribute that is computed",
        ),
    ],
)
def test_why_it_is_no_softmax(before: str, operand: str, dimension: str, expected: str) -> None:
    assert why(before, operand, dimension)[: len(expected) or None] == expected
