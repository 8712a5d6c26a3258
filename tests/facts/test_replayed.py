"""Columns of what a script remembers."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.bindings import Bindings
from codemods.facts.data.replayed import remembered

HEAD = """\
import heapq
import random
from collections import deque, namedtuple

Step = namedtuple("Step", ("state", "action"))
Other = namedtuple("Other", "state action")


class Memory:
    def __init__(self, n):
        self.kept = deque(maxlen=n)
        self.at = 0

    def push(self, *args):
        self.kept.append(Step(*args))

    def keep(self, state, action):
        {keep}

    def sample(self, n):
        return random.sample(self.kept, n)


memory = Memory(9)
memory.keep(one, 1)
{more}
batch = memory.sample(4)
"""
KEEP = "self.kept.append((state, action))"
STATES = "states, actions = zip(*batch)\nanswer = states\n"


def found(end: str = STATES, keep: str = KEEP, more: str = "") -> list[str]:
    made = script(HEAD.format(keep=keep, more=more) + end)
    statement = next(
        each
        for each in made.module.nodes(ast.Assign)
        if isinstance(each.targets[0], ast.Name) and each.targets[0].id == "answer"
    )
    parts = remembered(made.flow, Bindings(made.flow), made.module, statement.value)
    return [f"{ast.unparse(each)} ({each.lineno})" for _, each in parts]


NAMED = "self.kept.append(Step(state, action))"


@pytest.mark.parametrize(
    ("end", "keep", "more", "expected"),
    [
        pytest.param(STATES, KEEP, "", ["state (18)"], id="zipped"),
        pytest.param("answer = [each[1] for each in batch]\n", KEEP, "", ["action (18)"], id="by an index"),
        pytest.param("answer = [a for s, a in batch]\n", KEEP, "", ["action (18)"], id="taken apart"),
        pytest.param("answer = [each.state for each in batch]\n", NAMED, "", ["state (18)"], id="by a name"),
        pytest.param("rows = Step(*zip(*batch))\nanswer = rows.action\n", NAMED, "", ["action (18)"], id="zipped rows"),
        pytest.param(
            "answer = [each.action for each in batch]\n",
            "self.kept.append(Other(action=action, state=state))",
            "",
            ["action (18)"],
            id="given by name",
        ),
        pytest.param(
            "answer = [each.state for each in batch]\n",
            "pass",
            "memory.push(two, 2)\nmemory.push(three, 3)",
            ["two (26)", "three (27)"],
            id="what callers give",
        ),
        pytest.param(STATES, "step = (state, action)\n        self.kept.append(step)", "", ["state (18)"], id="a name"),
        pytest.param(STATES, "self.kept.append([state, action])", "", ["state (18)"], id="a list"),
        pytest.param(
            STATES,
            "if len(self.kept) < 9:\n            self.kept.append(None)\n        self.kept[self.at] = (state, action)",
            "",
            ["state (20)"],
            id="nothing, at first",
        ),
        pytest.param(STATES, "self.kept[self.at] = (state, action)", "", ["state (18)"], id="in turns"),
        pytest.param(STATES, KEEP, "print(len(memory.kept))", ["state (18)"], id="only looked at"),
        pytest.param(
            "states, actions = zip(*[memory.kept[i] for i in range(3)])\nanswer = states\n",
            KEEP,
            "",
            ["state (18)"],
            id="chosen one by one",
        ),
        pytest.param(
            "states, actions = zip(*memory.kept)\nanswer = states\n", KEEP, "", ["state (18)"], id="all of it"
        ),
        pytest.param("rows = list(zip(*batch))\nanswer = rows[1]\n", KEEP, "", ["action (18)"], id="an item of all"),
        pytest.param("rows = sorted(zip(*batch))\nanswer = rows[1]\n", KEEP, "", [], id="in another order"),
        pytest.param(
            STATES, KEEP, "import numpy as np\nnp.array(memory.kept)", ["state (18)"], id="NumPy only reads it"
        ),
        pytest.param(STATES, KEEP, "memory.kept.extend(others)", [], id="others are put into it"),
        pytest.param(STATES, KEEP, "memory.kept += others", [], id="others are added"),
        pytest.param(STATES, KEEP, "heapq.heappush(memory.kept, other)", [], id="a library may put others into it"),
        pytest.param(STATES, KEEP, "store(kept=memory.kept)", [], id="what is not seen may"),
        pytest.param(STATES, KEEP, "memory.kept = load()", [], id="it may be another one"),
        pytest.param(STATES, KEEP, "memory.kept[:2] = others()", [], id="a part is replaced"),
        pytest.param(STATES, "self.kept.append((*state, action))", "", [], id="tuples of a length that is not seen"),
        pytest.param(STATES, "self.kept.append(make(state))", "", [], id="what is made elsewhere"),
        pytest.param(STATES, "self.kept.append([state, action])", "memory.kept[1][0] = other", [], id="items change"),
        pytest.param("answer = [each.reward for each in batch]\n", NAMED, "", [], id="no such name"),
        pytest.param("answer = [each.state for each in batch]\n", KEEP, "", [], id="a tuple without names"),
        pytest.param(
            "answer = [each.state for each in batch]\n", "pass", "memory.push(*both)", [], id="callers give many"
        ),
        pytest.param("answer = [1 for each in batch]\n", KEEP, "", [], id="no column"),
        pytest.param("answer = [other[0] for each in batch]\n", KEEP, "", [], id="of something else"),
        pytest.param("answer = batch\n", KEEP, "", [], id="the whole batch"),
        pytest.param("rows = make(*zip(*batch))\nanswer = rows.action\n", NAMED, "", [], id="rows of another kind"),
    ],
)
def test_what_is_remembered(end: str, keep: str, more: str, expected: list[str]) -> None:
    assert found(end, keep, more) == expected


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        pytest.param("kept.append({'a': one, 's': 2})\n", ["one (2)"], id="by a key"),
        pytest.param("kept.append({'s': 2})\n", [], id="no such key"),
        pytest.param("kept.append({'a': one, **two})\n", [], id="a key that another dictionary may have"),
        pytest.param("kept.append({'a': one})\nkept[0]['a'] = two\n", [], id="a key that is given something else"),
    ],
)
def test_what_stands_under_a_key(put: str, expected: list[str]) -> None:
    made = script(f"kept = []\n{put}answer = [each['a'] for each in kept]\n")
    statement = made.module.nodes(ast.Assign)[-1]
    parts = remembered(made.flow, Bindings(made.flow), made.module, statement.value)

    assert [f"{ast.unparse(each)} ({each.lineno})" for _, each in parts] == expected
