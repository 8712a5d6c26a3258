"""Which modules only a test runner runs."""

from __future__ import annotations

import pytest

from codemods.dataflow.collected import collected
from codemods.dataflow.source import Module

TEST = "def test_loss():\n    assert loss() > 0\n"


def found(**texts: str) -> set[str]:
    """The paths (``tests/a.py`` is given as ``tests__a``) of the modules that are collected."""
    modules = [Module(f"{name.replace('__', '/')}.py", text, name.replace("__", ".")) for name, text in texts.items()]
    return {each.path for each in collected(modules)}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param("test_net", TEST, True, id="a file of tests"),
        pytest.param("net_test", TEST, True, id="by its other name"),
        pytest.param("conftest", "import pytest\n", True, id="fixtures"),
        pytest.param("test_net", "class TestNet:\n    def test_it(self):\n        pass\n", True, id="tests in a class"),
        pytest.param("test_net", f"{TEST}test_loss()\n", True, id="it calls its tests itself"),
        pytest.param("test_net", "def evaluate():\n    pass\nevaluate()\n", False, id="a script that tests a model"),
        pytest.param("test_net", f"{TEST}for x in data:\n    print(x)\n", False, id="a script with a loop"),
        pytest.param("test_net", "x = 1\n", False, id="no tests"),
        pytest.param("net", TEST, False, id="another file"),
        pytest.param("latest_net", TEST, False, id="another word"),
    ],
)
def test_a_file_of_unit_tests(name: str, text: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert bool(found(**{name: text})) is expected


def test_what_else_lies_in_a_directory_of_tests() -> None:
    helper = "def make():\n    return 1\n"

    assert found(tests__test_net=TEST, tests__helper=helper, helper=helper) == {"tests/test_net.py", "tests/helper.py"}
    assert found(pkg__test_net=TEST, pkg__helper=helper) == {"pkg/test_net.py"}
    assert found(tests__helper=helper) == set()


def test_a_script_that_lies_there_is_run_by_the_user() -> None:
    assert found(tests__test_net=TEST, tests__train="def train():\n    pass\ntrain()\n") == {"tests/test_net.py"}
