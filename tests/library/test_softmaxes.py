"""Softmaxes and their logarithms, held against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from codemods.library.softmaxes import LAYER, LOG, LOGARITHMS, METHOD, METHOD_OF_BOTH


def found(name: str) -> Any:
    result: Any = torch
    for part in name.split(".")[1:]:
        result = getattr(result, part)
    return result


@pytest.mark.parametrize("name", LOGARITHMS)
def test_each_computes_the_logarithm_of_the_other(name: str) -> None:
    x = torch.randn(2, 3)
    one, other = found(name), found(LOGARITHMS[name])
    results = (one(1)(x).log(), other(1)(x)) if name == LAYER else (one(x, 1).log(), other(x, 1))

    assert torch.allclose(*results)


def test_the_methods_are_those_of_tensors() -> None:
    assert all(hasattr(torch.Tensor, name) for name in (LOG, METHOD, METHOD_OF_BOTH))
