"""What follows a model's move to its device, and under which condition."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.placement import Home
from codemods.facts.models.preparation import condition, last_preparation, under, why_one_name, why_too_early

HEAD = """\
import argparse
import torch
from torch import nn
args = argparse.ArgumentParser().parse_args()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
    def forward(self, x):
        return self.two(self.one(x))
"""
LOOP = "for x in data:\n    model(x).sum().backward()\n"


def prepared(body: str) -> tuple[str, str | None]:
    """The last statement that prepares the model, and the condition that is asked behind it."""
    known = script(HEAD + body)
    (trained,) = known.trained_models
    assert isinstance(trained.home, Home)
    last = last_preparation(known, trained.home)
    return ast.unparse(last), condition(known, trained, trained.home, last)


@pytest.mark.parametrize(
    ("body", "last"),
    [
        pytest.param(f"model = Net().cuda()\n{LOOP}", "model = Net().cuda()", id="nothing follows"),
        pytest.param(f"model = Net().cuda()\nmodel.train()\n{LOOP}", "model.train()", id="its mode"),
        pytest.param(
            f"model = Net().cuda()\nmodel.load_state_dict(torch.load('f'))\n{LOOP}",
            "model.load_state_dict(torch.load('f'))",
            id="its weights",
        ),
        pytest.param(
            f"model = Net().cuda()\nmodel.one.register_forward_hook(show)\n{LOOP}",
            "model.one.register_forward_hook(show)",
            id="a hook",
        ),
        pytest.param(
            f"model = Net().cuda()\nprint(1)\nmodel.train()\n{LOOP}", "model = Net().cuda()", id="not behind others"
        ),
    ],
)
def test_the_last_statement_that_prepares_it(body: str, last: str) -> None:
    assert prepared(body)[0] == last


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(f"model = Net().cuda()\n{LOOP}", None, id="always"),
        pytest.param(
            f"device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nmodel = Net().to(device)\n{LOOP}",
            "device.type == 'cuda'",
            id="where there is CUDA",
        ),
        pytest.param(
            f"model = Net()\nif args.cuda:\n    model.cuda()\n{LOOP}", None, id="within the condition there is none"
        ),
        pytest.param(
            f"model = Net().cuda()\nif args.evaluate:\n    print(model(x))\nelse:\n    {LOOP.replace(chr(10), chr(10) + '    ')}\n",
            "not args.evaluate",
            id="where it is trained",
        ),
    ],
)
def test_under_which_condition(body: str, expected: str | None) -> None:
    assert prepared(body)[1] == expected


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(f"model = Net().cuda()\n{LOOP}", None, id="it is moved there"),
        pytest.param(f"model = Net()\nif args.cuda:\n    model.cuda()\n{LOOP}", None, id="under a condition"),
        pytest.param(
            "class Trainer:\n    def __init__(self):\n        self.net = Net()\n        self.all = nn.ModuleList([self.net])\n"
            "        self.all.to('cuda' if args.cuda else 'cpu')\n"
            "trainer = Trainer()\nfor x in data:\n    trainer.net(x).sum().backward()\n",
            None,
            id="with what holds it",
        ),
    ],
)
def test_whether_it_is_moved_only_later(body: str, code: str | None) -> None:
    known = script(HEAD + body)
    found = [why_too_early(known, each.home) for each in known.trained_models if isinstance(each.home, Home)]

    assert [None if each is None else each.code for each in found] == [code]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(f"model = Net().cuda()\n{LOOP}", None, id="one name"),
        pytest.param(
            f"box = [Net()]\nbox[0].cuda()\n{LOOP.replace('model', 'box[0]')}", "compiles-nothing", id="no plain name"
        ),
        pytest.param(
            f"model = Net().cuda()\nother = model\n{LOOP.replace('model', 'other')}",
            "compiles-nothing",
            id="another name",
        ),
    ],
)
def test_whether_another_name_would_be_seen(body: str, code: str | None) -> None:
    known = script(HEAD + body)
    (trained,) = known.trained_models
    assert isinstance(trained.home, Home)
    reason = why_one_name(known, trained, trained.home)

    assert (None if reason is None else reason.code) == code


@pytest.mark.parametrize(
    ("test", "expected"),
    [("", "model.compile()\nprint(1)"), ("cuda", "if cuda:\n    model.compile()\n    print(1)")],
)
def test_lines_under_a_condition(test: str, expected: str) -> None:
    assert under(test, ["model.compile()", "print(1)"]) == expected
