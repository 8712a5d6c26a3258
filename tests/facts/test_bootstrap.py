"""Which networks learn from targets that are made of their own estimates."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.precision.bootstrap import bootstrapped
from codemods.facts.training.loss_regions import Phases

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
q = nn.Linear(4, 2)
target = nn.Linear(4, 2)
alone = nn.Linear(4, 2)
critic = nn.MSELoss()
def estimate(s):
    return target(s).max(1)[0]
"""


def hazards(body: str) -> list[str | None]:
    """For each backward, the target that needs 32 bits."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}for s, r, n in data:\n{lines}")
    phases = Phases(known)
    found = [bootstrapped(phases, each) for each in phases.all]
    return [None if each is None else each.what.split(" adds to")[0] for each in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "with torch.no_grad():\n    goal = r + 0.9 * target(n).max(1)[0]\nloss = F.mse_loss(q(s), goal)\nloss.backward()",
            "goal",
            id="a target of the next state",
        ),
        pytest.param(
            "goal = (r + 0.9 * target(n).max(1)[0]).detach()\nloss = critic(q(s), goal)\nloss.backward()",
            "goal",
            id="cut",
        ),
        pytest.param(
            "goal = r + 0.9 * target(n).max(1)[0].detach()\nloss = ((q(s) - goal) ** 2).mean()\nloss.backward()",
            "goal",
            id="a difference",
        ),
        pytest.param(
            "with torch.no_grad():\n    goal = r + 0.9 * estimate(n)\nloss = F.mse_loss(q(s), goal)\nloss.backward()",
            "goal",
            id="through a function",
        ),
        *(
            pytest.param(
                f"delta = r + 0.9 * q(n) - q(s)\nloss = delta.detach() * a + {squared}\nloss.backward()",
                "r + 0.9 * q(n)",
                id=f"an actor and a critic that learn from one difference: {squared}",
            )
            for squared in (
                "delta ** 2",
                "delta.pow(2).mean()",
                "torch.square(delta)",
                "(q(s) - (r + 0.9 * q(n))) ** 2",
            )
        ),
        pytest.param(
            "loss = (r + 0.9 * q(n) - q(s)).mean()\nloss.backward()", None, id="a difference that is not squared"
        ),
        pytest.param(
            "delta = r + 0.9 * q(n) - s\nloss = delta ** 2\nloss.backward()", None, id="the difference to the data"
        ),
        pytest.param("loss = F.mse_loss(q(s), r)\nloss.backward()", None, id="a target of the data"),
        pytest.param(
            "goal = target(n).detach()\nloss = F.mse_loss(q(s), goal)\nloss.backward()",
            None,
            id="another network's output",
        ),
        pytest.param(
            "goal = r + 0.9 * target(n)\nloss = F.mse_loss(q(s), goal)\nloss.backward()", "goal", id="with its graph"
        ),
        pytest.param(
            "guess = r + 0.9 * q(n)\nloss = F.mse_loss(guess, target(s))\nloss.backward()",
            None,
            id="an output with a graph",
        ),
        pytest.param(
            "goal = r + 0.9 * q(n).max(1)[0]\nloss = F.mse_loss(goal, q(s))\nloss.backward()",
            "goal",
            id="a target that is given first, of the best estimate",
        ),
        pytest.param(
            "goal = r + 0.9 * target(n)[rows, actions]\nloss = critic(goal, q(s)[rows, actions])\nloss.backward()",
            "goal",
            id="a target that is given first, of the estimate of an action",
        ),
        pytest.param(
            "guess = r + 0.9 * q(n)[:, 0]\nloss = F.mse_loss(guess, target(s)[:, 0])\nloss.backward()",
            None,
            id="a part of an output with a graph",
        ),
        pytest.param(
            "goal = []\nfor k in range(4):\n    goal.append(r[k] + 0.9 * target(n)[k])"
            "\ngoal = torch.tensor(goal).view(4, 1)\nloss = F.mse_loss(goal, q(s))\nloss.backward()",
            "goal",
            id="numbers of which a tensor is made",
        ),
        pytest.param(
            "first = q(s)\nnear = s\nwidth = near[1:] - near[:-1]\nnear = (near + 0.5 * target(n)).detach()"
            "\nloss = F.mse_loss(q(near) * width + first, r)\nloss.backward()",
            None,
            id="a name that holds numbers of the data before it holds estimates",
        ),
        pytest.param(
            "goal = r\ngoal = goal + 0.9 * target(n).detach()\ngoal *= 1.0\nloss = (q(s) - goal).pow(2).mean()"
            "\nloss.backward()",
            "goal",
            id="a name that is bound step by step",
        ),
        pytest.param(
            "goal = q(n).detach()\nlost = 0\nfor k in r:\n    goal = k + 0.9 * goal\n    lost = lost + (q(k) - goal) ** 2"
            "\nlost.backward()",
            "goal",
            id="a name that each pass of a loop binds anew",
        ),
        pytest.param(
            "goal = torch.stack(tuple(one if last else one + 0.9 * best.max() for one, last, best in zip(r, s, q(n))))"
            "\nloss = F.mse_loss(q(s), goal)\nloss.backward()",
            "goal",
            id="a comprehension",
        ),
        pytest.param(
            "goal = torch.stack([k + 0.9 * best for k, row in enumerate(q(n)) for best in row])"
            "\nloss = F.mse_loss(q(s), goal)\nloss.backward()",
            "goal",
            id="a comprehension of two loops",
        ),
        pytest.param(
            "goal = []\nfor one, best in zip(r, target(n).detach()):\n    goal.append(one + 0.9 * best)"
            "\nloss = F.mse_loss(q(s), torch.stack(goal))\nloss.backward()",
            "torch.stack(goal)",
            id="a loop",
        ),
        pytest.param(
            "best = q(n)\ngoal = torch.stack([one + 0.9 * best for one, best in zip(r, s)])"
            "\nloss = F.mse_loss(q(s), goal)\nloss.backward()",
            None,
            id="a comprehension whose name holds estimates outside of it",
        ),
        pytest.param(
            "goal = (r + target(n)).detach()\nloss = F.mse_loss(q(s), goal)\nloss.backward()", None, id="no discount"
        ),
    ],
)
def test_a_target_that_is_made_of_estimates(body: str, expected: str | None) -> None:
    assert hazards(body) == [expected]


def test_another_loss_of_the_same_network_needs_32_bits_as_well() -> None:
    body = """\
