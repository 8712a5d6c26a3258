"""Which models are trained, but not seen to be called, and why."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.uncalled import (
    is_made_of_model,
    not_known,
    optimized,
    owners,
    run_by_forward,
    run_by_methods,
    why_on_cpu,
)
from codemods.facts.reason import HERE

HEAD = """\
import torch
import library
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
"""
STEP = "optimizer = torch.optim.SGD(model.parameters(), lr=1)\n"


def of_optimizers(body: str) -> list[tuple[str, str]]:
    known = script(HEAD + body)
    return [(ast.unparse(node), reason.code) for node, reason in optimized(known)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            f"model = Net().cuda()\n{STEP}for x in data:\n    model(x).sum().backward()\n", [], id="it is called"
        ),
        pytest.param(
            f"model = Net().cuda()\n{STEP}for x in data:\n    library.train(model, x)\n",
            [("Net()", "not-called")],
            id="a library calls it",
        ),
        pytest.param(f"model = Net()\n{STEP}", [("Net()", "no-cuda")], id="it stays on the host"),
        pytest.param(
            f"model = Net().cuda()\n{STEP}for x in data:\n    nn.parallel.data_parallel(model, x).sum().backward()\n",
            [("Net()", "data-parallel")],
            id="it is run in threads",
        ),
        pytest.param("model = Net().cuda()\n", [], id="nothing trains it"),
    ],
)
def test_models_that_optimizers_train(body: str, expected: list[tuple[str, str]]) -> None:
    assert of_optimizers(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            f"model = library.make().cuda()\n{STEP}for x in data:\n    model(x).sum().backward()\n",
            [("model", "unknown-model")],
            id="what a library makes",
        ),
        pytest.param(
            f"model = Net().cuda()\n{STEP}for x in data:\n    model(x).sum().backward()\n",
            [],
            id="a model that is known",
        ),
        pytest.param(f"model = library.make().cuda()\n{STEP}", [], id="nothing is trained"),
    ],
)
def test_what_optimizers_are_given_the_parameters_of(body: str, expected: list[tuple[str, str]]) -> None:
    known = script(HEAD + body)

    assert [(ast.unparse(node), reason.code) for node, reason in owners(known, set())] == expected


def test_what_is_said_already_is_not_said_again() -> None:
    known = script(f"{HEAD}model = library.make().cuda()\n{STEP}for x in data:\n    model(x).sum().backward()\n")
    nodes = {node for node, _ in owners(known, set())}

    assert list(owners(known, set(known.module.nodes(ast.Call)) | nodes)) == []


def test_why_it_is_not_known() -> None:
    assert (
        not_known("net", "it is never given a value").text
        == "what net is there is not known: it is never given a value"
    )


@pytest.mark.parametrize(
    ("made", "is_of_model"),
    [
        pytest.param("run = " + 6 * "library.wrap(" + "Net().cuda()" + 6 * ")", True, id="however often it is wrapped"),
        pytest.param("run = " + 6 * "library.wrap(" + "1" + 6 * ")", False, id="of something else"),
        pytest.param(
            "run = Net().cuda()\nfor _ in range(3):\n    run = library.wrap(run)", True, id="wrapped again in a loop"
        ),
    ],
)
def test_what_a_library_makes_of_a_model(made: str, is_of_model: bool) -> None:  # noqa: FBT001 - the expectation
    known = script(f"{HEAD}{made}\nfor x in data:\n    run(x).sum().backward()\n")
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "run(x)")

    assert any(is_made_of_model(known, each) for each in known.flow.values(call.func)) is is_of_model


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        pytest.param("model.forward(x)", ["model.forward(x)"], id="its forward"),
        pytest.param("model.encode(x) + model.encode(-x)", ["model.encode(x)"], id="a method of its own, twice"),
        pytest.param("model(x)", [], id="it is called"),
        pytest.param("model.encode(x) + model(x)", [], id="it is called, too"),
    ],
)
def test_models_that_run_by_their_methods(called: str, expected: list[str]) -> None:
    encode = "    def encode(self, x):\n        return self.one(x)\n"
    known = script(f"{HEAD}{encode}model = Net()\nfor x in data:\n    ({called}).sum().backward()\n")

    assert [ast.unparse(call) for call, _, _ in run_by_methods(known, known.modules)] == expected


def test_of_a_model_that_runs_by_its_methods_elsewhere_nothing_more_is_said() -> None:
    engine = "def train(model, data):\n    for x in data:\n        model.forward(x).sum().backward()\n"
    known = script(f"{HEAD}import engine\nmodel = Net().cuda()\n{STEP}engine.train(model, data)\n", engine=engine)

    assert not [*optimized(known)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param("model.forward(x).sum().backward()", [["Net", "DataParallel"]], id="it is run by forward"),
        pytest.param(
            "model.forward(x).sum().backward()\n    model.module.forward(x)", [["Net", "DataParallel"]], id="twice"
        ),
        pytest.param("model(x).sum().backward()\n    model.forward(x)", [], id="it is called, too"),
        pytest.param("model.train(x).backward()", [], id="another method is called"),
    ],
)
def test_models_that_are_run_by_forward(calls: str, expected: list[list[str]]) -> None:
    known = script(f"{HEAD}model = nn.DataParallel(Net().cuda())\nfor x in data:\n    {calls}\n")
    found = [
        [each.model.value.name, *(one.name.rpartition(".")[2] for one in each.wrappers)]
        for each in run_by_forward(known)
    ]

    assert found == expected


def test_a_layer_that_a_model_runs_by_forward_is_a_part_of_it() -> None:
    learner = """
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def learn(self, x):
        self.net.forward(x).sum().backward()
learner = Learner().cuda()
for x in data:
    learner.learn(x)
"""

    assert not list(run_by_forward(script(HEAD + learner)))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param("model = Net()\nmodel.one.cuda()\n", "only a part of it is moved to CUDA (…)", id="a layer"),
        pytest.param("model = Net()\nmodel.one.cpu()\n", "it is not moved to CUDA in this file", id="none"),
        pytest.param("model = Net()\nmodel.one.to('cpu')\n", "it is not moved to CUDA in this file", id="to the host"),
        pytest.param(
            "model, other = Net(), Net()\nother.one.cuda()\n",
            "it is not moved to CUDA in this file",
            id="of another one",
        ),
        pytest.param(
            "model = Net()\nmodel(x).one.cuda()\n", "it is not moved to CUDA in this file", id="of what it returns"
        ),
    ],
)
def test_what_of_a_model_is_moved(body: str, text: str) -> None:
    known = script(HEAD + body)
    made = next(each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "Net()")
    (model,) = known.flow.values(made)

    assert why_on_cpu(known, model).text.replace(HERE, "…") == text
