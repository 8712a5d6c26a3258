"""What has kernels for 16 bits on CUDA, what autocast widens, and what neither is true of."""

from __future__ import annotations

import pytest
from kit import run

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import Choices, Promise
from codemods.rules.amp import Amp

MODEL = """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 256, 3, padding=1)
        self.pool = nn.MaxPool2d(2, return_indices=True)
        self.unpool = nn.MaxUnpool2d(2)
        self.layers = nn.Sequential(nn.Conv2d(256, 256, 3), LAYER, nn.Conv2d(256, 256, 3))

    def forward(self, x):
        x = self.layers(self.conv(x))
        BODY
        return x


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
"""
UNPOOLS = "pooled, indices = self.pool(x)\n        x = self.unpool(pooled, indices)"
SPEECH = """\
import torch
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(80, 1024), nn.ReLU(), nn.Linear(1024, 32)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CTCLoss()
for x, y, sizes, lengths in batches():
    optimizer.zero_grad()
    outputs = model(x.cuda())
    loss = LOSS
    loss.backward()
    optimizer.step()
"""


def net(body: str = "pass", layer: str = "nn.ReLU()") -> str:
    return MODEL.replace("BODY", body).replace("LAYER", layer)


@pytest.mark.parametrize(
    ("script", "target", "since"),
    [
        pytest.param(net(UNPOOLS), None, "2.5", id="a layer, torch unknown"),
        pytest.param(net(UNPOOLS), (2, 4), "2.5", id="a layer, torch too old"),
        pytest.param(
            net("x = F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)"), None, "2.5", id="function"
        ),
        pytest.param(net(layer="nn.ReplicationPad2d(1)"), (2, 1), "2.2", id="a layer among others"),
        pytest.param(net("x = F.interpolate(x, scale_factor=2)"), (2, 0), "2.1", id="interpolation"),
    ],
)
def test_a_layer_without_a_kernel_for_bf16_is_left(script: str, target: tuple[int, int] | None, since: str) -> None:
    (site,) = run(Amp, script, target).sites

    assert site.code == "older-torch"
    assert f"has no bf16 kernel on CUDA before torch {since}" in site.message


@pytest.mark.parametrize(
    ("script", "target"),
    [
        pytest.param(net(UNPOOLS), (2, 5), id="unpooling"),
        pytest.param(net(layer="nn.ReplicationPad2d(1)"), None, id="padding, torch unknown"),
        pytest.param(net("x = F.interpolate(x, scale_factor=2)"), (2, 1), id="interpolation"),
    ],
)
def test_newer_torch_has_the_kernel(script: str, target: tuple[int, int] | None) -> None:
    (site,) = run(Amp, script, target).sites

    assert site.rewrites, site.message


def test_fp16_has_the_kernel_on_every_torch() -> None:
    settings = Settings(frozenset({"amp"}), Promise.TRAINING, choices=Choices(amp="fp16"))
    (site,) = rewrite("train.py", net(UNPOOLS), settings, rounds=((Amp,),)).sites

    assert site.rewrites, site.message


@pytest.mark.parametrize(
    "norm",
    [
        pytest.param("torch.linalg.norm(x, dim=1, keepdim=True)", id="norm"),
        pytest.param("torch.linalg.vector_norm(x, dim=1, keepdim=True)", id="of vectors"),
        pytest.param("torch.linalg.matrix_norm(x, keepdim=True)", id="of matrices"),
    ],
)
def test_norms_are_widened_by_autocast(norm: str) -> None:
    (site,) = run(Amp, net(f"x = x / {norm}")).sites

    assert site.rewrites, site.message


def test_other_linear_algebra_is_left() -> None:
    (site,) = run(Amp, net("x = torch.linalg.inv(x)")).sites

    assert site.message.startswith("torch.linalg.inv has no 16-bit kernel")


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        pytest.param("F.ctc_loss(outputs, y, sizes, lengths)", "F.ctc_loss", id="a function"),
        pytest.param("criterion(outputs.transpose(0, 1), y, sizes, lengths)", "criterion", id="an object"),
    ],
)
def test_ctc_needs_wide_probabilities(loss: str, named: str) -> None:
    (site,) = run(Amp, SPEECH.replace("LOSS", loss)).sites

    assert site.code == "breaks-in-16-bits"
    assert site.message.startswith(f"{named} has no 16-bit kernel on CUDA")


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param("F.ctc_loss(outputs.log_softmax(2), y, sizes, lengths)", id="autocast widens logarithms"),
        pytest.param("criterion(F.log_softmax(outputs, 2).transpose(0, 1), y, sizes, lengths)", id="on the way"),
        pytest.param("criterion(outputs.float(), y, sizes, lengths)", id="the script widens them"),
    ],
)
def test_ctc_is_given_wide_probabilities(loss: str) -> None:
    (site,) = run(Amp, SPEECH.replace("LOSS", loss)).sites

    assert site.rewrites, site.message
