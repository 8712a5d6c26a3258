"""Models that a function of the project makes, and that are only run by their name."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.only_run import made_by_function

HEAD = """\
import torch
from torch import nn


def build(n):
    return nn.Linear(n, n)


"""


def made(text: str) -> str | None:
    found = script(HEAD + text)
    call = next(each for each in found.module.nodes(ast.Call) if ast.unparse(each).endswith("(images)"))
    maker = made_by_function(found.flow, found.module, call.func)
    return None if maker is None else ast.unparse(maker)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("net = build(3)\nnet(images)\n", id="it is run"),
        pytest.param("net = build(3).cuda()\nnet.eval()\nnet = net.half()\nnet(images)\n", id="it is moved"),
        pytest.param("net = build(3)\nnet.load_state_dict(torch.load('a.pt'))\nnet(images)\n", id="it has weights"),
        pytest.param(
            "class Run:\n    def __init__(self):\n        self.net = build(3)\n\n    def step(self, images):\n"
            "        return self.net(images)\n",
            id="it is an attribute",
        ),
    ],
)
def test_what_is_only_run(text: str) -> None:
    assert made(text) == "build(3)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("net = nn.Linear(3, 3)\nnet(images)\n", id="no function of the project makes it"),
        pytest.param("net = build(3)\nnet.parameters()\nnet(images)\n", id="its parameters are asked for"),
        pytest.param("net = build(3)\ntrain(net)\nnet(images)\n", id="it is handed on"),
        pytest.param("net = build(3)\nnet = nn.DataParallel(net)\nnet(images)\n", id="it is wrapped"),
        pytest.param("net = other = build(3)\nnet(images)\n", id="it has two names"),
        pytest.param("net = build(3)\nother = net\nnet(images)\n", id="it gets another name"),
        pytest.param("net = build(3)\nif images:\n    net = build(4)\nnet(images)\n", id="there are two of it"),
        pytest.param("net, other = build(3), build(3)\nnet(images)\n", id="it is one of several"),
        pytest.param("build(3)(images)\n", id="it has no name"),
        pytest.param("net = build(3)\n\ndef run(net):\n    return net(images)\n", id="it is another one"),
        pytest.param(
            "class Run:\n    def __init__(self):\n        self.net = build(3)\n\n    def step(self, images):\n"
            "        return self.net(images)\n\ntrain(Run().net)\n",
            id="others ask for the attribute",
        ),
    ],
)
def test_what_may_be_trained_by_its_name(text: str) -> None:
    assert made(text) is None
