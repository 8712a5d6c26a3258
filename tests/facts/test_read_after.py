"""What a block under autocast computes and other code reads in a way that needs 32 bits."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.precision.read_after import Uses

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


@pytest.mark.parametrize(
    ("use", "harmless"),
    [
        pytest.param("print(y.item())", True, id="a number"),
        pytest.param("print(y.argmax(1))", True, id="where the greatest is"),
        pytest.param("print(y.shape)", True, id="its shape"),
        pytest.param("z = y.numpy()", False, id="an array"),
        pytest.param("library(y)", False, id="code that is not seen"),
        pytest.param("kept.append(y)", False, id="it is kept"),
    ],
)
def test_the_uses_that_need_32_bits(use: str, harmless: bool) -> None:  # noqa: FBT001 - the expectation itself
    found, statements = known(f"y = model(x)\n{use}\n")
    block = (statements[0],)
    uses = Uses(found.flow, found.module, frozenset(ast.walk(block[0])))
    escapes = [ast.unparse(each.target) for each in uses.escapes(block)]

    assert escapes == ([] if harmless else ["y"])
