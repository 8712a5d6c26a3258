"""Networks that estimate values: targets made of their own estimates are compared with them in 32 bits."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

CRITIC = """\
import copy

import torch
from torch import nn
from torch.nn import functional as F


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 8))

    def forward(self, state):
        return self.layers(state)

    def first(self, state):
        return self.layers(state)[:, :1]


critic = Critic().cuda()
critic_target = copy.deepcopy(critic)
actor = nn.Linear(32, 32).cuda()
optimizer = torch.optim.Adam(critic.parameters())
actor_optimizer = torch.optim.Adam(actor.parameters())
mse = nn.MSELoss()


def target_of(reward, state):
    with torch.no_grad():
        return reward + 0.99 * critic_target(state)


for state, reward, following, done in memory():
    state, reward, following, done = state.cuda(), reward.cuda(), following.cuda(), done.cuda()
    TARGET
    loss = LOSS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WITHOUT_GRADIENTS = """\
with torch.no_grad():
        best = critic_target(following).max(1, keepdim=True)[0]
        target = reward + 0.99 * (1 - done) * best\
"""
IN_TWO_STEPS = """\
with torch.no_grad():
        first, second = critic_target(following).chunk(2, 1)
        future = 0.99 * torch.min(first, second)
    target = reward + future\
"""
IN_A_LOOP = """\
values = critic(state)
    total, returns = critic(following).detach()[-1], []
    for each in reversed(range(len(reward))):
        total = reward[each] + 0.99 * total
        returns.append(total)
    returns = torch.stack(returns)\
"""
ADDED_IN_PLACE = """\
target = critic_target(following).max(1, keepdim=True)[0].detach() * 0.99
    target += reward\
"""
OLD = "target = torch.autograd.Variable((reward + 0.99 * critic(following).max(1, keepdim=True)[0]).data)"


def script(target: str, loss: str) -> str:
    return CRITIC.replace("TARGET", target).replace("LOSS", loss)


@pytest.mark.parametrize(
    ("target", "loss", "named"),
    [
        pytest.param(WITHOUT_GRADIENTS, "F.mse_loss(critic(state), target)", "target", id="a function"),
        pytest.param(WITHOUT_GRADIENTS, "mse(critic(state), target)", "target", id="a loss that is an object"),
        pytest.param(WITHOUT_GRADIENTS, "F.smooth_l1_loss(target, critic(state))", "target", id="sides exchanged"),
        pytest.param(WITHOUT_GRADIENTS, "(critic(state) - target).pow(2).mean()", "target", id="by hand"),
        pytest.param(IN_TWO_STEPS, "F.mse_loss(critic(state), target)", "target", id="a target in two steps"),
        pytest.param(IN_A_LOOP, "(returns - values).pow(2).mean()", "returns", id="returns of an actor-critic"),
        pytest.param(ADDED_IN_PLACE, "F.mse_loss(critic(state), target)", "target", id="a reward added in place"),
        pytest.param(OLD, "F.mse_loss(critic(state), target)", "target", id="a variable of old torch"),
        pytest.param(
            "target = target_of(reward, following)",
            "F.mse_loss(critic(state), target)",
            "target",
            id="a target from a function",
        ),
        pytest.param(
            "pass",
            "F.mse_loss(critic(state), reward + 0.99 * critic_target(following).detach())",
            "reward + 0.99 * critic_target(following).detach()",
            id="a target in place",
        ),
    ],
)
def test_a_network_that_learns_from_its_own_estimates_stays_in_32_bits(target: str, loss: str, named: str) -> None:
    result = run(Amp, script(target, loss))

    (site,) = result.sites
    assert (site.code, result.after) == ("bootstrapped-target", script(target, loss))
    assert site.message.startswith(f"{named} adds to what a network estimates")


def test_what_trains_through_such_a_network_stays_in_32_bits_too() -> None:
    actor = """\


for state in states():
    actor_loss = -critic.first(actor(state.cuda())).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
"""
    result = run(Amp, script(WITHOUT_GRADIENTS, "F.mse_loss(critic(state), target)") + actor)

    assert [each.code for each in result.sites] == ["bootstrapped-target", "bootstrapped-target"]


@pytest.mark.parametrize(
    ("target", "loss"),
    [
        pytest.param("target = reward", "F.mse_loss(critic(state), target)", id="a target from the data"),
        pytest.param("target = reward * 2 + 1", "F.mse_loss(critic(state), target)", id="a sum of the data"),
        pytest.param(
            "target = critic_target(following).detach()",
            "F.mse_loss(critic(state), target)",
            id="a teacher's output",
        ),
        pytest.param("pass", "F.mse_loss(following + 0.5 * critic(state), reward)", id="a residual that is learned"),
        pytest.param(
            "total = critic_target(following).detach() * 0.5 + critic(state).detach()",
            "F.mse_loss(critic(state), total)",
            id="an average of two networks",
        ),
        pytest.param(
            "mixed = 0.5 * following + 0.5 * critic(state).detach()",
            "critic(mixed).mean() - critic(state).mean()",
            id="a mixture that a network is given",
        ),
    ],
)
def test_other_targets_keep_nothing_in_32_bits(target: str, loss: str) -> None:
    (site,) = run(Amp, script(target, loss)).sites

    assert site.rewrites, site.message
