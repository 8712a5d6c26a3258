"""What may happen to a tensor where it is given to something."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.tensor_uses import TensorUses

HEAD = """\
import numpy as np
import torch
from torch import nn
def computes(a):
    return a * 2
def keeps(a, b=None):
    kept.append(b)
    return a + 1
def calls_itself(a):
    return calls_itself(a - 1)
def given_all(*all):
    return all
def fills(a):
    def fill():
        a.fill_(1)
    fill()
def shadows(a):
    def fill(a):
        a.fill_(1)
    return a + 1
async def waits(a):
    return a + 1
kept = []
x = torch.ones(3)
layer = nn.LSTM(3, 3)
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("x + 1", None),
        ("print(x.shape)", None),
        ("x.mean()", None),
        ("isinstance(x, tuple)", None),
        ("nn.functional.mse_loss(x, y)", None),
        ("computes(x)", None),
        ("computes(a=x[0])", None),
        ("keeps(x)", None),
        ("calls_itself(x)", None),
        ("layer(y, (x, x))", None),
        ("layer(y, hx=x)", None),
        ("layer(x)", "layer(x)"),
        ("keeps(y, x)", "keeps(y, x)"),
        ("keeps(y, b=x)", "keeps(y, b=x)"),
        ("given_all(x)", "given_all(x)"),
        ("fills(x)", "fills(x)"),
        ("shadows(x)", None),
        ("waits(x)", "waits(x)"),
        ("unknown(x)", "unknown(x)"),
        ("x.add_(1)", "x.add_(1)"),
        ("nn.functional.silu(x)", None),
        ("nn.functional.silu(x, True)", "nn.functional.silu(x, True)"),
        ("nn.functional.dropout(x, 0.5, True, True)", "nn.functional.dropout(x, 0.5, True, True)"),
        ("nn.ReLU(inplace=True)(x)", "nn.ReLU(inplace=True)(x)"),
        ("nn.init.ones_(x)", "nn.init.ones_(x)"),
        ("nn.functional.batch_norm(y, x, x + 1)", None),
        ("nn.functional.batch_norm(y, None, None, x, None, True)", None),
        ("nn.functional.batch_norm(y, x, None, training=True)", "nn.functional.batch_norm(y, x, None, training=True)"),
        ("nn.functional.embedding(y, x, max_norm=1.0)", "nn.functional.embedding(y, x, max_norm=1.0)"),
        ("kept.append(x.long())", "kept.append(x.long())"),
        ("kept.append(x.sum_to_size(3))", "kept.append(x.sum_to_size(3))"),
        ("kept.append(nn.functional.dropout(x, 0.5, False))", "kept.append(nn.functional.dropout(x, 0.5, False))"),
        ("kept.append(torch.einsum('ij->ji', x))", "kept.append(torch.einsum('ij->ji', x))"),
        ("kept.append(torch.einsum('i,i->i', x, x))", None),
        ("y.new(x)", "y.new(x)"),
        ("x.unsqueeze_(0)", "x.unsqueeze_(0)"),
        ("x.detach_()", None),
        ("print(x is y)", "x is y"),
        ("print(x is not None)", None),
        ("kept.append(+x)", "kept.append(+x)"),
        ("kept.append(-x)", None),
        ("kept.append(torch.sparse_coo_tensor(y, x))", "kept.append(torch.sparse_coo_tensor(y, x))"),
        ("later = lambda given=x: given", "x"),
        ("torch.add(y, y, out=x)", "torch.add(y, y, out=x)"),
        ("x.numpy()", "x.numpy()"),
        ("x.data", "x.data"),
        ("kept.append(x[[0, 2]])", None),
        ("kept.append(x[x > 0])", None),
        ("kept.append(x[np.arange(2)])", None),
        ("kept.append(x[torch.randperm(3)])", None),
        ("kept.append(x[0])", "kept.append(x[0])"),
        ("kept.append(x)", "kept.append(x)"),
    ],
)
def test_what_may_write_to_it_or_keep_it(use: str, expected: str | None) -> None:
    known = script(f"{HEAD}{use}\n")
    last = known.module.tree.body[-1]
    reads = [each for each in ast.walk(last) if isinstance(each, ast.Name) and each.id == "x"]
    found = [TensorUses(known.flow).unsafe(known.module, each) for each in reads]

    assert {ast.unparse(each) if each is not None else None for each in found} == {expected}
