"""Which models do training iterations call."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.trained import given_to_process, late_hook, traced_by

HEAD = """\
import torch
import torch.multiprocessing as mp
from torch import nn
from torchvision import models
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
class Held(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
    def forward(self, x):
        return self.layer(x)
class Loss(nn.Module):
    def forward(self, x):
        return x.sum()
model = {made}.cuda()
{before}
for x in data:
    {call}.backward()
{after}
"""


def trained(made: str = "Net()", before: str = "", call: str = "model(x).sum()", after: str = "") -> list[str]:
    known = script(HEAD.format(made=made, before=before, call=call, after=after))
    return [each.name for each in known.trained_models]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, ["model"], id="a class of the project"),
        pytest.param({"made": "nn.DataParallel(Net())"}, ["an object of class Net"], id="what is wrapped"),
        pytest.param({"made": "nn.Linear(4, 4)"}, ["model"], id="a single layer"),
        pytest.param({"before": "loss = Loss()", "call": "loss(model(x))"}, ["model"], id="no loss without layers"),
        pytest.param({"call": "x.sum()"}, [], id="it is not called"),
        pytest.param({"call": "model.one(x).sum()"}, ["torch.nn.Linear()"], id="only a layer of it"),
        pytest.param(
            {"before": "other = Net()", "call": "other(model(x)).sum()"}, ["model", "an object of class Net"], id="two"
        ),
    ],
)
def test_the_models_that_are_trained(arguments: dict[str, str], expected: list[str]) -> None:
    assert trained(**arguments) == expected


@pytest.mark.parametrize(
    ("made", "is_single"),
    [
        ("Net()", False),
        ("nn.Linear(4, 4)", True),
        ("nn.Sequential(nn.Linear(4, 4), nn.ReLU())", False),
        ("Held(nn.Linear(4, 4))", True),
        ("Held(nn.Sequential(*list(models.vgg16().children())[:-1]))", False),
    ],
)
def test_whether_there_is_something_to_fuse(made: str, is_single: bool) -> None:  # noqa: FBT001 - the expectation
    known = script(HEAD.format(made=made, before="", call="model(x).sum()", after=""))
    (model,) = known.trained_models

    assert model.is_single is is_single


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param("model.one.register_forward_hook(show)", "", False, id="before its first call"),
        pytest.param("", "model.one.register_forward_hook(show)", True, id="after it"),
        pytest.param("def late():\n    model.register_forward_hook(show)\n", "late()", True, id="in a function"),
        pytest.param("x.register_hook(show)", "x.register_hook(show)", False, id="of a tensor"),
    ],
)
def test_a_hook_that_comes_too_late(before: str, after: str, expected: bool) -> None:  # noqa: FBT001 - expected
    known = script(HEAD.format(made="Net()", before=before, call="model(x).sum()", after=after))
    (model,) = known.trained_models

    assert (late_hook(known.flow, known.module, known.modules, model, None) is not None) is expected


@pytest.mark.parametrize(
    ("after", "traced", "sent"),
    [
        pytest.param("torch.jit.trace(model, x)", True, False, id="it is traced"),
        pytest.param("writer.add_graph(model, x)", True, False, id="its graph is shown"),
        pytest.param("torch.onnx.export(model.eval(), x)", True, False, id="what its method returns"),
        pytest.param("torch.jit.trace(other, x)", False, False, id="another one"),
        pytest.param("mp.Process(target=run, args=(model,))", False, True, id="another process"),
        pytest.param("mp.Process(target=run, args=(x,))", False, False, id="a process without it"),
    ],
)
def test_who_else_is_given_the_model(after: str, traced: bool, sent: bool) -> None:  # noqa: FBT001 - the expectation
    known = script(HEAD.format(made="Net()", before="", call="model(x).sum()", after=after))
    (model,) = known.trained_models
    found = (traced_by(known.flow, known.modules, model, None), given_to_process(known.flow, known.modules, model))

    assert tuple(isinstance(each, ast.Call) for each in found) == (traced, sent)


WRAPPED = """\
class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x):
        return self.net(x)
class Chosen(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.body = make(name)
    def forward(self, x):
        return self.body.forward(x)
model = {made}.cuda()
for x in data:
    model(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("made", "is_single"),
    [
        pytest.param("Wrapper(nn.Linear(4, 4))", [True], id="a layer in a wrapper"),
        pytest.param("Wrapper(Net())", [False], id="a network in a wrapper"),
        pytest.param("Wrapper(Chosen('big'))", [False], id="what is not known, in a wrapper"),
        pytest.param("Chosen('big')", [False], id="what is not known"),
    ],
)
def test_a_wrapper_is_a_single_layer_where_what_it_holds_is(made: str, is_single: list[bool]) -> None:
    head = HEAD.partition("model = {made}")[0]
    known = script(head + WRAPPED.format(made=made))

    assert [each.is_single for each in known.trained_models] == is_single
