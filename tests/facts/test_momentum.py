"""Which optimizers keep momentum, and may a gradient scaler leave it unset?"""

from __future__ import annotations

import pytest
import torch
from probe import script

from codemods.facts.training.momentum import is_fused, keeps_momentum, why_momentum_unset

MADE = "import torch\nfrom torch import nn, optim\nmodel = nn.Linear(1, 2)\noptimizer = {}\n"
SCALED = "scaler = torch.amp.GradScaler('cuda'{})\n"
SGD = "optim.SGD(model.parameters(), 0.1, momentum=0.9)"


@pytest.mark.parametrize(
    ("made", "text", "keeps"),
    [
        pytest.param("optim.SGD(model.parameters(), 0.1)", "", False, id="none is given"),
        pytest.param("optim.SGD(model.parameters(), 0.1, momentum=0.0)", "", False, id="it is zero"),
        pytest.param("optim.SGD(model.parameters(), 0.1, 0.9)", "", True, id="it is given by position"),
        pytest.param(SGD, "", True, id="it is given by name"),
        pytest.param("optim.SGD(model.parameters(), 0.1, momentum=args.m)", "", True, id="it is not known"),
        pytest.param("optim.SGD(model.parameters(), **given)", "", True, id="it may be among others"),
        pytest.param("optim.SGD(*given)", "", True, id="it may be among others by position"),
        pytest.param(
            "optim.SGD([{'params': model.parameters(), 'momentum': 0.9}], 0.1)", "", True, id="a group has some"
        ),
        pytest.param(
            "optim.SGD([dict(params=model.parameters(), momentum=0.9)], 0.1)", "", True, id="a group has, in a call"
        ),
        pytest.param(
            "optim.SGD(model.parameters(), 0.1)",
            "for group in optimizer.param_groups:\n    group['momentum'] = 0.9\n",
            True,
            id="a group is given some later",
        ),
        pytest.param(
            "optim.SGD(model.parameters(), 0.1)", "print(state['momentum'], dict(m=1), {'lr': 1})\n", False, id="asked"
        ),
        pytest.param("optim.Adam(model.parameters())", "", False, id="Adam's moments begin as zeros"),
    ],
)
def test_momentum(made: str, text: str, *, keeps: bool) -> None:
    known = script(MADE.format(made) + text)

    assert keeps_momentum(known, known.optimizers[0].value) is keeps


@pytest.mark.parametrize(
    ("text", "because"),
    [
        pytest.param("", "", id="no scaler"),
        pytest.param(SCALED.format(""), "the gradient scaler", id="one"),
        pytest.param(SCALED.format(", enabled=args.amp"), "the gradient scaler", id="one, on request"),
        pytest.param(SCALED.format(", enabled=False"), "", id="one that is off"),
        pytest.param(
            "from timm.utils import NativeScaler\nscaler = NativeScaler()\n", "the gradient scaler", id="timm's"
        ),
        pytest.param(
            "from sklearn.preprocessing import StandardScaler\nscaler = StandardScaler()\n", "", id="another sort"
        ),
    ],
)
def test_a_scaler_may_leave_it_unset(text: str, because: str) -> None:
    known = script(MADE.format(SGD) + text)
    reason = why_momentum_unset(known, known.optimizers[0].value)

    assert (reason.text if reason else "").startswith(because)
    assert (reason is not None) is bool(because)


@pytest.mark.parametrize(
    ("given", "fused"),
    [("", False), (", fused=False", False), (", fused=None", False), (", fused=x", True), (", **given", True)],
)
def test_whether_the_script_asks_for_the_fused_step(given: str, *, fused: bool) -> None:
    known = script(MADE.format(f"{SGD[:-1]}{given})"))

    assert is_fused(known.optimizers[0].value) is fused


@pytest.mark.parametrize("fused", [False, True])
def test_torch_goes_on_with_unset_momentum_where_the_first_step_is_skipped(*, fused: bool) -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.ones(64, 64))
    optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    torch.autograd.backward(scaler.scale((weight * 1e38).sum()))
    scaler.step(optimizer)
    scaler.update()

    assert torch.equal(weight, torch.ones(64, 64))
    assert ("momentum_buffer" in optimizer.state[weight]) is fused
