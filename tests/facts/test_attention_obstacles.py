from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.models.attention import Attention
from codemods.facts.models.attention_obstacles import module_statement, moved, why_not_fused
from codemods.facts.models.attention_sites import attentions

if TYPE_CHECKING:
    from codemods.facts.script import Script

START = """\
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.drop = 0.5, nn.Dropout(0.1)

    def forward(self, q, k, v, mask=None):
"""


def read(code: str, after: str = "") -> tuple[Script, Attention]:
    found = script(START + "".join(f"        {line}\n" for line in code.splitlines()) + after)
    (site,) = attentions(found.flow, found.module)
    assert isinstance(site.attention, Attention)
    return found, site.attention


PLAIN = "return (q @ k.mT).softmax(-1) @ v\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            "s = q @ k.mT * self.scale\nself.scale = 2\nreturn s.softmax(-1) @ v",
            "other-attention",
            id="the scale changes",
        ),
        pytest.param(
            "s = q @ k.mT\nr = v[0]\nr += 1\nreturn s.softmax(-1) @ v", "other-attention", id="something is written to"
        ),
        pytest.param("s = q @ k.mT\nv = v + 1\nreturn s.softmax(-1) @ v", None, id="values change"),
        pytest.param("k = k + 1\ns = q @ k.mT\nreturn s.softmax(-1) @ v", None, id="keys change before"),
        pytest.param("y = (q @ k.mT).softmax(-1) @ v\nreturn y.view(-1)", "other-result", id="viewed"),
        pytest.param("y = (q @ k.mT).softmax(-1) @ v\ny = y + 1\nreturn y.view(-1)", None, id="a sum is viewed"),
        pytest.param(
            "y = torch.transpose((q @ k.mT).softmax(-1) @ v, 1, 2)\nreturn y.view(-1)",
            "other-result",
            id="viewed when it was turned",
        ),
        pytest.param("return ((q @ k.mT).softmax(-1) @ v).contiguous().view(-1)", None, id="made contiguous before"),
    ],
)
def test_what_the_function_has_against_it(code: str, expected: str | None) -> None:
    found, attention = read(code)
    why = why_not_fused(found, attention)

    assert (why and why.code) == expected


@pytest.mark.parametrize(
    ("code", "after", "expected"),
    [
        pytest.param(
            "return self.drop((q @ k.mT).softmax(-1)) @ v",
            "Layer().drop.register_forward_hook(print)\n",
            "weights-used",
            id="a hook on the dropout",
        ),
        pytest.param(PLAIN, "Layer().drop.register_forward_hook(print)\n", None, id="weights pass through no layer"),
        pytest.param(
            "return self.drop((q @ k.mT).softmax(-1)) @ v",
            "nn.Linear(2, 2).register_forward_hook(print)\n",
            None,
            id="a hook on another layer",
        ),
        pytest.param(
            PLAIN,
            "x = torch.ones(2)\ntorch.autograd.grad(Layer()(x, x, x), x, create_graph=True)\n",
            "double-backward",
            id="second derivatives",
        ),
        pytest.param(
            PLAIN,
            "x = torch.ones(2)\ntorch.autograd.grad(nn.Linear(2, 2)(x), x, create_graph=True)\n",
            None,
            id="those of another model",
        ),
        pytest.param(
            PLAIN,
            "torch.backends.cudnn.deterministic = True\nx = Layer().cuda()\n",
            "determinism",
            id="results that repeat",
        ),
        pytest.param(PLAIN, "torch.backends.cudnn.deterministic = True\n", None, id="results that repeat on the host"),
        pytest.param(
            PLAIN,
            "torch.use_deterministic_algorithms(True)\nx = Layer().cuda()\n",
            None,
            id="kernels that are asked to",
        ),
        pytest.param(
            PLAIN,
            "torch.use_deterministic_algorithms(True, warn_only=True)\nx = Layer().cuda()\n",
            "determinism",
            id="kernels that may only warn",
        ),
    ],
)
def test_what_the_script_has_against_it(code: str, after: str, expected: str | None) -> None:
    found, attention = read(code, after)
    why = why_not_fused(found, attention)

    assert (why and why.code) == expected


def test_what_is_computed_later() -> None:
    _, attention = read(
        "s = q @ k.mT * self.scale\nif mask is not None:\n    s = s.masked_fill(mask, float('-inf'))\nreturn self.drop(s.softmax(-1)) @ v"
    )

    assert [ast.unparse(each) for each in moved(attention)] == [
        "q",
        "k",
        "self.scale",
        "mask",
        "mask is not None",
        "self.drop",
    ]
    assert isinstance(module_statement(attention), ast.Return)
