"""Which modules run in one process, and what unit tests have to say in that."""

from __future__ import annotations

import pytest
from probe import script, shown

from codemods.dataflow.imports import is_test_file
from codemods.dataflow.source import Module

MODULES = {
    "train": "import shared\n",
    "second": "import shared, other\n",
    "tests": "import unittest\nimport train, other, shared\n\n\ndef test_it():\n    print(train, other, shared)\n",
    "shared": "",
    "other": "",
}


@pytest.mark.parametrize(
    ("of", "run", "expected"),
    [
        pytest.param("train", ["train", "tests"], ["shared", "train"], id="a unit test imports the script"),
        pytest.param("shared", ["train", "tests"], ["shared", "train"], id="and a module of the script"),
        pytest.param("other", ["tests"], ["other", "shared", "tests", "train"], id="only a unit test imports it"),
        pytest.param("tests", ["tests"], ["other", "shared", "tests", "train"], id="the unit test itself"),
        pytest.param("shared", ["train", "second"], ["other", "second", "shared", "train"], id="two scripts import it"),
    ],
)
def test_what_runs_in_one_process(of: str, run: list[str], expected: list[str]) -> None:
    flow = script("", **MODULES).flow
    by_name = {each.name: each for each in flow.modules}

    found = flow.together(by_name[of], [by_name[each] for each in run])

    assert sorted(each.name for each in found) == expected


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        pytest.param("test.py", "import unittest\ndef test_it(): pass\n", True, id="it imports a runner"),
        pytest.param("test.py", "from unittest import TestCase\ndef test_it(): pass\n", True, id="a part of one"),
        pytest.param("tests/test_it.py", "def test_it(): pass\n", True, id="it lies among tests"),
        pytest.param("test_it.py", "def test_it(): pass\n", False, id="a script that evaluates may be called so"),
        pytest.param("test.py", "def test(model): pass\n", False, id="a script that evaluates"),
        pytest.param("train.py", "from unittest import mock\ndef train(): pass\n", False, id="it has no tests"),
    ],
)
def test_which_modules_are_unit_tests(path: str, text: str, *, expected: bool) -> None:
    assert is_test_file(Module(path, text)) is expected


FIT = """\
import torch
def fit(options):
    answer = options.device
class Options:
    device = torch.device("cuda")
fit(Options())
"""


@pytest.mark.parametrize("mock", ["MagicMock()", "Mock(device='cpu')", "torch.device('cpu')"])
def test_a_mock_of_a_unit_test_says_nothing(mock: str) -> None:
    tests = "import torch\nfrom unittest.mock import MagicMock, Mock\nimport engine\ndef test_it():\n"
    known = script("", engine=FIT, tests=f"{tests}    engine.fit({mock})\n")
    engine = next(each for each in known.modules if each.name == "engine")
    (answer,) = engine.stores["answer"]

    is_one = [shown(each) for each in known.flow.values(answer)] == ["torch.device()"]
    assert is_one is ("ock" in mock)


def test_a_mock_of_a_script_is_not_known() -> None:
    known = script("from unittest.mock import Mock\nanswer = Mock()\n")
    (answer,) = known.module.stores["answer"]

    assert [shown(each) for each in known.flow.values(answer)] == ["unknown: Mock() is a mock"]
