"""Which functions make arrays, of which number format and in whose memory, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from codemods.library import ndarrays

A = np.arange(1.0, 7.0).reshape(2, 3)
_BEFORE_DTYPE: dict[str, tuple[object, ...]] = {
    "zeros": (3,),
    "ones": (3,),
    "empty": (3,),
    "eye": (3, None, 0),
    "identity": (3,),
    "linspace": (0, 1, 5, True, False),
    "logspace": (0, 1, 5, True, 10.0),
}
_GIVEN: dict[str, tuple[object, ...]] = {
    "clip": (0, 3),
    "repeat": (2,),
    "tile": (2,),
    "reshape": ((3, 2),),
    "expand_dims": (0,),
    "moveaxis": (0, 1),
    "swapaxes": (0, 1),
    "astype": (np.float32,),
}
"""What a function or method is given after the array."""
_OF_TWO = {"power", "multiply", "add", "subtract", "divide", "logical_or", "logical_and", "maximum", "minimum"}


def called(name: str, array: np.ndarray[Any, Any]) -> Any:
    others = (array,) if name in _OF_TWO else _GIVEN.get(name, ())
    return getattr(np, name)(array, *others)


@pytest.mark.parametrize("name", sorted(ndarrays.FLOATS))
def test_floats_where_no_format_is_given(name: str) -> None:
    given = _BEFORE_DTYPE[name]

    assert len(given) == ndarrays.FLOATS[name]
    assert getattr(np, name)(*given).dtype == np.float64
    assert getattr(np, name)(*given, np.float32).dtype == np.float32


@pytest.mark.parametrize("name", sorted(ndarrays.CONSTRUCTORS))
def test_what_makes_new_arrays(name: str) -> None:
    given = {"full": ((2,), 1.0), "arange": (4.0,)}.get(name, ([A, A],))
    made = getattr(np, name)(*given)

    assert isinstance(made, np.ndarray)
    assert not np.shares_memory(made, A)


@pytest.mark.parametrize("name", sorted(ndarrays.RANDOM_FLOATS | ndarrays.RANDOM_OTHERS))
def test_what_is_drawn(name: str) -> None:
    draw = getattr(np.random, name.removeprefix("random."))
    position = (ndarrays.RANDOM_FLOATS | ndarrays.RANDOM_OTHERS)[name]
    before = {"normal": (0.0, 1.0), "uniform": (0.0, 1.0), "randint": (0, 9), "choice": (9,), "binomial": (9, 0.5)}
    given = before.get(name.removeprefix("random."), (3.0,))[:position]
    drawn = draw(*given, 4)

    assert isinstance(drawn, np.ndarray)
    assert (drawn.dtype == np.float64) is (name in ndarrays.RANDOM_FLOATS)
    assert not isinstance(draw(*given), np.ndarray)


@pytest.mark.parametrize("name", sorted(ndarrays.COMPUTE))
def test_what_makes_new_arrays_of_arrays(name: str) -> None:
    made = called(name, A)

    assert isinstance(made, np.ndarray)
    assert not np.shares_memory(made, A)


@pytest.mark.parametrize("times", [1, [2], np.int64(2), torch.tensor([2])], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("name", sorted(ndarrays.REPEATING))
def test_what_repeats_an_array_as_often_as_anything_says(name: str, times: object) -> None:
    ones = np.ones(3, dtype=np.int32)
    made = getattr(np, name)(ones, times)

    assert isinstance(made, np.ndarray)
    assert made.dtype == ones.dtype
    assert not np.shares_memory(made, ones)


@pytest.mark.parametrize("name", sorted(ndarrays.GIVE_FLOATS))
def test_what_gives_floats_also_of_integers(name: str) -> None:
    assert np.issubdtype(called(name, np.arange(1, 5)).dtype, np.floating)


@pytest.mark.parametrize("name", sorted(ndarrays.VIEWS))
def test_what_shares_memory(name: str) -> None:
    assert np.shares_memory(called(name, A), A)


@pytest.mark.parametrize("name", sorted(ndarrays.METHODS))
def test_whose_memory_a_method_returns(name: str) -> None:
    made = getattr(A, name)(*_GIVEN.get(name, ()))

    assert np.shares_memory(made, A) is (name in ndarrays.VIEW_METHODS)


@pytest.mark.parametrize("name", sorted(ndarrays.REDUCING))
def test_what_keeps_the_format_of_floats(name: str) -> None:
    assert getattr(A.astype(np.float32), name)().dtype == np.float32


@pytest.mark.parametrize("name", sorted(ndarrays.LAID_OUT))
def test_what_has_no_gaps(name: str) -> None:
    gaps, given = A[:, ::2], _GIVEN.get(name, ())
    made = getattr(np, name)(gaps) if name == "ascontiguousarray" else getattr(gaps, name)(*given)

    assert made.flags["C_CONTIGUOUS"]
