"""What mixed precision would break: each such script is left with its reason, or rewritten so that it trains the same.

Every script runs on the simulated device as the rule leaves it, in every form. Where a guard is missing, the script
is rewritten and crashes, or its numbers are others.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from kit import check_leaves, run

from codemods.codemod import Choices
from codemods.dataflow.source import Module
from codemods.editing import conflicts
from codemods.editing.apply import apply
from codemods.facts.script import Script
from codemods.rules.amp import Amp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from codemods.codemod import AmpForm

START = """\
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
HEAD = (
    START
    + """\
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
)
DATA = """\
for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
    x, y = x.to(device), y.to(device)
"""
STEP = """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
GAN = (
    START
    + """\
G = nn.Linear(2, 8).to(device)
D = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
opt_D = torch.optim.SGD(D.parameters(), lr=0.1)
opt_G = torch.optim.SGD(G.parameters(), lr=0.1)
"""
)
OF_FP16 = "; --amp bf16 needs no scaler"
TO_WIDEN = "needs both tensors in one number format; convert what is written with .to(dtype) of the other"


def network(*forward: str) -> str:
    """A script whose model has this ``forward``, from line 16 on."""
    body = "\n".join(f"        {line}" for line in forward)
    return f"""\
{START}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.mask = -1e9

    def forward(self, x):
        h = self.layer(x)
{body}


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{DATA}{STEP}"""


# Left in the auto and the fp16 form, with the reason; rewritten in the bf16 form.
ONLY_FP16 = {
    # Numbers.
    "a mask held by a name": (
        network("low = -1e9", "return h.masked_fill(h < -9, low)"),
        "masked_fill() with a number that does not fit fp16 (line 18); the bf16 form can do it",
    ),
    "a mask held by an attribute": (
        network("return h.masked_fill(h < -9, self.mask)"),
        "masked_fill() with a number that does not fit fp16 (line 17); the bf16 form can do it",
    ),
    "a mask that is computed": (
        network("return h.masked_fill(h < -9, -10 ** 9)"),
        "masked_fill() with a number that does not fit fp16 (line 17); the bf16 form can do it",
    ),
    "a mask that is assigned": (
        network("h = h + 0", "h[h < -9] = float('-1e9')", "return h"),
        "a number that does not fit fp16 is assigned (line 18); the bf16 form can do it",
    ),
    "a division that would be by zero": (
        network("h = h * 0", "return h / (h.std(-1, keepdim=True) + 1e-8)"),
        "1e-8 is zero in fp16 (line 18); the bf16 form can do it",
    ),
    "a clamped division": (
        network("h = h * 0", "return h / h.abs().clamp(min=1e-8)"),
        "1e-8 is zero in fp16 (line 18); the bf16 form can do it",
    ),
    "a root of nothing": (
        network("h = h * 0", "return h / torch.sqrt(h.var(1, keepdim=True) + 1e-12)"),
        "1e-12 is zero in fp16 (line 18); the bf16 form can do it",
    ),
    # Gradients.
    "gradients that add up over steps": (
        HEAD + DATA + STEP.replace("    optimizer.zero_grad()\n", ""),
        f"the gradients for optimizer.step() in line 13 are added to others, scaled otherwise{OF_FP16}",
    ),
    "gradients of the other network's loss": (
        GAN
        + """\
for x in torch.randn(6, 16, 8):
    x, z = x.to(device), torch.randn(16, 2, device=device)
    d_loss = D(x).pow(2).mean() + (D(G(z).detach()) - 1).pow(2).mean()
    d_loss.backward()
    opt_D.step()
    opt_D.zero_grad()
    opt_G.zero_grad()
    g_loss = D(G(z)).pow(2).mean()
    g_loss.backward()
    opt_G.step()
    print(d_loss.item(), g_loss.item())
""",
        f"the gradients for opt_D.step() in line 15 are added to others, scaled otherwise{OF_FP16}",
    ),
    "gradients applied by hand beside a step": (
        HEAD
        + "shift = torch.zeros(4, device=device, requires_grad=True)\n"
        + DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x) + shift, y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        shift -= 0.1 * shift.grad
        shift.grad = None
    print(loss.item())
""",
        f"gradients that no optimizer is seen to own are read in line 17{OF_FP16}",
    ),
    "gradients of the input": (
        HEAD
        + DATA
        + """\
    x.requires_grad_()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(loss.item(), x.grad.norm().item())
""",
        f"gradients that no optimizer is seen to own are read in line 16{OF_FP16}",
    ),
    "clipping that covers another model": (
        HEAD
        + "other = nn.Linear(4, 4).to(device)\n"
        + DATA
        + """\
    optimizer.zero_grad()
    other.zero_grad()
    loss = F.cross_entropy(other(model(x)), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(list(model.parameters()) + list(other.parameters()), 0.5)
    optimizer.step()
    print(loss.item(), norm.item())
""",
        f"gradients that no optimizer is seen to own are read in line 16{OF_FP16}",
    ),
    "a hook on gradients": (
        HEAD
        + "norms = []\nmodel[0].weight.register_hook(lambda gradient: norms.append(gradient.norm().item()))\n"
        + DATA
        + STEP.replace("loss.item()", "loss.item(), norms[-1]"),
        f"a hook would see scaled gradients (line 10){OF_FP16}",
    ),
    "a hook on the gradients of all modules": (
        HEAD
        + "norms = []\nnn.modules.module.register_module_full_backward_hook(lambda m, i, o: norms.append(o[0].norm().item()))\n"
        + DATA
        + STEP.replace("loss.item()", "loss.item(), norms[-1]"),
        f"a hook would see scaled gradients (line 10){OF_FP16}",
    ),
    "a step that is skipped where gradients are not finite": (
        HEAD
        + DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    if any(not torch.isfinite(each.grad).all() for each in model.parameters()):
        print("skipped")
        continue
    optimizer.step()
    print(loss.item())
""",
        f"the step may be skipped after gradients were read (line 14){OF_FP16}",
    ),
    "a step only where the norm is finite": (
        HEAD
        + DATA
        + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if torch.isfinite(norm):
        optimizer.step()
    print(loss.item(), torch.isfinite(norm).item())
""",
        f"gradients are read or changed outside the branch of the step (line 14){OF_FP16}",
    ),
    # Steps.
    "an optimizer whose loss is left out now and then": (
        GAN
        + """\
for i, x in enumerate(torch.randn(6, 16, 8)):
    x = x.to(device)
    opt_D.zero_grad()
    opt_G.zero_grad()
    loss = D(G(torch.randn(16, 2, device=device))).mean()
    if i % 2:
        loss = D(x).mean()
    loss.backward()
    opt_D.step()
    opt_G.step()
    print(loss.item())
""",
        f"the optimizer in line 19 may step without gradients{OF_FP16}",
    ),
    "an optimizer of a frozen model": (
        HEAD
        + """\
for parameter in model.parameters():
    parameter.requires_grad = False
head = nn.Linear(4, 4).to(device)
other = torch.optim.SGD(head.parameters(), lr=0.1)
"""
        + DATA
        + """\
    optimizer.zero_grad()
    other.zero_grad()
    loss = F.cross_entropy(head(model(x)), y)
    loss.backward()
    optimizer.step()
    other.step()
    print(loss.item())
""",
        f"the optimizer in line 19 may step without gradients{OF_FP16}",
    ),
    "a discriminator that steps five times as often": (
        GAN
        + """\
for x in torch.randn(6, 16, 8):
    for _ in range(5):
        z = torch.randn(16, 2, device=device)
        opt_D.zero_grad()
        d_loss = D(x.to(device)).mean() - D(G(z).detach()).mean()
        d_loss.backward()
        opt_D.step()
    opt_G.zero_grad()
    g_loss = D(G(torch.randn(16, 2, device=device))).mean()
    g_loss.backward()
    opt_G.step()
    print(d_loss.item(), g_loss.item())
""",
        f"optimizers step at different rates (the loop in line 12){OF_FP16}",
    ),
    "an iteration without a step": (
        GAN
        + """\
for i, x in enumerate(torch.randn(6, 16, 8)):
    z = torch.randn(16, 2, device=device)
    if i % 2 == 0:
        opt_D.zero_grad()
        d_loss = D(x.to(device)).pow(2).mean()
        d_loss.backward()
        opt_D.step()
    if i % 3 == 0:
        opt_G.zero_grad()
        g_loss = D(G(z)).pow(2).mean()
        g_loss.backward()
        opt_G.step()
    print(d_loss.item(), g_loss.item())
""",
        f"an iteration may pass without a step (line 22){OF_FP16}",
    ),
}

# Left in every form.
LEFT = {
    "a function of its own": (
        HEAD.replace(
            "model =",
            """\


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, weights)
        return x @ weights

    @staticmethod
    def backward(ctx, gradient):
        x, weights = ctx.saved_tensors
        return gradient @ weights.t(), x.t() @ gradient


weights = nn.Parameter(torch.randn(4, 4, device=device))
model =""",
        )
        + DATA
        + STEP.replace("model(x)", "Product.apply(model(x), weights)"),
        "custom autograd.Function Product (line 9) would get mixed number formats; decorate its forward with "
        "torch.amp.custom_fwd(device_type='cuda', cast_inputs=torch.float32) and its backward with "
        "torch.amp.custom_bwd(device_type='cuda')",
    ),
    "a closure for LBFGS": (
        HEAD.replace("SGD", "LBFGS")
        + DATA
        + """\

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    print(optimizer.step(closure).item() > 0)
""",
        "LBFGS learns the curvature from differences of gradients, for which 16 bits are too few (line 8)",
    ),
    "a line search": (
        HEAD.replace("SGD(model.parameters(), lr=0.1)", 'LBFGS(model.parameters(), line_search_fn="strong_wolfe")')
        + DATA
        + """\

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    print(optimizer.step(closure).item())
""",
        "the line search of LBFGS needs losses of 32 bits (line 8)",
    ),
    "a model that TorchScript runs": (
        HEAD + "model = torch.jit.script(model)\n" + DATA + STEP,
        "TorchScript has its own rules for mixed precision (line 9)",
    ),
    "a function that TorchScript runs": (
        HEAD.replace("model =", "\n\n@torch.jit.script\ndef double(x):\n    return 2 * x\n\n\nmodel =")
        + DATA
        + STEP.replace("model(x)", "double(model(x))"),
        "TorchScript has its own rules for mixed precision (line 9)",
    ),
    "a mask that is the lowest number of 32 bits": (
        network("return h.masked_fill(h < -9, torch.finfo(torch.float32).min)"),
        "masked_fill() with a number that does not fit 16 bits; use torch.finfo of the tensor's own dtype (line 17)",
    ),
    "a product in place": (
        network(
            "total = torch.zeros(16, 4, device=x.device)",
            "return total.addmm_(h, torch.eye(4, device=x.device))",
        ),
        ".addmm_() is not cast by autocast; use addmm() (line 18)",
    ),
    "a product into a tensor that is there": (
        network(
            "with torch.no_grad():",
            "    total = torch.empty(16, 4, device=x.device)",
            "    torch.mm(h, torch.eye(4, device=x.device), out=total)",
            "return h + total",
        ),
        "mm(out=...) is not cast by autocast; assign what it returns (line 19)",
    ),
    "rows added out of place": (
        network(
            "rows = torch.arange(16, device=x.device)",
            "return torch.zeros(16, 4, device=x.device).index_add(0, rows, h)",
        ),
        f".index_add() {TO_WIDEN} (line 18)",
    ),
    "a function that adds rows": (
        network(
            "rows = torch.arange(16, device=x.device)",
            "return torch.index_add(torch.zeros(16, 4, device=x.device), 0, rows, h)",
        ),
        f"torch.index_add() {TO_WIDEN} (line 18)",
    ),
    "scattered by keywords": (
        network(
            "total = torch.zeros(16, 4, device=x.device)",
            "rows = torch.zeros(16, 4, dtype=torch.long, device=x.device)",
            "return total.scatter_(dim=1, index=rows, src=h)",
        ),
        f".scatter_() {TO_WIDEN} (line 19)",
    ),
    "scattered by a mask": (
        network(
            "total = torch.zeros(16, 4, device=x.device)",
            "return total.masked_scatter(total == 0, h)",
        ),
        f".masked_scatter() {TO_WIDEN} (line 18)",
    ),
    "put at indices": (
        network(
            "total = torch.zeros(16, 4, device=x.device)",
            "total.index_put_((torch.arange(16, device=x.device),), h)",
            "return total",
        ),
        f".index_put_() {TO_WIDEN} (line 18)",
    ),
    "assigned at indices": (
        network(
            "total = torch.zeros(16, 4, device=x.device)",
            "rows = torch.arange(16, device=x.device)",
            "total[rows] = h",
            "return total",
        ),
        f"masked assignment {TO_WIDEN} (line 19)",
    ),
    "a spectrum": (
        network("return torch.fft.rfft(h).abs().repeat(1, 2)[:, :4]"),
        "torch.fft.rfft has no 16-bit kernel (line 17)",
    ),
    "a product with a sparse matrix": (
        network("return torch.eye(16, device=x.device).to_sparse() @ h"),
        "torch.eye(16, device=x.device).to_sparse() @ h may multiply a sparse matrix, for which CUDA may have no 16-bit"
        " kernel (line 17)",
    ),
    "a product that only sparse matrices have": (
        network("return torch.spmm(torch.eye(16, device=x.device), h)"),
        "torch.spmm has no 16-bit kernel (line 17)",
    ),
    "a product with what may be sparse": (
        network("return torch.mm(self.graph, h)")
        .replace(
            "\nmodel = Net",
            """
def use(model, graph):
    model.graph = graph.coalesce()


graph = torch.sparse_coo_tensor(torch.arange(16).repeat(2, 1), torch.ones(16), device=device)
model = Net""",
            1,
        )
        .replace("optimizer =", "use(model, graph)\noptimizer ="),
        "mm() may multiply a sparse matrix, for which CUDA may have no 16-bit kernel (line 17)",
    ),
    "an inverse": (
        network("return h @ (h.t() @ h + torch.eye(4, device=x.device)).inverse()"),
        ".inverse() has no 16-bit kernel (line 17)",
    ),
    "a quantile": (
        network("return h - h.quantile(0.5)"),
        ".quantile() has no 16-bit kernel (line 17)",
    ),
    "an operation of another library": (
        network("return torch.ops.theirs.act(h)").replace(
            "\n\nclass Net",
            """
library = torch.library.Library("theirs", "DEF")
library.define("act(Tensor x) -> Tensor")
library.impl("act", lambda x: torch.from_numpy(x.detach().numpy() + 0.0) + x * 0, "CompositeImplicitAutograd")


class Net""",
        ),
        "custom operation torch.ops.theirs.act, which autocast does not know (line 21)",
    ),
    "a device that nobody here knows": (
        START.replace("device = ", "from configuration import device  # ")
        + """\
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + DATA
        + STEP,
        "whether device is a CUDA device is not known (line 10): the device comes from configuration.device",
    ),
    "an object that holds outputs": (
        START
        + """\
from collections import namedtuple

Output = namedtuple("Output", "logits hidden")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return Output(self.layer(x), 2 * self.layer(x))


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + DATA
        + """\
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output.logits, y)
    loss.backward()
    optimizer.step()
    print(loss.item(), output.hidden.detach().cpu().numpy().sum())
""",
        "'output' leaves the block in 16 bits (line 30), and what it holds is not known",
    ),
}

# Rewritten in every form, and right.
REWRITTEN = {
    "integers stay integers": START
    + """\
from torch.distributions import Categorical


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(8, 4)
        self.critic = nn.Linear(8, 1)

    def act(self, x):
        choices = Categorical(logits=self.actor(x))
        action = choices.sample()
        return action, choices.log_prob(action), choices.entropy(), self.critic(x)


agent = Agent().to(device)
optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
names = ["up", "down", "left", "right"]
for x in torch.randn(6, 16, 8):
    x = x.to(device)
    with torch.no_grad():
        action, _, _, value = agent.act(x)
    print(all(names[each] for each in action.cpu().numpy()), value.cpu().numpy().dtype)
    chosen, log_prob, entropy, value = agent.act(x)
    loss = value.pow(2).mean() - log_prob.mean() - 0.01 * entropy.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(all(names[each] for each in chosen.cpu().numpy()))
""",
    "what is converted to integers": HEAD
    + DATA
    + """\
    optimizer.zero_grad()
    output = model(x)
    rounded = output.round().to(torch.int64)
    truncated = output.type(torch.int32)
    best = output.max(1).values
    which = output.max(1).indices
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    print(rounded.cpu().numpy().dtype, truncated.cpu().numpy().dtype, which.cpu().numpy().dtype)
    print(loss.item(), best.detach().cpu().numpy().dtype)
""",
    "what is multiplied outside is 32 bits wide": HEAD
    + "weights = torch.randn(4, 4, device=device)\n"
    + DATA
    + """\
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
    print(loss.item(), (output.detach() @ weights).shape)
""",
    "validation in a function that also runs before the optimizer is made": HEAD.replace(
        "optimizer =",
        """\


def evaluate():
    with torch.no_grad():
        for x in torch.randn(2, 16, 8):
            print(model(x.to(device)).argmax(1).shape)
            output = model(x.to(device))
            print(output.argmax(1).shape)


evaluate()
optimizer =""",
    )
    + DATA
    + STEP
    + "evaluate()\n",
    "generation that needs CUDA, beside training that does not": START
    + """\


def generate(model):
    with torch.no_grad():
        for x in torch.randn(2, 16, 8):
            output = model(x.cuda())
            print(output.argmax(1).shape)


def train(model):
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())


