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


@pytest.mark.parametrize(
    ("between", "is_another"),
    [
        pytest.param("y = 1", True, id="it gets another value"),
        pytest.param("with torch.no_grad():\n    y = 1", True, id="it gets another value in a block of torch's"),
        pytest.param(
            "with torch.no_grad(), torch.autocast('cpu'):\n    y = 1",
            True,
            id="it gets one in a block of two of torch's",
        ),
        pytest.param(
            "with contextlib.suppress(OSError):\n    y = open(x)", False, id="the block may hide that it gets none"
        ),
        pytest.param("if x:\n    y = 1", False, id="perhaps it gets another value"),
    ],
)
def test_a_name_may_hold_something_else_by_then(between: str, is_another: bool) -> None:  # noqa: FBT001 - the same
    found, statements = known(f"import contextlib\ny = model(x)\n{between}\nlibrary(y)\n")
    block = (statements[1],)
    uses = Uses(found.flow, found.module, frozenset(ast.walk(block[0])))

    assert [ast.unparse(each.target) for each in uses.escapes(block)] == ([] if is_another else ["y"])


@pytest.mark.parametrize(
    ("use", "is_tensor"),
    [
        pytest.param("kept = (x > 0).to(dtype=y.dtype), y", True, id="another tensor gets its format, by name"),
        pytest.param("kept = (x > 0).to(y.dtype), y", True, id="another tensor gets its format"),
        pytest.param("kept = library(y.dtype)", False, id="code that is not seen gets what may be of an array"),
        pytest.param("kept = (x > 0).to(y.device), y", False, id="a model has a device, too"),
        pytest.param("library(y)", False, id="nothing shows it"),
    ],
)
def test_whether_a_use_shows_that_it_is_a_tensor(use: str, is_tensor: bool) -> None:  # noqa: FBT001 - the expectation
    found, statements = known(f"y = model(x)\n{use}\n")
    block = (statements[0],)
    (escape,) = Uses(found.flow, found.module, frozenset(ast.walk(block[0]))).escapes(block)

    assert escape.is_tensor is is_tensor
