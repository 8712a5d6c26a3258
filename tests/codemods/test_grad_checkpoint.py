"""Blocks that are computed once more in the backward."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Leaves, Rewrites
from codemods.rules.grad_checkpoint import GradCheckpoint

NET = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        {forward}
        return x + self.drop(self.layer(x).relu())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range({number})])

    def forward(self, x):
        {loop}
        return x


"""
LOOP = "for block in self.blocks:\n            x = block(x)"
TRAINING = """\
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(6, 4, 8):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def text(*, forward: str = "x = x * 1", number: str = "4", loop: str = LOOP, training: str = TRAINING) -> str:
    return NET.format(forward=forward, number=number, loop=loop) + training


@pytest.mark.parametrize("example", GradCheckpoint.examples)
def test_examples(example: Rewrites | Leaves) -> None:
    if isinstance(example, Rewrites):
        check_rewrites(GradCheckpoint, example.before, example.after)
    else:
        check_leaves(GradCheckpoint, example.code, example.because)


LEFT = {
    "an attribute that a block sets": ({"forward": "self.seen = x"}, "runs-twice"),
    "a block that prints": ({"forward": "print(x.shape)"}, "runs-twice"),
    "a block that writes into what it is given": ({"forward": "x += 1"}, "runs-twice"),
    "a block that writes by a method": ({"forward": "x = x.mul_(2)"}, "runs-twice"),
    "a block that asks NumPy for numbers": (
        {"forward": "import numpy as np\n        x = x * np.random.rand()"},
        "runs-twice",
    ),
    "three blocks": ({"number": "3"}, "nothing-to-gain"),
    "two arguments": ({"loop": "for block in self.blocks:\n            x = block(x, None)"}, "other-loop"),
    "what is done beside": (
        {"loop": "for block in self.blocks:\n            x = block(x)\n            x = x + 1"},
        "other-loop",
    ),
    "what is written to afterwards": ({"loop": f"{LOOP}\n        x += 1"}, "runs-twice"),
    "what is written in a loop around it": (
        {
            "loop": "for _ in range(2):\n            x += 1\n            for block in self.blocks:\n                x = block(x)"
        },
        "runs-twice",
    ),
    "a function that writes in place": ({"forward": "x = nn.functional.relu(x, inplace=True)"}, "runs-twice"),
    "a layer that writes in place": ({"forward": "x = nn.ReLU(True)(x)"}, "runs-twice"),
    "a part that is not known": ({"forward": "x = self.other(x)"}, "runs-twice"),
    "a hook": ({"training": f"{TRAINING}\nmodel.register_forward_hook(print)\n"}, "runs-twice"),
    "a graph that is kept": (
        {"training": TRAINING.replace("backward()", "backward(retain_graph=True)")},
        "retained-graph",
    ),
    "a mode that is switched before the backward": (
        {
            "training": TRAINING.replace(
                "    loss.b", "    model.eval()\n    print(model(x).sum())\n    model.train()\n    loss.b"
            )
        },
        "runs-twice",
    ),
    "DataParallel": ({"training": TRAINING.replace("Net()", "nn.DataParallel(Net())")}, "data-parallel"),
    "checkpoints of its own": (
        {
            "training": f"from torch.utils.checkpoint import checkpoint_sequential\nprint(checkpoint_sequential)\n{TRAINING}"
        },
        "done-already",
    ),
}


@pytest.mark.parametrize(("parts", "code"), LEFT.values(), ids=LEFT)
def test_it_is_left_for(parts: dict[str, str], code: str) -> None:
    script = text(**parts)
    result = run(GradCheckpoint, script)

    assert result.after == script
    assert [site.code for site in result.sites] == [code]


SILENT = {
    "a loop over layers in a row": text(loop="x = nn.Sequential(*self.blocks)(x)"),
    "a model that nobody trains": text(training="print(Net()(torch.randn(4, 8)))\n"),
    "what is checkpointed already": run(GradCheckpoint, text()).after.replace("if self.training else block(x)", ""),
}


@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT)
def test_nothing_is_said_of(script: str) -> None:
    check_silent(GradCheckpoint, script)


def test_the_number_of_blocks_may_be_an_option() -> None:
    result = run(GradCheckpoint, text(number="len(open('depth').read())"))

    assert "x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)" in result.after


def test_a_name_of_the_script_is_not_taken() -> None:
    script = text(training=f"checkpoint = 'model.pt'\n{TRAINING}")

    result = run(GradCheckpoint, script)

    assert [site.code for site in result.sites] in (["no-name"], [""])
    assert "import checkpoint" not in result.after


def test_it_trains_bit_for_bit_alike_on_the_cpu_with_dropout() -> None:
    seeded = text().replace("class Block", "torch.manual_seed(0)\n\n\nclass Block", 1)
    after = run(GradCheckpoint, seeded).after
    assert "x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)" in after

    printed = [
        subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, check=True).stdout
        for each in (seeded, after)
    ]

    assert printed[0] == printed[1]
    assert len(printed[0].split()) == 6


def test_a_mode_that_is_switched_after_the_backward_is_no_obstacle() -> None:
    after = "    model.eval()\n    print(model(x).sum())\n    model.train()\n"

    assert run(GradCheckpoint, text(training=TRAINING + after)).after != text(training=TRAINING + after)
