"""Which tensors of the host may lie on the device while a loop sets their items, and how that is called there."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.deferral import outcomes
from codemods.facts.training.deferred_tensors import DeferredTensor

CODE = """\
import torch
from torch import nn
{device}
model = nn.Linear(4, 2).to(device)
def batch(kind):
    x = torch.randn(4, 4)
    {copy}
    return x
@torch.no_grad()
def estimate(n{parameter}):
    {before}
    for k in range(n):
        losses[k] = model(batch("train")).sum().item()
    {after}
print(estimate(3{argument}))
"""
PARTS = {
    "device": "device = 'cuda' if torch.cuda.is_available() else 'cpu'",
    "copy": "x = x.to(device)",
    "parameter": "",
    "before": "losses = torch.zeros(n)",
    "after": "return losses",
    "argument": "",
}


def outcome(parts: dict[str, str]) -> Reason | DeferredTensor:
    ((_, found),) = outcomes(script(CODE.format(**{**PARTS, **parts})))
    assert isinstance(found, (Reason, DeferredTensor))
    return found


@pytest.mark.parametrize(
    ("parts", "device"),
    [
        pytest.param({}, "device", id="a name of the module that a function reads"),
        pytest.param({"copy": "x = x.to(device=device)"}, "device", id="by its keyword"),
        pytest.param({"device": "device = 'cuda'"}, "device", id="always CUDA"),
        pytest.param(
            {"device": "device = 'cuda'", "copy": "if kind: x = x.to(device)\n    else: x = x.pin_memory().to(device)"},
            "device",
            id="always CUDA, copied in two ways",
        ),
        pytest.param({"copy": "x = x.to('cuda')"}, "'cuda'", id="written out"),
        pytest.param({"copy": "x = x.cuda()"}, "'cuda'", id="a method that names it"),
    ],
)
def test_the_device(parts: dict[str, str], device: str) -> None:
    found = outcome(parts)

    assert isinstance(found, DeferredTensor)
    assert found.device == device


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        pytest.param({"copy": "if kind == 'gpu': x = x.cuda()"}, "no-name", id="copied to CUDA in one branch"),
        pytest.param(
            {"copy": "there = device\n    x = x.to(there)", "before": "device = None\n    losses = torch.zeros(n)"},
            "no-name",
            id="its name means something else",
        ),
        pytest.param({"before": "losses = torch.zeros(n)\n    kept = losses"}, "seen-elsewhere", id="two names"),
        pytest.param(
            {"before": "losses = torch.zeros(n)\n    if n > 2: losses = torch.ones(n)"},
            "needed-each-step",
            id="made in two ways",
        ),
        pytest.param({"before": "losses = torch.zeros(n).share_memory_()"}, "needed-each-step", id="shared memory"),
        pytest.param(
            {"before": "losses = torch.zeros(n, device='cpu')"}, "needed-each-step", id="said to be on the host"
        ),
        pytest.param(
            {"before": "losses = torch.zeros(n).to(device, torch.float16)"},
            "needed-each-step",
            id="cast as it is copied",
        ),
        pytest.param({"before": "losses = torch.zeros(n).to(torch.float16)"}, "needed-each-step", id="cast"),
        pytest.param({"before": "losses = torch.zeros(n, dtype=torch.long)"}, "unknown-number", id="integers"),
        pytest.param({"before": "losses = {}"}, "needed-each-step", id="a dictionary"),
        pytest.param(
            {"before": "losses = torch.zeros(n)\n    def seen():\n        return losses"},
            "seen-elsewhere",
            id="another function",
        ),
        pytest.param({"before": "global losses\n    losses = torch.zeros(n)"}, "seen-elsewhere", id="a global name"),
        pytest.param({"after": "return locals()"}, "seen-elsewhere", id="whatever has a name"),
    ],
)
def test_what_stays_on_the_host(parts: dict[str, str], code: str) -> None:
    found = outcome(parts)

    assert isinstance(found, Reason)
    assert found.code == code


@pytest.mark.parametrize(
    ("made", "is_there"),
    [
        pytest.param("torch.zeros(n)", False, id="on the host"),
        pytest.param("torch.zeros(n, device=device)", True, id="told a device"),
        pytest.param("torch.zeros(n).cuda()", True, id="copied there"),
    ],
)
def test_where_it_is_made(made: str, *, is_there: bool) -> None:
    found = outcome({"before": f"losses = {made}"})

    assert isinstance(found, DeferredTensor)
    assert found.made.is_there is is_there


def test_an_exception_that_leaves_the_loop() -> None:
    text = (
        CODE.format(**PARTS)
        .replace("    for k", "    try:\n     for k")
        .replace("        losses[k]", "         losses[k]")
    )
    text = text.replace("    return losses", "    except KeyboardInterrupt:\n        pass\n    return losses")

    ((_, found),) = outcomes(script(text))

    assert isinstance(found, Reason)
    assert found.code == "seen-elsewhere"
