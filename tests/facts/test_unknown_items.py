"""Which item of a list may be an array, and is not known to be one."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.arrays import Arrays
from codemods.facts.data.unknown_items import unknown_item, unknown_remembered

HEAD = """\
import random
import numpy as np
from unseen import env
def played():
    states = []
    for step in range(3):
        states.append(env.reset())
    return states
class Buffer:
    def __init__(self):
        self.kept = []
    def push(self, state, reward):
        self.kept.append((state, reward))
    def sample(self, n):
        states, rewards = [], [0.0]
        for state, reward in random.sample(self.kept, n):
            states.append(state)
            rewards.append(reward)
        return states, rewards
buffer = Buffer()
states, rewards = buffer.sample(2)
"""


def item(expression: str, before: str = "", **others: str) -> str | None:
    """The item, and the name of its module."""
    found = script(f"{HEAD}{before}\n{expression}\n", **others)
    node = found.module.tree.body[-1].value  # type: ignore[attr-defined]
    answer = unknown_item(Arrays(found.flow), found.flow, node)
    return None if answer is None else f"{answer[0].name}: {ast.unparse(answer[1])}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("played()", "env.reset()", id="a function appends it"),
        pytest.param("states", "state", id="a buffer hands it out"),
        pytest.param("[played() for i in range(3)]", "env.reset()", id="it is in lists of a list"),
        pytest.param("[env.reset(), env.reset()]", "env.reset()", id="it is written out"),
    ],
)
def test_an_item_that_may_be_anything(expression: str, expected: str) -> None:
    assert item(expression) == f"__main__: {expected}"


def test_an_item_that_another_module_puts_there() -> None:
    other = "from unseen import env\ndef made():\n    rows = []\n    rows.append(env.reset())\n    return rows\n"

    assert item("other.made()", "import other", other=other) == "other: env.reset()"


@pytest.mark.parametrize(
    ("expression", "before"),
    [
        pytest.param("rewards", "", id="a number is among them"),
        pytest.param("x", "x = []\nx.append(len(states))\nx.append(env.reset().item())", id="numbers alone"),
        pytest.param("[np.zeros(3)]", "", id="arrays"),
        pytest.param("[]", "", id="nothing"),
        pytest.param("env.reset()", "", id="no list is known"),
    ],
)
def test_a_list_of_which_enough_is_known(expression: str, before: str) -> None:
    assert item(expression, before) is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("unseen", "unseen", id="anything"),
        pytest.param("reward", None, id="a reward"),
        pytest.param("3", None, id="a number"),
        pytest.param("np.ones(3)", None, id="an array"),
    ],
)
def test_what_is_remembered_and_not_known(code: str, expected: str | None) -> None:
    text = "import gym\nimport numpy as np\nenv = gym.make('Own-v1')\n_, reward, done, _ = env.step(0)\n"
    made = script(f"{text}answer = {code}\n")
    given = made.module.nodes(ast.Assign)[-1].value
    found = unknown_remembered(Arrays(made.flow), made.flow, [(made.module, given)])

    assert (ast.unparse(found[1]) if found is not None else None) == expected
