"""Why a copy to the device has to block."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.copies import is_about_batches, why_blocking, why_not_about_batches

HEAD = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(torch.zeros(8, 3), pin_memory=True)
"""


@pytest.mark.parametrize(
    ("code", "why"),
    [
        pytest.param("for x in loader:\n    x.cuda()\n", None, id="a batch in pinned memory"),
        pytest.param("for x in loader:\n    (x * 2).cuda()\n", "converted-on-host", id="what is made of it"),
        pytest.param("for x in loader:\n    x.to(choose())\n", "unknown-device", id="a device that is not known"),
        pytest.param('for x in loader:\n    x.to("xpu")\n', "other-accelerator", id="another accelerator"),
        pytest.param(
            "import time\nfor x in loader:\n    x = x.cuda()\n    if x.size(0) == 4:\n        start = time.time()\n",
            "times-steps",
            id="a time is taken from there on",
        ),
        pytest.param(
            "import time\nfor x in loader:\n    start = time.time()\n    x = x.cuda()\n",
            None,
            id="a time is taken before it",
        ),
        pytest.param(
            "import time\nnet = torch.nn.Linear(3, 3).cuda()\nfor x in loader:\n    x = x.cuda()\n    net(x)\n"
            "    print(time.time())\n",
            None,
            id="a time is taken after the model ran",
        ),
        pytest.param(
            "import time\nfor x in loader:\n    x = x.cuda()\n    torch.cuda.synchronize()\n    start = time.time()\n",
            None,
            id="a time is taken when the device has it",
        ),
        pytest.param(
            "import sys, time\ndevice = torch.device(sys.argv[1])\nfor x in loader:\n    x = x.cuda()\n"
            "    if device.type == 'cuda':\n        torch.cuda.synchronize()\n    start = time.time()\n",
            None,
            id="a time is taken when the device has it, if there is one",
        ),
        pytest.param(
            "import time\nfor i, x in enumerate(loader):\n    x = x.cuda()\n    if i % 9 == 0:\n"
            "        torch.cuda.synchronize()\n    start = time.time()\n",
            "times-steps",
            id="a time is taken when the device has it now and then",
        ),
        pytest.param(
            "import time\nfor x in loader:\n    x = x.cuda()\n    start = time.time()\n    torch.cuda.synchronize()\n",
            "times-steps",
            id="a time is taken before the device has it",
        ),
        pytest.param(
            "import time\nfrom losses import loss_of\nnet = torch.nn.Linear(3, 3).cuda()\nfor x in loader:\n"
            "    x = x.cuda()\n    loss_of(net, x).backward()\n    print(time.time())\n",
            None,
            id="a time is taken after what was computed has its gradient",
        ),
        pytest.param(
            "import time\nfrom losses import loss_of\nnet = torch.nn.Linear(3, 3).cuda()\nfor x in loader:\n"
            "    x = x.cuda()\n    start = time.time()\n    loss_of(net, x).backward()\n",
            "times-steps",
            id="a time is taken before something is computed",
        ),
    ],
)
def test_the_reason_is_the_one_that_decides(code: str, why: str | None) -> None:
    found = script(HEAD + code)
    (move,) = found.transfers

    reason = why_blocking(found, move)

    assert (None if reason is None else reason.code) == why


@pytest.mark.parametrize(
    ("code", "is_about", "why"),
    [
        pytest.param("for x in loader:\n    x.cuda()\n", True, None, id="a batch of a loader"),
        pytest.param("for i in range(8):\n    data[i].cuda()\n", False, "made-by-hand", id="a part, in a loop"),
        pytest.param("for i in range(8):\n    torch.from_numpy(a).cuda()\n", False, "made-by-hand", id="an array"),
        pytest.param("data.cuda()\n", False, None, id="all of it, once"),
        pytest.param(
            "TensorDataset(*(x.cuda() for x in default_collate(list(data))))\n",
            False,
            None,
            id="all items of a data set",
        ),
        pytest.param("for i in range(8):\n    torch.randn(64, 9).cuda()\n", False, None, id="made where it is moved"),
        pytest.param("for i in range(8):\n    data[i].cuda(non_blocking=True)\n", False, None, id="it does not block"),
        pytest.param("held = data.pin_memory()\nfor i in range(8):\n    data.cuda()\n", False, None, id="it is pinned"),
        pytest.param(
            "for x in (data if quick else read()):\n    x.cuda()\n", False, "unknown-batch", id="perhaps a batch"
        ),
        pytest.param(
            "for x in (data if quick else read()):\n    x.cuda(non_blocking=True)\n",
            False,
            None,
            id="perhaps a batch, which does not block",
        ),
        pytest.param("for x in data.cuda():\n    x.cuda()\n", False, None, id="moved already"),
        pytest.param(
            "for x in (data if quick else read()):\n    x.type('torch.cuda.FloatTensor')\n",
            False,
            None,
            id="perhaps a batch, by what takes no non_blocking",
        ),
    ],
)
def test_what_only_looks_like_a_batch(code: str, *, is_about: bool, why: str | None) -> None:
    imports = "from torch.utils.data import TensorDataset, default_collate\n"
    known = script(f"{HEAD}{imports}data = torch.zeros(64, 9)\n{code}")
    move = known.transfers[-1]

    reason = None if is_about_batches(move) else why_not_about_batches(known, move)

    assert (is_about_batches(move), reason and reason.code) == (is_about, why)
