"""Ratios of old and new probabilities, ``exp(new - old)``: both sides are to be computed in one precision."""

from __future__ import annotations

import pytest
from kit import check_leaves, run

from codemods.rules.amp import Amp

SCRIPT = """\
import torch
from torch import nn
from torch.distributions import Categorical

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.Adam(policy.parameters())
states = torch.randn(64, 8, device=device)
with torch.no_grad():
    dist = Categorical(logits=policy(states))
    actions = dist.sample()
    old_logp = dist.log_prob(actions)
for epoch in range(4):
    logp = Categorical(logits=policy(states)).log_prob(actions)
    RATIO
    loss = -(ratio * states[:, 0]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FUNCTION = """\
import torch
from torch import nn
from torch.distributions import Categorical


def surrogate(policy, batch):
    logp = Categorical(logits=policy(batch["obs"])).log_prob(batch["act"])
    ratio = torch.exp(logp - batch["logp"])
    return -(ratio * batch["adv"]).mean()


policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.Adam(policy.parameters())
for batch in collect(policy):
    optimizer.zero_grad()
    loss = surrogate(policy, batch)
    loss.backward()
    optimizer.step()
"""
MIXED = "compares what was computed in 32 bits with what 16 bits give"


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        pytest.param("ratio = torch.exp(logp - old_logp)", "torch.exp(logp - old_logp)", id="a function"),
        pytest.param("ratio = (logp - old_logp).exp()", "(logp - old_logp).exp()", id="a method"),
        pytest.param("ratio = (old_logp - logp).exp()", "(old_logp - logp).exp()", id="the other way round"),
        pytest.param(
            "ratio = torch.exp(logp - old_logp.detach())", "torch.exp(logp - old_logp.detach())", id="detached"
        ),
    ],
)
def test_old_against_new_is_left(ratio: str, shown: str) -> None:
    check_leaves(Amp, SCRIPT.replace("RATIO", ratio), f"{shown} {MIXED}; compute both under autocast (line 15)")


def test_a_difference_with_a_name_is_left() -> None:
    code = SCRIPT.replace("RATIO", "change = logp - old_logp\n    ratio = change.exp()")

    check_leaves(Amp, code, f"change.exp() {MIXED}; compute both under autocast (line 16)")


def test_a_function_that_compares_is_left() -> None:
    code = 'torch.exp(logp - batch["logp"])'

    check_leaves(Amp, FUNCTION, f"{code} {MIXED}; compute both under autocast (line 8)")


@pytest.mark.parametrize(
    "ratio",
    [
        pytest.param("ratio = torch.exp(logp - logp.detach())", id="both sides are new"),
        pytest.param(
            "with torch.no_grad():\n        now = Categorical(logits=policy(states)).log_prob(actions)\n"
            "    ratio = torch.exp(logp - now)",
            id="both are computed there",
        ),
        pytest.param("ratio = torch.exp(logp - 1.0)", id="less a number"),
        pytest.param("shift = 2\n    ratio = torch.exp(logp - shift)", id="less a number that has a name"),
        pytest.param("ratio = torch.exp(logp)", id="no difference"),
        pytest.param("ratio = logp - old_logp", id="no ratio"),
    ],
)
def test_what_compares_nothing_is_rewritten(ratio: str) -> None:
    assert "torch.autocast" in run(Amp, SCRIPT.replace("RATIO", ratio)).after
