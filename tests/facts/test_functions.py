"""Functions whose result is more than a name."""

from __future__ import annotations

import pytest
from probe import answers

HEAD = """\
import argparse, collections, copy, functools, importlib, itertools
from collections import defaultdict, namedtuple
from types import SimpleNamespace
import torch
from torch import nn
a, b = 1, 'b'
class Thing:
    pass
thing = Thing()
def double(x):
    return x
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("answer = copy.deepcopy(thing)", {"a Thing"}, id="a copy"),
        pytest.param("for answer in itertools.chain([a], [b]):\n    pass\nanswer = answer", {"1", "'b'"}, id="chain"),
        pytest.param("answer = list(enumerate([a]))[0][1]", {"1"}, id="enumerate"),
        pytest.param("answer = list(zip([a], [b]))[0][1]", {"'b'"}, id="zip"),
        pytest.param("answer = next(iter([a]), b)", {"1", "'b'"}, id="next with a default"),
        pytest.param("answer = dict(x=a)['x']", {"1"}, id="a dictionary by names"),
        pytest.param("answer = dict([('x', a)])['x']", {"1"}, id="a dictionary of pairs"),
        pytest.param("answer = list(map(double, [a]))[0]", {"1"}, id="map"),
        pytest.param("answer = list(filter(None, [a]))[0]", {"1"}, id="filter"),
        pytest.param("answer = int(3)", {"3"}, id="a number of one"),
        pytest.param("answer = int(input())", {"plain"}, id="a number of a text"),
        pytest.param("answer = sum([torch.ones(1)])", {"tensor"}, id="a sum of what may be tensors"),
        pytest.param("answer = sum(range(3))", {"plain"}, id="a sum of numbers"),
        pytest.param("answer = sum([library(a)])", {"tensor"}, id="a sum of what a container holds"),
        pytest.param("answer = round(0.5)", {"plain"}, id="a number that is rounded"),
        pytest.param("thing.x = a\nanswer = getattr(thing, 'x')", {"1"}, id="getattr"),
        pytest.param("setattr(thing, 'x', a)\nanswer = thing.x", {"1"}, id="setattr"),
        pytest.param("answer = getattr(torch.optim, name)", {"torch.optim.?"}, id="one of a module's, whichever"),
        pytest.param("answer = functools.partial(double)(a)", {"1"}, id="a function with some arguments"),
        pytest.param("answer = functools.partial(nn.LayerNorm, eps=1e-6)(4)", {"torch.nn.LayerNorm()"}, id="a layer"),
        pytest.param("answer = SimpleNamespace(x=a).x", {"1"}, id="a namespace"),
        pytest.param("Pair = namedtuple('Pair', 'x y')\nanswer = Pair(a, b).y", {"'b'"}, id="a named tuple"),
        pytest.param("held = defaultdict(list)\nheld['x'].append(a)\nanswer = held['y'][0]", {"1"}, id="defaultdict"),
        pytest.param("answer = eval('a')", {"unknown: eval() is not followed"}, id="what is not followed"),
        pytest.param(
            "answer = torch.utils.data.random_split(thing, [1, 2])[0]",
            {"torch.utils.data.Subset()"},
            id="a part of data",
        ),
    ],
)
def test_what_a_function_returns(text: str, expected: set[str]) -> None:
    assert answers(HEAD + text)[-1] == expected


def test_a_module_by_its_name() -> None:
    assert answers(f"{HEAD}answer = importlib.import_module('nets').size\n", nets="size = 3\n") == [{"3"}]


def test_what_another_process_runs_is_given_its_arguments() -> None:
    text = "def work(rank, x):\n    answer = x\ntorch.multiprocessing.spawn(work, args=(a,))\n"

    assert answers(HEAD + text) == [{"1"}]
