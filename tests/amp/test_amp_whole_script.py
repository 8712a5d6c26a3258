"""What keeps a whole script from mixed precision."""

from __future__ import annotations

import pytest
from iteration import looped, script

from codemods.amp.reasons import LeftError
from codemods.amp.whole_script import check
from codemods.dataflow.source import Module
from codemods.facts.devices.conditions import Conditions
from codemods.facts.script import Script
from codemods.facts.target import Target

TRAINING = looped("model(x).mean().backward()", "optimizer.step()")
OWN = "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x.exp2()\n\n"


def left(known: Script) -> tuple[str, str] | None:
    """The code and the remedy for which the script is left."""
    try:
        check(known, Conditions.of_script(known))
    except LeftError as error:
        return error.reason.code, error.reason.remedy
    return None


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("with torch.autocast('cuda'):\n    pass\n", "done-already", id="autocast"),
        pytest.param("g = torch.cuda.CUDAGraph()\n", "captured", id="a graph that is captured"),
        pytest.param("model.half()\n", "other-precision", id="a model in 16 bits"),
        pytest.param(f"{OWN}Own.apply(model)\n", "custom-autograd", id="a function with a backward of its own"),
        pytest.param("@torch.jit.script\ndef f(x):\n    return x\n\n", "torchscript", id="TorchScript"),
        pytest.param(
            "import pytorch_lightning as pl\n\n\nclass Net(pl.LightningModule):\n    pass\n\n\npl.Trainer().fit(Net())\n",
            "framework",
            id="a framework",
        ),
    ],
)
def test_what_keeps_it_out(before: str, expected: str | None) -> None:
    reason = left(script(before + TRAINING))

    assert (reason and reason[0]) == expected


def test_a_script_without_cuda() -> None:
    text = "import torch\nmodel = torch.nn.Linear(2, 2)\nfor x in torch.ones(3, 4, 2):\n    model(x).sum().backward()\n"

    assert left(Script.of(Module("train.py", text))) == ("no-cuda", "")


@pytest.mark.parametrize(("target", "expected"), [((1, 9), "older-torch"), ((1, 10), None)])
def test_a_torch_without_autocast(target: tuple[int, int], expected: str | None) -> None:
    known = Script.of(script(TRAINING).module, target=Target(target, below=(target[0], target[1] + 1)))
    reason = left(known)

    assert (reason and reason[0]) == expected


@pytest.mark.parametrize(
    ("target", "package"),
    [pytest.param((2, 4), "torch.amp", id="since 2.4"), pytest.param((2, 3), "torch.cuda.amp", id="before")],
)
def test_the_decorator_is_named_as_the_script_s_torch_has_it(target: tuple[int, int], package: str) -> None:
    known = Script.of(script(f"{OWN}Own.apply(model)\n{TRAINING}").module, target=Target(target, below=(2, 5)))
    reason = left(known)

    assert reason is not None
    assert f" {package}.custom_fwd(" in reason[1]
