"""Distances that are expanded, ``a ** 2 - 2 * a @ b.T + b ** 2``, choose other neighbours in 16 bits."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

SCRIPT = """\
import torch
from torch import nn


class Points(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 512)
        self.codes = nn.Embedding(256, 512)

    def forward(self, x):
        x = self.layer(x)
        y = x.flip(1)
        BODY
        return distances.topk(20, dim=-1)[1]


model = Points().cuda()
head = nn.Embedding(1024, 512).cuda()
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for x, y in batches():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(head(model(x.cuda())), y.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("body", "named"),
    [
        pytest.param(
            ["distances = -2 * x @ y.transpose(1, 2) + (x**2).sum(-1, keepdim=True) + (y**2).sum(-1)[:, None]"],
            "-2 * x @ y.transpose(1, 2)",
            id="in one expression",
        ),
        pytest.param(
            [
                "distances = -2 * torch.matmul(x, y.permute(0, 2, 1))",
                "distances += torch.sum(x**2, -1)[:, :, None]",
                "distances += torch.sum(y**2, -1)[:, None]",
            ],
            "torch.matmul(x, y.permute(0, 2, 1))",
            id="in place",
        ),
        pytest.param(
            [
                "inner = torch.bmm(x, y.transpose(2, 1))",
                "squares = x.pow(2).sum(-1, keepdim=True)",
                "distances = 2 * inner - squares",
            ],
            "torch.bmm(x, y.transpose(2, 1))",
            id="the product has a name",
        ),
        pytest.param(
            [
                "flat = x.reshape(-1, 512)",
                "codes = self.codes.weight",
                "distances = flat.square().sum(1, keepdim=True) + codes.square().sum(1)",
                "distances = distances - 2 * torch.einsum('bd,nd->bn', flat, codes)",
            ],
            "torch.einsum('bd,nd->bn', flat, codes)",
            id="the nearest of a codebook",
        ),
        pytest.param(
            ["distances = torch.baddbmm((x * x).sum(-1, keepdim=True), x, y.mT, alpha=-2)"],
            "torch.baddbmm((x * x).sum(-1, keepdim=True), x, y.mT, alpha=-2)",
            id="a product that is added",
        ),
        pytest.param(
            ["squares = torch.norm(x, dim=-1, keepdim=True) ** 2", "distances = squares - x.matmul(y.mT).mul(2)"],
            "x.matmul(y.mT)",
            id="squares of norms",
        ),
    ],
)
def test_expanded_distances_stay_in_32_bits(body: list[str], named: str) -> None:
    script = SCRIPT.replace("BODY", "\n        ".join(body))
    result = run(Amp, script)

    (site,) = result.sites
    assert (site.code, result.after) == ("breaks-in-16-bits", script)
    assert f"{named} is part of an expanded distance" in site.message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("distances = torch.cdist(x, y)", id="a function that computes in 32 bits"),
        pytest.param("distances = 2 * x @ y.mT", id="twice a product"),
        pytest.param("distances = x @ y.mT / (x**2).sum(-1, keepdim=True)", id="a product that is divided by squares"),
        pytest.param("distances = 2 * x @ y.mT + (self.layer.weight**2).sum()", id="squares of something else"),
        pytest.param("distances = ((x - y) ** 2).sum(-1)", id="squares of differences"),
    ],
)
def test_other_products_and_distances_run_in_16_bits(body: str) -> None:
    (site,) = run(Amp, SCRIPT.replace("BODY", body)).sites

    assert site.rewrites, site.message


def test_rays_of_light_are_followed_in_32_bits() -> None:
    body = "alpha = 1 - torch.exp(-x)\n        distances = alpha * torch.cumprod(1 - alpha + 1e-10, -1)"
    script = SCRIPT.replace("BODY", body)
    result = run(Amp, script)

    (site,) = result.sites
    assert (site.code, result.after) == ("breaks-in-16-bits", script)
    assert site.message.startswith("factors near 1 are multiplied one after the other")
