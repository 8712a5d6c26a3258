"""Which tensors that a loop would add up lie on devices apart."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.reason import Reason
from codemods.facts.training.apart import other_device
from codemods.facts.training.deferral import outcomes

HEAD = """\
import torch
from torch import nn
model, other = nn.Linear(4, 2).cuda(), nn.Linear(4, 2).cuda(1)
models, device = [model, other], torch.device("cuda")
batches = torch.randn(8, 4, 4)
s = 0.0
"""
APART = "each iteration may have a device of its own (line 8), and tensors of two cannot be added up"


def reasons(text: str) -> list[str]:
    """Why each sum is left; "" of one that can stay on its device."""
    known = script(HEAD + text)
    return [each.words.said(known.module).text if isinstance(each, Reason) else "" for _, each in outcomes(known)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "for i, m in enumerate(models):\n    s += m(batches.to(f'cuda:{i}')).sum().item()\n", APART, id="numbered"
        ),
        pytest.param(
            "for i, m in enumerate(models):\n    s += m(batches.cuda(i)).sum().item()\n", APART, id="of cuda()"
        ),
        pytest.param(
            "for m, d in zip(models, 'ab'):\n    s += m(torch.ones(4, device=d)).sum().item()\n", APART, id="given"
        ),
        pytest.param(
            "for m in models:\n    s += m(batches.to(next(m.parameters()).device)).sum().item()\n",
            APART,
            id="that of each model",
        ),
        pytest.param("for x in batches:\n    s += model(x.to(device)).sum().item()\n", "", id="one"),
        pytest.param(
            "for x in batches:\n    s += model(device.to(x.device)).sum().item()\n", "", id="that of the batch"
        ),
        pytest.param(
            "i = 0\nwhile i < 3:\n    s += model(batches.cuda(i)).sum().item()\n", "", id="no loop over devices"
        ),
    ],
)
def test_the_devices_of_iterations(text: str, expected: str) -> None:
    assert reasons(text) == [expected]


def test_other_accelerators_may_have_no_floats_of_64_bits() -> None:
    known = script("import torch\ndevice = torch.device('mps')\n")
    reason = other_device(known)

    assert reason is not None
    assert reason.code == "other-accelerator"
    assert other_device(script("device = 'cuda'\n")) is None


@pytest.mark.parametrize(
    ("option", "moves", "is_left"),
    [
        pytest.param("parser.add_argument('--device')", "x.to(args.device)", True, id="any device may be named"),
        pytest.param(
            "parser.add_argument('--device', choices=['cuda', 'cpu'])",
            "x.to(args.device)",
            False,
            id="one of two may be named",
        ),
        pytest.param(
            "parser.add_argument('--device')", "x.to(args.device)\nnet.cuda()", False, id="the script needs CUDA anyway"
        ),
        pytest.param("parser.add_argument('--device')", "x.cuda()", False, id="the option is not used"),
    ],
)
def test_a_device_that_the_user_names_may_have_no_floats_of_64_bits(option: str, moves: str, *, is_left: bool) -> None:
    known = script(
        "import argparse\nimport torch\nfrom torch import nn\nparser = argparse.ArgumentParser()\n"
        f"{option}\nargs = parser.parse_args()\nnet = nn.Linear(2, 2)\nx = torch.zeros(2)\n{moves}\n"
    )
    reason = other_device(known)

    assert (reason is not None and reason.code == "other-accelerator") is is_left
