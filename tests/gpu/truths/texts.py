"""The scripts under test, as texts: each says of itself what is true, in a file outside of the project that it runs in.

They are started with ``cuda`` or ``simulated`` and their figures as arguments. Those that are compared in pairs print
nothing: what they print, the verifier would compare.
"""

from __future__ import annotations

SPEED = """
import json
import sys
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

PRODUCTS, PAUSE = 20, 0.0
size, iterations, told = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
torch.manual_seed(0)
left, right = torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda")
result = torch.empty(size, size, device="cuda")
inputs, labels = torch.randn(64, 128, device="cuda"), torch.randint(10, (64,), device="cuda")
weights = [(torch.randn(128, width, device="cuda") / 16).requires_grad_() for width in (128, 10)]


def seconds_of_product(count):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        torch.mm(left, right, out=result)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


warm = time.perf_counter() + 0.3
while time.perf_counter() < warm:  # kernels are loaded, and clocks rise
    seconds_of_product(10)
product = seconds_of_product(PRODUCTS)
pause = PAUSE * PRODUCTS * product
done, slept, total = 0, 0.0, 0.0
try:
    for iteration in range(iterations):
        for _ in range(PRODUCTS):
            torch.mm(left, right, out=result)
        loss = cross_entropy(torch.tanh(inputs @ weights[0]) @ weights[1], labels)
        loss.backward()
        done += 1
        with torch.no_grad():
            for weight in weights:
                weight -= 0.1 * weight.grad
                weight.grad = None
        total += loss.item()
        if pause:
            start = time.perf_counter()
            time.sleep(pause)
            slept += time.perf_counter() - start
finally:  # also where the run is cut
    told.write_text(json.dumps({"product": product, "slept": slept / max(1, done), "iterations": done}))
"""
"""Iterations of equal matrix products, which are nearly all of their time, and of a small training that waits for its
loss as naive scripts do."""
MORE_PRODUCTS = "PRODUCTS, PAUSE = 20,", "PRODUCTS, PAUSE = 21,"
PAUSES = "PAUSE = 20, 0.0", "PAUSE = 20, 0.05"

TRAINING = """
import sys

import torch
from torch import nn

iterations = int(sys.argv[1])
torch.manual_seed(1)
truth = torch.randn(32, 4)
inputs = torch.randn(2048, 32)
labels = (inputs @ truth + 2.0 * torch.randn(2048, 4)).argmax(1)
inputs, labels = inputs.cuda(), labels.cuda()
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for iteration in range(iterations):
    places = torch.arange(128 * iteration, 128 * (iteration + 1), device="cuda") % 2048
    batch, target = inputs[places], labels[places]
    loss = nn.functional.cross_entropy(model(batch), target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
"""A classification with noise in its labels: seeds move what it ends with."""
ROLLED = "labels = inputs.cuda(), labels.cuda()", "labels = inputs.cuda(), labels.roll(1).cuda()"
TEN_TIMES = "lr=0.02", "lr=0.2"
AUTOCAST = "    loss = nn", "    with torch.autocast('cuda', dtype=torch.bfloat16):\n        loss = nn"
TF32 = "torch.manual_seed(1)", "torch.set_float32_matmul_precision('high')\ntorch.manual_seed(1)"

FAILING = """
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

real, ballast, told = sys.argv[1] == "cuda", int(sys.argv[2]), Path(sys.argv[3])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
told.write_text(f"{os.getpid()} {child.pid}")
weight = torch.ones(64, 64, device="cuda", requires_grad=True)
held = torch.zeros(ballast, dtype=torch.uint8, device="cuda")
table = torch.nn.Embedding(10, 8).cuda()


def train(iterations):
    for _ in range(iterations):
        (weight @ weight).mean().backward()
        weight.grad = None
    torch.cuda.synchronize()


train(20)
"""
"""A training that holds memory of the device and a process of its own; how it fails is appended."""
INDEX = """
loss = table(torch.tensor([3, 99], device="cuda")).sum()
loss.backward()
print(loss.item())
"""
UNSEEN = """
loss = table(torch.tensor([3, 99], device="cuda")).sum()
loss.backward()
time.sleep(0.5)  # the device has found the error, and nobody has asked it
"""
MISMATCH = """
(weight @ weight.double()).mean().backward()
"""
KILLED = """
os.kill(os.getpid(), signal.SIGKILL)
"""
EXITS = """
sys.exit(3)
"""
VANISHES = """
os._exit(0)
"""
ENDLESS = """
while True:
    train(20)
"""
HANGS = """
if real:
    torch.cuda._sleep(60_000_000_000)  # half a minute of one kernel
    torch.cuda.synchronize()
time.sleep(300)
"""
MEMORY = """
blocks, block = [], 2**33 if real else 2**50
while True:
    blocks.append(torch.empty(block, dtype=torch.uint8, device="cuda"))
"""

BUSY = """
import sys
import time
from pathlib import Path

import torch

