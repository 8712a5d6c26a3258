"""Does a sampler draw all of an epoch's indices at once?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.samplers import is_drawn_at_once

HEAD = """\
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, SubsetRandomSampler
data = torch.zeros(8, 3)
shared = torch.Generator()
"""


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        pytest.param(None, True, id="there is none"),
        pytest.param("None", True, id="none is given"),
        pytest.param("SequentialSampler(data)", True, id="in order"),
        pytest.param("RandomSampler(data)", True, id="at random"),
        pytest.param("RandomSampler(data, generator=shared)", True, id="at random, by a generator that is given"),
        pytest.param("RandomSampler(data, replacement=True)", True, id="with replacement, by a generator of its own"),
        pytest.param(
            "RandomSampler(data, replacement=True, generator=shared)",
            False,
            id="with replacement, by one that is given",
        ),
        pytest.param("RandomSampler(data, replacement=flag, generator=shared)", False, id="perhaps with replacement"),
        pytest.param("find()", False, id="nothing is known of it"),
        pytest.param("Own()", False, id="one of the script's"),
    ],
)
def test_what_is_drawn_before_the_first_batch(sampler: str | None, *, expected: bool) -> None:
    given = "" if sampler is None else f", sampler={sampler}"
    known = script(
        f"{HEAD}class Own(torch.utils.data.Sampler):\n    def __iter__(self):\n        yield 0\nloader = DataLoader(data{given})\n"
    )
    (loader,) = known.loaders

    assert is_drawn_at_once(loader, "sampler") is expected
