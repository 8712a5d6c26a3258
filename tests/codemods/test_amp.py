"""Mixed precision, form by form: what it makes of a script, and that the script still trains."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Choices, Finding, Leaves, Rewrites
from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.apply import apply
from codemods.facts.script import Script
from codemods.rules.amp import Amp

if TYPE_CHECKING:
    from codemods.codemod import AmpForm

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
HEADER = """\
use_amp = device.type == "cuda"
amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)
"""
DATA = """\
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
"""


def found(code: str, form: AmpForm) -> list[Finding]:
    return list(Amp(Choices(amp=form)).find(Script.of(Module("train.py", code))))


def rewritten(code: str, form: AmpForm) -> str:
    """What the rule in one of its forms makes of the script."""
    script = Script.of(Module("train.py", code))
    accepted = conflicts.Accepted()
    for finding in Amp(Choices(amp=form)).find(script):
        assert accepted.add(finding.edits) is None
    return apply(script.module, accepted.edits)


@pytest.mark.parametrize("example", [each for each in Amp.examples if isinstance(each, Rewrites)])
def test_examples_that_are_rewritten(example: Rewrites) -> None:
    check_rewrites(Amp, example.before, example.after)


@pytest.mark.parametrize("example", [each for each in Amp.examples if isinstance(each, Leaves)])
def test_examples_that_are_left(example: Leaves) -> None:
    check_leaves(Amp, example.code, example.because)


# What follows HEAD, before and after; HEADER comes between. All print losses, so that they can be compared.
STEPS = {
    "a plain step": (
        DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = model(x)
        loss = F.cross_entropy(output, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "a loss that is computed where it is differentiated": (
        DATA
        + """\
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    print(model[0].weight.sum().item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(model[0].weight.sum().item())
""",
    ),
    "a loss from outputs that is computed where it is differentiated": (
        DATA
        + """\
    output = model(x)
    optimizer.zero_grad()
    F.cross_entropy(output, y).backward(retain_graph=False)
    optimizer.step()
    print(model[0].weight.sum().item())
""",
        DATA
        + """\
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = model(x)
        optimizer.zero_grad()
        loss = F.cross_entropy(output, y)
    scaler.scale(loss).backward(retain_graph=False)
    scaler.step(optimizer)
    scaler.update()
    print(model[0].weight.sum().item())
""",
    ),
    "clipping sees gradients that are not scaled": (
        DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(loss.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "a helper sees gradients that are not scaled": (
        """\


def norm(parameters):
    return sum(p.grad.norm() ** 2 for p in parameters) ** 0.5


for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    total = norm(model.parameters())
    if total > 0.1:
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
    optimizer.step()
    print(loss.item(), total.item())
""",
        """\


def norm(parameters):
    return sum(p.grad.norm() ** 2 for p in parameters) ** 0.5


for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    total = norm(model.parameters())
    if total > 0.1:
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
    scaler.step(optimizer)
    scaler.update()
    print(loss.item(), total.item())
""",
    ),
    "accumulation updates where it steps": (
        """\
for i, (x, y) in enumerate(zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16)))):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y) / 2
    loss.backward()
    if (i + 1) % 2 == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item())
""",
        """\
for i, (x, y) in enumerate(zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16)))):
    x, y = x.to(device), y.to(device)
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y) / 2
    scaler.scale(loss).backward()
    if (i + 1) % 2 == 0:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(loss.item())
""",
    ),
    "losses are summed where they are differentiated": (
        DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    nll = F.cross_entropy(output, y)
    decay = sum(p.pow(2).sum() for p in model.parameters())
    (nll + 0.01 * decay).backward()
    optimizer.step()
    print(nll.item(), decay.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = model(x)
        nll = F.cross_entropy(output, y)
        decay = sum(p.pow(2).sum() for p in model.parameters())
    scaler.scale(nll + 0.01 * decay).backward()
    scaler.step(optimizer)
    scaler.update()
    print(nll.item(), decay.item())
""",
    ),
    "several backwards are scaled each": (
        DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    first = F.cross_entropy(output, y)
    first.backward(retain_graph=True)
    second = F.cross_entropy(model(x * 2), y)
    second.backward()
    optimizer.step()
    print(first.item(), second.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = model(x)
        first = F.cross_entropy(output, y)
    scaler.scale(first).backward(retain_graph=True)
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        second = F.cross_entropy(model(x * 2), y)
    scaler.scale(second).backward()
    scaler.step(optimizer)
    scaler.update()
    print(first.item(), second.item())
""",
    ),
    "several losses are scaled together": (
        DATA
        + """\
    optimizer.zero_grad()
    first = F.cross_entropy(model(x), y)
    second = F.cross_entropy(model(-x), y)
    torch.autograd.backward([first, second])
    optimizer.step()
    print(first.item(), second.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        first = F.cross_entropy(model(x), y)
        second = F.cross_entropy(model(-x), y)
    torch.autograd.backward(scaler.scale([first, second]))
    scaler.step(optimizer)
    scaler.update()
    print(first.item(), second.item())
""",
    ),
    "a backward with a gradient of its own": (
        DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward(gradient=torch.tensor(0.5, device=device))
    optimizer.step()
    print(loss.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward(gradient=torch.tensor(0.5, device=device))
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "what leaves the block for numpy is 32 bits wide": (
        DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    accuracy = (output.argmax(1) == y).float().mean().item()
    print(loss.item(), accuracy, output.detach().cpu().numpy().sum())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = model(x)
        loss = F.cross_entropy(output, y)
        output = output.float()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    accuracy = (output.argmax(1) == y).float().mean().item()
    print(loss.item(), accuracy, output.detach().cpu().numpy().sum())
""",
    ),
    "what leaves the block harmlessly stays": (
        DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    _, predicted = torch.max(output.data, 1)
    print(loss.item(), predicted.eq(y).sum().item(), output.shape, len(output))
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = model(x)
        loss = F.cross_entropy(output, y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    _, predicted = torch.max(output.data, 1)
    print(loss.item(), predicted.eq(y).sum().item(), output.shape, len(output))
""",
    ),
    "checkpoints hold the scaler's state": (
        """\
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
    checkpoint = {
        "model_state": model.state_dict(),
        "optimizer_state": optimizer.state_dict(),
        "epoch": 1,
    }
model.load_state_dict(checkpoint["model_state"])
optimizer.load_state_dict(checkpoint["optimizer_state"])
""",
        """\
state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
    checkpoint = {
        "model_state": model.state_dict(),
        "optimizer_state": optimizer.state_dict(),
        "epoch": 1,
        "scaler_state": scaler.state_dict(),
    }
model.load_state_dict(checkpoint["model_state"])
optimizer.load_state_dict(checkpoint["optimizer_state"])
if checkpoint.get("scaler_state"):
    scaler.load_state_dict(checkpoint["scaler_state"])
""",
    ),
    "validation, inside no_grad": (
        DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
model.eval()
with torch.no_grad():
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        output = model(x)
        val_loss = F.cross_entropy(output, y)
        print(val_loss.item(), (output.argmax(1) == y).sum().item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
model.eval()
with torch.no_grad():
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
            output = model(x)
            val_loss = F.cross_entropy(output, y)
        print(val_loss.item(), (output.argmax(1) == y).sum().item())
""",
    ),
    "an outer loop, a scheduler and a comment": (
        """\
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(2):
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        # forward
        output = model(x)
        loss = F.cross_entropy(output, y)

        # backward
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
    scheduler.step()
""",
        """\
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for epoch in range(2):
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        # forward
        with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
            output = model(x)
            loss = F.cross_entropy(output, y)

        # backward
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item())
    scheduler.step()
""",
    ),
    "a loss from steps of a loop": (
        DATA
        + """\
    optimizer.zero_grad()
    loss = 0
    for part in x.chunk(2):
        loss = loss + model(part).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    loss = 0
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        for part in x.chunk(2):
            loss = loss + model(part).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "the same model without gradients has a block of its own": (
        DATA
        + """\
    optimizer.zero_grad()
    with torch.no_grad():
        target = model(x + 1)
    loss = F.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        DATA
        + """\
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        with torch.no_grad():
            target = model(x + 1)
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss = F.mse_loss(model(x), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
}

SCRIPTS = {
    "two optimizers, one update": (
        """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
G = nn.Linear(2, 8).to(device)
D = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
criterion = nn.BCEWithLogitsLoss()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
ones, zeros = torch.ones(16, 1, device=device), torch.zeros(16, 1, device=device)
for real in torch.randn(6, 16, 8):
    real = real.to(device)
    opt_d.zero_grad()
    loss_real = criterion(D(real), ones)
    loss_real.backward()
    fake = G(torch.randn(16, 2, device=device))
    loss_fake = criterion(D(fake.detach()), zeros)
    loss_fake.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = criterion(D(fake), ones)
    loss_g.backward()
    opt_g.step()
    print(loss_real.item(), loss_fake.item(), loss_g.item())
""",
        """\
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
G = nn.Linear(2, 8).to(device)
D = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
criterion = nn.BCEWithLogitsLoss()
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
use_amp = device.type == "cuda"
amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)
ones, zeros = torch.ones(16, 1, device=device), torch.zeros(16, 1, device=device)
for real in torch.randn(6, 16, 8):
    real = real.to(device)
    opt_d.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss_real = criterion(D(real), ones)
    scaler.scale(loss_real).backward()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        fake = G(torch.randn(16, 2, device=device))
        loss_fake = criterion(D(fake.detach()), zeros)
    scaler.scale(loss_fake).backward()
    scaler.step(opt_d)
    opt_g.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        loss_g = criterion(D(fake), ones)
    scaler.scale(loss_g).backward()
    scaler.step(opt_g)
    scaler.update()
    print(loss_real.item(), loss_fake.item(), loss_g.item())
""",
    ),
    "binary cross entropy on calls, twice in a row": (
        """\
import torch
import torch.nn as nn


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return torch.sigmoid(self.layers(x).float())


torch.manual_seed(0)
cuda = torch.cuda.is_available()
generator = nn.Linear(2, 8)
discriminator = Discriminator()
adversarial_loss = nn.BCELoss()
if cuda:
    generator.cuda()
    discriminator.cuda()
    adversarial_loss.cuda()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3)
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
for i, imgs in enumerate(torch.randn(6, 16, 8)):
    valid = torch.ones(16, 1).type(Tensor)
    fake = torch.zeros(16, 1).type(Tensor)
    real_imgs = imgs.type(Tensor)

    optimizer_G.zero_grad()
    gen_imgs = generator(torch.randn(16, 2).type(Tensor))
    g_loss = adversarial_loss(discriminator(gen_imgs), valid)
    g_loss.backward()
    optimizer_G.step()

    optimizer_D.zero_grad()
    real_loss = adversarial_loss(discriminator(real_imgs), valid)
    fake_loss = adversarial_loss(discriminator(gen_imgs.detach()), fake)
    d_loss = (real_loss + fake_loss) / 2
    d_loss.backward()
    optimizer_D.step()
    print(g_loss.item(), d_loss.item())
""",
        """\
import torch
import torch.nn as nn


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return torch.sigmoid(self.layers(x).float())


torch.manual_seed(0)
cuda = torch.cuda.is_available()
generator = nn.Linear(2, 8)
discriminator = Discriminator()
adversarial_loss = nn.BCELoss()
if cuda:
    generator.cuda()
    discriminator.cuda()
    adversarial_loss.cuda()
optimizer_G = torch.optim.Adam(generator.parameters(), lr=1e-3)
optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
amp_dtype = torch.bfloat16 if cuda and torch.cuda.get_device_capability()[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=cuda and amp_dtype is torch.float16)
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor
for i, imgs in enumerate(torch.randn(6, 16, 8)):
    valid = torch.ones(16, 1).type(Tensor)
    fake = torch.zeros(16, 1).type(Tensor)
    real_imgs = imgs.type(Tensor)

    optimizer_G.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=cuda):
        gen_imgs = generator(torch.randn(16, 2).type(Tensor))
        g_output = discriminator(gen_imgs)
    g_loss = adversarial_loss(g_output, valid)
    scaler.scale(g_loss).backward()
    scaler.step(optimizer_G)

    optimizer_D.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=cuda):
        real_output = discriminator(real_imgs)
        fake_output = discriminator(gen_imgs.detach())
    real_loss = adversarial_loss(real_output, valid)
    fake_loss = adversarial_loss(fake_output, fake)
    d_loss = (real_loss + fake_loss) / 2
    scaler.scale(d_loss).backward()
    scaler.step(optimizer_D)
    scaler.update()
    print(g_loss.item(), d_loss.item())