model = nn.Linear(8, 4)
train(model)
if torch.cuda.is_available():
    generate(model)
""",
    "a state that is carried on": START
    + """\


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x, state=None):
        output, state = self.lstm(x, state)
        return self.head(output), state


def detached(state):
    if isinstance(state, torch.Tensor):
        return state.detach()
    return tuple(detached(each) for each in state)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = None
for x, y in zip(torch.randn(6, 16, 5, 8), torch.randint(4, (6, 16, 5))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    if state is not None:
        state = detached(state)
    output, state = model(x, state)
    loss = F.cross_entropy(output.reshape(-1, 4), y.reshape(-1))
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
    "cells in a loop": START
    + """\


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        h = c = torch.zeros(x.size(0), 16, device=x.device)
        outputs = []
        for step in range(x.size(1)):
            h, c = self.cell(x[:, step], (h, c))
            outputs.append(self.head(h))
        return torch.stack(outputs, 1)


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in zip(torch.randn(6, 16, 5, 8), torch.randint(4, (6, 16, 5))):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output.reshape(-1, 4), y.reshape(-1))
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
    "accumulation in a loop of its own": HEAD
    + """\
for batch in zip(torch.randn(4, 2, 16, 8), torch.randint(4, (4, 2, 16))):
    optimizer.zero_grad()
    for x, y in zip(*batch):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y) / 2
        loss.backward()
    if len(batch) > 1:
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(loss.item())
""",
    "binary cross entropy on calls of models of the project": START
    + """\


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x):
        return torch.sigmoid(self.layer(x).float())


