from __future__ import annotations

import ast
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.models.local_numbers import (
    is_float,
    is_infinite,
    is_large_negative,
    is_number,
    is_positive,
    power,
    radicand,
)

if TYPE_CHECKING:
    from codemods.facts.script import Script

START = """\
import math
import numpy as np
import torch
from torch import nn

LARGE = -1e9

class Layer(nn.Module):
    def __init__(self, dim, scale=None):
        super().__init__()
        self.depth = dim // 4
        self.scale = scale or self.depth ** -0.5
        self.heat = nn.Parameter(torch.ones(1))
        self.root = torch.sqrt(torch.tensor(dim))
        self.at, self.other = dim, None

    def forward(self, x, given, number=2):
        B, T, C = x.shape
        d = x.size(-1)
        n = T * 2
        answer = """


def answered(code: str) -> tuple[Script, ast.expr]:
    found = script(START + code + "\n")
    return found, next(
        each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer"
    )


@pytest.mark.parametrize(
    "code",
    [
        "2",
        "-0.5",
        "math.sqrt(d)",
        "np.sqrt(C)",
        "x.shape[-1] ** -0.5",
        "1 / math.sqrt(n)",
        "self.scale",
        "self.depth",
        "number",
        "self.at",
        "float(T) if d else 1",
    ],
)
def test_numbers(code: str) -> None:
    found, node = answered(code)

    assert is_number(found.flow, found.module, node)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("0.5", True),
        ("-0.5", True),
        ("2", False),
        ("d / 2", True),
        ("d ** -2", True),
        ("d ** 2", False),
        ("d ** d", False),
        ("2 * 0.5", True),
        ("2 * d", False),
        ("math.sqrt(d)", True),
        ("float(d)", True),
        ("int(d)", False),
        ("d", False),
        ("given", False),
    ],
)
def test_numbers_of_floating_point(code: str, expected: bool) -> None:  # noqa: FBT001 - expected
    found, node = answered(code)

    assert is_float(found.flow, found.module, node) is expected


@pytest.mark.parametrize(
    "code",
    [
        "given",
        "self.heat",
        "self.root",
        "x",
        "x.size()",
        "x.mean()",
        "torch.sqrt(x)",
        "self.unknown",
        "'2'",
        "math.sqrt(given)",
        "[1]",
    ],
)
def test_what_may_be_a_tensor(code: str) -> None:
    found, node = answered(code)

    assert not is_number(found.flow, found.module, node)


@pytest.mark.parametrize(
    ("code", "text", "is_inverse"),
    [
        ("math.sqrt(d)", "d", False),
        ("d ** 0.5", "d", False),
        ("d ** (1 / 2)", "d", False),
        ("d ** -0.5", "d", True),
        ("1.0 / np.sqrt(d)", "d", True),
    ],
)
def test_what_a_number_is_the_root_of(code: str, text: str, is_inverse: bool) -> None:  # noqa: FBT001 - expected
    found, node = answered(code)
    root = radicand(found.flow, node)

    assert root is not None
    assert (ast.unparse(root[0]), root[1]) == (text, is_inverse)


@pytest.mark.parametrize(
    ("code", "text", "exponent"),
    [
        ("1 / math.sqrt(math.sqrt(d))", "d", Fraction(-1, 4)),
        ("(d * 2) ** -0.25", "d * 2", Fraction(-1, 4)),
        ("(d ** 2) ** (1 / 4)", "d", Fraction(1, 2)),
        ("d", "d", Fraction(1)),
        ("d ** d", "d ** d", Fraction(1)),
        ("2 / d", "2 / d", Fraction(1)),
        ("d ** (1 / 0)", "d ** (1 / 0)", Fraction(1)),
    ],
)
def test_a_number_as_a_power(code: str, text: str, exponent: Fraction) -> None:
    found, node = answered(code)
    base, found_exponent = power(found.flow, node)

    assert (ast.unparse(base), found_exponent) == (text, exponent)


@pytest.mark.parametrize("code", ["d", "d ** 2", "torch.sqrt(x)", "2 / math.sqrt(d)", "math.sqrt(d, d)"])
def test_what_is_no_root(code: str) -> None:
    found, node = answered(code)

    assert radicand(found.flow, node) is None


@pytest.mark.parametrize("code", ["float('-inf')", "-float('inf')", "-math.inf", "-np.inf", "-torch.inf"])
def test_minus_infinity(code: str) -> None:
    found, node = answered(code)

    assert is_infinite(found.flow, node)


@pytest.mark.parametrize(
    "code", ["-1e9", "-1e20", "LARGE", "torch.finfo(x.dtype).min", "-torch.finfo(x.dtype).max", "float('-1e20')"]
)
def test_numbers_of_which_a_softmax_makes_nothing(code: str) -> None:
    found, node = answered(code)

    assert is_large_negative(found.flow, node)
    assert not is_infinite(found.flow, node)


@pytest.mark.parametrize("code", ["0", "-100.0", "1e9", "given", "float('inf')", "float(T)", "float('x')", "math.inf"])
def test_numbers_that_hide_nothing_for_certain(code: str) -> None:
    found, node = answered(code)

    assert not is_large_negative(found.flow, node)
    assert not is_infinite(found.flow, node)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("8", True),
        ("d ** 0.5", True),
        ("math.sqrt(d)", True),
        ("2 / math.sqrt(d)", True),
        ("self.depth ** -0.5", True),
        ("given", False),
        ("-8", False),
        ("d - 9", False),
    ],
)
def test_numbers_above_0(code: str, expected: bool) -> None:  # noqa: FBT001 - expected
    found, node = answered(code)

    assert is_positive(found.flow, found.module, node) is expected
