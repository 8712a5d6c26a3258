from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.row_major import row_major

START = """\
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8, 10)
        self.head = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())
        self.score = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 1, 3), nn.Sigmoid())
        self.gray = nn.ConvTranspose2d(8, out_channels=1, kernel_size=2)
        self.some = nn.Conv2d(8, width, 3)

    def forward(self, x):
        x = self.conv(x)
        answer = {}
        return {}


model = Net()
model(torch.zeros(2, 3, 8, 8)).sum().backward()
"""


def holds(expression: str) -> bool:
    found = script(START.replace("{}", expression, 1).replace("{}", "answer"))
    (given,) = [each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer"]
    return row_major(found.flow).holds(given)


@pytest.mark.parametrize(
    "expression",
    [
        "torch.flatten(x, 1)",
        "x.flatten(start_dim=1)",
        "x.view(x.size(0), -1)",
        "x.reshape(-1)",
        "self.pool(x)",
        "F.adaptive_avg_pool2d(x, (1, 1))",
        "F.adaptive_avg_pool2d(x, output_size=1)",
        "x.mean((2, 3), keepdim=True)",
        "torch.amax(x, dim=[-2, -1], keepdim=True)",
        "F.avg_pool2d(x, x.size()[2:])",
        "F.max_pool2d(x, kernel_size=(x.shape[2], x.shape[3]))",
        "self.fc(torch.flatten(self.pool(x), 1))",
        "self.head(x)",
        "self.score(x)",
        "self.gray(x)",
        "F.relu(self.fc(x))",
        "self.fc(x) + self.fc(x)",
        "self.fc(x).T @ self.fc(x)",
        "x @ x",
        "x.flatten()[:-1]",
        "self.fc(x)[1:3]",
        "torch.cat([self.fc(x), self.fc(x)], 1)",
        "torch.zeros(2, 8, 4, 4)",
        "self.fc(x).view(2, 5, 2)",
        "nn.functional.dropout(self.fc(x), 0.5)",
    ],
)
def test_vectors_lie_row_by_row(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "x",
        "F.relu(x)",
        "self.conv(x)",
        "self.body(x)",
        "self.some(x)",
        "x.flatten(2)",
        "x.view(2, 4, 2, -1)",
        "x.view(sizes)",
        "x.view(*sizes)",
        "self.fc(x) + x",
        "torch.cat([self.fc(x), x], 1)",
        "self.fc(x).t()",
        "F.adaptive_avg_pool2d(x, 2)",
        "F.adaptive_avg_pool2d(x, output_size=2)",
        "F.avg_pool2d(x, x.size(2))",
        "F.avg_pool2d(x, y.size()[2:])",
        "F.avg_pool2d(x, x.size()[2:], 1)",
        "x.mean((1, 2), keepdim=True)",
        "mystery(self.fc(x))",
        "x[1:3]",
        "self.fc(x)[:, 1:3]",
        "self.fc(x)[::2]",
        "x.mul(self.fc(x))",
    ],
)
def test_what_may_be_images_may_lie_otherwise(expression: str) -> None:
    assert not holds(expression)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("self.fc(torch.flatten(self.pool(x), 1))", True),
        ("(self.fc(x), self.fc(x))", True),
        ("x", False),
        ("(self.fc(x), x)", False),
    ],
)
def test_what_a_model_returns(returned: str, *, expected: bool) -> None:
    found = script(START.replace("{}", "0", 1).replace("{}", returned))
    (trained,) = found.trained_models

    assert row_major(found.flow).returned_by(trained.model) is expected


def test_a_long_chain_of_sums_is_followed_once() -> None:
    sums = "".join("        x = F.relu(x) + self.conv(x)\n" for _ in range(200))
    found = script(
        START.replace("        answer = {}\n", sums + "        answer = x.view(-1)\n").replace("{}", "answer")
    )
    (given,) = [each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer"]

    assert isinstance(given, ast.Call)
    assert isinstance(given.func, ast.Attribute)
    assert not row_major(found.flow).holds(given.func.value)


def test_layers_that_hold_themselves_come_to_an_end() -> None:
    assert not holds("nn.Sequential(self.head, self)(x)")
