"""Which models are called with inputs that grow."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.growing_inputs import grown

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Embedding(9, 9)
    def forward(self, text):
        return self.layer(text)
    def generate(self, text):
        for _ in range(5):
            {inside}
            text = torch.cat((text, guess[:, -1:].argmax(-1)), dim=1)
        return text
model = Net()
other = Net()
"""


def called(code: str, inside: str = "guess = text") -> str | None:
    """The call of the model that is given what grows."""
    known = script(HEAD.format(inside=inside) + code)
    found = grown(known.flow, next(iter(known.flow.values(known.module.tree.body[3].targets[0]))))  # type: ignore[attr-defined]
    return None if found is None else ast.unparse(found[1])


GROWS = "    text = torch.cat([text, y[:, -1:].argmax(-1)], dim=1)\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(f"for _ in range(5):\n    y = model(text)\n{GROWS}", "model(text)", id="the whole"),
        pytest.param(f"for _ in range(5):\n    y = model(text[:, -8:])\n{GROWS}", "model(text[:, -8:])", id="a slice"),
        pytest.param(
            f"while True:\n    part = text if len(text) < 8 else text[:, -8:]\n    y = model(part)\n{GROWS}",
            "model(part)",
            id="a part by a name",
        ),
        pytest.param(
            f"def write(net, text):\n    for _ in range(5):\n        y = net(text)\n    {GROWS}write(model, text)\n",
            "net(text)",
            id="in a function that is given it",
        ),
        pytest.param(f"for _ in range(5):\n    y = other(text)\n{GROWS}", None, id="another model"),
        pytest.param(f"for _ in range(5):\n    y = model(text[:, 0])\n{GROWS}", None, id="one item of each"),
        pytest.param(f"for _ in range(5):\n    y = model(text[:, -1:])\n{GROWS}", None, id="the last item"),
        pytest.param("for text in texts:\n    y = model(text)\n", None, id="nothing grows"),
        pytest.param(
            "for x in data:\n    y = model(x)\n    kept = torch.cat([kept, y], dim=0)\n",
            None,
            id="what it returns grows",
        ),
        pytest.param("for x in data:\n    x = torch.cat([x, x])\n    y = model(x)\n", None, id="each pass has another"),
    ],
)
def test_where_its_input_grows(code: str, expected: str | None) -> None:
    assert called(code) == expected


def test_a_model_may_call_itself() -> None:
    assert called("model.generate(text)\n", inside="guess = self(text)") == "self(text)"