discriminator = Discriminator().to(device)
optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
criterion = nn.BCELoss()
for x in torch.randn(6, 16, 8):
    x = x.to(device)
    optimizer.zero_grad()
    real_loss = criterion(discriminator(x), torch.ones(16, 1, device=device))
    fake_loss = criterion(discriminator(-x), torch.zeros(16, 1, device=device))
    loss = real_loss + fake_loss
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
    "an optimizer for each of two models, clipped together": GAN
    + """\


def step(x):
    opt_D.zero_grad()
    opt_G.zero_grad()
    loss = sum(D(G(x) + i).pow(2).mean() for i in range(3))
    loss.backward()
    nn.utils.clip_grad_norm_(G.parameters(), 0.5)
    nn.utils.clip_grad_norm_(D.parameters(), 0.5)
    opt_D.step()
    opt_G.step()
    return loss.item() / 3


for x in torch.randn(6, 16, 2):
    print(step(x.to(device)))
""",
    "one step in each of two branches": GAN
    + """\
for i, x in enumerate(torch.randn(6, 16, 8)):
    if i % 2:
        opt_D.zero_grad()
        loss = D(x.to(device)).pow(2).mean()
        loss.backward()
        opt_D.step()
    else:
        opt_G.zero_grad()
        loss = D(G(torch.randn(16, 2, device=device))).pow(2).mean()
        loss.backward()
        opt_G.step()
        opt_D.zero_grad()
    print(loss.item())
""",
    "gradients that are filled with zeros by hand": HEAD
    + DATA
    + STEP.replace(
        "    optimizer.zero_grad()\n",
        """\
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.detach_()
            parameter.grad.zero_()
""",
    ),
    "a class that accumulates in one method and steps in another": START
    + """\


class Trainer:
    def __init__(self, model):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def fit(self, batches):
        for i, (x, y) in enumerate(batches):
            loss = self.loss(x.to(self.device), y.to(self.device)) / 2
            loss.backward()
            if i % 2:
                self.step()
            print(loss.item())

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def step(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


Trainer(nn.Linear(8, 4)).fit(list(zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16)))))
""",
    "a device that is named below the function that reads it": START.replace("device = ", "\n\n# ")
    + """\
def train(model, optimizer):
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(loss.item())


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer)
""",
    "a check of the loss": HEAD
    + DATA
    + """\
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    if torch.isnan(loss):
        continue
    loss.backward()
    optimizer.step()
    print(loss.item())
""",
    "averages and clamps of weights after the step": HEAD
    + "import copy\naverage = copy.deepcopy(model)\n"
    + DATA
    + STEP
    + """\
    for mean, parameter in zip(average.parameters(), model.parameters()):
        mean.data.mul_(0.9).add_(parameter.data, alpha=0.1)
        parameter.data.clamp_(-1, 1)
""",
    "a schedule for each iteration, after the scaler": HEAD
    + "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n"
    + DATA
    + STEP
    + "    scheduler.step()\n",
    "what is written is converted": network(
        "total = torch.zeros(16, 4, device=x.device)",
        "rows = torch.arange(16, device=x.device)",
        "total[rows] = h.to(total.dtype)",
        "return total.index_add(0, rows, h.type_as(total))",
    ),
    "small numbers beside 32 bits": network(
        "h = h / (h.norm(dim=1, keepdim=True) + 1e-8)",
        "return torch.log(F.softmax(h, 1) + 1e-10)",
    ),
    "a function of its own that is made for autocast": HEAD.replace(
        "model =",
        """\


class Product(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, weights)
        return x @ weights

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, weights = ctx.saved_tensors
        return gradient @ weights.t(), x.t() @ gradient


weights = nn.Parameter(torch.randn(4, 4, device=device))
model =""",
    )
    + DATA
    + STEP.replace("model(x)", "Product.apply(model(x), weights)"),
    "the gradient of a parameter after the step": HEAD
    + DATA
    + STEP.replace("loss.item()", "loss.item(), model[0].weight.grad.isfinite().all().item()"),
}


