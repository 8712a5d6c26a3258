from __future__ import annotations

import ast

from probe import script

from codemods.facts.cost.worth import worth
from codemods.facts.data.batching import Batches, batches
from codemods.facts.reason import Reason

SCRIPT = """
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset
data = TensorDataset(torch.randn(1000, 8))
loader = {}
for (x,) in loader:
    print(x)
"""


def found(loader: str) -> Batches | Reason | None:
    asked = script(SCRIPT.format(loader))
    return batches(asked, asked.loaders[0])


def test_how_batches_are_cut() -> None:
    cut = found("DataLoader(data, 64, shuffle=True, drop_last=False)")
    assert isinstance(cut, Batches)
    assert cut.is_shuffled
    assert cut.generator is None
    assert [ast.unparse(each) for each in (cut.size, cut.rows, cut.drop_last) if each] == ["64", "data", "False"]


def test_why_they_are_not() -> None:
    reason = found("DataLoader(data, 64, collate_fn=print)")
    assert isinstance(reason, Reason)
    assert reason.code == "other-arguments"


def test_what_is_cut_by_a_sampler_is_no_question() -> None:
    assert found("DataLoader(data, batch_size=None, sampler=BatchSampler(RandomSampler(data), 64, False))") is None


def test_a_sampler_of_batches_makes_as_many() -> None:
    for drop_last, number in (("False", 16), ("True", 15)):
        sampler = f"BatchSampler(RandomSampler(data), 64, drop_last={drop_last})"
        asked = script(SCRIPT.format(f"DataLoader(data, batch_size=None, sampler={sampler})"))
        assert worth(asked).lengths.batches(asked.loaders[0]) == number