""",
    ),
    "an optimizer that steps now and then": (
        """\
import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
G = nn.Linear(2, 8).to(device)
D = nn.Linear(8, 1).to(device)
opt_g = torch.optim.SGD(G.parameters(), lr=1e-4)
opt_d = torch.optim.SGD(D.parameters(), lr=1e-4)
for i, real in enumerate(torch.randn(6, 16, 8)):
    real = real.to(device)
    fake = G(torch.randn(16, 2, device=device))
    loss_d = D(fake.detach()).pow(2).mean() + (D(real) - 1).pow(2).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    if i % 2 == 0:
        loss_g = (D(G(torch.randn(16, 2, device=device))) - 1).pow(2).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        print(loss_g.item())
    print(loss_d.item())
""",
        """\
import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
G = nn.Linear(2, 8).to(device)
D = nn.Linear(8, 1).to(device)
opt_g = torch.optim.SGD(G.parameters(), lr=1e-4)
opt_d = torch.optim.SGD(D.parameters(), lr=1e-4)
use_amp = device == "cuda"
amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)
for i, real in enumerate(torch.randn(6, 16, 8)):
    real = real.to(device)
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        fake = G(torch.randn(16, 2, device=device))
        loss_d = D(fake.detach()).pow(2).mean() + (D(real) - 1).pow(2).mean()
    opt_d.zero_grad()
    scaler.scale(loss_d).backward()
    scaler.step(opt_d)
    if i % 2 == 0:
        with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
            loss_g = (D(G(torch.randn(16, 2, device=device))) - 1).pow(2).mean()
        opt_g.zero_grad()
        scaler.scale(loss_g).backward()
        scaler.step(opt_g)
        print(loss_g.item())
    scaler.update()
    print(loss_d.item())
""",
    ),
    "a list of optimizers": (
        """\
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(8, 4).cuda()
decoder = nn.Linear(4, 8).cuda()
enc_opt = torch.optim.Adam(encoder.parameters())
dec_opt = torch.optim.Adam(decoder.parameters())
for x in torch.randn(6, 16, 8).cuda():
    for opt in [enc_opt, dec_opt]:
        opt.zero_grad()
    loss = (decoder(encoder(x)) - x).pow(2).mean()
    loss.backward()
    for opt in [enc_opt, dec_opt]:
        opt.step()
    print(loss.item())
""",
        """\
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(8, 4).cuda()
decoder = nn.Linear(4, 8).cuda()
enc_opt = torch.optim.Adam(encoder.parameters())
dec_opt = torch.optim.Adam(decoder.parameters())
amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)
for x in torch.randn(6, 16, 8).cuda():
    for opt in [enc_opt, dec_opt]:
        opt.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype):
        loss = (decoder(encoder(x)) - x).pow(2).mean()
    scaler.scale(loss).backward()
    for opt in [enc_opt, dec_opt]:
        scaler.step(opt)
    scaler.update()
    print(loss.item())
""",
    ),
    "the loss is computed in the model": (
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.layer(x), y)


torch.manual_seed(0)
use_cuda = torch.cuda.is_available()
model = Net()
if use_cuda:
    model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    if use_cuda:
        x, y = x.cuda(), y.cuda()
    loss = model(x, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.layer(x), y)


torch.manual_seed(0)
use_cuda = torch.cuda.is_available()
model = Net()
if use_cuda:
    model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
amp_dtype = torch.bfloat16 if use_cuda and torch.cuda.get_device_capability()[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_cuda and amp_dtype is torch.float16)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    if use_cuda:
        x, y = x.cuda(), y.cuda()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_cuda):
        loss = model(x, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "the optimizer is made in the function": (
        """\
import torch
from torch import nn


