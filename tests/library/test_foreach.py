"""torch's functions for lists, held against torch."""

from __future__ import annotations

import pytest
import torch

from codemods.library.foreach import METHODS, OPERATORS, is_exact, qualified, since

LISTED = sorted({name for names in METHODS.values() for name in names} | set(OPERATORS.values()))


@pytest.mark.parametrize("name", LISTED)
def test_torch_has_each_function(name: str) -> None:
    assert callable(getattr(torch, qualified(name).removeprefix("torch.")))
    assert since(name) >= (2, 0)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_tensors_have_each_method(name: str) -> None:
    assert callable(getattr(torch.Tensor, name))


def test_what_may_round_otherwise() -> None:
    assert [each for each in LISTED if not is_exact(each)] == ["div", "div_", "lerp_"]
