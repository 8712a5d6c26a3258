"""What a sampler reads for each batch that the loop changes: the fact itself, over several modules."""

from __future__ import annotations

from probe import script

from codemods.facts.workers.drawn_ahead import why_drawn_ahead

SAMPLERS = """\
import torch
from torch.utils.data import Sampler


class Hard(Sampler):
    def __init__(self, n):
        self.n = n
        self.scores = torch.ones(n)

    def __iter__(self):
        for _ in range(self.n):
            yield int(self.scores.argmax())

    def lower(self, index):
        self.scores[index] = 0
"""
TRAIN = """\
from torch.utils.data import DataLoader

import samplers

sampler = samplers.Hard(9)
loader = DataLoader(range(9), sampler=sampler)
for index in loader:
    {change}
"""


def where(change: str) -> list[tuple[str, tuple[int, ...]]]:
    """Where the module of the sampler, or the script, changes what it reads."""
    found = script(TRAIN.format(change=change), samplers=SAMPLERS)
    (loader,) = found.loaders
    reason = why_drawn_ahead(found.flow, loader)
    return [(each.module.name, each.lines) for each in reason.places] if reason is not None else []


def test_a_sampler_of_another_module_is_changed() -> None:
    assert where("sampler.lower(index)") == [("samplers", (15,))]


def test_a_sampler_of_another_module_is_read() -> None:
    assert where("print(sampler.scores[index])") == []


def test_a_sampler_of_a_library() -> None:
    text = "from torch.utils.data import DataLoader\nfrom orders import Hard\nsampler = Hard(9)\n"
    read = "for index in DataLoader(range(9), sampler=sampler):\n    "

    called = script(f"{text}{read}sampler.update(index)\n")
    looked_at = script(f"{text}{read}print(len(sampler))\n")

    assert [why_drawn_ahead(each.flow, each.loaders[0]) is not None for each in (called, looked_at)] == [True, False]