def fit(model, batches, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.MSELoss()
    for x in batches:
        x = x.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), x)
        loss.backward()
        optimizer.step()
        print(loss.item())


def main():
    torch.manual_seed(0)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    fit(nn.Linear(8, 8).to(device), torch.randn(6, 16, 8), device)


if __name__ == '__main__':
    main()
""",
        """\
import torch
from torch import nn


def fit(model, batches, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    use_amp = device.type == 'cuda'
    amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
    scaler = torch.amp.GradScaler('cuda', enabled=use_amp and amp_dtype is torch.float16)
    criterion = nn.MSELoss()
    for x in batches:
        x = x.to(device)
        optimizer.zero_grad()
        with torch.autocast('cuda', dtype=amp_dtype, enabled=use_amp):
            loss = criterion(model(x), x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item())


def main():
    torch.manual_seed(0)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    fit(nn.Linear(8, 8).to(device), torch.randn(6, 16, 8), device)


if __name__ == '__main__':
    main()
""",
    ),
    "the optimizer is a parameter": (
        """\
import torch
from torch import nn
import torch.nn.functional as F


def train(model, device, batches, optimizer, epoch):
    model.train()
    for x in batches:
        x = x.to(device)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())


def test(model, device, batches):
    model.eval()
    with torch.no_grad():
        for x in batches:
            x = x.to(device)
            output = model(x)
            print(F.mse_loss(output, x).item())


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        train(model, device, torch.randn(6, 16, 8), optimizer, epoch)
        test(model, device, torch.randn(2, 16, 8))


if __name__ == "__main__":
    main()
""",
        """\
import torch
from torch import nn
import torch.nn.functional as F


def train(model, device, batches, optimizer, epoch, scaler, amp_dtype):
    model.train()
    for x in batches:
        x = x.to(device)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=amp_dtype, enabled=device.type == "cuda"):
            loss = F.mse_loss(model(x), x)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(epoch, loss.item())


def test(model, device, batches, amp_dtype):
    model.eval()
    with torch.no_grad():
        for x in batches:
            x = x.to(device)
            with torch.autocast("cuda", dtype=amp_dtype, enabled=device.type == "cuda"):
                output = model(x)
                output = output.float()
            print(F.mse_loss(output, x).item())


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    use_amp = device.type == "cuda"
    amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)
    for epoch in range(2):
        train(model, device, torch.randn(6, 16, 8), optimizer, epoch, scaler=scaler, amp_dtype=amp_dtype)
        test(model, device, torch.randn(2, 16, 8), amp_dtype=amp_dtype)


if __name__ == "__main__":
    main()
""",
    ),
    "the optimizer is an attribute": (
        """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer, device):
        self.model = model.to(device)
        self.optimizer = optimizer
        self.device = device
        self.criterion = nn.MSELoss()

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), x)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, batches):
        for x in batches:
            print(self.step(x.to(self.device)))

    def save(self, path):
        torch.save(
            {
                "net": self.model.state_dict(),
                "opt": self.optimizer.state_dict(),
            },
            path,
        )

    def load(self, path):
        state = torch.load(path)
        self.optimizer.load_state_dict(state["opt"])


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 8)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), device)
trainer.fit(torch.randn(6, 16, 8))
""",
        """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer, device):
        self.model = model.to(device)
        self.optimizer = optimizer
        self.use_amp = device.type == "cuda"
        self.amp_dtype = (
            torch.bfloat16 if self.use_amp and torch.cuda.get_device_capability(device)[0] >= 8
            else torch.float16
        )
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.use_amp and self.amp_dtype is torch.float16)
        self.device = device
        self.criterion = nn.MSELoss()

    def step(self, x):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=self.amp_dtype, enabled=self.use_amp):
            loss = self.criterion(self.model(x), x)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def fit(self, batches):
        for x in batches:
            print(self.step(x.to(self.device)))

    def save(self, path):
        torch.save(
            {
                "net": self.model.state_dict(),
                "opt": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
            },
            path,
        )

    def load(self, path):
        state = torch.load(path)
        self.optimizer.load_state_dict(state["opt"])
        if state.get("scaler"):
            self.scaler.load_state_dict(state["scaler"])


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 8)
trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), device)
trainer.fit(torch.randn(6, 16, 8))
""",
    ),
    "a global optimizer, used in a function above it": (
        """\
import torch
from torch import nn


def train():
    for x in torch.randn(3, 16, 8):
        x = x.to(device)
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(loss.item())


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train()
optimizer = torch.optim.Adam(model.parameters())
train()
""",
        """\
import torch
from torch import nn


def train():
    for x in torch.randn(3, 16, 8):
        x = x.to(device)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
            loss = model(x).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item())


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
use_amp = device.type == "cuda"
amp_dtype = torch.bfloat16 if use_amp and torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=use_amp and amp_dtype is torch.float16)
train()
optimizer = torch.optim.Adam(model.parameters())
train()
""",
    ),
    "the name scaler is taken, torch is spelled otherwise": (
        """\
import torch as th
from torch.nn import Linear

scaler = 2.0
th.manual_seed(0)
model = Linear(8, 8).cuda()
optim = th.optim.SGD(model.parameters(), lr=0.1)
for x in th.randn(6, 16, 8).cuda():
    optim.zero_grad()
    loss = (scaler * model(x)).pow(2).mean()
    loss.backward()
    optim.step()
    print(loss.item())
""",
        """\
import torch as th
from torch.nn import Linear

scaler = 2.0
th.manual_seed(0)
model = Linear(8, 8).cuda()
optim = th.optim.SGD(model.parameters(), lr=0.1)
amp_dtype = th.bfloat16 if th.cuda.get_device_capability()[0] >= 8 else th.float16
grad_scaler = th.amp.GradScaler("cuda", enabled=amp_dtype is th.float16)
for x in th.randn(6, 16, 8).cuda():
    optim.zero_grad()
    with th.autocast("cuda", dtype=amp_dtype):
        loss = (scaler * model(x)).pow(2).mean()
    grad_scaler.scale(loss).backward()
    grad_scaler.step(optim)
    grad_scaler.update()
    print(loss.item())
""",
    ),
    "gradients of one of two optimizers are clipped": (
        """\
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Linear(8, 8).cuda()
critic = nn.Linear(8, 1).cuda()
actor_optimizer = torch.optim.Adam(actor.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
for x in torch.randn(6, 16, 8).cuda():
    critic_optimizer.zero_grad()
    value = critic(actor(x).detach()).pow(2).mean()
    value.backward()
    nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
    critic_optimizer.step()
    actor_optimizer.zero_grad()
    policy = critic(actor(x)).mean()
    policy.backward()
    actor_optimizer.step()
    print(value.item(), policy.item())
""",
        """\
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Linear(8, 8).cuda()
critic = nn.Linear(8, 1).cuda()
actor_optimizer = torch.optim.Adam(actor.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
amp_dtype = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
scaler = torch.amp.GradScaler("cuda", enabled=amp_dtype is torch.float16)
for x in torch.randn(6, 16, 8).cuda():
    critic_optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype):
        value = critic(actor(x).detach()).pow(2).mean()
    scaler.scale(value).backward()
    scaler.unscale_(critic_optimizer)
    nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
    scaler.step(critic_optimizer)
    actor_optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype):
        policy = critic(actor(x)).mean()
    scaler.scale(policy).backward()
    scaler.step(actor_optimizer)
    scaler.update()
    print(value.item(), policy.item())
""",
    ),
}
PROBABILITIES = {
    "binary cross entropy stays outside": (
        """\
criterion = nn.BCELoss()
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    output = torch.sigmoid(model(x).float())
    loss = criterion(output, F.one_hot(y, 4).float())
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        """\
criterion = nn.BCELoss()
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = torch.sigmoid(model(x).float())
    loss = criterion(output, F.one_hot(y, 4).float())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "binary cross entropy on a call of the model": (
        """\
criterion = nn.BCELoss()
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = criterion(torch.sigmoid(model(x).float()), F.one_hot(y, 4).float())
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        """\
criterion = nn.BCELoss()
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = torch.sigmoid(model(x).float())
    loss = criterion(output, F.one_hot(y, 4).float())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
    "binary cross entropy in a function": (
        """\


