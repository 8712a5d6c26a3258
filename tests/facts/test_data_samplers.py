"""Does a sampler draw all of an epoch's indices at once? Are they numbers?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.samplers import device_indices, is_drawn_at_once

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


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        pytest.param("SubsetRandomSampler(torch.randperm(8).cuda())", True, id="a tensor on the GPU"),
        pytest.param("SubsetRandomSampler(torch.cat([found]))", True, id="a tensor that may be there"),
        pytest.param("BatchSampler(SubsetRandomSampler(torch.cat([found])), 2, False)", True, id="in batches"),
        pytest.param("SubsetRandomSampler(torch.randperm(8))", False, id="a tensor of the host"),
        pytest.param("SubsetRandomSampler(torch.cat([found]).tolist())", False, id="a list of such a tensor"),
        pytest.param("SubsetRandomSampler(range(4))", False, id="numbers"),
        pytest.param("RandomSampler(torch.cat([found]))", False, id="one that counts"),
        pytest.param("find()", False, id="nothing is known of it"),
    ],
)
def test_indices_that_may_be_on_a_device(sampler: str, *, expected: bool) -> None:
    known = script(f"{HEAD}found = torch.argmax(model(data.cuda()), 1)\nloader = DataLoader(data, sampler={sampler})\n")
    (loader,) = known.loaders
    (value,) = loader.arguments["sampler"].values

    assert (device_indices(known.flow, value) is not None) is expected
