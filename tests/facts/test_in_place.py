"""What ``model.compile()`` compiles there."""

from __future__ import annotations

import pytest
from probe import script

from codemods.dataflow.source import Module
from codemods.facts.models.in_place import OWN, has_own_compile, why_not_there, why_second_name, with_one_name
from codemods.facts.models.placement import Home
from codemods.facts.reason import Reason
from codemods.facts.script import Script
from codemods.facts.target import UNKNOWN, Target

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
class Own(Net):
    def compile(self):
        self.ready = True
class Kept(Net):
    def prepare(self):
        self.compile = torch.jit.script
"""
LOOP = "for x in data:\n    model(x).sum().backward()\n"


def known(body: str, target: Target = UNKNOWN) -> Script:
    return Script.of(Module("train.py", HEAD + body), target)


@pytest.mark.parametrize(
    ("made", "target", "code"),
    [
        pytest.param("Net()", UNKNOWN, None, id="a class of the project"),
        pytest.param("Own()", UNKNOWN, "own-method", id="a compile of its own"),
        pytest.param(
            "nn.Sequential(nn.Linear(4, 4), nn.ReLU())", UNKNOWN, "compiles-nothing", id="only torch's modules"
        ),
        pytest.param(
            "nn.Sequential(nn.Linear(4, 4), nn.ReLU())", Target((2, 15)), None, id="on a torch that sees them"
        ),
        pytest.param("nn.Sequential(Net(), nn.ReLU())", UNKNOWN, None, id="one of the project among them"),
    ],
)
def test_whether_a_second_name_is_needed(made: str, target: Target, code: str | None) -> None:
    found = known(f"model = {made}\nmodel.cuda()\n{LOOP}", target)
    (trained,) = found.trained_models
    assert isinstance(trained.home, Home)
    reason = why_second_name(found, trained, trained.home)

    assert (None if reason is None else reason.code) == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(f"model = Net()\nmodel.cuda()\n{LOOP}", None, id="nothing"),
        pytest.param(
            f"model = Net()\nmodel.cuda()\n{LOOP}model.register_forward_hook(show)\n",
            "late-hook",
            id="a hook that comes later",
        ),
        pytest.param(
            f"model = Net() if small else Own()\nmodel.cuda()\n{LOOP}", "own-method", id="one of two has its own"
        ),
    ],
)
def test_what_stands_against_it_there(body: str, code: str | None) -> None:
    found = known(body)
    trained = found.trained_models[0]
    assert isinstance(trained.home, Home)
    reason = why_not_there(found, trained, trained.home, ())

    assert (None if reason is None else reason.code) == code


def test_a_name_that_may_also_be_a_model_that_is_left() -> None:
    found = known(f"model = Net() if small else Own()\nmodel.cuda()\n{LOOP}")
    one, other = found.trained_models
    assert isinstance(one.home, Home)
    reason = why_not_there(found, one, one.home, {other.model.value})

    assert reason is not None
    assert reason.code == "left-with-another"


@pytest.mark.parametrize(("made", "expected"), [("Net()", False), ("Own()", True), ("Kept()", True)])
def test_a_compile_of_its_own(made: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    (model,) = script(f"{HEAD}model = {made}\n").models

    assert has_own_compile(model) is expected


def test_the_reason_of_what_can_have_no_second_name() -> None:
    found = with_one_name(OWN, Reason("compiles-nothing", "it has one name"))

    assert (found.code, found.text) == ("own-method", "its class has a compile of its own, and it has one name")
