"""Indices that Python counts in each pass."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.listed_indices import listed_indices

TEXT = """\
import torch
from torch import nn


class Pairs(nn.Module):
    def forward(self, x):
        x = x @ x.transpose(1, 2)
        _, n, _ = x.shape
        rows = ROWS
        return USE


model = Pairs()
for x in torch.randn(10, 8, 4, 4):
    model(x.cuda()).mean().backward()
"""
ROWS, USE = "torch.tensor([i for i in range(n) for j in range(i)])", "x[:, rows, 0]"


def found(rows: str = ROWS, use: str = USE, old: str = "", new: str = "") -> list[tuple[int, int]]:
    known = script(TEXT.replace("ROWS", rows).replace("USE", use).replace(old, new))
    return [(each.call.lineno, each.use.lineno) for each in listed_indices(known)]


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        "torch.tensor([j * 2 + 1 for i in range(n) for j in range(i)], dtype=torch.long)",
        "torch.LongTensor([i for i in range(n) if i % 2])",
    ],
)
def test_each_pass_counts_it(rows: str) -> None:
    assert found(rows) == [(9, 10)]


@pytest.mark.parametrize("use", ["x[rows]", "x[:, rows].sum() + x[:, :, rows].sum()"])
def test_where_it_is_an_index(use: str) -> None:
    assert found(use=use) == [(9, 10)]


@pytest.mark.parametrize(
    ("rows", "use"),
    [
        pytest.param("torch.tensor([i for i in range(n)], device=x.device)", USE, id="it is on the device already"),
        pytest.param("torch.tensor([f(i) for i in range(n)])", USE, id="a function computes it"),
        pytest.param("torch.tensor([n for i in range(n)])", USE, id="it is no number that is counted"),
        pytest.param("torch.tensor([i for i in x.tolist()])", USE, id="it is made of data"),
        pytest.param("[i for i in range(n)]", USE, id="a list"),
        pytest.param("torch.arange(n)", USE, id="torch counts it"),
        pytest.param(ROWS, "x + rows.sum()", id="it is no index"),
        pytest.param(ROWS, "x.cpu()[:, rows]", id="what is indexed is on the host"),
    ],
)
def test_nothing_is_counted_and_copied(rows: str, use: str) -> None:
    assert found(rows, use) == []


def test_what_runs_once() -> None:
    assert found(old="def forward(", new="def other(") == []


def test_without_a_gpu_nothing_is_copied() -> None:
    assert found(old=".cuda()", new="") == []
