"""What steps besides an optimizer: where that may be another optimizer, no scaler is written."""

from __future__ import annotations

import pytest
from kit import run

from codemods.rules.amp import Amp

SCRIPT = """\
import torch
from torch import nn
{imports}

def train(model, optimizer, {more}):
    for x, y in zip(torch.randn(6, 16, 8), torch.randint(4, (6, 16))):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        {step}


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}
train(model, optimizer, {given})
"""


def script(imports: str, made: str, step: str, annotation: str = "") -> str:
    name = step.rpartition("= ")[2].partition(".")[0].strip()
    text = SCRIPT.replace("{imports}", imports).replace("{made}", made).replace("{step}", step)
    return text.replace("{more}", name + annotation).replace("{given}", name)


UNKNOWN = [
    pytest.param("lr_free_adam = make(model.parameters())", "lr_free_adam.step()", id="a name with lr in it"),
    pytest.param("env_optimizer = make(model)", "env_optimizer.step()", id="a name with env in it"),
    pytest.param("profiled = make(model)", "profiled.step()", id="a name with prof in it"),
    pytest.param("scheduled = make(optimizer)", "scheduled.step()", id="a name with sched in it"),
    pytest.param("other = make(model)", "value = other.step()", id="what it returns is kept whole"),
]


@pytest.mark.parametrize(("made", "step"), UNKNOWN)
def test_a_name_is_no_evidence(made: str, step: str) -> None:
    code = script("from somewhere import make", made, step)
    (site,) = run(Amp, code).sites

    assert "GradScaler" not in run(Amp, code).after
    assert site.message.endswith("; for bf16 alone, as in fp16 what steps in line 12 is not known")


KNOWN = {
    "a scheduler of torch": (
        "from torch.optim.lr_scheduler import StepLR",
        "plan = StepLR(optimizer, 3)",
        "plan.step()",
    ),
    "a schedule of Transformers": (
        "from transformers import get_linear_schedule_with_warmup",
        "plan = get_linear_schedule_with_warmup(optimizer, 3, 6)",
        "plan.step()",
    ),
    "one of them by its name": (
        "import transformers",
        "plan = transformers.get_scheduler('linear', optimizer, 3, 6)",
        "plan.step()",
    ),
    "a scheduler of timm, with how long it runs": (
        "from timm.scheduler import create_scheduler",
        "plan, epochs = create_scheduler(options, optimizer)",
        "plan.step()",
    ),
    "averaging of weights": (
        "from torch.optim.swa_utils import SWALR",
        "plan = SWALR(optimizer, swa_lr=0.05)",
        "plan.step()",
    ),
    "a profiler": ("from torch.profiler import profile", "watch = profile()", "watch.step()"),
    "an environment": ("import gymnasium as gym", "world = gym.make('CartPole-v1')", "world.step()"),
    "what it returns is taken apart": (
        "from somewhere import make",
        "world = make()",
        "state, reward, done, _ = world.step()",
    ),
    "an item of what it returns": ("from somewhere import make", "world = make()", "reward = world.step()[1]"),
    "it is asked for the learning rate": (
        "from somewhere import make",
        "plan = make(optimizer)",
        "plan.step()\n        print(plan.get_last_lr())",
    ),
}


@pytest.mark.parametrize(("imports", "made", "step"), KNOWN.values(), ids=KNOWN)
def test_what_is_known_to_be_no_optimizer(imports: str, made: str, step: str) -> None:
    result = run(Amp, script(imports, made, step))

    assert "scaler.step(optimizer)" in result.after


def test_a_parameter_that_is_said_to_be_a_scheduler() -> None:
    code = script(
        "from somewhere import make", "plan = make(optimizer)", "plan.step()", ": torch.optim.lr_scheduler.LRScheduler"
    )

    assert "scaler.step(optimizer)" in run(Amp, code).after
