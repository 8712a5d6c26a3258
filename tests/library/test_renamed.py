"""The deprecated names of mixed precision, held against the installed torch: they warn, and the new ones take the same."""

from __future__ import annotations

import importlib
import inspect

import pytest
import torch

from codemods.library.renamed import DEFAULT_FORMATS, PACKAGE, RENAMED


def named(name: str) -> object:
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last)


@pytest.mark.filterwarnings("ignore:.*CUDA is not available")
@pytest.mark.parametrize(("package", "name"), sorted(RENAMED))
def test_the_old_one_warns_and_the_new_one_is_told_the_device(package: str, name: str) -> None:
    row = RENAMED[package, name]
    old, new = named(f"{package}.{name}"), named(f"{PACKAGE}.{name}")
    given = (print,) if name.startswith("custom") else ()

    with pytest.warns(FutureWarning, match=rf"torch\.{row.device}\.amp"):
        old(*given)  # type: ignore[operator]
    taken = list(inspect.signature(new).parameters)  # type: ignore[arg-type]
    if row.takes_device_first:
        assert taken[0] in {"device", "device_type"}
        assert set(row.parameters) == set(taken[1:])
        assert (tuple(taken[1:]) == row.parameters) is row.keeps_order
    else:
        assert inspect.signature(new).parameters["device_type"].kind is inspect.Parameter.KEYWORD_ONLY  # type: ignore[arg-type]
        assert taken[: len(row.parameters)] == list(row.parameters)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_old_autocast_keeps_to_its_format_where_the_new_one_follows(device: str) -> None:
    other = torch.bfloat16 if device == "cuda" else torch.float16
    before = torch.get_autocast_dtype(device)
    torch.set_autocast_dtype(device, other)
    try:
        old = named(f"torch.{device}.amp.autocast")(enabled=False)  # type: ignore[operator]
        new = torch.amp.autocast(device, enabled=False)
    finally:
        torch.set_autocast_dtype(device, before)

    assert before is old.fast_dtype is getattr(torch, DEFAULT_FORMATS[device])
    assert new.fast_dtype is other