with torch.no_grad():
    goal = r + 0.9 * target(n).max(1)[0]
loss = F.mse_loss(q(s), goal)
loss.backward()
other = q(s).sum()
other.backward()"""

    assert hazards(body) == ["goal", "goal"]
    assert hazards(body.replace("other = q(s)", "other = alone(s)")) == ["goal", None]


def test_the_place_is_the_comparison() -> None:
    known = script(
        f"{HEAD}for s, r, n in data:\n    goal = (r + 0.9 * target(n)).detach()\n    F.mse_loss(q(s), goal).backward()\n"
    )
    phases = Phases(known)
    found = bootstrapped(phases, phases.all[0])

    assert found is not None
    assert ast.unparse(found.node) == "F.mse_loss(q(s), goal)"
    assert found.code == "bootstrapped-target"


@pytest.mark.parametrize(
    "functions",
    [
        pytest.param(
            "def f0(n):\n    return estimate(n)\n"
            + "".join(f"def f{at}(n):\n    return f{at - 1}(n)\n" for at in range(1, 7)),
            id="through many functions",
        ),
        pytest.param(
            "def f6(n, k=3):\n    return 0.9 * f6(n, k - 1) if k else estimate(n)\n", id="a function that calls itself"
        ),
        pytest.param(
            "def f6(n):\n    return other(n) if n.sum() else estimate(n)\ndef other(n):\n    return f6(n / 2)\n",
            id="functions that call each other",
        ),
    ],
)
def test_estimates_that_functions_hand_on(functions: str) -> None:
    known = script(
        f"{HEAD}{functions}for s, r, n in data:\n    with torch.no_grad():\n        goal = r + 0.9 * f6(n)\n"
        "    loss = F.mse_loss(q(s), goal)\n    loss.backward()\n"
    )
    phases = Phases(known)

    assert [bootstrapped(phases, each) is not None for each in phases.all] == [True]


def test_a_function_that_only_calls_itself_estimates_nothing() -> None:
    known = script(
        f"{HEAD}def f(n):\n    return f(n) * 0.9\nfor s, r, n in data:\n"
        "    loss = F.mse_loss(q(s), r + f(n))\n    loss.backward()\n"
    )
    phases = Phases(known)

    assert [bootstrapped(phases, each) for each in phases.all] == [None]


def test_a_loss_may_be_computed_before_another_backward() -> None:
    body = """\
goal = (r + 0.9 * target(n).max(1)[0]).detach()
other = alone(s).sum()
loss = F.mse_loss(q(s), {})
other.backward()
loss.backward()"""

    assert hazards(body.format("goal")) == [None, "goal"]
    assert hazards(body.format("r")) == [None, None]
