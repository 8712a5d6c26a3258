"""``compile`` and ``jit-to-compile`` where CUDA graphs are asked for: ``--compile-mode reduce-overhead``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from autotune_rewrite.rewriting.config import Settings
from autotune_rewrite.rewriting.rewrite import rewrite
from codemods.codemod import UNMEASURED, Choices, Promise

if TYPE_CHECKING:
    from autotune_rewrite.rewriting.results import Rewrite

HEAD = """\
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(784, 128)
        self.second = nn.Linear(128, 10)

    def forward(self, x):
        {forward}
        return self.second(F.relu(self.first(x.flatten(1))))


device = torch.device("cuda")
loader = DataLoader(datasets.MNIST("data", transform=transforms.ToTensor()), 64)
model = Net().to(device)
{made}optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
outputs, losses = [], []
for x, y in loader:
    x, y = x.to(device), y.to(device)
"""
LOOP = """\
    optimizer.zero_grad()
    output = model(x)
    loss = F.cross_entropy(output, y)
    loss.backward()
    optimizer.step()
"""


def text(loop: str = LOOP, *, made: str = "", forward: str = "x = x * 1") -> str:
    return HEAD.format(made=made, forward=forward) + loop


def run(script: str, *rules: str, mode: str = "reduce-overhead") -> Rewrite:
    names = frozenset(rules or ("compile",))
    choices = Choices(compile_mode=mode, models_are_compiled="compile" in names)  # type: ignore[arg-type]
    return rewrite("train.py", script, Settings(names, Promise.TRAINING, choices=choices))


REPLAYED = {
    "the usual loop": LOOP,
    "gradients that are dropped just before the backward": """\
    output = model(x)
    loss = F.cross_entropy(output, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
""",
    "gradients of the model that are dropped": LOOP.replace("optimizer.zero_grad()", "model.zero_grad()"),
    "losses that are collected": f"{LOOP}    losses.append(loss.detach())\n",
    "gradients that are clipped": LOOP.replace(
        "    optimizer.step()", "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()"
    ),
    "a test after the training": LOOP
    + "with torch.no_grad():\n    for x, y in loader:\n        print(model(x.cuda()).argmax(1).eq(y.cuda()).sum())\n",
}


@pytest.mark.parametrize("loop", REPLAYED.values(), ids=REPLAYED)
def test_cuda_graphs_for(loop: str) -> None:
    result = run(text(loop))

    assert result.after == text(loop, made='model.compile(mode="reduce-overhead")\n')
    assert [site.gain for site in result.sites] == [UNMEASURED]
    assert run(result.after).after == result.after


LEFT = {
    "gradients are added up over iterations": (
        """\
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    if len(losses) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
        "gradients-added",
        "not each backward is seen to be followed by one step with its gradients",
    ),
    "gradients are never dropped": (
        LOOP.replace("    optimizer.zero_grad()\n", ""),
        "gradients-added",
        "gradients are added up, or not seen to be dropped in each iteration",
    ),
    "gradients are dropped now and then": (
        LOOP.replace("    optimizer.zero_grad()", "    if losses:\n        optimizer.zero_grad()"),
        "gradients-added",
        "gradients are added up, or not seen to be dropped in each iteration",
    ),
    "gradients are filled with zeros": (
        LOOP.replace("zero_grad()", "zero_grad(set_to_none=False)"),
        "gradients-added",
        "gradients are filled with zeros, not dropped (line 26)",
    ),
    "several backwards": (
        LOOP.replace("    loss.backward()\n", "    loss.backward(retain_graph=True)\n    output.sum().backward()\n"),
        "gradients-added",
        "not each backward is seen to be followed by one step with its gradients",
    ),
    "two calls in an iteration": (
        LOOP.replace("F.cross_entropy(output, y)", "F.cross_entropy(output + model(x + 1), y)"),
        "called-again",
        "an iteration calls several models, or one several times (line 28)",
    ),
    "a test in the iteration": (
        f"{LOOP}    if len(losses) % 100 == 0:\n        print(model(x).sum())\n",
        "called-again",
        "an iteration calls several models, or one several times (line 32)",
    ),
    "outputs that are collected": (
        f"{LOOP}    outputs.append(output.detach())\n",
        "outputs-kept",
        "what the model returns is kept, or may be, until after its next call, which overwrites it (line 31)",
    ),
    "gradients that are kept": (
        f"{LOOP}    outputs.append(model.first.weight.grad)\n",
        "gradients-read",
        "gradients are kept by reference (line 31)",
    ),
}


