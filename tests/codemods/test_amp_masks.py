"""Assignments by a mask: of floats that may be in another format, and of what is in the right one."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

SCRIPT = """\
import numpy as np
import torch
from torch import nn

model = nn.Sequential(nn.Linear(80, 1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(100, 64, 80), torch.randn(100, 64, 1024)):
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    outputs = model(x)
    BODY
    loss = nn.functional.mse_loss(outputs, y)
    loss.backward()
    optimizer.step()
"""


def script(*body: str) -> str:
    return SCRIPT.replace("BODY", "\n    ".join(body))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(["kept = y.clone()", "kept[y > 0] = outputs[y > 0]"], id="floats"),
        pytest.param(["kept = y.clone()", "kept[y > 0] = outputs.type(torch.float32)[y > 0]"], id="one format"),
        pytest.param(["kept = outputs.clone()", "kept[np.arange(64), 0] = y[:, 0]"], id="at the indices of an array"),
        pytest.param(
            ["rows = np.random.permutation(64)", "kept = outputs.clone()", "kept[rows] = y * 0.9"],
            id="at the indices of an array by its name",
        ),
        pytest.param(["kept = outputs.clone()", "kept[[0, 2]] = y[:2]"], id="at the indices of a list"),
        pytest.param(["kept = outputs.clone()", "kept[range(64), 0] = y[:, 0]"], id="at the indices of a range"),
    ],
)
def test_an_assignment_of_floats_is_left(body: list[str]) -> None:
    (site,) = run(Amp, script(*body)).sites

    assert site.message.startswith("masked assignment needs both tensors in one number format")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(["kept = y.clone()", "kept[y > 0] = outputs[y > 0].type(y.dtype)"], id="converted by its type"),
        pytest.param(["best = outputs.argmax(1)", "best[best > 3] = y.argmax(1)[best > 3]"], id="indices"),
        pytest.param(["best = outputs.argmax(1)", "best[best > 3] = y[:, 0].long()[best > 3]"], id="integers"),
        pytest.param(
            ["best = outputs.argmax(1)", "other = y.argmin(1)", "best[best > 3] = other[best > 3]"],
            id="integers by their name",
        ),
        pytest.param(["both = outputs > 0", "both[x.sum(1) > 3] = y[x.sum(1) > 3] > 0"], id="truth values"),
        pytest.param(
            ["best = outputs.argmax(1)", "best[best > 3] = torch.zeros(64, dtype=torch.long).cuda()[best > 3]"],
            id="integers by the format that is asked for",
        ),
        pytest.param(["kept = outputs.clone()", "kept[:, 0] = y[:, 0]"], id="at a slice, which copies and casts"),
        pytest.param(["kept = outputs.clone()", "kept[np.argmax([3, 5])] = y[0]"], id="at one number of NumPy's"),
        pytest.param(["kept = np.zeros(64)", "kept[np.arange(64)] = x[:, 0].cpu()"], id="into an array, which casts"),
    ],
)
def test_an_assignment_of_what_autocast_does_not_change_runs(body: list[str]) -> None:
    (site,) = run(Amp, script(*body)).sites

    assert site.rewrites, site.message