def loss_function(p, y):
    return F.binary_cross_entropy(p, y)


for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    output = torch.sigmoid(model(x).float())
    loss = loss_function(output, F.one_hot(y, 4).float())
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
        """\


def loss_function(p, y):
    return F.binary_cross_entropy(p, y)


for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):
        output = torch.sigmoid(model(x).float())
    loss = loss_function(output, F.one_hot(y, 4).float())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
""",
    ),
}
"""A sigmoid is computed in 32 bits, and autocast refuses the loss, which stays outside."""

PAIRS = {
    **{name: (HEAD + before, HEAD + HEADER + after) for name, (before, after) in {**STEPS, **PROBABILITIES}.items()},
    **SCRIPTS,
}


@pytest.mark.parametrize("name", PAIRS)
def test_forms(name: str) -> None:
    check_rewrites(Amp, *PAIRS[name])


GUARDED = """\
import torch
from torch import nn

def train(model, optimizer, batches, device):
    for x in batches:
        optimizer.zero_grad()
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()

def validate(model, batches, device):
    with torch.no_grad():
        return sum(nn.functional.mse_loss(model(x.to(device)), x.to(device)).item() for x in batches)

def losses(model, batches, device):
    total = 0.0
    with torch.no_grad():
        for x in batches:
            total += model(x.to(device)).mean().item()
    return total

if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 8).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = torch.randn(4, 16, 8)
    train(model, optimizer, batches, device)
    print(losses(model, batches, device))
"""


def test_a_function_that_is_handed_on_chooses_the_number_format_itself_and_once() -> None:
    code = GUARDED.replace(
        "            total += model(x.to(device)).mean().item()\n",
        "            total += model(x.to(device)).mean().item()\n"
        "        for x in batches:\n"
        "            total += model(x.to(device)).mean().item()\n",
    ).replace("    print(losses(", "    for each in (losses, max):\n        print(each(")
    code = code.replace(
        "print(each(model, batches, device))", "print(each([0], key=id))\n    print(losses(model, batches, device))"
    )
    body = rewritten(code, "auto").partition("def losses")[2].partition("if __name__")[0]
    assert body.startswith("(model, batches, device):")
    assert body.count("with torch.autocast") == 2
    assert body.count("amp_dtype = ") == 1


def test_a_sigmoid_of_fp16_that_is_exactly_one_has_gradients_that_are_no_numbers() -> None:
    logits = torch.tensor([9.0], dtype=torch.float16, requires_grad=True)
    probabilities = torch.sigmoid(logits).float()
    loss = torch.nn.functional.binary_cross_entropy(probabilities, torch.tensor([0.9]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad.isnan().all()


def test_a_default_device_is_not_followed() -> None:
    code = """\
import torch
from torch import nn

torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(3, 4, 8):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""
    (site,) = found(code, "auto")
    assert site.message == "whether the default device is CUDA is not followed (line 4): move the model to it"


def test_a_function_that_others_may_import_is_handed_what_is_bound_under_the_guard() -> None:
    after = rewritten(GUARDED, "auto")
    assert "def train(model, optimizer, batches, device, scaler, amp_dtype):" in after
    assert "def losses(model, batches, device, amp_dtype):" in after
    assert "print(losses(model, batches, device, amp_dtype=amp_dtype))" in after
    assert after.count("amp_dtype = ") == 1


def test_who_calls_a_function_with_defaults_from_elsewhere_may_go_on_without_the_number_format() -> None:
    code = GUARDED.replace("losses(model, batches, device):", "losses(model, batches, device, limit=3):")
    after = rewritten(code, "auto")
    assert "def losses(model, batches, device, limit=3, amp_dtype=None):" in after
    assert "print(losses(model, batches, device, amp_dtype=amp_dtype))" in after


def test_a_function_that_reads_what_is_bound_under_the_guard_reads_the_number_format_too() -> None:
    code = GUARDED.replace("losses(model, batches, device):", "losses(model, device):").replace(
        "losses(model, batches, device))", "losses(model, device))"
    )
    after = rewritten(code, "auto")
    body = after.partition("def losses")[2].partition("if __name__")[0]
    assert body.startswith("(model, device):")
    assert 'with torch.autocast("cuda", dtype=amp_dtype, enabled=use_amp):' in body
    assert after.count("amp_dtype = ") == 1


def test_a_function_in_the_middle_hands_the_number_format_on() -> None:
    code = GUARDED.replace("    print(losses(", "    report(").replace("batches, device))\n", "batches, device)\n")
    code = code.replace(
        "if __name__", "def report(model, batches, device):\n    print(losses(model, batches, device))\n\nif __name__"
    )
    after = rewritten(code, "auto")
    assert "def report(model, batches, device, amp_dtype):" in after
    assert "    print(losses(model, batches, device, amp_dtype=amp_dtype))" in after
    assert "    report(model, batches, device, amp_dtype=amp_dtype)" in after


def test_a_function_that_stays_in_32_bits_is_handed_nothing() -> None:
    code = GUARDED.replace(
        "total += model(x.to(device)).mean().item()", "total += np.asarray(model(x.to(device)).cpu())"
    )
    after = rewritten("import numpy as np\n" + code, "auto")
    assert "def losses(model, batches, device):" in after
    assert "print(losses(model, batches, device))" in after


def test_a_function_that_is_handed_the_device_asks_that() -> None:
    code = GUARDED.replace("total += model(x.to(device))", "total += model(moved(x, device))").replace(
        "def losses", "def moved(x, device):\n    return x.to(device)\n\ndef losses"
    )
    after = rewritten(code, "auto")
    body = after.partition("def losses")[2].partition("if __name__")[0]
    assert 'with torch.autocast("cuda", dtype=amp_dtype, enabled=device.type == "cuda"):' in body
    assert after.count("is_available") == 1


UNNAMED = """\
import torch
from torch import nn

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
for x in torch.randn(6, 16, 8):
    optimizer.zero_grad()
    loss = model(x.to(device)).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_device_that_has_no_name_where_the_scaler_is_made() -> None:
    after = rewritten(UNNAMED, "auto")

    assert "lr=0.1)\nuse_amp = torch.cuda.is_available()\namp_dtype = torch.bfloat16 if use_amp and" in after


@pytest.mark.parametrize(
    "device",
    [
        'torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"',
        "torch.accelerator.current_accelerator()",
    ],
)
def test_whatever_accelerator_there_is(device: str) -> None:
    code = HEAD.replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', device) + STEP

    assert "with torch.autocast" in rewritten(code, "auto")


MOVED_SOMEWHERE = """\
import contextlib
import torch
from torch import nn

{define}

model = nn.Linear(2, 2)
{move}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(3, 4, 2):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""
PLACE = "def place(x):\n    return x.cuda()\n"
PERHAPS = {
    "its function returns before it": (
        "def place(x):\n    if not torch.cuda.is_available():\n        return x\n    return x.cuda()\n",
        "model = place(model)",
    ),
    "its function is called under a condition": (
        PLACE,
        "if torch.cuda.is_available():\n    model = place(model)",
    ),
    "another function may be called": (
        PLACE + "def stay(x):\n    return x\n",
        "model = (place if torch.cuda.device_count() else stay)(model)",
    ),
    "its function is defined twice": (
        "if torch.cuda.is_available():\n    def place(x):\n        return x.cuda()\n"
        "else:\n    def place(x):\n        return x\n",
        "model = place(model)",
    ),
    "its failure is caught": ("", "try:\n    model.cuda()\nexcept AssertionError:\n    pass"),
    "its failure is suppressed": ("", "with contextlib.suppress(AssertionError):\n    model.cuda()"),
    "it stands in an and": ("", "torch.cuda.is_available() and model.cuda()"),
    "there may be no device to loop over": ("", "for i in range(torch.cuda.device_count()):\n    model.cuda(i)"),
}


@pytest.mark.parametrize(("define", "move"), PERHAPS.values(), ids=PERHAPS)
def test_where_the_model_is_moved_perhaps_the_gpu_is_asked_for(define: str, move: str) -> None:
    after = rewritten(MOVED_SOMEWHERE.format(define=define, move=move), "auto")
    assert "use_amp = torch.cuda.is_available()\n" in after


@pytest.mark.parametrize(
    ("define", "move"),
    [
        pytest.param("", "model.cuda()", id="plainly"),
        pytest.param(PLACE, "model = place(model)", id="in a function that is called plainly"),
    ],
)
def test_where_the_model_is_moved_for_certain_nothing_is_asked(define: str, move: str) -> None:
    after = rewritten(MOVED_SOMEWHERE.format(define=define, move=move), "auto")
    assert "is_available" not in after


def test_a_rewritten_script_is_not_mentioned_again() -> None:
    for _, after in PAIRS.values():
        check_silent(Amp, after)


BF16 = """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device.type == "cuda"):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(loss.item())
"""

FP16 = """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
use_amp = device.type == "cuda"
scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
        loss = F.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
"""


@pytest.mark.parametrize(("form", "after"), [("bf16", BF16), ("fp16", FP16)])
def test_one_number_format_is_written_plainly(form: AmpForm, after: str) -> None:
    before = HEAD + STEPS["clipping sees gradients that are not scaled"][0]

    assert rewritten(before, form) == after


RUNNER = """
import contextlib, io, json, sys

import torch

torch.set_num_threads(1)
pairs, simulated = json.load(sys.stdin), sys.argv[1:]
if simulated:
    from autotune_rewrite.verify.child import simulated as device

    device.install(simulated[0])
printed = []
for pair in pairs:
    for code in pair:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "train.py", "exec"), {"__name__": "__main__"})
        printed.append(out.getvalue())
