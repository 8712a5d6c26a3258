"""Conditions by which a parameter, or a name of a loop, says whether code trains."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.chosen_training import branch_of, conditions


def chosen(loop: str, test: str, more: str = "pass") -> list[str]:
    """The conditions of a loop with one ``if``."""
    known = script(f"import torch\nfrom elsewhere import names\nfor {loop}:\n    if {test}:\n        {more}\n")
    scope = known.module.tree.body[-1]
    assert isinstance(scope, ast.For)
    return [ast.unparse(each) for each in conditions(known.flow, scope)]


@pytest.mark.parametrize(
    ("loop", "test"),
    [
        pytest.param("phase in ['train', 'val']", "phase == 'train'", id="a text"),
        pytest.param("phase in ['train', 'val']", "phase != 'val'", id="another text"),
        pytest.param("train in (True, False)", "train", id="a flag"),
        pytest.param("test in (True, False)", "not test", id="the contrary"),
        pytest.param("phase, n in [('train', 1), ('val', 2)]", "phase == 'train'", id="one of two names"),
        pytest.param("optimizer in [None, torch.optim.SGD([])]", "optimizer is not None", id="an object, or none"),
    ],
)
def test_it_is_true_or_false(loop: str, test: str) -> None:
    assert chosen(loop, test) == [test]


@pytest.mark.parametrize(
    ("loop", "test", "more"),
    [
        pytest.param("phase in ['train', 'val']", "phase == 'test'", "pass", id="no phase is called so"),
        pytest.param("phase in ['train']", "phase == 'train'", "pass", id="there is one phase"),
        pytest.param("phase in names", "phase == 'train'", "pass", id="they are not known"),
        pytest.param("phase in ['train', 'val']", "phase == 'train'", "phase = 'val'", id="it changes"),
        pytest.param("phase in ['train', 'val']", "phase", "pass", id="a text is no flag"),
        pytest.param("n in [1, 2]", "n == 1", "pass", id="a number"),
        pytest.param("phase in ['train', 'val']", "phase == 'train' and ready", "pass", id="another condition, too"),
        pytest.param("train in (True, True)", "train", "pass", id="always true"),
        pytest.param("phase in ['train', 'val']", "other == 'train'", "pass", id="another name"),
    ],
)
def test_it_does_not_choose(loop: str, test: str, more: str) -> None:
    assert chosen(loop, test, more) == []


def test_a_function_is_told_by_its_callers() -> None:
    known = script("def run(phase):\n    if phase == 'train':\n        pass\nrun('train')\nrun('val')\n")
    scope = known.module.tree.body[0]
    assert isinstance(scope, ast.FunctionDef)

    assert [ast.unparse(each) for each in conditions(known.flow, scope)] == ["phase == 'train'"]


def test_a_node_runs_under_a_condition() -> None:
    known = script("for phase in 'ab':\n    if phase == 'a':\n        one()\n    else:\n        two()\n    three()\n")
    loop = known.module.tree.body[0]
    calls = {ast.unparse(each): each for each in known.module.nodes(ast.Call)}
    found = {name: branch_of(known.module, call, "phase == 'a'", loop) for name, call in calls.items()}

    assert {name for name, branch in found.items() if branch is not None} == {"one()"}
