"""What torch's samplers read after they yielded their first index, against torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

from codemods.library.samplers import read_for_each_batch

if TYPE_CHECKING:
    from collections.abc import Callable

_MADE: dict[str, tuple[Callable[[], object], dict[str, object]]] = {
    "BatchSampler": (lambda: BatchSampler(SequentialSampler(range(9)), 2, drop_last=False), {"batch_size": 3}),
    "SubsetRandomSampler": (lambda: SubsetRandomSampler(range(9)), {"indices": range(10, 19)}),
    "WeightedRandomSampler": (
        lambda: WeightedRandomSampler([1.0] * 9, 9),
        {"weights": torch.tensor([1.0] + [0.0] * 8), "num_samples": 2, "replacement": False},
    ),
    "RandomSampler": (lambda: RandomSampler(range(9)), {"replacement": True, "generator": torch.Generator()}),
    "SequentialSampler": (lambda: SequentialSampler(range(9)), {"data_source": range(2)}),
}


def _order(made: Callable[[], object], change: dict[str, object]) -> list[object]:
    """The indices where attributes are changed after the first one."""
    torch.manual_seed(0)
    sampler = made()
    indices = iter(sampler)  # type: ignore[call-overload]
    first = next(indices)
    for name, value in change.items():
        setattr(sampler, name, value)
    return [first, *indices]


@pytest.mark.parametrize("name", _MADE)
def test_what_is_read_for_each_batch(name: str) -> None:
    made, changes = _MADE[name]
    whole = _order(made, {})

    seen = {attribute for attribute, value in changes.items() if _order(made, {attribute: value}) != whole}

    assert seen == read_for_each_batch(f"torch.utils.data.{name}")
