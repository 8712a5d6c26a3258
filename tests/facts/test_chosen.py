"""Which devices the user may name when the script is started."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.chosen import is_free, may_be_read_late
from codemods.facts.target import Target

HEAD = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n"
MOVE = "args = parser.parse_args()\nx = torch.zeros(2).pin_memory().to(args.device)\n"
ANY = "parser.add_argument('--device')\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(ANY, True, id="any text"),
        pytest.param("parser.add_argument('--device', choices=['cuda', 'cpu'])\n", False, id="one of two"),
        pytest.param("parser.add_argument('--net', choices=['resnet', 'vgg'])\n", True, id="another option"),
        pytest.param(f"{ANY}torch.nn.Linear(2, 2).cuda()\n", False, id="CUDA is needed"),
        pytest.param(f"{ANY}torch.cuda.set_device(0)\n", False, id="a CUDA device is chosen"),
        pytest.param(f"{ANY}if args.gpu:\n    torch.cuda.set_device(0)\n", True, id="CUDA is needed at times"),
    ],
)
def test_which_devices_may_be_named(code: str, *, expected: bool) -> None:
    assert is_free(script(HEAD + code)) is expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(Target(), True, id="not known"),
        pytest.param(Target(known=(2, 4)), True, id="an older one"),
        pytest.param(Target(known=(2, 13)), False, id="one that keeps the batch"),
        pytest.param(Target(below=(1, 12)), False, id="one without MPS"),
        pytest.param(Target(below=(2, 0)), True, id="one of the first with MPS"),
    ],
)
def test_which_torch_may_read_a_batch_late(target: Target, *, expected: bool) -> None:
    known = script(HEAD + ANY + MOVE)
    known.target = target
    (move,) = known.transfers

    assert may_be_read_late(known, move) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("x = torch.zeros(2).to('mps')\n", True, id="it is MPS"),
        pytest.param("x = torch.zeros(2).to('cuda')\n", False, id="it is CUDA"),
        pytest.param("x = torch.zeros(2).to('cuda' if parser else 'cpu')\n", False, id="it is CUDA or the CPU"),
    ],
)
def test_which_devices_may_be_mps(code: str, *, expected: bool) -> None:
    known = script(HEAD + code)
    (move,) = known.transfers

    assert may_be_read_late(known, move) is expected
