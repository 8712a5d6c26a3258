"""What ``no-grad-eval`` makes of networks that compute targets within training: teachers, target networks, momentum encoders."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, check_silent

from codemods.rules.no_grad_eval import NoGradEval
from tests.training import run_script

HEAD = """\
import copy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
"""
INSIDE = """\


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.target = copy.deepcopy(self.online)
        self.predict = nn.Linear(8, 8)

    def forward(self, one, other):
        predicted = self.predict(self.online(one))
        goal = self.target(other)
        return F.mse_loss(predicted, goal.detach())


model = Pair()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    images = torch.randn(8, 4)
    loss = model(images, images + 0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""
GOAL = "        goal = self.target(other)\n"


def without_gradients(code: str, *lines: str) -> str:
    """The code with neighbouring lines under ``torch.no_grad()``."""
    block = "".join(lines)
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    wrapped = f"{indent}with torch.no_grad():\n" + "".join(f"    {each}" for each in lines)
    assert block in code
    return code.replace(block, wrapped)


def check_trains_alike(before: str, after: str) -> None:
    """The rule makes this of it, which prints the same losses to the last bit."""
    check_rewrites(NoGradEval, before, after)
    assert run_script(before) == run_script(after)


# Inside of a model's own methods.


def test_a_model_computes_the_target_of_its_own_loss_without_gradients() -> None:
    check_trains_alike(HEAD + INSIDE, without_gradients(HEAD + INSIDE, GOAL))


def test_a_correction_that_is_passed_straight_through() -> None:
    code = HEAD + INSIDE.replace(
        "        return F.mse_loss(predicted, goal.detach())",
        "        return F.mse_loss(predicted + (goal - predicted).detach(), torch.zeros(8, 8))",
    )

    check_trains_alike(code, without_gradients(code, GOAL))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("goal.detach()", "goal", id="a target with its graph"),
        pytest.param("goal.detach())", "goal.detach()) + goal.mean()", id="one that is also trained"),
        pytest.param(GOAL, f"{GOAL}        self.goal = goal\n", id="one that the model keeps"),
        pytest.param("return F", "return goal, F", id="one that it returns"),
    ],
)
def test_a_target_whose_graph_is_used_is_no_site(old: str, new: str) -> None:
    check_silent(NoGradEval, HEAD + INSIDE.replace(old, new))


def test_a_layer_that_keeps_what_it_computes_is_left() -> None:
    keeps = """\


class Last(nn.Linear):
    def forward(self, x):
        self.last = super().forward(x)
        return self.last
"""
    code = (
        HEAD
        + keeps
        + INSIDE.replace("copy.deepcopy(self.online)", "Last(4, 8)").replace(
            "goal.detach())", "goal.detach()) + self.target.last.mean()"
        )
    )

    check_leaves(NoGradEval, code, "the model's forward keeps a tensor that is read elsewhere (line 11)")


def test_autocast_around_the_call_of_the_model_may_keep_weights_without_a_graph() -> None:
    code = HEAD + INSIDE.replace(
        "    loss = model(images, images + 0.1)\n",
        '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        loss = model(images, images + 0.1)\n',
    )

    check_leaves(NoGradEval, code, "it shares an autocast block, which may keep weights without a graph (line 26)")


def test_a_model_that_becomes_torchscript_is_left() -> None:
    code = HEAD + INSIDE.replace("model = Pair()", "model = torch.jit.script(Pair())")

    check_leaves(NoGradEval, code, "the model may be compiled to TorchScript, which knows few `with` blocks")
