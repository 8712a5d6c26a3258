"""Which objects of libraries hand out arrays."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.array_sources import (
    drawn,
    format_of,
    from_file,
    is_archive,
    is_frame,
    is_image,
    is_number,
    joins_arrays,
    least_axes,
)
from codemods.facts.data.array_values import Array

HEAD = """\
import math
import numpy as np
import pandas as pd
import torch
from PIL import Image
frame = pd.read_csv("rows.csv")
image = Image.open("one.png")
x = torch.zeros(3)
"""


def last(text: str) -> tuple[object, ...]:
    """The flow and the module of a script, and the expression that it ends with."""
    known = script(HEAD + text)
    return known.flow, known.module, known.module.tree.body[-1].value  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("frame", "frame", id="a table"),
        pytest.param("frame['a']", "frame", id="a column"),
        pytest.param("frame.iloc[:, 1:]", "frame", id="a part"),
        pytest.param("image", "image", id="an image"),
        pytest.param("image.convert('L')", "image", id="an image that is converted"),
        pytest.param("x", "", id="a tensor"),
    ],
)
def test_tables_and_images(text: str, expected: str) -> None:
    flow, _, node = last(text)

    assert is_frame(flow, node) is (expected == "frame")  # type: ignore[arg-type]
    assert is_image(flow, node) is (expected == "image")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("np.load('data.npz')", True, id="by its name"),
        pytest.param("np.load(path)", False, id="perhaps an array"),
        pytest.param("data = np.load(path)\nprint(data.files)\ndata", True, id="it is asked for its arrays"),
        pytest.param("with np.load(path) as data:\n    pass\ndata", True, id="it is closed"),
        pytest.param("data = np.load(path)\ndata = 3\nprint(data.files)\ndata", False, id="perhaps something else"),
    ],
)
def test_archives(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert is_archive(*last(text)) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("3", True, id="written out"),
        pytest.param("2 * math.pi", True, id="computed of a constant"),
        pytest.param("x", False, id="a tensor"),
        pytest.param("unknown", False, id="not known"),
    ],
)
def test_numbers(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    flow, _, node = last(text)

    assert is_number(flow, node) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("np.float32", "float32"),
        ("'float32'", "float32"),
        ("float", "float64"),
        ("torch.float", "float32"),
        ("torch.long", "int64"),
        ("np.single", "float32"),
        ("given", None),
    ],
)
def test_the_format_that_a_dtype_names(text: str, expected: str | None) -> None:
    flow, _, node = last(text)

    assert format_of(flow, node) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "expected"), [("np.stack", True), ("np.array", False), ("list", False)])
def test_functions_that_join_arrays(text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    flow, _, node = last(text)

    assert isinstance(node, ast.expr)
    assert joins_arrays(flow, node) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("np.random.rand(3)", Array("float64", is_new=True, has_axes=True, is_dense=True), id="a size"),
        pytest.param("np.random.rand()", None, id="a number"),
        pytest.param("np.random.normal(size=())", Array("float64", is_new=True, is_dense=True), id="perhaps a number"),
        pytest.param("np.random.normal(size=None)", None, id="no size"),
    ],
)
def test_what_is_drawn(text: str, expected: Array | None) -> None:
    flow, _, node = last(text)

    assert isinstance(node, ast.Call)
    assert drawn(flow, f"random.{node.func.attr}", node) == expected  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("np.load('a.npy')", Array(None, is_new=True, is_dense=True, is_read=True), id="load"),
        pytest.param("np.load('a.npy', mmap_mode='r')", None, id="mapped"),
        pytest.param("np.load('a.npy', 'r')", None, id="mapped, by position"),
        pytest.param("np.loadtxt('a')", Array("float64", is_new=True, is_dense=True, is_read=True), id="by default"),
        pytest.param(
            "np.loadtxt('a', dtype=np.float32)",
            Array("float32", is_new=True, is_dense=True, is_read=True),
            id="as told",
        ),
    ],
)
def test_what_is_read_from_a_file(text: str, expected: Array | None) -> None:
    flow, _, node = last(text)

    assert isinstance(node, ast.Call)
    assert from_file(flow, node.func.attr, node) == expected  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        pytest.param("4", 1, id="a number"),
        pytest.param("n", 0, id="what is not seen"),
        pytest.param("()", 0, id="a single number"),
        pytest.param("(n, 4)", 2, id="a tuple"),
        pytest.param("[n]", 1, id="a list"),
        pytest.param("(*n, 4)", 1, id="one that another is unpacked into"),
        pytest.param("(n, 4) + x.shape", 2, id="one that is longer"),
        pytest.param("n + 4", 0, id="a sum of numbers, or not"),
    ],
)
def test_the_fewest_dimensions_of_a_shape(shape: str, expected: int) -> None:
    assert least_axes(ast.parse(shape, mode="eval").body) == expected
