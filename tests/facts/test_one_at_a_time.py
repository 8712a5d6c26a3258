"""Which models are given one observation of an environment at a time."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.cost.one_at_a_time import sees_one_at_a_time
from codemods.facts.cost.worth import worth

AGENT = """
import gymnasium
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = nn.Conv2d(4, 32, 3)

    def forward(self, x):
        return self.see(x).flatten(1)

    def judge(self, x):
        return self.see(x).mean()


env = gymnasium.make("Pong-v4")
policy = Policy().cuda()
optimizer = torch.optim.Adam(policy.parameters())
view, _ = env.reset()
for step in range(1000):
    state = torch.from_numpy(view).float().cuda()
    logits = policy(state.unsqueeze(0))
    view, reward, done, _, _ = env.step(logits.argmax().item())
    optimizer.zero_grad()
    (-reward * logits.max()).backward()
    optimizer.step()
"""
CALL = "policy(state.unsqueeze(0))"


def is_one(text: str) -> bool:
    known = script(text)
    return all(sees_one_at_a_time(known.flow, each.value) for each in known.models)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(CALL, id="unsqueeze()"),
        pytest.param("policy(state.unsqueeze(dim=0).cuda())", id="and moved"),
        pytest.param("policy(torch.unsqueeze(state, 0))", id="the function"),
        pytest.param("policy(state[None])", id="an index"),
        pytest.param("policy((state.unsqueeze(0), None))", id="with a state of its own"),
    ],
)
def test_a_first_dimension_of_one(call: str) -> None:
    assert is_one(AGENT.replace(CALL, call))


def test_a_name_is_followed() -> None:
    assert is_one(AGENT.replace(".float().cuda()", ".unsqueeze(0)").replace(CALL, "policy(state)"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(CALL, "policy(state)", id="as many as there are"),
        pytest.param(CALL, "policy(state.unsqueeze(1))", id="another dimension"),
        pytest.param(CALL, "policy()", id="nothing"),
        pytest.param("import gymnasium", "import gymnasium, envpool", id="environments by the thousand"),
        pytest.param("import gymnasium\n", "", id="no environment"),
        pytest.param("    optimizer.step()", "    policy(torch.stack([state, state]))", id="a batch elsewhere"),
        pytest.param(
            "    optimizer.step()", "    policy.judge(torch.stack([state, state]))", id="a batch for a method"
        ),
        pytest.param(
            "    state = torch.from_numpy(view).float().cuda()",
            "    state = next(iter(torch.utils.data.DataLoader([view])))",
            id="what a loader hands out",
        ),
    ],
)
def test_there_may_be_more(old: str, new: str) -> None:
    assert old in AGENT
    assert not is_one(AGENT.replace(old, new))


def test_neither_compiled_code_nor_16_bits_pay() -> None:
    known = script(AGENT)
    (model,) = {each.value for each in known.models}
    found = {worth(known).why_compiled_in_vain(model), worth(known).why_in_32_bits(frozenset({model}))}

    assert [each and each.text for each in found] == [
        "its model is given one observation of an environment at a time: launching operations takes longer than they do"
    ]


def test_a_large_published_network_is_weighed_by_its_size() -> None:
    known = script(
        AGENT.replace("Policy()", "models.resnet50()").replace(
            "import torch\n", "import torch\nfrom torchvision import models\n"
        )
    )
    published = [each.value for each in known.models if each.value.name == "torchvision.models.resnet50"]

    assert [worth(known).why_compiled_in_vain(each) for each in published] == [None]
