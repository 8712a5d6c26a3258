"""Which ratios compare what 16 bits give with what 32 bits gave before."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.precision.ratios import old_against_new
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
        ("new = model(x)\nratio = torch.exp(new - old)", True),
        ("new = x * 2\nratio = torch.exp(new - old)", False),
        ("new = model(x)\nratio = torch.exp(new)", False),
    ],
)
def test_what_is_compared_with_what_was_computed_before(body: str, expected: bool) -> None:  # noqa: FBT001 - expected
    assert (why(old_against_new, body) is not None) is expected