TWO_DEVICES = (
    START
    + """\


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)


model = Net().to(device)
baseline = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    + DATA
    + STEP
    + """\
with torch.no_grad():
    for x in torch.randn(6, 16, 8):
        output = baseline(x)
        print(output.sum().item())
"""
)


@pytest.mark.parametrize("form", ["auto", "bf16", "fp16"])
def test_a_model_that_is_not_trained_stays_as_it_is(form: AmpForm) -> None:
    after, reasons = rewritten(TWO_DEVICES, form)

    assert not reasons
    assert "    for x in torch.randn(6, 16, 8):\n        output = baseline(x)\n" in after


OF_OTHERS = """\
import torch
from timm import create_model

model = create_model("vit_tiny").cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(6):
    model.train()
    optimizer.zero_grad()
    loss = model(torch.randn(16, 8))
    loss.backward()
    optimizer.step()
"""


def test_a_model_of_another_library_that_is_moved() -> None:
    after, reasons = rewritten(OF_OTHERS, "bf16")

    assert not reasons
    assert after == OF_OTHERS.replace(
        "    loss = model(torch.randn(16, 8))\n",
        """\
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.randn(16, 8))
""",
    )


def test_a_model_of_a_library_that_is_not_known_is_left() -> None:
    code = OF_OTHERS.replace("timm", "networks").replace('create_model("vit_tiny")', "create_model()")
    because = "it comes from networks.create_model(), which is not known to be a model"

    assert rewritten(code, "bf16") == (code, {f"what model computes is not seen (line 9): {because}"})


def test_an_optimizer_of_another_library() -> None:
    code = OF_OTHERS.replace("create_model\n", "create_model\nfrom lions import Lion\n")
    code = code.replace("torch.optim.Adam", "Lion")

    assert rewritten(code, "fp16") == (code, {f"what steps in line 12 is not known{OF_FP16}"})


@functools.cache
def rewritten(code: str, form: AmpForm) -> tuple[str, set[str]]:
    """What the rule in one of its forms makes of the script, and the reasons where it leaves it."""
    script, accepted, reasons = Script.of(Module("train.py", code)), conflicts.Accepted(), set()
    for finding in Amp(Choices(amp=form)).find(script):
        if finding.edits:
            assert accepted.add(finding.edits) is None
        else:
            reasons.add(finding.message)
    return apply(script.module, accepted.edits) if accepted.edits else code, reasons


@pytest.mark.parametrize("name", [*ONLY_FP16, *LEFT])
def test_left_where_there_is_fp16(name: str) -> None:
    code, reason = (ONLY_FP16 | LEFT)[name]

    assert rewritten(code, "fp16") == (code, {reason})


@pytest.mark.parametrize("name", LEFT)
def test_left_where_there_may_be_fp16(name: str) -> None:
    code, reason = LEFT[name]

    assert rewritten(code, "auto") == (code, {reason})


@pytest.mark.parametrize("name", LEFT)
def test_left_in_bf16(name: str) -> None:
    code, reason = LEFT[name]

    assert rewritten(code, "bf16") == (code, {reason})


@pytest.mark.parametrize("form", ["auto", "bf16"])
@pytest.mark.parametrize("name", ONLY_FP16)
def test_bf16_needs_neither_scaler_nor_small_numbers(name: str, form: AmpForm) -> None:
    after, reasons = rewritten(ONLY_FP16[name][0], form)

    assert not reasons
    assert "GradScaler" not in after
    assert "torch.autocast" in after


SCRIPTED = (
    START
    + """\
