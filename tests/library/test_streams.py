"""The table of what queues work on CUDA streams."""

from __future__ import annotations

import pytest
import torch

from codemods.library.streams import CAPTURES, has_own_streams


@pytest.mark.parametrize(
    ("name", "has"),
    [("cupy", True), ("numba.cuda", True), ("nvidia.dali", True), ("numpy", False), ("torch.cuda", False)],
)
def test_packages_with_streams_of_their_own(name: str, has: bool) -> None:  # noqa: FBT001 - a column of the table
    assert has_own_streams(name) is has


def test_what_captures_is_there() -> None:
    assert [name for name in CAPTURES if not hasattr(torch.cuda, name.rpartition(".")[2])] == []