held, busy, idle, told = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
weight = torch.ones(1024, device="cuda", requires_grad=True)
block = torch.zeros(held // 4 - 1024, device="cuda")


def tell(phase):
    with told.open("a") as file:
        file.write(f"{phase} {time.time()}\\n")


def train():
    (weight * weight).mean().backward()
    weight.grad = None


for _ in range(5):
    train()
torch.cuda.synchronize()
tell("busy")
end = time.monotonic() + busy
while time.monotonic() < end:
    for _ in range(20):
        block.add_(1.0)
    train()
    torch.cuda.synchronize()
tell("idle")
time.sleep(idle)
tell("end")
"""
"""Holds so many bytes, computes for some seconds without a break, and does nothing for some."""
COMPANION = """
import time

import torch

block = torch.zeros(2**26, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
end = time.monotonic() + 90.0
while time.monotonic() < end:
    for _ in range(50):
        block.add_(1.0)
    torch.cuda.synchronize()
"""
"""Somebody else's work on the same device, for a minute and a half at most."""

SYNC = """
import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

real, seconds, told = sys.argv[1] == "cuda", float(sys.argv[2]), Path(sys.argv[3])
set_mode = torch.cuda.set_sync_debug_mode if real else lambda mode: None
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
inputs = torch.randn(128, 64, device="cuda")
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)


def plain():
    model(inputs).square().mean().backward()


def scaled():
    scaler.scale(model(inputs).square().mean()).backward()


def not_scalar():
    each = model(inputs).square().mean(1)
    each.backward(torch.ones_like(each))


def several():
    outputs = model(inputs)
    torch.autograd.backward([outputs.mean(), outputs.square().mean()])


def waits():
    model(inputs).mean().item()


found = {}
for work in (plain, scaled, not_scalar, several, waits):
    work()  # libraries are loaded now
    torch.cuda.synchronize()
    iterations, error = 0, None
    end = time.monotonic() + seconds
    set_mode("error")
    try:
        while time.monotonic() < end:
            work()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.grad = None
            iterations += 1
            if work is waits:
                break
    except RuntimeError as raised:
        error = str(raised)
    finally:
        set_mode("default")
    torch.cuda.synchronize()
    found[work.__name__] = {"iterations": iterations, "error": error}
told.write_text(json.dumps(found))
"""
"""Trains while torch refuses to wait for the device; the last work waits, and has to be refused."""
LEFT_ON = """
import sys

import torch

if sys.argv[1] == "cuda":
    torch.cuda.set_sync_debug_mode("error")
weight = torch.ones(16, device="cuda", requires_grad=True)
for _ in range(30):
    (weight * weight).mean().backward()
    weight.grad = None
"""
"""A script that ends with this mode on; it never waits."""

LOSSES = """
import json
import sys
from pathlib import Path

import torch
from torch import nn

iterations, few, told = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
torch.manual_seed(2)
inputs, labels = torch.randn(64, 32, device="cuda"), torch.randint(10, (64,), device="cuda")
model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 10)).cuda()
parameters = list(model.parameters())
scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
own = []


def forward():
    return nn.functional.cross_entropy(model(inputs), labels)


def update(scale=1.0):
    with torch.no_grad():
        for parameter in parameters:
            parameter -= 0.01 / scale * parameter.grad
            parameter.grad = None


for _ in range(iterations):
    loss = forward()
    loss.backward()
    update()
    own.append(loss.item())
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(few):
        loss = forward()
        loss.backward()
        update()
        own.append(loss.item())
torch.cuda.current_stream().wait_stream(side)
for _ in range(few):
    loss = forward()
    kept = loss.detach().clone()
    loss.backward()
    with torch.no_grad():
        loss.zero_()
    update()
    own.append(kept.item())
for _ in range(few):
    loss = forward()
    scaler.scale(loss).backward()
    update(1024.0)
    own.append(loss.item())
told.write_text(json.dumps(own))
"""
"""Records its losses as naive scripts do: plainly, from another stream, overwritten right after, and scaled."""
STREAMS = """
import sys

import torch

real, first, few = sys.argv[1] == "cuda", int(sys.argv[2]), int(sys.argv[3])
side = torch.cuda.Stream()
weight = torch.ones((), device="cuda", requires_grad=True)
with torch.cuda.stream(side):
    other = torch.ones((), device="cuda", requires_grad=True)
    (other * 1.0).detach()
torch.cuda.synchronize()
iteration = 0


def train(leaf, count):
    global iteration
    for _ in range(count):
        (leaf * float(iteration)).backward()
        leaf.grad = None
        iteration += 1


def aside(count):
    with torch.cuda.stream(side):
        if real:
            torch.cuda._sleep(600_000_000)  # the side stream is a third of a second behind
        train(other, count)


train(weight, first)
aside(1)
train(weight, few)
aside(few)
"""
"""Each loss is the number of its iteration, so nobody has to wait to know it. Two streams do not wait for each other: one
begins the harness's next buffer, and it still computes when the script ends."""

OVERHEAD = """
import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

width, layers, rows, iterations, epochs, told = *map(int, sys.argv[1:6]), Path(sys.argv[6])
watched = torch.autograd.backward
bare = watched.__wrapped__
model = nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU()))).cuda()
parameters = list(model.parameters())
inputs = torch.randn(rows, width, device="cuda")


def seconds_of_iteration():
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(iterations):
        loss = model(inputs).square().mean()
        loss.backward()
        gradients = [parameter.grad for parameter in parameters]
        with torch.no_grad():
            torch._foreach_add_(parameters, gradients, alpha=-1e-3)
        for parameter in parameters:
            parameter.grad = None
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / iterations


seconds_of_iteration()
found = {"bare": [], "watched": []}
for epoch in range(epochs):
    is_watched = epoch % 4 in (1, 2)
    torch.autograd.backward = watched if is_watched else bare
    found["watched" if is_watched else "bare"].append(seconds_of_iteration())
torch.autograd.backward = watched
told.write_text(json.dumps(found))
"""
"""Takes the hook off and puts it on again from epoch to epoch: two processes differ by more than it costs."""


def changed(text: str, change: tuple[str, str]) -> str:
    """The text with one place changed.

    Raises:
        ValueError: There is no such place, or more than one.
    """
    before, after = change
    if text.count(before) != 1:
        raise ValueError(f"{before!r} stands {text.count(before)} times in the script")
    return text.replace(before, after)