print(json.dumps(printed))
"""


def printed(pairs: list[tuple[str, str]], *capability: str) -> list[tuple[str, str]]:
    """What the scripts print, before and after, all run in one process; on a simulated device if one is asked for."""
    command = [sys.executable, "-c", RUNNER, *capability]
    result = subprocess.run(command, input=json.dumps(pairs), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    texts = json.loads(result.stdout)
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_without_cuda_nothing_changes() -> None:
    pairs = [pair for pair in PAIRS.values() if "is_available" in pair[0]]

    for before, after in printed(pairs):
        assert before.strip()
        assert after == before


@pytest.mark.parametrize("capability", ["9.0", "7.0"])
def test_on_a_device_losses_stay_close(capability: str) -> None:
    pairs = [pair for pair in PAIRS.values() if capability == "9.0" or "GradScaler" in pair[1]]
    for before, after in printed(pairs, capability):
        losses = [[float(each) for each in text.split() if each[-1].isdigit()] for text in (before, after)]
        assert losses[1] != losses[0]  # or the blocks would compute in 32 bits
        assert losses[1] == pytest.approx(losses[0], rel=1e-2, abs=1e-2)


# What is left, and why; some of it only because of the scaler.
STEP = (
    DATA
    + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
)
LEFT = {
    "no CUDA": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
""",
        "no CUDA: nothing in this file moves a model or its batches to a CUDA device",
    ),
    "no CUDA in this loop": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
other = nn.Linear(8, 4).cuda()
""",
        "no CUDA: this loop moves neither its model nor its batches to a CUDA device",
    ),
    "a framework runs the step": (
        """\
from accelerate import Accelerator
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
accelerator = Accelerator()
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    accelerator.backward(loss)
    optimizer.step()
""",
        "the training step runs inside Accelerate; use its own switch for mixed precision",
    ),
    "a custom autograd function": (
        HEAD
        + """\


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.pow(2)

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


"""
        + STEP.replace("model(x)", "Square.apply(model(x))"),
        "custom autograd.Function Square (line 11) would get mixed number formats; decorate its forward with "
        "torch.amp.custom_fwd(device_type='cuda', cast_inputs=torch.float32) and its backward with "
        "torch.amp.custom_bwd(device_type='cuda')",
    ),
    "a model in 16 bits": (
        HEAD
        + """\
model.half()
"""
        + STEP,
        "manual half precision (line 9)",
    ),
    "a model in 64 bits": (
        HEAD
        + """\
model.double()
"""
        + STEP,
        "float64 model (line 9)",
    ),
    "64 bits by default": (
        HEAD
        + """\
torch.set_default_dtype(torch.float64)
"""
        + STEP,
        "float64 model (line 9)",
    ),
    "a closure": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    optimizer.step(closure)
""",
        "optimizer.step(closure) is not supported by GradScaler (line 18); --amp bf16 needs no scaler",
    ),
    "double backward": (
        HEAD
        + DATA
        + """\
    x.requires_grad_()
    output = model(x)
    (gradient,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    loss = F.cross_entropy(output, y) + gradient.norm()
    loss.backward()
    optimizer.step()
""",
        "double backward (line 13): a gradient penalty would be scaled twice; --amp bf16 needs no scaler",
    ),
    "gradients that are only measured": (
        HEAD
        + DATA
        + """\
    x.requires_grad_()
    output = model(x)
    (gradient,) = torch.autograd.grad(output.sum(), x, retain_graph=True)
    loss = F.cross_entropy(output, y)
    print(gradient.norm())
    loss.backward()
    optimizer.step()
""",
        "nothing scales what torch.autograd.grad differentiates (line 13): small gradients are zero in fp16; --amp bf16 needs no scaler",
    ),
    "gradients of what is added to inputs, in a loss that is a module": (
        HEAD
        + """\


class Smooth(nn.Module):
    def forward(self, model, x, output):
        noise = F.normalize(torch.randn_like(x)).requires_grad_()
        near = F.kl_div(model(x + 1e-6 * noise).log_softmax(1), output.softmax(1))
        (gradient,) = torch.autograd.grad(near, noise)
        return F.kl_div(model(x + F.normalize(gradient)).log_softmax(1), output.softmax(1))


smooth = Smooth()
"""
        + DATA
        + """\
    output = model(x)
    loss = F.cross_entropy(output, y) + smooth(model, x, output.detach())
    loss.backward()
    optimizer.step()
""",
        "nothing scales what a model gives torch.autograd.grad (line 15): 16 bits may not tell its inputs apart",
    ),
    "gradients applied by hand": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad
