"""May another CUDA stream use a copy before it is there."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.streams import why_not_ordered

HEAD = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(torch.zeros(8, 3), pin_memory=True)
stream = torch.cuda.Stream()
"""
SIDE = "with torch.cuda.stream(stream):\n    y = torch.ones(3)\n"
WAITS = "torch.cuda.current_stream().wait_stream(stream)\n"


def why(body: str, **others: str) -> str | None:
    known = script(HEAD + body, **others)
    (move,) = known.transfers
    reason = why_not_ordered(known.flow, move.module, move.call)
    return None if reason is None else reason.text.split(" (")[0]


OWN = "the batch is copied on a stream of its own"
OTHER = "another stream than that of the copy runs kernels"


@pytest.mark.parametrize(
    ("body", "because"),
    [
        pytest.param("for x in loader:\n    x.cuda()\n", None, id="one stream"),
        pytest.param("for x in loader:\n    with torch.cuda.stream(stream):\n        x.cuda()\n", OWN, id="its own"),
        pytest.param(
            f"for x in loader:\n    with torch.cuda.stream(stream):\n        x.cuda()\n    {WAITS}",
            None,
            id="it is awaited",
        ),
        pytest.param(f"{SIDE}for x in loader:\n    x.cuda()\n", OTHER, id="another stream runs kernels"),
        pytest.param(
            f"def side():\n    {SIDE.replace('    y', '        y')}    {WAITS}for x in loader:\n    x.cuda()\n",
            None,
            id="another stream that waits",
        ),
        pytest.param("torch.cuda.set_stream(stream)\nfor x in loader:\n    x.cuda()\n", OTHER, id="it is set"),
    ],
)
def test_what_may_use_the_copy_too_soon(body: str, because: str | None) -> None:
    assert why(body) == because


def test_the_block_may_stand_around_a_call_of_the_function() -> None:
    body = "def move(x):\n    return x.cuda()\nfor x in loader:\n    with torch.cuda.stream(stream):\n        move(x)\n"

    assert why(body) == OWN


def test_a_module_that_is_not_imported_with_it_does_not_matter() -> None:
    other = "import torch\nwith torch.cuda.stream(torch.cuda.Stream()):\n    y = torch.ones(3)\n"
    body = "for x in loader:\n    x.cuda()\n"

    assert why(body, other=other) is None
    assert why("import other\n" + body, other=other) == OTHER


def test_another_method_of_the_prefetcher_waits() -> None:
    prefetcher = """\
class Prefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
    def preload(self):
        x = next(self.loader)
        with torch.cuda.stream(self.stream):
            self.x = x.cuda()
    def next(self):
        {}
        return self.x
Prefetcher(loader).preload()
"""

    assert why(prefetcher.format("torch.cuda.current_stream().wait_stream(self.stream)")) is None
    assert why(prefetcher.format("pass")) == OWN
