"""Conditions by which a parameter, or a name of a loop, says whether code trains."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.chosen_training import branch_of, conditions, is_known_at, passes_over


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


@pytest.mark.parametrize(
    ("given", "body", "expected"),
    [
        pytest.param("True", "if not test:\n    step()", True, id="by position"),
        pytest.param("test=True", "if not test:\n    step()", True, id="by name"),
        pytest.param("", "if test:\n    step()", True, id="what it has by itself"),
        pytest.param("test=True", "if not test and x:\n    step()", True, id="one of two conditions fails"),
        pytest.param("test=True", "if test:\n    x\nelse:\n    step()", True, id="the other arm"),
        pytest.param("test=True", "if test:\n    return\nstep()", True, id="it returns before"),
        pytest.param(
            "test=True", "for y in x:\n    if test:\n        continue\n    step()", True, id="it goes on before"
        ),
        pytest.param("test='val'", "if test == 'train':\n    step()", True, id="a text"),
        pytest.param("test=None", "if test is not None:\n    step()", True, id="nothing"),
        pytest.param("test=False", "if not test:\n    step()", False, id="the contrary"),
        pytest.param("test=True", "if not test or x:\n    step()", False, id="another condition may hold"),
        pytest.param("test=flag", "if not test:\n    step()", False, id="no constant"),
        pytest.param("**flags", "if test:\n    step()", False, id="it may be among others"),
        pytest.param("test=True", "test = x\nif not test:\n    step()", False, id="it changes"),
        pytest.param("test=True", "if test:\n    x\nstep()", False, id="it goes on in any case"),
        pytest.param("test=True", "while not test:\n    x\nstep()", False, id="behind a loop"),
    ],
)
def test_a_call_passes_over(given: str, body: str, *, expected: bool) -> None:
    lines = "".join(f"    {each}\n" for each in body.splitlines())
    known = script(f"from elsewhere import flag, flags, step, x\ndef run(test=False):\n{lines}\nrun({given})\n")
    function = known.module.tree.body[1]
    assert isinstance(function, ast.FunctionDef)
    calls = {ast.unparse(each.func): each for each in known.module.nodes(ast.Call)}

    assert passes_over(known.flow, calls["run"], function, calls["step"]) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("train = phase == 'train'\n    if train:\n        pass", ["train"], id="a name for it"),
        pytest.param("train = phase == 'train'\n    if not train:\n        pass", [], id="the contrary of the name"),
        pytest.param("train = model is not None\n    if train:\n        pass", [], id="of something else"),
        pytest.param("train = phase == 'train' or ready\n    if train:\n        pass", [], id="of something else, too"),
        pytest.param("if train:\n        pass\n    train = phase == 'train'", [], id="of the run before"),
        pytest.param(
            "train = phase == 'train'\n    train = train and ready\n    if train:\n        pass",
            [],
            id="it is given twice",
        ),
        pytest.param(
            "if ready:\n        train = phase == 'train'\n    if train:\n        pass", [], id="it is given at times"
        ),
        pytest.param(
            "train = phase == 'train'\n    def stop():\n        global train\n        train = False\n    if train:\n        pass",
            [],
            id="a function changes it",
        ),
    ],
)
def test_a_condition_may_have_a_name(body: str, expected: list[str]) -> None:
    known = script(f"def run(phase):\n    {body}\nrun('train')\nrun('val')\n")
    scope = known.module.tree.body[0]
    assert isinstance(scope, ast.FunctionDef)

    assert [ast.unparse(each) for each in conditions(known.flow, scope)] == expected


def test_where_the_name_of_a_condition_is_known() -> None:
    known = script(
        "for phase in 'ab':\n    first()\n    train = phase == 'a'\n    second()\n    if train:\n        pass\n"
    )
    loop = known.module.tree.body[0]
    assert isinstance(loop, ast.For)
    first, _, second, branch = loop.body
    assert isinstance(branch, ast.If)

    assert [is_known_at(loop, branch.test, each) for each in (first, second)] == [False, True]
