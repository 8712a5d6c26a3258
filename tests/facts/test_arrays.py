"""Which expressions are NumPy arrays, of which number format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.data.arrays import Arrays

if TYPE_CHECKING:
    from codemods.facts.data.array_values import Array

HEAD = """\
import h5py
import numpy as np
import pandas as pd
import torch
from PIL import Image
def doubled(a):
    return a * 2
def either(flag):
    return np.zeros(3) if flag else [0, 1]
def made():
    return np.ones((2, 2), dtype=np.float32)
a = np.zeros((4, 3))
b = np.arange(5)
narrow = np.zeros(4, dtype=np.float32)
maker = np.zeros if torch else list
"""


def array(expression: str, before: str = "", **others: str) -> Array | None:
    known = script(f"{HEAD}{before}\n{expression}\n", **others)
    return Arrays(known.flow).array(known.module, known.module.tree.body[-1].value)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expression", "format_"),
    [
        ("np.zeros(3)", "float64"),
        ("np.zeros(3, dtype=np.float32)", "float32"),
        ("np.zeros(3, np.int64)", "int64"),
        ("np.random.randn(3, 4)", "float64"),
        ("a", "float64"),
        ("a + 1", "float64"),
        ("a.astype(np.float32)", "float32"),
        ("a.astype('int64')", "int64"),
        ("a[1:]", "float64"),
        ("a.T", "float64"),
        ("-a", "float64"),
        ("made()", "float32"),
        ("np.array(a)", "float64"),
        ("np.tile(a, [size, 1])", "float64"),
        ("np.tile(np.zeros(3, np.int64), size)", "int64"),
        ("np.repeat(narrow, size, axis=0)", "float32"),
        ("np.tile(b, [size, 1])", None),
        ("np.load('x.npy')", None),
        ("a.astype(choose())", None),
        ("b", None),
    ],
)
def test_what_is_an_array(expression: str, format_: str | None) -> None:
    found = array(expression)

    assert found is not None
    assert found.format == format_


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("[1, 2]", id="a list"),
        pytest.param("torch.zeros(3)", id="a tensor"),
        pytest.param("unknown", id="a name that is not known"),
        pytest.param("either(1)", id="a function that may return a list"),
        pytest.param("np.zeros(3, out=a)", id="another array is written into"),
        pytest.param("maker(3)", id="one of two functions"),
        pytest.param("pd.read_csv('x')", id="a table"),
        pytest.param("np.repeat(torch.zeros(3), 2)", id="a tensor repeated"),
        pytest.param("np.argsort(torch.zeros(3))", id="a tensor sorts itself"),
        pytest.param("h5py.File('x')['a']['b']", id="a group or a data set of a file"),
        pytest.param("np.repeat(choose(), 2)", id="something repeated that may have such a method"),
    ],
)
def test_what_may_be_something_else(expression: str) -> None:
    assert array(expression) is None


@pytest.mark.parametrize(
    ("expression", "is_new"),
    [
        ("np.zeros(3)", True),
        ("a + 1", True),
        ("a", False),
        ("a[1:]", False),
        ("a[0]", False),
        ("a[b]", True),
        ("a[[0, 2]]", True),
        ("a[:, b]", True),
        ("a[np.random.choice(4, 2, replace=False)]", True),
        ("a[np.random.choice(4)]", False),
        ("a[choose()]", False),
        ("a[b][1:]", True),
        ("a.reshape(3, 4)", False),
        ("a.copy()", True),
        ("np.array(a)", True),
        ("np.tile(a, [size, 1])", True),
        ("np.asarray(a)", False),
        ("np.asarray(torch.zeros(3))", False),
        ("np.asarray(choose())", False),
        ("np.asarray(choose()) * 2", True),
        ("np.asarray([1, 2])", True),
        ("a.astype(np.float32)", True),
        ("pd.read_csv('x').values", False),
    ],
)
def test_whether_its_memory_is_new(expression: str, is_new: bool) -> None:  # noqa: FBT001 - the expectation itself
    found = array(expression)

    assert found is not None
    assert found.is_new is is_new


@pytest.mark.parametrize(
    ("expression", "flag", "expected"),
    [
        ("np.load('x.npy')", "is_read", True),
        ("np.zeros(3)", "is_read", False),
        ("np.zeros(3)", "has_axes", True),
        ("np.zeros(())", "has_axes", False),
        ("np.asarray([1, 2])", "has_axes", True),
        ("np.asarray(choose())", "has_axes", False),
        ("np.asarray(choose()).reshape(-1, 1)", "has_axes", True),
        ("np.asarray(choose()).reshape(size, size)", "has_axes", True),
        ("np.asarray(choose()).reshape(-1)", "has_axes", True),
        ("np.asarray(choose()).reshape((size,))", "has_axes", True),
        ("1 - np.asarray(choose()).reshape(-1, 1)", "has_axes", True),
        ("np.asarray(choose()).reshape(size)", "has_axes", False),
        ("np.asarray(choose()).reshape(())", "has_axes", False),
        ("np.asarray(choose()).reshape(*size)", "has_axes", False),
        ("np.asarray(choose()).reshape(*size, *size)", "has_axes", False),
        ("np.asarray(choose()).squeeze()", "has_axes", False),
        ("np.squeeze(a)", "has_axes", False),
        ("np.ravel(a)", "has_axes", True),
        ("np.asarray(choose()).transpose(2, 0, 1)", "has_axes", True),
        ("np.asarray(choose()).transpose((1, 0))[0]", "has_axes", True),
        ("np.asarray(choose()).transpose(*size)", "has_axes", False),
        ("np.asarray(choose()).transpose(size)", "has_axes", False),
        ("a[0].transpose()", "has_axes", True),
        ("np.expand_dims(np.asarray(choose()), 0)", "has_axes", True),
        ("np.swapaxes(np.asarray(choose()), 0, 1)", "has_axes", True),
        ("np.asarray(choose()).swapaxes(0, 1)", "has_axes", True),
        ("np.transpose(np.asarray(choose()))", "has_axes", False),
        ("np.random.permutation(size)[:2]", "has_axes", True),
        ("a[np.random.permutation(4)[:2]]", "is_new", True),
        ("np.argsort(b)", "has_axes", True),
        ("np.argpartition(b, size)[:2]", "has_axes", True),
        ("a[0] / 255", "is_float", True),
        ("np.asarray(choose()) / 2", "is_float", True),
        ("np.asarray(choose()) * 0.5", "is_float", True),
        ("a * 2", "is_float", True),
        ("np.asarray(choose()) * 2", "is_float", False),
        ("np.asarray(choose()) // 2", "is_float", False),
        ("np.asarray(choose()).mean()", "is_float", True),
        ("np.asarray(choose()).max()", "is_float", False),
        ("np.array(h5py.File('x')['a'])", "is_read", True),
        ("np.array(h5py.File('x')['a'])", "has_axes", False),
        ("h5py.File('x')['a'][:]", "has_axes", True),
        ("h5py.File('x')['a'][0, 2:]", "is_read", True),
        ("a[0]", "has_axes", True),
        ("a[np.random.randint(4, size=size)]", "has_axes", True),
        ("a[1:][0]", "has_axes", True),
        ("a[0][0]", "has_axes", False),
        ("a[0, 0]", "has_axes", False),
        ("a[place()]", "has_axes", False),
        ("a.ravel()[0]", "has_axes", False),
        ("narrow[0]", "has_axes", False),
        ("np.zeros((size, 2) + size[1:])", "has_axes", True),
        ("np.zeros(3 + 4)", "has_axes", False),
        ("np.zeros((*size,))", "has_axes", False),
        ("np.zeros(3)", "is_dense", True),
        ("a[:, 1]", "is_dense", False),
        ("np.asarray(Image.open('x'))", "is_locked", True),
        ("np.array(Image.open('x'))", "is_locked", False),
    ],
)
def test_what_else_is_known(expression: str, flag: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    found = array(expression)

    assert found is not None
    assert getattr(found, flag) is expected


def test_a_name_that_is_bound_to_something_else_is_named_as_the_obstacle() -> None:
    known = script(f"{HEAD}if torch:\n    c = a\nelse:\n    c = load()\nc\n")
    arrays = Arrays(known.flow)

    assert arrays.array(known.module, known.module.tree.body[-1].value) is None  # type: ignore[attr-defined]
    assert arrays.obstacle is not None


def test_a_parameter_is_what_all_calls_give() -> None:
    assert array("doubled(a)") is not None
    assert array("doubled(a)", "doubled([1])") is None


def test_a_function_of_another_module_makes_it() -> None:
    other = "import numpy as np\ndef make():\n    return np.zeros(3)\n"

    assert array("other.make()", "import other", other=other) is not None


@pytest.mark.parametrize(
    ("made", "has_axes"),
    [
        pytest.param("gym.vector.SyncVectorEnv([make])", True, id="several environments"),
        pytest.param(
            8 * "gym.wrappers.RecordEpisodeStatistics(" + "gym.vector.SyncVectorEnv([make])" + 8 * ")",
            True,
            id="however often they are wrapped",
        ),
        pytest.param(8 * "gym.wrappers.Any(" + "gym.make('CartPole-v1')" + 8 * ")", False, id="one environment"),
    ],
)
def test_rewards_of_several_environments(made: str, has_axes: bool) -> None:  # noqa: FBT001 - the expectation
    found = array("rewards", f"import gym\nenvs = {made}\nnext_, rewards, done, info = envs.step(0)")

    assert (found is not None and found.has_axes) is has_axes
