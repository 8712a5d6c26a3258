"""Sigmoids, and the losses that take their logits, held against the installed torch."""

from __future__ import annotations

import importlib
import inspect

import pytest
import torch

from codemods.library.sigmoids import FUNCTIONS, METHOD, OF_LOGITS, RESHAPING


def named(name: str) -> object:
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last)


@pytest.mark.parametrize(("old", "new"), sorted(OF_LOGITS.items()))
def test_what_takes_logits_takes_the_same_arguments(old: str, new: str) -> None:
    before, after = (list(inspect.signature(named(each)).parameters) for each in (old, new))  # type: ignore[arg-type]

    assert after[: len(before)] == before


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_sigmoid_is_one(name: str) -> None:
    x = torch.linspace(-3, 3, 7)

    assert torch.equal(named(name)(x), getattr(x, METHOD)())  # type: ignore[operator]


@pytest.mark.parametrize("name", sorted(RESHAPING))
def test_a_method_that_changes_sizes_keeps_the_numbers(name: str) -> None:
    x = torch.linspace(-3, 3, 6).view(1, 6)
    given = {"view": (6,), "reshape": (6,), "unsqueeze": (0,), "view_as": (x.T,), "reshape_as": (x.T,)}

    changed = getattr(x, name)(*given.get(name, ()))

    assert torch.equal(changed.flatten().sigmoid(), x.sigmoid().flatten())
