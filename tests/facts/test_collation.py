"""Do all items of a data set have to have one size."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.data.collation import has_one_size

HEAD = """\
import argparse
import torch
from torch.utils.data import DataLoader, Dataset
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=8)
args = parser.parse_args()
class Images(Dataset):
    def __init__(self):
        self.side = 8
    def __getitem__(self, index):
        return load(index, self.side)
    def grow(self):
        self.files = None
def stacks(batch):
    images = torch.stack([each[0] for each in batch])
    return images, [each[1] for each in batch]
def pads(batch):
    return pad(batch)
data = Images()
"""
READ = "\nfor x in loader:\n    x.cuda()\n"


def has(code: str, before: str = "", read: str = READ) -> bool:
    known = script(f"{HEAD}{before}\nloader = {code}\n{read}")
    return has_one_size(known, known.loaders[-1])


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("DataLoader(data, 4, shuffle=True)", id="it shuffles"),
        pytest.param("DataLoader(data, args.size, shuffle=True)", id="a size that the user chooses"),
        pytest.param("DataLoader(data, 4, shuffle=True, collate_fn=stacks)", id="a function that stacks"),
        pytest.param("DataLoader(data, 4, shuffle=True, collate_fn=None)", id="no function"),
    ],
)
def test_a_loader_that_could_not_join_others(code: str) -> None:
    assert has(code)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("DataLoader(data, 4)", id="neighbours may be alike"),
        pytest.param("DataLoader(data, 1, shuffle=True)", id="each alone"),
        pytest.param("DataLoader(data, shuffle=True)", id="each alone by default"),
        pytest.param("DataLoader(data, 4, shuffle=True, collate_fn=pads)", id="a function that may pad"),
        pytest.param("DataLoader(data, 4, shuffle=flag)", id="perhaps it does not shuffle"),
        pytest.param("DataLoader(data, batch_sampler=buckets)", id="a sampler that may choose those of one size"),
        pytest.param("DataLoader(make(), 4, shuffle=True)", id="a data set that is not known"),
        pytest.param("DataLoader(data, **options)", id="arguments that are not seen"),
    ],
)
def test_a_loader_that_may_join_them(code: str) -> None:
    assert not has(code)


def test_a_loader_in_order_has_what_another_one_shuffles() -> None:
    other = "other = DataLoader(data, 4, shuffle=True)\nfor x in other:\n    x.cuda()\n"

    assert has("DataLoader(Images(), 4)", other)
    assert not has("DataLoader([1, 2], 4)", other)


def test_batches_that_are_not_moved_say_nothing() -> None:
    assert not has("DataLoader(data, 4, shuffle=True)", read="")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param("data.side = 16", False, id="its size is changed"),
        pytest.param("data.other = 16", True, id="something else of it is changed"),
    ],
)
def test_what_changes_later(change: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert has("DataLoader(data, 4, shuffle=True)", read=READ + change) is expected
