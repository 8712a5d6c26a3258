"""Optimizers that are made again and again: a scaler beside them would skip the first steps each time."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

START = """\
import torch
from torch import nn


"""
ADAPT = """\
def adapt(model, x, y, steps=5):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


model = nn.Linear(8, 4).cuda()
"""
TASKS = "for x, y in zip(torch.randn(6, 16, 8).cuda(), torch.randint(4, (6, 16)).cuda()):\n    adapt(model, x, y)\n"
FOLDS = """\
for fold in range(5):
    model = nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for x, y in zip(torch.randn(6, 16, 8).cuda(), torch.randint(4, (6, 16)).cuda()):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
"""


def test_an_optimizer_for_each_task_gets_no_scaler() -> None:
    result = run(Amp, START + ADAPT + TASKS)

    assert "GradScaler" not in result.after
    assert "dtype=torch.bfloat16, enabled=use_amp" in result.after
    assert [site.message for site in result.sites] == [
        "the forward pass runs in 32 bits, without the GPU's 16-bit units; for bf16 alone, as in fp16 "
        "the scaler would be made anew in each pass of a loop (line 15), and skip its first steps"
    ]


def test_an_optimizer_for_each_item_of_a_comprehension_gets_no_scaler() -> None:
    found = "found = [adapt(model, x, x.argmax(1)) for x in torch.randn(6, 16, 8).cuda()]\n"

    assert "GradScaler" not in run(Amp, START + ADAPT + found).after


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(FOLDS, id="a training for each fold"),
        pytest.param(ADAPT + "adapt(model, torch.randn(16, 8).cuda(), torch.ones(16).long().cuda())\n", id="once"),
    ],
)
def test_a_training_gets_its_scaler(code: str) -> None:
    assert "GradScaler" in run(Amp, START + code).after
