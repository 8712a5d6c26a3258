"""What environments of reinforcement learning hand out."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.environments import is_vector_environment, observes_arrays, steps_one

HEAD = """\
import gym
import gymnasium

class Scaled(gym.ActionWrapper):
    def action(self, action):
        return action * 2

class Listed(gym.ActionWrapper):
    def reset(self):
        return [0]

class Renamed(gym.ActionWrapper):
    def __init__(self, name, env):
        super().__init__(env)

class Seen(gym.ObservationWrapper):
    def observation(self, seen):
        return list(seen)

env = gym.make("Own-v1")
"""
SIZE = "print(env.observation_space.shape[0])\n"


def observes(code: str, asked: str = SIZE, *, is_whole: bool = True) -> bool:
    made = script(f"{HEAD}{asked}{code}\n")
    (call,) = [each for each in made.module.nodes(ast.Call) if getattr(each.func, "attr", "") in {"reset", "step"}]
    return observes_arrays(made.flow, call, is_whole=is_whole)


@pytest.mark.parametrize(
    "code",
    [
        "env.reset()",
        "env.reset(seed=1)",
        "env.unwrapped.reset()",
        "gym.wrappers.TimeLimit(gym.wrappers.RecordVideo(env, 'a'), 9).reset()",
        "Scaled(env).reset()",
        "(env if env else gym.make('Ant-v4')).reset()",
    ],
)
def test_a_state_is_an_array(code: str) -> None:
    assert observes(code)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("gymnasium.make('Pendulum-v1').reset()", id="a tuple"),
        pytest.param("env.step(0)", id="another tuple"),
        pytest.param("gym.wrappers.FrameStack(env, 4).reset()", id="frames that are joined when they are asked for"),
        pytest.param("gym.wrappers.TransformObservation(env, list).reset()", id="what a function makes of it"),
        pytest.param("Seen(env).reset()", id="what a class of the project makes of it"),
        pytest.param("Listed(env).reset()", id="what a method of the project returns"),
        pytest.param("Renamed('a', env).reset()", id="an environment that is not seen"),
        pytest.param("(env if env else load()).reset()", id="one that is not known"),
        pytest.param("load().reset()", id="none that is known"),
    ],
)
def test_what_may_be_something_else(code: str) -> None:
    assert not observes(code)


@pytest.mark.parametrize("code", ["gymnasium.make('Pendulum-v1').reset()", "env.step(0)"])
def test_a_state_is_first_in_a_tuple(code: str) -> None:
    assert observes(code, is_whole=False)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("", False, id="nothing is asked"),
        pytest.param("shape = env.observation_space.shape\nprint(shape[0])\n", True, id="by a name"),
        pytest.param(
            "shape = env.observation_space.shape\nprint(shape)\n", False, id="the shape may be that of a number"
        ),
        pytest.param("print(env.observation_space.low)\n", True, id="its bounds"),
        pytest.param("print(env.action_space.shape[0])\n", False, id="what is done"),
        pytest.param("n = env.observation_space.n\n" + SIZE, False, id="states are counted, perhaps"),
        pytest.param("print(isinstance(env.observation_space, list))\n" + SIZE, False, id="it may be any space"),
    ],
)
def test_its_sizes_have_to_be_asked_for(asked: str, *, expected: bool) -> None:
    assert observes("env.reset()", asked) is expected


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param("gym.make('CartPole-v1')", True, id="a vector"),
        pytest.param("gym.make('CarRacing-v2', render_mode='human')", True, id="an image"),
        pytest.param("Scaled(gym.make('Pendulum-v1'))", True, id="wrapped"),
        pytest.param("gym.make('Ant-v4' if big else 'Hopper-v4')", True, id="one of two"),
        pytest.param("gym.make('Ant-v4' if big else 'Taxi-v3')", False, id="one of two, whose states are counted"),
        pytest.param("gym.make('FrozenLake-v1')", False, id="states that are counted"),
        pytest.param("gym.make('my_envs:CartPole-v1')", False, id="of another package"),
        pytest.param("gym.make('AntMaze-v4')", False, id="another name"),
        pytest.param("gym.make(input())", False, id="any"),
        pytest.param("Listed(gym.make('CartPole-v1'))", False, id="a method of the project returns something"),
        pytest.param("gymnasium.make('CartPole-v1')", False, id="a tuple"),
    ],
)
def test_some_are_known_by_their_names(made: str, *, expected: bool) -> None:
    assert observes(f"({made}).reset()", "") is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("envs", True, id="several environments"),
        pytest.param("gym.wrappers.RecordEpisodeStatistics(envs)", True, id="wrapped"),
        pytest.param("gym.make('CartPole-v1')", False, id="one"),
        pytest.param("gym.wrappers.RecordVideo(gym.make('CartPole-v1'))", False, id="one that is wrapped"),
    ],
)
def test_environments_that_step_together(text: str, *, expected: bool) -> None:
    made = script(f"import gymnasium as gym\nenvs = gym.vector.SyncVectorEnv([make])\n{text}\n")
    (value,) = made.flow.values(made.module.tree.body[-1].value)  # type: ignore[attr-defined]

    assert is_vector_environment(made.flow, value) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("env.step(0)", True),
        ("Scaled(env).step(0)", True),
        ("gym.vector.make('Own-v1').step(0)", False),
        ("unseen.step(0)", False),
    ],
)
def test_a_single_environment_steps(code: str, *, expected: bool) -> None:
    made = script(f"{HEAD}{code}\n")
    (call,) = [each for each in made.module.nodes(ast.Call) if getattr(each.func, "attr", "") == "step"]

    assert steps_one(made.flow, call) is expected
