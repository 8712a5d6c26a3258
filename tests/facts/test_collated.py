"""What a collate function is given."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.collated import collated

DATA = """\
import torch
from torch.utils.data import DataLoader, Dataset, Subset


class Rows(Dataset):
    def __init__(self, n):
        self.rows = torch.randn(n, 3)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[each] for each in range(9)]
        if index > 3:
            return self.rows[index], index
        row = self.rows[0]
        return row, 0


def collate(batch):
    return torch.stack([each[0] for each in batch])


rows = Rows(9)
"""
LOADER = "loader = DataLoader(rows, batch_size=4, collate_fn=collate)\n"
ITEMS = ["(self.rows[index], index)", "(row, 0)"]


def given(text: str, **others: str) -> list[str]:
    made = script(text, **others)
    batches = [each for each in made.module.nodes(ast.Name) if each.id == "batch" and isinstance(each.ctx, ast.Load)]
    return [ast.unparse(each) for _, each in collated(made.flow, made.module, batches[0])]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(LOADER, id="by name"),
        pytest.param("DataLoader(rows, 4, False, None, None, 0, collate)\n", id="by position"),
        pytest.param("join = collate\nDataLoader(rows, collate_fn=join)\n", id="by another name"),
        pytest.param("DataLoader(rows, collate_fn=collate if len(rows) else None)\n", id="at times"),
        pytest.param(f"rows = Subset(rows, [1, 2])\n{LOADER}", id="a part of the data set"),
    ],
)
def test_what_getitem_returns_for_a_loader(end: str) -> None:
    assert given(DATA + end) == ITEMS


def test_the_data_sets_of_all_loaders_count() -> None:
    assert given(DATA + LOADER + LOADER) == ITEMS * 2


def test_a_sampler_may_ask_for_slices() -> None:
    sliced = "[self[each] for each in range(9)]"

    assert given(f"{DATA}DataLoader(rows, sampler=rows, collate_fn=collate)\n") == [sliced, *ITEMS]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(DATA, id="no loader is seen"),
        pytest.param(f"{DATA}{LOADER}print(collate([rows[0]]))\n", id="it is called elsewhere"),
        pytest.param(f"{DATA}{LOADER}list(map(collate, [[rows[0]]]))\n", id="it is handed on"),
        pytest.param(f"{DATA}{LOADER}call = {{'join': collate}}\n", id="it is kept in a dictionary"),
        pytest.param(f"{DATA}DataLoader(rows, batch_size=None, collate_fn=collate)\n", id="single items come"),
        pytest.param(f"{DATA}DataLoader(rows, collate_fn=collate, **options)\n", id="unknown arguments"),
        pytest.param(f"{DATA}{LOADER}DataLoader(load(), collate_fn=collate)\n", id="a data set that is not known"),
        pytest.param(
            f"{DATA}{LOADER}".replace(
                "    def __len__", "    def __getitems__(self, indices):\n        return 1\n\n    def __len__"
            ),
            id="whole batches are asked for",
        ),
        pytest.param(f"{DATA}{LOADER}".replace("        return row, 0", "        yield row"), id="it yields"),
        pytest.param(f"{DATA}{LOADER}".replace("        return row, 0", "        return"), id="nothing comes at times"),
        pytest.param(
            f"{DATA}{LOADER}".replace("(batch):\n", "(batch):\n    batch = [each for each in batch if each]\n").replace(
                "    batch = [each for each in batch if each]\n    return torch.stack([each[0] for each in batch])",
                "    print(batch)\n    batch = list(batch)",
            ),
            id="its name is bound anew",
        ),
        pytest.param(f"{DATA}{LOADER}".replace("(batch):", "(other, batch=None):"), id="another parameter"),
    ],
)
def test_what_is_not_known(text: str) -> None:
    assert given(text) == []
