"""Why a copy to the device has to block."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.copies import is_about_batches, is_cut_by_hand, why_blocking

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
    ],
)
def test_the_reason_is_the_one_that_decides(code: str, why: str | None) -> None:
    found = script(HEAD + code)
    (move,) = found.transfers

    reason = why_blocking(found, move)

    assert (None if reason is None else reason.code) == why


def test_what_is_cut_by_hand_is_told_from_a_batch() -> None:
    found = script(
        HEAD + "data = torch.zeros(64, 9)\nfor i in range(8):\n    data[i].cuda()\nfor x in loader:\n    x.cuda()\n"
    )

    assert [(is_about_batches(each), is_cut_by_hand(found, each)) for each in found.transfers] == [
        (False, True),
        (True, False),
    ]