import argparse


class Scaled(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 4)

    @torch.jit.script_method
    def forward(self, x):
        return 2 * self.body(x)


parser = argparse.ArgumentParser()
parser.add_argument("--net", ...)
args = parser.parse_args()
if args.net == "scaled":
    model = Scaled().to(device)
else:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    + DATA
    + STEP
)


@pytest.mark.parametrize("form", ["auto", "bf16", "fp16"])
def test_torchscript_of_a_network_that_the_default_does_not_choose(form: AmpForm) -> None:
    after, reasons = rewritten(SCRIPTED.replace("...", 'default="plain"'), form)

    assert not reasons
    assert "torch.autocast" in after


@pytest.mark.parametrize("given", ['default="scaled"', "required=True"])
def test_torchscript_of_a_network_that_an_option_chooses_is_left_with_the_option(given: str) -> None:
    code = SCRIPTED.replace("...", given)
    because = (
        'TorchScript has its own rules for mixed precision (line 10), and args.net == "scaled" chooses it (line 23)'
    )

    assert rewritten(code, "auto") == (code, {because})


@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name in REWRITTEN
        for form in ("auto", "bf16", "fp16")
        if not (form == "bf16" and "LSTM(" in REWRITTEN[name])
    ],
)
def test_rewritten_and_then_silent(name: str, form: AmpForm) -> None:
    after, reasons = rewritten(REWRITTEN[name], form)

    assert not reasons
    assert "torch.autocast" in after
    assert rewritten(after, form) == (after, set())


