"""Rules that leave what cannot pay, by the sum, unless they are asked for by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.config import Options, settings
from autotune_rewrite.rewriting.rewrite import rewrite

if TYPE_CHECKING:
    from pathlib import Path

    from autotune_rewrite.rewriting.results import Site

IMPORTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, models, transforms

"""
NET = """\
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(784, width)
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        return self.out(self.hidden(x.flatten(1)).relu())

"""
MNIST = 'datasets.MNIST("data", transform=transforms.ToTensor())'


def trained(model: str, data: str = MNIST, batch: int = 64, epochs: str = "5") -> str:
    """A script that trains a model on CUDA."""
    return f"""\
{IMPORTS}{NET}
model = {model}.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader({data}, {batch})
for epoch in range({epochs}):
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
"""


def site(rule: str, text: str, folder: Path, *select: str) -> Site:
    """What the rule says of the script, among all rules or by name."""
    result = rewrite("train.py", text, settings(folder, Options(select=select or None)))
    (found,) = [each for each in result.sites if each.rule == rule]
    return found


SMALL = trained("Net(128)")


@pytest.mark.parametrize(
    ("rule", "text", "because"),
    [
        pytest.param(
            "compile",
            SMALL,
            "an iteration of a network of 0.1 million parameters computes at most 39 million operations: launching them "
            "takes longer, and compiled code launches no faster",
            id="a small network, however long it trains",
        ),
        pytest.param(
            "compile",
            trained("Net(65536)", batch=1024, epochs="2"),
            "at most 118 iterations of a network of 52.1 million parameters: starting compiled code takes longer than it "
            "can save",
            id="a larger network that trains for a moment",
        ),
        pytest.param(
            "compile",
            trained("Net(int(input()))", epochs="1", batch=4000),
            "at most 15 iterations: starting compiled code takes longer than it can save",
            id="few iterations, whatever the network",
        ),
        pytest.param(
            "amp",
            SMALL,
            "an iteration computes at most 39 million operations that 16 bits could speed up: casting takes longer than "
            "they save",
            id="a small network in 16 bits",
        ),
        pytest.param(
            "amp",
            trained("nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))", "read()"),
            "no layer is wider than 64: casting takes longer than they save",
            id="narrow layers, however many samples",
        ),
        pytest.param(
            "loader-workers",
            trained("Net(4096)", batch=10_000, epochs="1"),
            "it yields 6 batches in all: starting workers takes longer than they save",
            id="hardly any batches",
        ),
    ],
)
def test_what_cannot_pay_is_left_unless_it_is_asked_for(rule: str, text: str, because: str, tmp_path: Path) -> None:
    by_default, in_groups, by_name, beside = (
        site(rule, text, tmp_path, *select) for select in ((), ("ALL",), (rule,), ("DEFAULT", rule))
    )

    assert by_default == in_groups
    assert (by_default.rewrites, by_default.message) == (False, because)
    assert by_default.code == ("few-batches" if rule == "loader-workers" else "never-pays-back")
    assert by_default.remedy == "select the rule by name to apply it all the same"
    assert by_name.rewrites
    assert beside.rewrites


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        pytest.param("compile", trained("Net(65536)", batch=1024, epochs="500"), id="a large network that trains long"),
        pytest.param("compile", trained("Net(int(input()))"), id="a network of unknown size"),
        pytest.param("compile", trained("Net(4096)", "read()"), id="a large network on unknown data"),
        pytest.param("amp", trained("Net(65536)", batch=1024, epochs="1"), id="wide layers, however few iterations"),
        pytest.param("amp", trained("Net(int(input()))"), id="unknown widths"),
        pytest.param(
            "amp",
            trained("models.resnet18()", 'datasets.CIFAR10("data", transform=transforms.ToTensor())', 128),
            id="a network of torchvision",
        ),
        pytest.param("loader-workers", trained("Net(128)", batch=10_000, epochs="2"), id="twelve batches"),
        pytest.param(
            "loader-workers",
            trained("Net(128)", 'datasets.ImageFolder("d", transforms.ToTensor())', epochs="1"),
            id="as many as there are files",
        ),
    ],
)
def test_what_may_pay_is_rewritten(rule: str, text: str, tmp_path: Path) -> None:
    assert site(rule, text, tmp_path).rewrites


def test_the_project_may_ask_for_it_by_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.torchfast]\nselect = ["DEFAULT", "compile"]\n', encoding="utf-8")

    assert site("compile", SMALL, tmp_path).rewrites
    assert not site("amp", SMALL, tmp_path).rewrites


def test_each_of_several_models_is_weighed(tmp_path: Path) -> None:
    text = trained("Net(128)").replace("optimizer =", "large = Net(int(input())).cuda()\noptimizer =")
    text = text.replace("model(images)", "model(images) + large(images)")

    result = rewrite("train.py", text, settings(tmp_path, Options()))

    compiled = [each.line for each in result.sites if each.rule == "compile" and each.rewrites]
    assert [text.splitlines()[line - 1] for line in compiled] == ["large = Net(int(input())).cuda()"]
    assert any(each.rule == "amp" and each.rewrites for each in result.sites)


SCALED = SMALL.replace("self.hidden =", "self.scale = nn.Parameter(torch.ones(784))\n        self.hidden =", 1)


def test_a_parameter_beside_the_layers_counts_by_what_multiplies_with_it(tmp_path: Path) -> None:
    scaled, multiplied = (
        site("compile", SCALED.replace("x.flatten(1)", operation), tmp_path)
        for operation in ("(x.flatten(1) * self.scale)", "x.flatten(1).addmm(x, self.scale)")
    )

    assert (scaled.rewrites, scaled.code) == (False, "never-pays-back")
    assert scaled.message.startswith("an iteration computes at most 39 million operations:")
    assert multiplied.rewrites