""",
        "gradients are applied by hand, and nothing would unscale them; --amp bf16 needs no scaler",
    ),
    "a step that is not seen": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
""",
        "the step after the backward in line 11 is not seen; --amp bf16 needs no scaler",
    ),
    "another step that is not known": (
        """\
from somewhere import make
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
other = make(model)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    other.step()
""",
        "what steps in line 17 is not known; --amp bf16 needs no scaler",
    ),
    "a step in an expression": (
        HEAD
        + DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    print(optimizer.step())
""",
        "optimizer.step() in line 14 is more than a plain statement; --amp bf16 needs no scaler",
    ),
    "a step without a backward": (
        HEAD
        + DATA
        + """\
    loss = F.cross_entropy(model(x), y)
    if loss > 0.1:
        loss.backward()
    optimizer.step()
""",
        "optimizer.step() in line 14 may run without a backward before it; --amp bf16 needs no scaler",
    ),
    "a step on the other side": (
        HEAD
        + DATA
        + """\
    loss = F.cross_entropy(model(x), y)
    if loss > 0.1:
        loss.backward()
    else:
        optimizer.step()
""",
        "optimizer.step() in line 15 may run without a backward before it; --amp bf16 needs no scaler",
    ),
    "models that one function makes": (
        """\
import torch
from torch import nn


def make(out):
    return nn.Linear(8, out).cuda()


actor, critic = make(8), make(1)
one = torch.optim.SGD(actor.parameters(), lr=0.1)
two = torch.optim.SGD(critic.parameters(), lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    loss = critic(actor(x)).pow(2).mean()
    loss.backward()
    one.step()
    two.step()
""",
        "models or optimizers that one function makes are not told apart (lines 15 and 16); --amp bf16 needs no scaler",
    ),
    "optimizers that one function makes": (
        """\
import torch
from torch import nn


def make(out):
    model = nn.Linear(8, out).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


actor, actor_optimizer = make(8)
critic, critic_optimizer = make(1)
for x in torch.randn(6, 16, 8).cuda():
    loss = critic(actor(x)).pow(2).mean()
    loss.backward()
    actor_optimizer.step()
    critic_optimizer.step()
""",
        "models or optimizers that one function makes are not told apart (lines 15 and 16); --amp bf16 needs no scaler",
    ),
    "optimizers that share parameters": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

first = nn.Linear(8, 8).cuda()
second = nn.Linear(8, 8).cuda()
one = torch.optim.SGD(first.parameters(), lr=0.1)
two = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    loss = second(first(x)).pow(2).mean()
    loss.backward()
    one.step()
    two.step()
""",
        "optimizers share parameters (lines 12 and 13); --amp bf16 needs no scaler",
    ),
    "an optimizer without gradients": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

first = nn.Linear(8, 8).cuda()
second = nn.Linear(8, 8).cuda()
one = torch.optim.SGD(first.parameters(), lr=0.1)
two = torch.optim.SGD(second.parameters(), lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    loss = first(x).pow(2).mean()
    loss.backward()
    one.step()
    two.step()
""",
        "the optimizer in line 13 may step without gradients; --amp bf16 needs no scaler",
    ),
    "optimizers of unknown parameters": (
        """\
import torch
from elsewhere import somewhere
from torch import nn
import torch.nn.functional as F

first = nn.Linear(8, 8).cuda()
second = nn.Linear(8, 8).cuda()
one = torch.optim.SGD(first.parameters(), lr=0.1)
two = torch.optim.SGD(somewhere(), lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    loss = second(first(x)).pow(2).mean()
    loss.backward()
    one.step()
    two.step()
""",
        "the parameters of the optimizer in line 14 are not known, and there are others; --amp bf16 needs no scaler",
    ),
    "an optimizer that steps twice beside another": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

first = nn.Linear(8, 8).cuda()
second = nn.Linear(8, 8).cuda()
one = torch.optim.SGD(first.parameters(), lr=0.1)
two = torch.optim.SGD(second.parameters(), lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    loss = second(first(x)).pow(2).mean()
    loss.backward()
    one.step()
    two.step()
    loss = first(x).pow(2).mean()
    loss.backward()
    one.step()
""",
        "an optimizer steps twice in an iteration (lines 12 and 16), others with it; --amp bf16 needs no scaler",
    ),
    "steps at different rates": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

first = nn.Linear(8, 8).cuda()
second = nn.Linear(8, 8).cuda()
one = torch.optim.SGD(first.parameters(), lr=0.1)
two = torch.optim.SGD(second.parameters(), lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    for _ in range(5):
        loss = first(x).pow(2).mean()
        loss.backward()
        one.step()
    loss = second(x).pow(2).mean()
    loss.backward()
    two.step()
""",
        "optimizers step at different rates (the loop in line 10); --amp bf16 needs no scaler",
    ),
    "gradients that are read in every iteration": (
        HEAD
        + """\
for i, (x, y) in enumerate(zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16)))):
    x, y = x.to(device), y.to(device)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    if i % 2:
        optimizer.step()
""",
        "gradients are read or changed outside the branch of the step (line 13); --amp bf16 needs no scaler",
    ),
    "a step that is left out after clipping": (
        HEAD
        + DATA
        + """\
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    if norm > 100:
        continue
    optimizer.step()
""",
        "the step may be skipped after gradients were read (line 13); --amp bf16 needs no scaler",
    ),
    "gradients of nobody knows whom": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

first = nn.Linear(8, 8).cuda()
second = nn.Linear(8, 8).cuda()
one = torch.optim.SGD(first.parameters(), lr=0.1)
two = torch.optim.SGD(second.parameters(), lr=0.1)
for x in torch.randn(6, 16, 8).cuda():
    loss = second(first(x)).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_([p for p in list(first.parameters()) + list(second.parameters())], 0.5)
    one.step()
    two.step()
""",
        "it is not known whose gradients are read in line 12; --amp bf16 needs no scaler",
    ),
    "a mask too large for fp16": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        scores = self.layer(x)
        return scores.masked_fill(scores < 0, -1e9)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        "masked_fill() with a number that does not fit fp16 (line 16); the bf16 form can do it",
    ),
    "a mask made of ones": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        scores = self.layer(x)
        return torch.where(scores < 0, -9e15 * torch.ones_like(scores), scores)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        "-9e15 * torch.ones_like(scores) is infinite in fp16 (line 16); the bf16 form can do it",
    ),
    "a Fourier transform": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return torch.fft.rfft(self.layer(x)).abs()


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        "torch.fft.rfft has no 16-bit kernel (line 15)",
    ),
    "linear algebra": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        y = self.layer(x)
        return torch.inverse(y.t() @ y)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        "torch.inverse has no 16-bit kernel (line 16)",
    ),
    "masked assignment": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        y = torch.zeros(16, 4, device=x.device)
        y[x[:, 0] > 0] = self.layer(x[x[:, 0] > 0])
        return y


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        "masked assignment needs both tensors in one number format; convert what is "
        "written with .to(dtype) of the other (line 16)",
    ),
    "scattered assignment": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        y = self.layer(x)
        return torch.zeros_like(x).scatter_(1, y.argmax(1, keepdim=True), y)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        ".scatter_() needs both tensors in one number format; convert what is "
        "written with .to(dtype) of the other (line 16)",
    ),
    "binary cross entropy in a model": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return F.binary_cross_entropy(torch.sigmoid(self.layer(x)), torch.ones_like(x[:, :4]))


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = model(x)
    loss.backward()
    optimizer.step()
""",
        "binary_cross_entropy cannot run under autocast, and a model computes it (line 15); use its with_logits form",
    ),
    "binary cross entropy beside a model": (
        HEAD
        + DATA
        + """\
    optimizer.zero_grad()
    loss = F.binary_cross_entropy(torch.ones(16, 4, device=device), torch.sigmoid(model(x)))
    loss.backward()
    optimizer.step()
""",
        "binary_cross_entropy cannot run under autocast (line 12); use its with_logits form",
    ),
    "a generator in the block": (
        HEAD
        + """\


def losses():
    for x in torch.randn(6, 16, 8):
        loss = model(x.to(device)).pow(2).mean()
        yield loss


for value in losses():
    loss = sum(losses())
    loss.backward()
    optimizer.step()
""",
        "a generator would leave autocast on for the code that consumes it (line 14)",
    ),
    "an array in the block": (
        HEAD
        + DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    guess = output.detach().cpu().numpy().argmax(1)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
""",
        "an array is made from a tensor in 16 bits (line 13): convert that with .float() first",
    ),
    "something unknown that leaves the block": (
        """\
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x), {'y': self.layer(x)}


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    output, extra = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    np.save("extra.npy", extra)
""",
        "'extra' leaves the block in 16 bits (line 28), and what it holds is not known",
    ),
    "something that leaves the block now and then": (
        """\
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = 0
    for part in x.chunk(2):
        output = model(part)
        loss = loss + output.pow(2).mean()
    loss.backward()
    optimizer.step()
    np.save("output.npy", output.detach().cpu().numpy())
""",
        "'output' leaves the block in 16 bits (line 19), and what it holds is not known",
    ),
    "a function that other code calls": (
        """\
import torch
from torch import nn


def train(rank, model, optimizer):
    for x in torch.randn(6, 16, 8).cuda():
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()


model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(0, model, optimizer)
torch.multiprocessing.spawn(train, args=(model, optimizer))
""",
        "train() is handed to other code, which would have to pass the scaler; --amp bf16 needs no scaler",
    ),
    "a function that nothing calls": (
        """\
import torch


def train(model, optimizer: torch.optim.Optimizer):
    model.cuda()
    model.train()
    for x in torch.randn(6, 16, 8).cuda():
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
""",
        "what model computes is not seen (line 8): 'model' is a parameter of train(), which nothing in this file calls",
    ),
    "names that are taken": (
        """\
scaler = grad_scaler = None
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + STEP,
        "the name scaler is taken",
    ),
    "an optimizer in a list": (
        """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
    optimizers[0].zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizers[0].step()
""",
        "the optimizer is not a plain name (line 14); --amp bf16 needs no scaler",
    ),
    "no place for the scaler": (
        """\
import torch
from torch import nn

model = nn.Linear(8, 8).cuda()
for epoch in range(2):
    for x in torch.randn(6, 16, 8).cuda():
        loss = model(x).pow(2).mean()
        loss.backward()
        if epoch:
            optimizer.step()
            optimizer.zero_grad()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
        "no place is after all optimizers and before all their uses; --amp bf16 needs no scaler",
    ),
}

