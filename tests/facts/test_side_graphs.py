"""Functions that are given graphs and hand on none of them."""

from __future__ import annotations

import pytest
from probe import facts, script

HEAD = """\
import torch
from torch import nn

model = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(2, 4), torch.tensor([0, 2]))]
"""
TRAIN = """
for x, y in loader:
    scores = model(x)
    kept = assign(scores, y)
    (criterion(scores, y) * kept.sum()).backward()
"""


def found(body: str, train: str = TRAIN) -> list[tuple[str, str]]:
    """The functions that are found by their names, and the code of the reason why each is left."""
    regions = script(HEAD + body + train).evaluations
    return [(each.function.name, each.why_not.code if each.why_not else "") for each in regions if each.function]


def assign(first: str, last: str = "best < best.mean()") -> str:
    return f"""
def assign(scores, y):
    p = {first}
    costs = -torch.log(p + 1e-8)
    best = costs.gather(1, y[:, None])
    return {last}
"""


@pytest.mark.parametrize("first", ["scores.softmax(1)", "scores.clone().sigmoid_()", "(scores * 2).sigmoid_()"])
def test_a_function_that_compares_what_a_model_computed(first: str) -> None:
    assert found(assign(first)) == [("assign", "")]


@pytest.mark.parametrize("first", ["scores.sigmoid_()", "scores[:, :2].sigmoid_()", "scores.detach().sigmoid_()"])
def test_what_it_is_given_may_be_changed_in_place(first: str) -> None:
    expected = [] if "detach" in first else [("assign", "needs-gradients")]  # nothing of it has a graph

    assert found(assign(first)) == expected


def test_a_graph_is_handed_on() -> None:
    assert found(assign("scores.softmax(1)", "best")) == []


def test_a_graph_is_kept() -> None:
    assert (
        found(
            "history = []\n" + assign("scores.softmax(1)").replace("    return", "    history.append(best)\n    return")
        )
        == []
    )


def test_too_little_is_computed() -> None:
    assert found("def assign(scores, y):\n    return scores.argmax(1) == y\n") == []


def test_it_only_shows_what_it_is_given() -> None:
    panes = "import matplotlib.pyplot as plt\n\nfigure, panes = plt.subplots(2, 3)\n"
    show = """
def show(scores, y):
    for column, (above, below) in enumerate(zip(panes[0, :], panes[1, :])):
        above.hist(scores[column].data.numpy().ravel(), bins=10)
        below.hist(y.numpy(), bins=10)
"""
    train = TRAIN.replace("kept = assign(scores, y)", "show(scores, y)").replace(" * kept.sum()", "")

    assert found(panes + show, train) == []


def test_it_is_called_without_gradients_already() -> None:
    train = TRAIN.replace("    kept = assign(scores, y)", "    with torch.no_grad():\n        kept = assign(scores, y)")

    assert found(assign("scores.softmax(1)"), train) == []


def test_what_it_calls_is_covered_by_its_own_change() -> None:
    inner = assign("scores.softmax(1)")
    outer = """
def choose(scores, y):
    q = scores.softmax(1)
    r = q * 2
    t = r + 1
    return assign(t, y)
"""

    assert found(outer + inner, TRAIN.replace("assign(", "choose(")) == [("choose", "")]


def test_the_facts_say_what_is_given_and_not_used() -> None:
    lines = facts(HEAD + assign("scores.softmax(1)") + TRAIN)

    assert "evaluation: nothing of the graphs that it is given is used" in [
        each for found in lines.values() for each in found
    ]


LOSS = """
import numpy as np

def distances(features):
    return features.pow(2).sum(1)[:, None] - 2 * features.mm(features.t())


def mine(features, labels, margin):
    far = distances(features).cpu()
    found = []
    for row, label in zip(far, labels):
        costs = row - far.mean() + margin
        values = costs.detach().numpy()
        found.append([int(label), int(np.argmax(values))])
    return torch.tensor(found)


class Mining(nn.Module):
    def forward(self, features, labels):
        pairs = mine(features, labels, 0.5)
        return (features[pairs[:, 0]] - features[pairs[:, 1]]).pow(2).mean()


mining = Mining()
for x, y in loader:
    mining(model(x), y).backward()
"""


def test_what_a_loss_of_the_project_calls_is_given_graphs_too() -> None:
    assert found(LOSS, "") == [("mine", "")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("return torch.tensor(found)", "return far", id="the graph is returned"),
        pytest.param("costs.detach()", "costs.div_(2).detach()", id="it computes in place, but in memory of its own"),
        pytest.param("far = distances", "features.mul_(2)\n    far = distances", id="it changes what it is given"),
        pytest.param("class Mining", "@torch.jit.script\ndef other(x):\n    return x\nclass Mining", id="TorchScript"),
    ],
)
def test_what_a_loss_calls_keeps_its_graph_where(old: str, new: str) -> None:
    expected = {"costs.detach()": [("mine", "")], "far = distances": [("mine", "needs-gradients")]}
    assert found(LOSS.replace(old, new), "") == expected.get(old, [])
