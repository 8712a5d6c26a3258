"""Models that are not seen: what they compute may need 32 bits, so they are left."""

from __future__ import annotations

import pytest
from kit import check_leaves, run

from codemods.rules.amp import Amp

SCRIPT = """\
import argparse
import importlib

import timm
import torch
import torchvision
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--model")
args = parser.parse_args()
MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.train()
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("model", "because"),
    [
        pytest.param(
            "importlib.import_module(args.model).get_model()",
            "its module is chosen when the script is started",
            id="a module by its name",
        ),
        pytest.param("eval(args.model)()", "eval() is not followed", id="a class by its name"),
        pytest.param(
            "nn.DataParallel(eval(args.model)())", "eval() is not followed", id="a class by its name, in a wrapper"
        ),
        pytest.param(
            "torch.load(args.model)", "it comes from torch.load(), which is not known to be a model", id="a file"
        ),
    ],
)
def test_a_model_that_is_not_seen_is_left(model: str, because: str) -> None:
    code = SCRIPT.replace("MODEL", f"model = {model}.cuda()")

    check_leaves(Amp, code, f"what model computes is not seen (line 18): {because}")


def test_a_model_that_is_not_seen_in_one_case_is_left() -> None:
    code = SCRIPT.replace(
        "MODEL",
        "if args.model:\n    model = importlib.import_module(args.model).Net()\nelse:\n    model = nn.Linear(8, 4)\nmodel.cuda()",
    )

    check_leaves(
        Amp, code, "what model computes is not seen (line 22): its module is chosen when the script is started"
    )


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("timm.create_model(args.model)", id="timm's, by its name"),
        pytest.param("getattr(torchvision.models, args.model)()", id="torchvision's, by its name"),
        pytest.param("nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))", id="the script's"),
    ],
)
def test_a_model_that_is_chosen_among_known_ones_is_rewritten(model: str) -> None:
    assert "torch.autocast" in run(Amp, SCRIPT.replace("MODEL", f"model = {model}.cuda()")).after
