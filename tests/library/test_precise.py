"""What needs precise products, held against the installed torch."""

from __future__ import annotations

from functools import reduce

import pytest
import torch

from codemods.library.precise import PRECISE_METHODS, functions, is_precise


@pytest.mark.parametrize("name", sorted(functions()))
def test_it_is_there(name: str) -> None:
    assert callable(reduce(getattr, name.split(".")[1:], torch))


@pytest.mark.parametrize("name", sorted(PRECISE_METHODS))
def test_tensors_have_the_method(name: str) -> None:
    assert callable(getattr(torch.Tensor, name))


@pytest.mark.parametrize("name", ["torch.linalg.norm", "torch.linalg.vector_norm", "torch.matmul", "solve"])
def test_what_loses_no_digits_is_not_among_them(name: str) -> None:
    assert not is_precise(name)
