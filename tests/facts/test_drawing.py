"""Whether a call or an object of a library draws random numbers of PyTorch's."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.library.drawing import call_draws, draws_number, layer_draws

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


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("random.randint(2, 9)", True, id="a number"),
        pytest.param("random.choice([1, 2])", True, id="one of a list"),
        pytest.param("np.random.randint(2, 9)", True, id="a number of NumPy's"),
        pytest.param("np.random.randint(2, 9, 3)", False, id="several of NumPy's"),
        pytest.param("np.random.randint(2, 9, size=(3,))", False, id="several of NumPy's, by name"),
        pytest.param("np.random.rand()", True, id="a fraction of NumPy's"),
        pytest.param("np.random.rand(3)", False, id="several fractions of NumPy's"),
        pytest.param("np.random.normal(*args)", False, id="nobody knows how many"),
        pytest.param("torch.randint(9, (1,)).item()", True, id="a number of torch's"),
        pytest.param("int(torch.randint(9, (1,)))", True, id="a number of torch's, converted"),
        pytest.param("torch.randint(9, (1,))", False, id="a tensor"),
        pytest.param("int(len([]))", False, id="a number that is not drawn"),
        pytest.param("random.shuffle([])", False, id="an order"),
    ],
)
def test_what_draws_a_number(call: str, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    known = script(f"import random\nimport numpy as np\nimport torch\nargs = ()\n{call}\n")
    statement = known.module.tree.body[-1]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)

    assert draws_number(known.flow, statement.value) is expected
