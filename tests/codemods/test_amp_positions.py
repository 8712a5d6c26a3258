"""Positions and targets that would take the 16 bits of what a layer returns are left, with what to write."""

from __future__ import annotations

import pytest
from kit import check_leaves, run

from codemods.rules.amp import Amp

SCRIPT = """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(512, 512)
        self.out = nn.Linear(512, 1)

    def forward(self, x):
        h = self.fc(x)
        places = PLACES
        return self.out(h + places.float().sin()).squeeze(-1)


net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x, y in zip(torch.randn(8, 4, 512, 512), torch.randn(8, 4, 512)):
    x, y = x.cuda(), y.cuda()
    optimizer.zero_grad()
    prediction = net(x)
    loss = F.l1_loss(prediction, TARGET)
    loss.backward()
    optimizer.step()
"""
UP_TO_256 = "the 16 bits of what a layer returns, in which whole numbers above 256 are not told apart (2048 in fp16):"


def with_(places: str = "torch.zeros(1)", target: str = "y") -> str:
    """The script with these positions and this target."""
    return SCRIPT.replace("PLACES", places).replace("TARGET", target)


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            with_(places="torch.arange(512, device=x.device).type_as(h)"),
            f"torch.arange(512, device=x.device).type_as(h) takes {UP_TO_256} "
            "write torch.arange(512, device=x.device).float() (line 14)",
            id="converted positions",
        ),
        pytest.param(
            with_(places="torch.arange(512, device=x.device, dtype=h.dtype)"),
            f"torch.arange(512, device=x.device, dtype=h.dtype) takes {UP_TO_256} give it dtype=torch.float32 (line 14)",
            id="positions of the format",
        ),
        pytest.param(
            with_(places="torch.arange(512, device=x.device) + h"),
            "torch.arange(512, device=x.device) + h adds whole numbers to 16 bits, in which those above 256 are not told "
            "apart (2048 in fp16): add torch.arange(512, device=x.device).float() (line 14)",
            id="positions that are added to it",
        ),
        pytest.param(
            with_(places="(torch.sigmoid(h) * 511).long()"),
            "(torch.sigmoid(h) * 511).long() may be of numbers above 256, of which 16 bits keep nothing behind the point: "
            "compute it with autocast off (line 14)",
            id="an index that is computed",
        ),
        pytest.param(
            with_(target="y.type_as(prediction)"),
            f"y.type_as(prediction) takes {UP_TO_256} keep the target in 32 bits (line 24)",
            id="a target",
        ),
    ],
)
def test_what_16_bits_do_not_tell_apart_is_left(code: str, because: str) -> None:
    check_leaves(Amp, code, because)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(with_(places="torch.arange(512, device=x.device).float()"), id="positions of 32 bits"),
        pytest.param(with_(places="torch.arange(512, device=x.device).type_as(x)"), id="as the input"),
        pytest.param(with_(places="torch.arange(64, device=x.device).sum().type_as(h)"), id="few"),
        pytest.param(with_(target="y.type_as(x)"), id="a target as the input"),
        pytest.param(with_(target="torch.zeros(4, 512, device=x.device).type_as(prediction)"), id="zeros"),
    ],
)
def test_what_has_32_bits_is_no_obstacle(code: str) -> None:
    assert "torch.autocast(" in run(Amp, code).after


VALIDATED = """\
    with torch.no_grad():
        predicted = net(x)
        error = F.l1_loss(predicted, CHECKED)
    print(error.item())
"""


@pytest.mark.parametrize(
    ("checked", "blocks"),
    [
        pytest.param("y.type_as(predicted)", 1, id="it would round the target"),
        pytest.param("y", 2, id="its target has 32 bits"),
    ],
)
def test_a_validation_that_would_round_stays_in_32_bits(checked: str, blocks: int) -> None:
    after = run(Amp, with_() + VALIDATED.replace("CHECKED", checked)).after

    assert after.count("torch.autocast(") == blocks