# Without a scaler these are right.
BF16_CAN = {
    "a closure",
    "double backward",
    "gradients that are only measured",
    "gradients applied by hand",
    "a step that is not seen",
    "another step that is not known",
    "a step in an expression",
    "a step without a backward",
    "a step on the other side",
    "models that one function makes",
    "optimizers that one function makes",
    "optimizers that share parameters",
    "an optimizer without gradients",
    "optimizers of unknown parameters",
    "an optimizer that steps twice beside another",
    "steps at different rates",
    "gradients that are read in every iteration",
    "a step that is left out after clipping",
    "gradients of nobody knows whom",
    "a mask too large for fp16",
    "a mask made of ones",
    "a function that other code calls",
    "an optimizer in a list",
    "no place for the scaler",
}


DELICATE = {"double backward", "gradients applied by hand", "gradients that are only measured"}
"""Only ``--amp bf16`` asks for 16 bits in these."""


@pytest.mark.parametrize(
    ("target", "home"), [((1, 10), "torch.cuda.amp"), ((2, 3), "torch.cuda.amp"), ((2, 4), "torch.amp")]
)
def test_what_decorates_a_function_is_named_as_the_torch_has_it(target: tuple[int, int], home: str) -> None:
    code, reason = LEFT["a custom autograd function"]
    if home == "torch.cuda.amp":
        reason = reason.replace("device_type='cuda', ", "").replace("(device_type='cuda')", "")
    check_leaves(Amp, code, reason.replace("torch.amp", home), target)


def test_a_custom_function_that_computes_number_by_number_keeps_its_format() -> None:
    code = LEFT["a custom autograd function"][0].replace("x.pow(2)", "x * torch.sigmoid(x)")

    assert all(each.rewrites for each in found(code, "auto"))


def test_numbers_that_16_bits_do_not_keep_off_1_are_left() -> None:
    code = HEAD + STEP.replace(
        "F.cross_entropy(model(x), y)", "torch.log(1 - model(x).sigmoid().clamp(1e-4, 1 - 1e-4)).mean()"
    )
    because = "1 - 1e-4 is 1 in 16 bits, so that nothing is kept off 1: give it model(x).sigmoid().float() (line 12)"
    check_leaves(Amp, code, because)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    code, reason = LEFT[name]

    if name in BF16_CAN - DELICATE:
        assert {each.message for each in found(code, "fp16")} == {reason}
    else:
        check_leaves(Amp, code, reason)


@pytest.mark.parametrize("name", LEFT)
def test_only_a_scaler_needs_the_order_of_a_step(name: str) -> None:
    assert all(each.rewrites == (name in BF16_CAN) for each in found(LEFT[name][0], "bf16"))


@pytest.mark.parametrize("name", sorted(BF16_CAN - DELICATE))
def test_where_fp16_cannot_be_there_is_bf16_or_nothing(name: str) -> None:
    code, reason = LEFT[name]
    after = rewritten(code, "auto")

    assert "GradScaler" not in after
    assert "dtype=torch.bfloat16, enabled=" in after
    (finding,) = found(code, "auto")
    assert finding.message.endswith(f"; for bf16 alone, as in fp16 {reason.partition('; ')[0]}")
    check_silent(Amp, after)


REPLICAS = (
    HEAD
    + """\
model = nn.DataParallel(model)
"""
    + STEP
)


def test_replicas_compute_in_fp16() -> None:
    after = rewritten(REPLICAS, "auto")

    assert after == rewritten(REPLICAS, "fp16")
    assert "dtype=torch.float16" in after
    (finding,) = found(REPLICAS, "bf16")
    assert (
        finding.message == "DataParallel (line 9) computes in fp16 where bf16 is asked for; --amp fp16 is right there"
    )


def test_replicas_that_need_bf16_are_left() -> None:
    code = REPLICAS.replace("optimizer.step()", "optimizer.step(lambda: None)")

    check_leaves(
        Amp,
        code,
        "optimizer.step() in line 15 is more than a plain statement; "
        "DataParallel (line 9) computes in fp16 where bf16 is asked for",
    )


def test_what_is_made_on_the_device_is_about_cuda() -> None:
    moved = (
        HEAD
        + DATA
        + "    optimizer.zero_grad()\n    loss = model(x).mean()\n    loss.backward()\n    optimizer.step()\n"
    )
    made = moved.replace("(8, 32)", "(8, 32, device=device)").replace("(32, 4)", "(32, 4, device=device)")
    made = made.replace(").to(device)", ")").replace("x, y = x.to(device), y.to(device)", "pass")

    assert ".to(device)" not in made
    assert HEADER in rewritten(made, "auto")


@pytest.mark.parametrize(
    "code",
    [
        "scaler = torch.amp.GradScaler()\n",
        "from torch.cuda.amp import autocast\nwith autocast():\n    pass\n",
        "import apex\nmodel, optimizer = apex.amp.initialize(model, optimizer)\n",
        "from apex import amp as mixed\nmodel, optimizer = mixed.initialize(model, optimizer)\n",
        "from apex import *\n",
    ],
)
def test_mixed_precision_that_is_there_is_left_alone(code: str) -> None:
    check_silent(Amp, HEAD + code + STEP)


ON_REQUEST = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("code", "because"),
    [
        pytest.param(
            "if args.amp:\n    torch.autocast('cuda').__enter__()\n",
            "mixed precision is switched off by default (line {}): switch it on",
            id="autocast under an option",
        ),
        pytest.param(
            "scaler = torch.amp.GradScaler(enabled=args.amp)\n",
            "mixed precision is switched off by default (line {}): switch it on",
            id="a scaler that an option enables",
        ),
        pytest.param(
            "from apex.parallel.LARC import LARC\nif args.amp:\n    optimizer = LARC(optimizer)\n",
            "what is imported from Apex has number formats of its own (line {})",
            id="an optimizer of apex under an option",
        ),
    ],
)
def test_mixed_precision_that_is_off_by_default_is_named(code: str, because: str) -> None:
    text = HEAD + ON_REQUEST + code + STEP
    first = len((HEAD + ON_REQUEST).splitlines()) + 1
    line = first if code.startswith("scaler") else first + code.count("\n") - 1
    check_leaves(Amp, text, because.format(line))


def test_batch_norms_of_apex_on_request_are_no_mixed_precision() -> None:
    convert = "model = apex.parallel.convert_syncbn_model(model)\n"
    first = len((HEAD + ON_REQUEST).splitlines()) + 2

    result = run(Amp, f"{HEAD}{ON_REQUEST}import apex\nif args.amp:\n    {convert}{STEP}")
    assert "with torch.autocast(" in result.after
    because = f"what is imported from Apex has number formats of its own (line {first})"
    check_leaves(Amp, f"{HEAD}{ON_REQUEST}import apex\n{convert}{STEP}", because)


def test_a_part_of_apex_that_the_script_always_uses_is_named() -> None:
    larc = "from apex.parallel.LARC import LARC\noptimizer = LARC(optimizer)\n"
    line = HEAD.count("\n") + 2

    check_leaves(Amp, HEAD + larc + STEP, f"what is imported from Apex has number formats of its own (line {line})")
    check_silent(Amp, HEAD + larc + "scaler = torch.amp.GradScaler()\n" + STEP)


@pytest.mark.parametrize(
    "code",
    [
        "import apex\n",
        "from apex import amp\n",
        "try:\n    from apex import amp\nexcept ImportError:\n    pass\n",
    ],
)
def test_an_import_of_apex_that_nothing_uses_is_no_mixed_precision(code: str) -> None:
    assert "torch.autocast" in rewritten(HEAD + code + STEP, "auto")