@pytest.mark.parametrize(("loop", "code", "because"), LEFT.values(), ids=LEFT)
def test_no_cuda_graphs_for(loop: str, code: str, because: str) -> None:
    result = run(text(loop))

    assert result.after == text(loop)
    ((found, message),) = [(site.code, site.message) for site in result.sites]
    assert (found, message.partition(": ")[2].rpartition(": ")[0]) == (code, because)
    assert message.endswith("compile it in the default mode")
    assert run(text(loop), mode="default").after == text(loop, made="model.compile()\n")


def test_no_cuda_graphs_for_images_that_differ_in_size() -> None:
    script = text().replace("transforms.ToTensor()", "transforms.Compose([transforms.ToTensor()])")
    script = script.replace('datasets.MNIST("data", ', 'datasets.ImageFolder("data", ')

    assert [site.code for site in run(script).sites] == ["size-not-fixed"]


def test_no_cuda_graphs_for_a_model_in_a_wrapper() -> None:
    script = text(made="model = nn.parallel.DistributedDataParallel(model)\n")

    assert [site.code for site in run(script).sites] == ["unseen-replay"]
    assert run(script, mode="default").sites[0].rewrites


@pytest.mark.parametrize(
    "forward",
    [
        pytest.param("x = self.last = x * 1", id="an attribute that others read"),
        pytest.param("x = x + self.last\n        self.last = x", id="a state for its next call"),
    ],
)
def test_no_cuda_graphs_for_a_model_that_keeps(forward: str) -> None:
    script = text(f"{LOOP}    print(model.last.sum())\n", forward=forward)
    script = script.replace("super().__init__()", "super().__init__()\n        self.last = torch.zeros(1).cuda()")

    assert [site.code for site in run(script).sites] == ["outputs-kept"]


def test_a_script_for_the_cpu_says_so() -> None:
    script = text().replace('torch.device("cuda")', 'torch.device("cpu")')

    assert {site.code for site in run(script).sites} == {"no-cuda"}


def test_a_second_name_has_the_mode_too() -> None:
    lines = text().replace("Net()", "nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))")
    result = run(lines)

    assert 'compiled_model = torch.compile(model, mode="reduce-overhead")\n' in result.after
    assert "output = compiled_model(x)" in result.after


def test_texts_have_the_quotes_of_the_script() -> None:
    result = run(text().replace('"', "'"))

    assert "model.compile(mode='reduce-overhead')\n" in result.after


def test_where_nothing_is_asked_the_mode_is_not_written() -> None:
    assert Choices().compile_mode == "default"
    assert run(text(), mode="default").after == text(made="model.compile()\n")


# TorchScript makes room where, and only where, compile acts in the mode.

SCRIPTED = text(made="model = torch.jit.script(model)\n")


def test_torchscript_makes_room_for_cuda_graphs() -> None:
    result = run(SCRIPTED, "jit-to-compile", "compile")

    assert result.after == text(made='model.compile(mode="reduce-overhead")\n')


def test_torchscript_stays_where_there_are_no_cuda_graphs() -> None:
    script = f"{SCRIPTED}    outputs.append(output)\n"

    result = run(script, "jit-to-compile", "compile")

    assert result.after == script
    assert {site.rule: site.code for site in result.sites} == {
        "jit-to-compile": "outputs-kept",
        "compile": "torchscript",
    }
