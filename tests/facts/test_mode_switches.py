"""Training loops that set a model to training mode again and again."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.training.mode_switches import mode_switches

HEAD = """\
import torch
from torch import nn
from unseen import look


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x)


net, other = Net(), nn.Linear(4, 1)
holder, stepper = look.Holder(net), look.Stepper(net.parameters())


def test():
    net.eval()


def show(x):
    print(x)


for epoch in range(3):
    for i, x in enumerate(torch.randn(3, 8, 4)):
"""
LINE = HEAD.count("\n")
STEP = "y = net(x).mean()\ny.backward()"


def found(body: str, head: str = HEAD, end: str = "") -> list[int]:
    lines = "".join(f"        {each}\n" for each in body.splitlines())
    return [each.statement.lineno - LINE for each in mode_switches(script(head + lines + end))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(f"net.train()\n{STEP}", [1], id="first of all"),
        pytest.param(f"net.train()\nother.train()\n{STEP}", [1, 2], id="two models"),
        pytest.param(f"x = x * 2\nnet.train()\n{STEP}\nshow(y)", [2], id="after something else"),
        pytest.param(f"net.train(True)\n{STEP}", [], id="a mode is told"),
        pytest.param(f"{STEP}\nnet.train()", [], id="after the model ran"),
        pytest.param(f"show(x)\nnet.train()\n{STEP}", [], id="after code of the project ran"),
        pytest.param(f"if i > 1:\n    continue\nnet.train()\n{STEP}", [], id="not in each iteration"),
        pytest.param(f"if i:\n    net.train()\n{STEP}", [], id="under a condition"),
        pytest.param(f"net.train()\n{STEP}\nnet.eval()", [], id="another mode below"),
        pytest.param(f"net.train()\n{STEP}\nif i > 1:\n    test()", [], id="another mode in a function"),
        pytest.param(f"net.train()\n{STEP}\nother.eval()", [], id="another model's mode"),
        pytest.param(f"net.train()\n{STEP}\nnet.layer.train(False)", [], id="a layer's mode"),
        pytest.param(f"net.train()\n{STEP}\nnet.layer.training = False", [], id="a layer's mode by its name"),
        pytest.param(f"net.train()\n{STEP}\nlook(net)", [], id="a function that is not seen has it"),
        pytest.param(f"net.train()\n{STEP}\nlook(y)", [1], id="a function that is not seen has the loss"),
        pytest.param(f"net.train()\n{STEP}\nholder.step()", [], id="an object that is not seen has it"),
        pytest.param(f"net.train()\n{STEP}\nstepper.step()", [1], id="an object has its parameters"),
        pytest.param(f"net.train()\n{STEP}\nnet = Net()", [], id="it becomes another model"),
        pytest.param(f"look.train()\n{STEP}", [], id="no model"),
    ],
)
def test_which_switches_could_stand_above(body: str, expected: list[int]) -> None:
    assert found(body) == expected


def test_a_mode_of_its_own_may_do_more() -> None:
    own = "    def train(self, mode=True):\n        print(mode)\n        return super().train(mode)\n\n"
    head = HEAD.replace("    def forward", f"{own}    def forward")

    assert found(f"net.train()\n{STEP}", head) == []


def test_a_loop_without_training_is_none() -> None:
    assert found("net.train()\nprint(net(x))") == []


def test_what_a_framework_runs_is_not_seen() -> None:
    head = "from accelerate import Accelerator\n" + HEAD.replace(
        "\n\nfor epoch", "\n\nnet = Accelerator().prepare(net)\nfor epoch"
    )

    assert found(f"net.train()\n{STEP}", head) == []


def test_a_base_that_is_not_seen_may_set_modes() -> None:
    head = HEAD.split("for epoch", maxsplit=1)[0]
    text = f"""{head}
class Trainer(look.Base):
    def __init__(self):
        self.net = Net()

    def fit(self):
        for x in torch.randn(3, 8, 4):
            self.net.train()
            self.net(x).mean().backward()
            {{}}


Trainer().fit()
"""

    assert len([*mode_switches(script(text.format("show(x)")))]) == 1
    assert [*mode_switches(script(text.format("self.validate()")))] == []
