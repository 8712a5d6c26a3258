"""Tensors that are filled alike on each device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from codemods.library.fills import (
    EXACT_IN_EACH_FORMAT,
    FILLING,
    SHARING,
    counts,
    fills,
    is_alike,
    is_constant,
    is_legacy,
    is_of_numbers,
    is_tensor_type,
    keeps_triangle,
    makes_array,
    spaces,
)


@pytest.mark.parametrize("name", ["zeros", "ones", "full", "empty", "eye"])
def test_what_fills(name: str) -> None:
    assert fills(f"torch.{name}")


@pytest.mark.parametrize("name", ["rand", "randn", "tensor", "linspace", "zeros_like", "arange"])
def test_what_does_not_fill(name: str) -> None:
    assert not fills(f"torch.{name}")


@pytest.mark.parametrize("name", ["zeros", "ones", "eye", "tensor", "arange", "linspace", "tril"])
def test_what_is_the_same_each_time(name: str) -> None:
    assert is_constant(f"torch.{name}")
    assert hasattr(torch, name)


@pytest.mark.parametrize("name", ["empty", "rand", "zeros_like", "FloatTensor", "from_numpy"])
def test_what_is_not_the_same_each_time(name: str) -> None:
    assert not is_constant(f"torch.{name}")


@pytest.mark.parametrize("name", ["zeros", "ones", "eye"])
@pytest.mark.parametrize("number_format", [torch.float64, torch.float16, torch.int64, torch.bool])
def test_a_cast_gives_what_is_made_in_the_format(name: str, number_format: torch.dtype) -> None:
    made = getattr(torch, name)

    assert f"torch.{name}" in EXACT_IN_EACH_FORMAT
    assert torch.equal(made(4).to(number_format), made(4, dtype=number_format))


def test_a_number_is_rounded_twice_by_a_cast() -> None:
    assert "torch.full" not in EXACT_IN_EACH_FORMAT
    assert torch.full((1,), 0.1).to(torch.float64) != torch.full((1,), 0.1, dtype=torch.float64)


@pytest.mark.parametrize("method", sorted(FILLING | {"view", "long", "tril", "repeat"}))
def test_methods_of_tensors_are_meant(method: str) -> None:
    assert is_alike(method)
    assert hasattr(torch.Tensor, method)
    assert not is_alike("exp")


@pytest.mark.parametrize(
    ("name", "predicate"),
    [
        ("torch.arange", counts),
        ("torch.linspace", spaces),
        ("torch.FloatTensor", is_legacy),
        ("torch.tril", keeps_triangle),
    ],
)
def test_each_function_is_of_one_sort(name: str, predicate: object) -> None:
    sorts = [counts, spaces, is_legacy, keeps_triangle, fills]

    assert [each for each in sorts if each(name)] == [predicate]


@pytest.mark.parametrize("method", sorted(SHARING - {"expand_as"}))
def test_what_shares_elements_is_not_meant(method: str) -> None:
    shared = getattr(torch.zeros(1, 2), method)((3, 2))
    shared[0] = 1

    assert shared.sum() == 6
    assert not is_alike(method)


def test_what_is_made_of_numbers_is_told_from_what_is_made_of_sizes() -> None:
    assert is_of_numbers("torch.tensor")
    assert not is_of_numbers("torch.zeros")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("zeros", (3,)),
        ("full", (3, 2.0)),
        ("eye", (2,)),
        ("arange", (4,)),
        ("array", ([1, 2],)),
        ("linspace", (0, 1, 3)),
    ],
)
def test_numpy_makes_the_same_array_each_time(name: str, arguments: tuple[object, ...]) -> None:
    assert makes_array(f"numpy.{name}")
    assert (getattr(np, name)(*arguments) == getattr(np, name)(*arguments)).all()


@pytest.mark.parametrize("name", ["numpy.empty", "numpy.random.rand", "torch.zeros", "numpy.asarray"])
def test_what_makes_no_such_array(name: str) -> None:
    assert not makes_array(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.FloatTensor", True),
        ("torch.cuda.FloatTensor", True),
        ("torch.cuda.Stream", False),
        ("FloatTensor", False),
    ],
)
def test_tensor_types_are_for_the_host_or_for_cuda(name: str, *, expected: bool) -> None:
    assert is_tensor_type(name) is expected
