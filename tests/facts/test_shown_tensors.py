"""Which tensors of a device each iteration writes out, or goes on by."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.shown_tensors import shown_tensors

CODE = """\
import torch
from torch import nn
model = nn.Linear(4, 2).cuda()
def f(data, writer):
    for i, x in enumerate(data):
        loss = model(x.cuda()).sum()
        loss.backward()
{inside}
f(torch.randn(8, 4, 4), writer)
"""
OUT = "a tensor of the device is written out in each iteration"


def found(inside: str) -> list[str]:
    body = "".join(f"        {each}\n" for each in inside.splitlines())
    known = script(CODE.format(inside=body))
    return [use.text for _, use in shown_tensors(known.flow, known.module)]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        pytest.param("print(loss)", [OUT], id="printed"),
        pytest.param("print(i, f'{loss:.3f} {loss}')", [OUT], id="in a text"),
        pytest.param("print('%d %.3f' % (i, loss))", [OUT], id="in an old format"),
        pytest.param("print('{:.3f}'.format(loss))", [OUT], id="in a format"),
        pytest.param(
            "writer.add_scalar('loss', loss, i)",
            ["add_scalar() asks for the number of 'loss' in each iteration"],
            id="for TensorBoard",
        ),
        pytest.param("if loss > 3:\n    i = 4", ["the iteration goes on by 'loss > 3'"], id="asked for"),
        pytest.param("if i % 9 == 0:\n    print(loss)", [], id="few passes print it"),
        pytest.param("if i > 3:\n    writer.add_scalar('loss', loss, i)", [], id="some passes log it"),
        pytest.param("print(loss.item())", [], id="its number is asked for, of which the reading tells"),
        pytest.param("writer.add_scalar('loss', loss.item(), i)", [], id="its number is logged"),
        pytest.param("print(loss.shape, i)", [], id="its shape"),
        pytest.param("loss.cpu()", [], id="a copy"),
    ],
)
def test_what_shows_a_tensor(inside: str, expected: list[str]) -> None:
    assert found(inside) == expected


def test_a_loop_that_does_not_train_is_not_looked_at() -> None:
    known = script("import torch\nfor x in torch.ones(3).cuda():\n    print(x)\n")

    assert [*shown_tensors(known.flow, known.module)] == []


def test_the_place_is_that_of_the_statement() -> None:
    known = script(CODE.format(inside="        print(f'{loss}')\n"))
    ((_, use),) = shown_tensors(known.flow, known.module)

    assert isinstance(use.node, ast.Expr)
