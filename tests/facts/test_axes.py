from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.axes import Axes

GIVEN = """\
import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

table = [[float(each) for each in line.split(",")] for line in open("table.csv")]
x = np.array(table, dtype=np.float32)
frame = pd.read_csv("table.csv")
"""


def most(code: str) -> int | None:
    """Of what the last assignment gives."""
    found = script(GIVEN + code)
    last = list(found.module.nodes(ast.Assign))[-1]
    return Axes(found.flow).most(found.module, last.value)


@pytest.mark.parametrize(
    ("array", "axes"),
    [
        pytest.param("x", 2, id="lists of numbers in a list"),
        pytest.param("np.array([1, 2])", 1, id="numbers"),
        pytest.param("np.array([len(each) for each in table])", 1, id="numbers that are computed"),
        pytest.param("np.array([1 if each else -1 for each in table])", 1, id="one of two numbers"),
        pytest.param("torch.tensor(x, dtype=torch.float32)", 2, id="a tensor of an array"),
        pytest.param("x.T", 2, id="transposed"),
        pytest.param("x[:9]", 2, id="some rows"),
        pytest.param("x[:, 0]", 2, id="no more than before"),
        pytest.param("x[1:, -1]", 2, id="counted from the end"),
        pytest.param("x[np.random.permutation(len(x))]", 2, id="shuffled"),
        pytest.param("np.random.permutation(len(x))", 1, id="the order"),
        pytest.param("np.random.permutation(x)", 2, id="rows in another order"),
        pytest.param("(x - x.mean(axis=0)) / -x.std(axis=0)", 2, id="computed"),
        pytest.param("x.astype('int64')", 2, id="in another format"),
        pytest.param("np.array(frame.values)", 2, id="a table of pandas"),
        pytest.param("torch.tensor(frame['age'].values)", 2, id="a column of pandas"),
        pytest.param("frame['age'].values.astype('float32')", 2, id="a column in another format"),
        pytest.param("frame['age'].to_numpy()", 2, id="a column of it, which has fewer"),
        pytest.param("np.loadtxt('x.txt')", 2, id="a text file"),
        pytest.param("x[np.array([1, 2]) == 1]", 2, id="rows that are chosen by a mask of one axis"),
        pytest.param("StandardScaler().fit_transform(x)", 2, id="scaled"),
        pytest.param("StandardScaler().fit(x).transform(frame)", 2, id="scaled by what another table taught"),
        pytest.param("StandardScaler().fit_transform(frame[['age']])", 2, id="a table that is scaled"),
    ],
)
def test_knows_the_most(array: str, axes: int) -> None:
    assert most(f"answer = {array}\n") == axes


@pytest.mark.parametrize(
    "array",
    [
        pytest.param("np.load('x.npy')", id="a file of any array"),
        pytest.param("np.array([each for each in table])", id="items that are not known"),
        pytest.param("np.array([line.split(',') for line in open('f')])", id="lists that a method returns"),
        pytest.param("np.array([])", id="nothing"),
        pytest.param("x[:, None]", id="an axis is added"),
        pytest.param("x[None]", id="an axis is added before"),
        pytest.param("x[:, -x]", id="an array that is computed"),
        pytest.param("x[np.array([[0, 1]])]", id="an index of two axes"),
        pytest.param("x.reshape(-1, 2, 2)", id="another shape"),
        pytest.param("np.array(table, ndmin=3)", id="axes are asked for"),
        pytest.param("np.loadtxt('x.txt', ndmin=2)", id="axes are asked for of a file"),
        pytest.param("torch.tensor(x).max(0)", id="a tuple"),
        pytest.param("[[1, 2]]", id="a list is no array"),
        pytest.param("frame", id="a table is no array"),
        pytest.param("frame['age'].values", id="a column may have an array of pandas' own"),
        pytest.param("np.array(x if table else frame)", id="an array of one of two things"),
        pytest.param("table * 2", id="nor is a list that is repeated"),
        pytest.param("x if table else table", id="one of two things"),
        pytest.param("x[x[:, 0] > 0.5]", id="a mask that may have two axes"),
        pytest.param("np.random.permutation(x=9)", id="arguments by name"),
        pytest.param("StandardScaler().set_output(transform='pandas').fit_transform(x)", id="scaled tables of pandas"),
        pytest.param("StandardScaler().fit_transform(something)", id="what is scaled may be sparse"),
    ],
)
def test_does_not_guess(array: str) -> None:
    assert most(f"answer = {array}\n") is None


def test_follows_names_lists_and_what_functions_return() -> None:
    code = """\
def load(lines):
    rows, codes = [], []
    for line in lines:
        rows.append([float(each) for each in line])
    for column in zip(*lines):
        numbers = {value: number for number, value in enumerate(sorted(set(column)))}
        codes.append([numbers[value] for value in column])
    return np.array(rows), np.array(codes).T


a, b = load(open("f"))
a = a / 255
answer = RESULT
"""
    assert most(code.replace("RESULT", "a")) == 2
    assert most(code.replace("RESULT", "b")) == 2
    assert most(code.replace("np.array(codes).T", "np.array(codes)[None]").replace("RESULT", "b")) is None
    assert most(code.replace("enumerate(sorted(set(column)))", "column").replace("RESULT", "b")) is None
    assert (
        most(code.replace("    return", "    if not rows:\n        return\n    return").replace("RESULT", "a")) is None
    )
    assert most(code.replace("def load", "@cache\ndef load").replace("RESULT", "a")) is None


def test_what_a_loop_gives_to_a_name_counts() -> None:
    assert most("y = x\nfor _ in range(3):\n    y = y / 2\nanswer = y\n") == 2
    assert most("y = x\nfor _ in range(3):\n    y = y[None]\nanswer = y\n") is None


def test_follows_a_split() -> None:
    code = "a, b, c, d = train_test_split({})\nanswer = {}\n"
    assert most(code.format("x, x[:, 0].astype('int64'), test_size=0.2", "b")) == 2
    assert most(code.format("x, np.array([1, 2])", "d")) == 1
    assert most(code.format("x, table", "c")) is None
    assert most(code.format("x, frame['age'].values", "d")) is None
    assert most(code.format("*both", "a")) is None


def test_follows_attributes_to_what_calls_give() -> None:
    code = """\
class Rows:
    def __init__(self, x):
        self.x = x

    def row(self):
        return self.x


Rows({})
"""
    for given, axes in (("x", 2), ("np.load('x.npy')", None)):
        found = script(GIVEN + code.format(given))
        (attribute,) = (each for each in found.module.nodes(ast.Attribute) if ast.unparse(each) == "self.x" and
                        isinstance(each.ctx, ast.Load))  # fmt: skip
        assert Axes(found.flow).most(found.module, attribute) == axes