RUNNER = """
import contextlib, io, json, sys, warnings

import torch

torch.set_num_threads(1)
warnings.simplefilter("error")
warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*")
codes, printed = json.load(sys.stdin), []


def run():
    for code in codes:
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(compile(code, "train.py", "exec"), {"__name__": "__main__"})
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=out)
        printed.append(out.getvalue())


def __init__(self, *given, init_scale=None, **named):
    create(self, *given, init_scale=256.0, **named)


if sys.argv[1] == "7.0":
    run()
from autotune_rewrite.verify.child import simulated as device

device.install(sys.argv[1])
create = torch.amp.GradScaler.__init__
torch.amp.GradScaler.__init__ = __init__  # or the first steps are left out, which is right and shifts all that follows
run()
print(json.dumps(printed))
"""


def printed(runner: Path, codes: list[str], capability: str) -> list[str]:
    """What each of the scripts prints, all run in one process on a simulated device; before that without, for 7.0."""
    command = [sys.executable, str(runner), capability]
    result = subprocess.run(command, input=json.dumps(codes), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    texts: list[str] = json.loads(result.stdout)
    return texts


SCRIPTS = {name: code for name, (code, _) in (ONLY_FP16 | LEFT).items()} | REWRITTEN


@pytest.mark.parametrize(("capability", "forms"), [("9.0", ("auto", "bf16")), ("7.0", ("auto", "fp16"))])
def test_what_is_rewritten_trains_as_before(
    capability: str, forms: tuple[AmpForm, ...], forking: Callable[[Path], Path], tmp_path: Path
) -> None:
    pairs = {
        (name, form): (code, after)
        for name, code in SCRIPTS.items()
        for form in forms
        if (after := rewritten(code, form)[0]) != code
    }
    codes = list(dict.fromkeys(code for pair in pairs.values() for code in pair))
    runner = tmp_path / "runner.py"
    runner.write_text(RUNNER, encoding="utf-8")
    texts = printed(forking(runner), codes, capability)
    on_device = dict(zip(codes, texts[-len(codes) :], strict=True))
    on_cpu = dict(zip(codes, texts[: len(codes)], strict=True)) if len(texts) > len(codes) else {}

    for (name, form), (before, after) in pairs.items():
        assert "Error" not in on_device[before], name
        assert "Error" not in on_device[after], (name, form, on_device[after])
        assert values(on_device[after]) == values(on_device[before]), (name, form)
        assert on_cpu.get(after) == on_cpu.get(before), (name, form)


def values(text: str) -> list[object]:
    """The numbers in what a script has printed, to be compared as far as 16 bits go; its other words as they are."""
    found: list[object] = []
    for word in text.split():
        try:
            found.append(pytest.approx(float(word), rel=0.03, abs=0.03))
        except ValueError:  # noqa: PERF203 - some dozens of words
            found.append(word)
    return found


KEEPS = """\
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        self.features = self.first(x).relu()
        return self.second(self.features)


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in torch.rand(4, 8, 9).cuda().split([8, 1], dim=-1):
    optimizer.zero_grad()
    loss = cross_entropy(model(x), y[:, 0].long())
    loss.backward()
    optimizer.step()
    USE
"""


@pytest.mark.parametrize(
    ("use", "read"),
    [
        pytest.param(
            "print(model.features.detach().cpu().numpy().sum())", "model.features", id="NumPy has no bfloat16"
        ),
        pytest.param("centers[y] = model.features", "model.features", id="items of a tensor of 32 bits"),
        pytest.param("show(model.features)", "model.features", id="code that is not seen"),
    ],
)
def test_what_a_model_keeps_in_16_bits_is_not_read_outside(use: str, read: str) -> None:
    reason = f".features may be kept in 16 bits, and is read outside of autocast: read {read}.float() (line 23)"
    check_leaves(Amp, KEEPS.replace("USE", use), reason)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param("print(model.features.float().cpu().numpy())", id="in 32 bits"),
        pytest.param("print(model.features.shape)", id="its form"),
        pytest.param("kept.append(model.features.argmax(1).cpu().numpy())", id="indices"),
        pytest.param("kept.append(model.features.greater(0).cpu().numpy())", id="truth values"),
        pytest.param("print(model.features.mean().item())", id="a number"),
        pytest.param("model.features = model.features.detach()", id="what stays where it is"),
    ],
)
def test_what_a_model_keeps_may_be_read_where_16_bits_are_right(use: str) -> None:
    assert "torch.autocast" in run(Amp, KEEPS.replace("USE", use)).after


