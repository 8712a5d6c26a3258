"""Which functions act with a hidden state that they are given again, and what is said of them."""

from __future__ import annotations

import ast

import pytest
from probe import script

AGENT = """\
import torch
from torch import nn
from unseen import env, memory

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
    def forward(self, x, hidden):
        hidden = self.cell(x, hidden)
        return hidden.tanh(), hidden
    def get_action(self, x, hidden):
        action, hidden = self.forward(torch.FloatTensor(x), hidden)
        return action.detach().cpu().numpy()[0], hidden

policy = Policy()
state, hidden_out = env.reset(), torch.zeros(1, 4)
for step in range(9):
    hidden_in = hidden_out
    action, hidden_out = policy.get_action(state, hidden_in)
    state = env.step(action)
    memory.push(hidden_in, state)
"""


def reasons(text: str) -> list[tuple[str, str, str]]:
    """The functions that are left, the causes, and the calls that the reasons name."""
    known = script(text)
    return [
        (each.function.name, each.why_not.code, ast.unparse(each.why_not.places[0].nodes[0]))
        for each in known.evaluations
        if each.function is not None and each.why_not is not None
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("", "", id="by another name"),
        pytest.param("hidden_in = hidden_out", "pass", id="by its own name"),
        pytest.param("return action.detach().cpu().numpy()[0], hidden", "action = action.tolist(); return action[0], hidden", id="of a name"),
    ],
)  # fmt: skip
def test_a_state_that_is_given_again(old: str, new: str) -> None:
    text = AGENT.replace(old, new) if old else AGENT
    text = text.replace("hidden_in)", "hidden_out)").replace("push(hidden_in", "push(0") if new == "pass" else text

    given = "hidden_in" if "hidden_in = " in text else "hidden_out"
    assert reasons(text) == [("get_action", "graph-escapes", f"policy.get_action(state, {given})")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "get_action(state, hidden_in)", "get_action(state, torch.zeros(1, 4))", id="it is not given again"
        ),
        pytest.param("memory.push(hidden_in, state)", "hidden_out.sum().backward()", id="it is trained on"),
        pytest.param("    def get_action", "    @torch.no_grad()\n    def get_action", id="it has no graph"),
        pytest.param("return action.detach().cpu().numpy()[0]", "return action", id="the action has a graph, too"),
        pytest.param("numpy()[0], hidden", "numpy()[0], hidden.detach()", id="no graph is handed out"),
    ],
)
def test_what_nothing_is_said_of(old: str, new: str) -> None:
    assert old in AGENT
    assert not [each for each in reasons(AGENT.replace(old, new)) if each[2].startswith("policy.get_action")]
