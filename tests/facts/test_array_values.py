"""What is known of an array, and of what is made of several."""

from __future__ import annotations

import ast

import pytest

from codemods.facts.data.array_values import Array, all_dense, any_axes, any_of, computed, is_laid_out, same_float

FLOATS = Array("float32", is_new=True, has_axes=True, is_dense=True)
INTEGERS = Array("int64", is_dense=True)
READ = Array("float32", is_read=True)


def test_what_is_computed_is_new_and_of_numbers_that_were_read() -> None:
    found = computed("float32", [FLOATS, None, READ])

    assert found == Array("float32", is_new=True, has_axes=True, is_dense=True, is_read=True)


def test_one_of_several_has_what_all_of_them_have() -> None:
    owner = ast.Name("x")

    assert any_of([FLOATS, FLOATS], owner) == Array("float32", owner=owner, has_axes=True, is_dense=True)
    assert any_of([FLOATS, INTEGERS], owner) == Array(None, owner=owner, is_dense=True)
    table = FLOATS._replace(has_several_axes=True)
    assert any_of([table, table], owner).has_several_axes
    assert not any_of([table, FLOATS], owner).has_several_axes
    assert any_of([FLOATS, READ], owner) == Array("float32", owner=owner, is_read=True)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [([FLOATS, READ], "float32"), ([FLOATS, INTEGERS], None), ([INTEGERS], None), ([FLOATS, None], None)],
)
def test_the_floating_point_format_of_all(arrays: list[Array | None], expected: str | None) -> None:
    assert same_float(arrays) == expected


def test_gaps_and_axes() -> None:
    assert all_dense([FLOATS, INTEGERS])
    assert not all_dense([FLOATS, None])
    assert any_axes([None, INTEGERS, FLOATS])
    assert not any_axes([None, INTEGERS])
    assert is_laid_out("ascontiguousarray", READ)
    assert not is_laid_out("squeeze", READ)