@pytest.mark.parametrize("hook", ["lambda m, x, y: kept.append(y.cpu().numpy())", "keep"])
def test_a_forward_hook_is_given_no_16_bits(hook: str) -> None:
    code = KEEPS.replace("optimizer =", f"kept = []\nmodel.first.register_forward_hook({hook})\noptimizer =")
    check_leaves(Amp, code.replace("    USE\n", ""), "a forward hook would be given tensors in 16 bits (line 18)")


GRAM = (
    START
    + """\
model = nn.Conv2d(3, 8, 3, padding=1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
style = torch.zeros(4, 8, 8, device=device)


def gram(y):
    b, c, h, w = y.size()
    GRAM


for x in torch.rand(3, 4, 3, 16, 16):
    x = x.to(device)
    optimizer.zero_grad()
    loss = F.mse_loss(gram(model(x)), style)
    loss.backward()
    optimizer.step()
"""
)


@pytest.mark.parametrize(
    ("lines", "product"),
    [
        pytest.param(
            ["f = y.view(b, c, h * w)", "g = f.transpose(1, 2)", "return f.bmm(g) / (c * h * w)"],
            "f.bmm(g)",
            id="under two names",
        ),
        pytest.param(
            ["y = y.reshape(b, c, -1)", "return torch.bmm(y, torch.transpose(y, 1, 2)) / (c * h * w)"],
            "torch.bmm(y, torch.transpose(y, 1, 2))",
            id="under its own name",
        ),
        pytest.param(["return y.flatten(2) @ y.flatten(2).mT"], "y.flatten(2) @ y.flatten(2).mT", id="in one line"),
        pytest.param(
            ['return torch.einsum("bchw,bdhw->bcd", y, y)'],
            'torch.einsum("bchw,bdhw->bcd", y, y)',
            id="by its indices",
        ),
    ],
)
def test_no_gram_matrix_is_made_in_16_bits(lines: list[str], product: str) -> None:
    code = GRAM.replace("GRAM", "\n    ".join(lines))
    reason = "sums over all positions (a Gram matrix), which 16 bits do not hold: compute it with autocast off"
    check_leaves(Amp, code, f"{product} {reason} (line {code[: code.index(product)].count(chr(10)) + 1})")


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["y = y.mean((2, 3))", "return y @ y.t()"], id="items are compared, not positions"),
        pytest.param(
            ["y = F.normalize(y.view(b, -1), dim=1)", "return y @ y.t()"], id="vectors of length one are compared"
        ),
        pytest.param(
            ["q, k = y.view(b, c, -1), y.relu().view(b, c, -1)", "return q @ k.transpose(1, 2)"], id="two tensors"
        ),
    ],
)
def test_other_products_of_a_tensor_may_be_made_in_16_bits(lines: list[str]) -> None:
    assert "torch.autocast" in run(Amp, GRAM.replace("GRAM", "\n    ".join(lines))).after