def test_another_function_s_cuda_is_not_this_one_s() -> None:
    """``generate()`` needs a GPU; training on a CPU works, and must go on to."""
    before = """\
import torch
from torch import nn
from torch.nn.functional import mse_loss


def train(model, x, y, use_gpu):
    device = torch.device("cuda") if use_gpu else torch.device("cpu")
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(9):
        optimizer.zero_grad()
        loss = mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()


def generate(model, x):
    return model(x.cuda())


net = nn.Linear(3, 1)
train(net, torch.rand(8, 3), torch.rand(8, 1), "--gpu" in __import__("sys").argv)
generate(net, torch.rand(8, 3))
"""
    after = run(Amp, before).after

    assert 'use_amp = device.type == "cuda"' in after


OWNED = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
{given}
for x in torch.randn(6, 16, 8).cuda():
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
ALL_OWNED = {
    "those that need gradients": "optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad])",
    "filtered": "optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()))",
    "the two sides of a question": """\
named = {name: p for name, p in model.named_parameters()}
decay = [p for name, p in named.items() if p.dim() >= 2]
rest = [p for name, p in named.items() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest}])""",
    "the opposite of a call": """\
optimizer = torch.optim.AdamW([
    {"params": [p for n, p in model.named_parameters() if p.requires_grad and n.endswith("bias")]},
    {"params": [p for n, p in model.named_parameters() if not n.endswith("bias") and p.requires_grad], "lr": 0.1},
])""",
    "branches that all add": """\
decay, rest = [], []
for name, p in model.named_parameters():
    if not p.requires_grad:
        continue
    if "bias" in name:
        rest.append(p)
    elif "norm" in name:
        rest.append(p)
    else:
        decay.append(p)
optimizer = torch.optim.AdamW([{"params": decay}, {"params": rest}])""",
    "a rest that is asserted to be empty": """\
named = {name: p for name, p in model.named_parameters()}
decay = set()
for name in named:
    if name.endswith("weight"):
        decay.add(name)
assert len(named.keys() - decay) == 0
optimizer = torch.optim.AdamW([named[name] for name in sorted(decay)])""",
}
SOME_OWNED = {
    "one side of a question": "kept = [p for n, p in model.named_parameters() if 'bias' in n]",
    "filtered by another question": "kept = filter(lambda p: p.dim() > 1, model.parameters())",
    "a slice": "kept = list(model.parameters())[2:]",
    "the sides of two questions": """\
kept = [p for n, p in model.named_parameters() if '0' in n] + [p for n, p in model.named_parameters() if '1' not in n]""",
    "a branch that adds": "kept = []\nfor n, p in model.named_parameters():\n    if '0' in n:\n        kept.append(p)",
    "a loop that leaves some out": """\
kept = []
for n, p in model.named_parameters():
    if "0" in n:
        continue
    kept.append(p)""",
}


@pytest.mark.parametrize("given", ALL_OWNED.values(), ids=ALL_OWNED)
def test_gradients_of_all_parameters_are_read_where_the_optimizer_owns_all_that_need_one(given: str) -> None:
    assert "    scaler.unscale_(optimizer)\n" in rewritten(OWNED.format(given=given), "auto")


@pytest.mark.parametrize("given", SOME_OWNED.values(), ids=SOME_OWNED)
def test_gradients_that_the_optimizer_may_not_own_are_not_read_scaled(given: str) -> None:
    code = OWNED.format(given=f"{given}\noptimizer = torch.optim.SGD(kept)")
    (finding,) = found(code, "fp16")

    read = next(number for number, each in enumerate(code.splitlines(), 1) if "clip_grad" in each)
    assert f"the optimizer may own only some of the gradients read in line {read} (line " in finding.message
    check_silent(Amp, rewritten(code, "auto"))
    assert "scaler" not in rewritten(code, "auto")


def test_the_model_that_makes_its_own_optimizer_owns_what_it_is_given() -> None:
    method = """\
class Net(nn.Sequential):
    def optimizer(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


model = Net(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
optimizer = model.optimizer()"""
    code = OWNED.replace("model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()\n", "")

    assert "    scaler.unscale_(optimizer)\n" in rewritten(code.format(given=method), "auto")


def test_a_layer_that_trains_itself_is_moved_where_it_is_made() -> None:
    code = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Layer(nn.Linear):
    def __init__(self):
        super().__init__(8, 8)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def forward(self, x):
        return super().forward(x).relu()

    def fit(self, x):
        for _ in range(3):
            self.optimizer.zero_grad()
            loss = self.forward(x).pow(2).mean()
            loss.backward()
            self.optimizer.step()


layers = [Layer().to(device) for _ in range(3)]
for layer in layers:
    layer.fit(torch.randn(4, 8, device=device))
"""
    assert "            self.scaler.scale(loss).backward()\n" in rewritten(code, "auto")


def test_what_moves_the_model_after_the_training_says_nothing_of_it() -> None:
    step = STEPS["a plain step"]
    check_rewrites(Amp, HEAD + step[0] + 'model.to("cuda:0")\n', HEAD + HEADER + step[1] + 'model.to("cuda:0")\n')


@pytest.mark.parametrize("device", ['"cuda:2"', 'torch.device("cuda:2")'])
def test_another_device_than_the_first_is_asked_what_it_can(device: str) -> None:
    chosen = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
    capability = "torch.cuda.get_device_capability(device)[0]"

    after = run(Amp, HEAD.replace(chosen, device) + STEPS["a plain step"][0]).after

    assert f"amp_dtype = torch.bfloat16 if {capability} >= 8 else torch.float16\n" in after


GRAPHS = """\
import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_mean_pool


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = {layer}
        self.last = nn.Linear(8, 2)

    def forward(self, x, edges):
        return self.last({pooled})


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, edges in batches:
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x.cuda(), edges.cuda()), x.cuda()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("layer", "pooled", "what"),
    [
        pytest.param("GCNConv(8, 8)", "self.first(x, edges)", "GCNConv", id="a layer"),
        pytest.param("nn.Linear(8, 8)", "global_mean_pool(self.first(x), edges)", "global_mean_pool", id="a function"),
    ],
)
def test_kernels_of_graph_libraries_are_left_in_32_bits(layer: str, pooled: str, what: str) -> None:
    because = f"torch_geometric.nn.{what}, whose kernels are not known to take 16 bits (line 13)"
    check_leaves(Amp, GRAPHS.format(layer=layer, pooled=pooled), because)


ROTATED = """\
import torch
from torch import nn
from torch.amp import autocast


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        with autocast("cuda", enabled={enabled}):
            angle = x.float().sin()
        return self.layer(x) * angle


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(4, 16, 8).cuda():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
"""


def test_code_that_keeps_itself_in_32_bits_is_no_mixed_precision_yet() -> None:
    (site,) = run(Amp, ROTATED.format(enabled=False)).sites
    assert site.edits


@pytest.mark.parametrize("enabled", [True, "torch.cuda.is_available()"])
def test_a_script_that_may_switch_autocast_on_has_it_already(enabled: object) -> None:
    check_silent(Amp, ROTATED.format(enabled=enabled))


def test_a_script_that_captures_its_training_itself_is_left() -> None:
    code = """\
import torch
from torch import nn
from torch.cuda import CUDAGraph, graph as capturing

model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(16, 8).cuda()
graph = CUDAGraph()
with capturing(graph):
    optimizer.zero_grad()
    model(batch).mean().backward()
    optimizer.step()
for x in torch.randn(4, 16, 8):
    batch.copy_(x)
    graph.replay()
"""
    check_leaves(Amp, code, "the script captures CUDA graphs itself (line 8)")


@pytest.mark.parametrize("target", [(1, 10), (2, 2)])
def test_before_2_3_the_scaler_has_its_old_name(target: tuple[int, int]) -> None:
    example = Amp.examples[0]
    assert isinstance(example, Rewrites)
    new, old = 'torch.amp.GradScaler("cuda", enabled=', "torch.cuda.amp.GradScaler(enabled="
    assert new in example.after

    check_rewrites(Amp, example.before, example.after.replace(new, old), target)


def test_before_1_10_there_is_no_autocast_to_16_bits() -> None:
    example = Amp.examples[0]
    assert isinstance(example, Rewrites)
    because = "torch.autocast needs torch 1.10, and the script may run on an older one"

    check_leaves(Amp, example.before, because, (1, 9))
    # Whatever else stands in the way, it decides.
    check_leaves(Amp, LEFT["a custom autograd function"][0], because, (1, 9))
