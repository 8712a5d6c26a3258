"""Which code runs models without computing gradients."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.loss_regions import Phases
from codemods.facts.training.validations import validations

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F
model = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def blocks(body: str, **others: str) -> list[list[str]]:
    known = script(HEAD + body, **others)
    return [[ast.unparse(each) for each in block] for block in validations(known, Phases(known))]


def in_loop(body: str, switch: str = "torch.no_grad()") -> list[list[str]]:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return blocks(f"with {switch}:\n    for x, y in valid:\n{lines}")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("out = model(x)", ["out = model(x)"], id="the call alone"),
        pytest.param(
            "out = model(x)\nloss = criterion(out, y)",
            ["out = model(x)", "loss = criterion(out, y)"],
            id="its loss, too",
        ),
        pytest.param(
            "out = model(x)\nlast = out.argmax(1)\nright = (last == y).sum()", ["out = model(x)"], id="no metric"
        ),
        pytest.param(
            "out = model(x)\nprint(x)\nloss = F.mse_loss(out, y)\nprint(loss)",
            ["out = model(x)", "print(x)", "loss = F.mse_loss(out, y)"],
            id="what stands between, and nothing after",
        ),
        pytest.param(
            "total += criterion(model(x), y).item()", ["total += criterion(model(x), y).item()"], id="all in one"
        ),
    ],
)
def test_from_the_call_to_the_last_loss(body: str, expected: list[str]) -> None:
    assert in_loop(body) == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "image = model(x)\nscore = critic(image)\nprint(score)",
            [["image = model(x)", "score = critic(image)"]],
            id="another model is given its output at once",
        ),
        pytest.param(
            "image = model(x)\nprint(image)\nscore = critic(image)",
            [["image = model(x)"], ["score = critic(image)"]],
            id="something stands between",
        ),
        pytest.param(
            "image = model(x)\nscore = critic(x)",
            [["image = model(x)"], ["score = critic(x)"]],
            id="it is given something else",
        ),
        pytest.param(
            "image = model(x)\nwith torch.enable_grad():\n    score = critic(image)\n    use(score)",
            [["image = model(x)"]],
            id="with gradients",
        ),
        pytest.param(
            "with torch.set_grad_enabled(flag):\n    image = model(x)\n    use(image)", [], id="with gradients or not"
        ),
    ],
)
def test_a_model_behind_another_one(body: str, expected: list[list[str]]) -> None:
    lines = "".join(f"        {line}\n" for line in body.split("\n"))

    assert blocks(f"critic = nn.Linear(1, 1)\nwith torch.no_grad():\n    for x, y in valid:\n{lines}") == expected


@pytest.mark.parametrize("switch", ["torch.no_grad()", "torch.inference_mode()"])
def test_gradients_are_off_by(switch: str) -> None:
    assert in_loop("out = model(x)", switch) == [["out = model(x)"]]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("with torch.no_grad():\n    out = model(x)\n", id="it runs once"),
        pytest.param(
            "with torch.enable_grad():\n    for x, y in data:\n        out = model(x)\n        use(out)\n",
            id="gradients",
        ),
        pytest.param(
            "with torch.no_grad():\n    for x, y in valid:\n        print(model(x))\n", id="nothing is assigned"
        ),
        pytest.param(
            "with torch.no_grad():\n    for x, y in valid:\n        loss = F.binary_cross_entropy(model(x), y)\n",
            id="a loss that autocast refuses",
        ),
        pytest.param("with torch.no_grad():\n    for x, y in valid:\n        out = len(x)\n", id="no model"),
    ],
)
def test_what_is_no_validation(body: str) -> None:
    assert blocks(body) == []


def test_a_decorated_function_that_a_loop_calls() -> None:
    body = """\
@torch.no_grad()
def score(x, y):
    out = model(x)
    return criterion(out, y)
for x, y in valid:
    score(x, y)
"""

    assert blocks(body) == [["out = model(x)"]]


def test_code_that_is_about_to_be_rewritten_counts_as_well() -> None:
    body = """\
def validate():
    model.eval()
    total = 0
    for x, y in valid:
        out = model(x)
        total += criterion(out, y).item()
    return total
for epoch in range(3):
    print(validate())
"""

    assert blocks(body) == [["out = model(x)", "total += criterion(out, y).item()"]]


def test_a_model_s_own_method_is_left_to_what_calls_it() -> None:
    body = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        return self.layer(x)
    @torch.no_grad()
    def sample(self, x):
        for _ in range(3):
            x = self.layer(x)
        return x
net = Net()
net.sample(torch.ones(4))
"""

    assert blocks(body) == []
