"""Which numbers and losses beside a 16-bit tensor need all of its 32 bits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.precision.narrow import computed_on_host, narrow_operand, rounded_bound, vanishing
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


SHOWN = "def loss_of(out, y):\n    out = {}\n    return (out - y).square().mean()\nloss = loss_of(model(x), y)"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("loss = (model(x).cpu() - y).square().mean()", "model(x).cpu()", id="at once"),
        pytest.param("out = model(x)\nloss = F.mse_loss(out.to('cpu'), y)", "out.to('cpu')", id="by its name"),
        pytest.param(SHOWN.format("out.to('cpu')"), "out.to('cpu')", id="in the function of the loss"),
        pytest.param(SHOWN.format("out.float().cpu()"), None, id="in 32 bits"),
        pytest.param(SHOWN.format("out.cpu().float()"), None, id="made 32 bits on the host"),
        pytest.param(SHOWN.format("out"), None, id="it stays on the device"),
        pytest.param(
            "def f(out, n):\n    return out[n.cpu()]\nz = f(model(x), y.argmax(1))", None, id="something else"
        ),
        pytest.param("out = model(x)\nprint(out.detach().cpu())", None, id="it is only shown"),
        pytest.param("out = model(x)\nseen.append(out.cpu().detach().numpy())", None, id="it is only kept"),
        pytest.param("hits = (model(x).argmax(1).cpu() == y.cpu()).sum()", None, id="classes"),
    ],
)
def test_a_loss_that_is_computed_on_the_host(body: str, expected: str | None) -> None:
    assert why(computed_on_host, body) == expected
