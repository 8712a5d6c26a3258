"""Which numbers and losses beside a 16-bit tensor need all of its 32 bits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.precision.narrow import narrow_operand, rounded_bound, vanishing
from codemods.facts.reach import Reach, is_model_call

if TYPE_CHECKING:
    from codemods.facts.script import Script

HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
model = nn.Linear(4, 4)
"""


def known(body: str) -> tuple[Script, list[ast.stmt]]:
    found = script(HEAD + body)
    return found, found.module.tree.body[len(ast.parse(HEAD).body) :]


def why(check: object, body: str) -> str | None:
    found, statements = known(body)
    reach = Reach(found.flow)
    hazard = check(reach, lambda call: is_model_call(found.flow, call), found.module, statements)  # type: ignore[operator]
    return None if hazard is None else ast.unparse(hazard.node)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = model(x)\nz = x / (y.std() + 1e-8)", "1e-08"),
        ("y = model(x)\nz = x / (y.std() + 1e-3)", None),
        ("y = model(x).float()\nz = x / (y.std() + 1e-8)", None),
    ],
)
def test_a_number_that_fp16_takes_for_zero(body: str, expected: str | None) -> None:
    assert why(vanishing, body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = model(x)\nz = torch.clamp(y, 1e-4, 1.0 - 1e-4)", "1.0 - 0.0001"),
        ("y = model(x)\nz = y.clamp(1e-4, 0.9999)", "0.9999"),
        ("y = model(x)\nz = y.clamp_(max=0.999)", "0.999"),
        ("y = model(x)\neps = 1e-5\nz = y.clamp(eps, 1 - eps)", "1 - eps"),
        ("y = model(x)\nz = y.clamp(0, 1)", None),
        ("y = model(x)\nz = y.clamp(0, 0.99)", None),
        ("y = model(x).float()\nz = y.clamp(0, 0.9999)", None),
    ],
)
def test_a_bound_that_16_bits_round_to_1(body: str, expected: str | None) -> None:
    assert why(rounded_bound, body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = model(x)\nz = F.ctc_loss(y, x, a, b)", "F.ctc_loss(y, x, a, b)"),
        ("y = model(x).float()\nz = F.ctc_loss(y, x, a, b)", None),
        ("y = model(x)\nz = F.mse_loss(y, x)", None),
    ],
)
def test_a_loss_that_has_no_kernel_for_16_bits(body: str, expected: str | None) -> None:
    assert why(narrow_operand, body) == expected
