"""Where a script asks for the spaces of gym's environments."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.cost.spaces import Spaces


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        pytest.param("import gym", True, id="gym"),
        pytest.param("import gymnasium as gym", True, id="gymnasium"),
        pytest.param("from gym.spaces import Box", True, id="a part of it"),
        pytest.param("from .gym import make", False, id="a module of the project"),
        pytest.param("import torch", False, id="another package"),
        pytest.param("import gym\nimport procgen", False, id="one with larger spaces beside it"),
    ],
)
def test_whether_spaces_are_small(imports: str, *, expected: bool) -> None:
    assert Spaces(script(imports).flow).are_used is expected


def test_a_package_with_larger_spaces_counts_wherever_it_is_imported() -> None:
    assert not Spaces(script("import gym\nimport robot\n", robot="import procgen\n").flow).are_used


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("self.observation_space = Box(0, 1, (4000,))", {"observation_space"}, id="a space of its own"),
        pytest.param("self.action_space = env.action_space", set(), id="that of another environment"),
        pytest.param("print(env.action_space)", set(), id="it is only read"),
    ],
)
def test_which_spaces_are_the_project_s(text: str, expected: set[str]) -> None:
    known = script(f"import gym\nclass Env:\n    def __init__(self, env):\n        {text}\n")

    assert Spaces(known.flow).of_the_project == expected | {f"single_{each}" for each in expected}


@pytest.mark.parametrize(
    ("imports", "is_own"),
    [
        pytest.param("import gym", False, id="a vector of environments has the space of one of them"),
        pytest.param("from gym import spaces", True, id="the project makes spaces"),
        pytest.param("import gymnasium.spaces", True, id="by the whole name"),
        pytest.param("from gymnasium.spaces import Box", True, id="one kind of them"),
        pytest.param("import gym\nlarge = gym.spaces.Box(0, 1, (4000,))", True, id="as an attribute"),
    ],
)
def test_a_space_may_be_handed_on_by_its_name(imports: str, *, is_own: bool) -> None:
    handing = "class Envs:\n    def __init__(self, observation_space):\n"
    known = script(f"{imports}\n{handing}        self.observation_space = observation_space\n")

    assert ("observation_space" in Spaces(known.flow).of_the_project) is is_own


@pytest.mark.parametrize(
    ("text", "is_one", "is_asked_for"),
    [
        pytest.param("env.observation_space", True, True, id="a space"),
        pytest.param("env.observation_space.shape[0]", False, True, id="its size"),
        pytest.param("space", True, False, id="a name of one"),
        pytest.param("space.n", False, True, id="the size of one by its name"),
        pytest.param("env.reset()", False, False, id="something else"),
    ],
)
def test_what_asks_for_a_space(text: str, *, is_one: bool, is_asked_for: bool) -> None:
    known = script(f"import gym\nspace = env.action_space\nanswer = {text}\n")
    answer = known.module.tree.body[-1].value  # type: ignore[attr-defined]
    spaces = Spaces(known.flow)

    assert (spaces.is_one(answer), spaces.are_asked_for(answer)) == (is_one, is_asked_for)


def test_without_gym_nothing_is_a_space() -> None:
    known = script("answer = env.action_space\n")
    (assignment,) = known.module.nodes(ast.Assign)

    assert not Spaces(known.flow).is_one(assignment.value)
