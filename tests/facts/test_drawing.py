"""Whether a call or an object of a library draws random numbers of PyTorch's."""

from __future__ import annotations

import pytest
from probe import script

from codemods.library.drawing import call_draws, layer_draws

HEAD = """\
import random
import torch
import torch.nn.functional as F
from torch import nn
x = torch.zeros(3)
layer = nn.Dropout()
normal = torch.distributions.Normal(x, x)
class Own:
    def sample(self):
        return 3
own = Own()
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("torch.rand(3)", True),
        ("x.normal_()", True),
        ("torch.randperm(3)", True),
        ("F.dropout(x)", True),
        ("layer(x)", True),
        ("nn.LSTM(3, 3, dropout=0.5)(x)", True),
        ("nn.TransformerEncoderLayer(4, 2)(x)", True),
        ("normal.sample()", True),
        ("nn.LSTM(3, 3)(x)", False),
        ("nn.TransformerEncoderLayer(4, 2, dropout=0)(x)", False),
        ("torch.zeros(3)", False),
        ("x.sum()", False),
        ("torch.distributions.Normal(x, x)", False),
        ("normal.log_prob(x)", False),
        ("own.sample()", False),
        ("random.random()", False),
    ],
)
def test_whether_a_call_draws(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(HEAD + code)
    call = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert call_draws(known.flow, call) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("nn.Dropout(0.5)", True),
        ("nn.MultiheadAttention(4, 2, 0.1)", True),
        ("nn.MultiheadAttention(4, 2, 0.0)", False),
        ("nn.MultiheadAttention(4, 2, rate)", True),
        ("nn.MultiheadAttention(4, 2, **options)", True),
        ("nn.Linear(4, 2)", False),
    ],
)
def test_whether_a_layer_draws(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(HEAD + code)
    (value,) = known.flow.values(known.module.tree.body[-1].value)  # type: ignore[attr-defined]

    assert layer_draws(value) is expected
