"""The table of what waits and tidies up, held against Python and the installed torch."""

from __future__ import annotations

import gc
import importlib
import weakref

import pytest
import torch

from codemods.library.idling import SEES_COLLECTION, STEERS_COLLECTION, Pause, names, pause, reads_memory


@pytest.mark.parametrize("name", sorted(names()))
def test_what_is_named_is_there(name: str) -> None:
    package, _, last = name.rpartition(".")

    assert callable(getattr(importlib.import_module(package), last))


def test_what_steers_collection_is_there() -> None:
    assert [each for each in STEERS_COLLECTION if not hasattr(gc, each.removeprefix("gc."))] == []


def test_what_sees_it_is_there() -> None:
    assert [each for each in SEES_COLLECTION if not hasattr(weakref, each.removeprefix("weakref."))] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.cuda.empty_cache", Pause.CACHE),
        ("gc.collect", Pause.COLLECTION),
        ("torch.cuda.synchronize", Pause.WAIT),
        ("torch.cuda.is_available", None),
    ],
)
def test_what_pauses(name: str, kind: Pause | None) -> None:
    assert pause(name) is kind


def test_what_torch_says_of_memory_is_read_memory() -> None:
    said = [
        each
        for each in dir(torch.cuda)
        if "memory_" in each and not each.startswith(("_", "set_", "reset_", "get_per"))
    ]

    assert [each for each in said if not reads_memory(f"torch.cuda.{each}")] == []


@pytest.mark.parametrize(
    ("name", "reads"),
    [("psutil.virtual_memory", True), ("torch.cuda.memory_allocated", True), ("torch.cuda.empty_cache", False)],
)
def test_what_reads_memory(name: str, reads: bool) -> None:  # noqa: FBT001 - a column of the table
    assert reads_memory(name) is reads
