"""What holds loaders, models and optimizers in real scripts gives them back."""

from __future__ import annotations

import pytest
from probe import answers

_START = """\
import argparse
import collections
import functools
import itertools
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
from easydict import EasyDict
from rich.progress import Progress
from torch import nn
from torch.utils.data import DataLoader

loader = DataLoader([1])
layer = nn.Linear(1, 1)
"""
_LOADER = "torch.utils.data.DataLoader()"
_LAYER = "torch.nn.Linear()"


def case(reason: str, text: str, *expected: str) -> object:
    """One script with one answer."""
    return pytest.param(text, set(expected), id=reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("a namespace made with it", "box = SimpleNamespace(a=loader)\nanswer = box.a", _LOADER),
        case("an object of an unknown class, moved", "from nets import Net\nanswer = Net(3).to(0).train()", "nets.Net()"),
        case("what it computes is another thing", "from nets import Net\nanswer = Net(3).to(0)(loader)", "nets.Net(…)()"),
        case("so is what its method returns", "from nets import Net\nanswer = Net(3).head()", "nets.Net(…)()"),
        case("and what a function returns", "from nets import make\nanswer = make(3).to(0)", "nets.make(…)()"),
        case("a namespace given it later", "box = SimpleNamespace()\nbox.a = loader\nanswer = box.a", _LOADER),
        case("a namespace of arguments", "box = argparse.Namespace(a=layer)\nanswer = box.a", _LAYER),
        case("an EasyDict of a dictionary", 'box = EasyDict({"a": loader})\nanswer = box.a', _LOADER),
        case(
            "an EasyDict of what the user wrote",
            "import yaml\nbox = EasyDict(yaml.safe_load(open('c')))\nanswer = box.a",
            "choice yaml.safe_load().a",
        ),
        case("a named tuple", 'Two = collections.namedtuple("Two", ["a", "b"])\nanswer = Two(loader, layer).a', _LOADER),
        case("a named tuple of one text", 'Two = collections.namedtuple("Two", "a, b")\nanswer = Two(1, b=layer).b', _LAYER),
        case(
            "a named tuple unpacked",
            'Two = collections.namedtuple("Two", ["a", "b"])\na, answer = Two(loader, layer)\nanswer = answer',
            _LAYER,
        ),
        case(
            "a NamedTuple unpacked",
            "from typing import NamedTuple\nclass Two(NamedTuple):\n    a: DataLoader\n    b: nn.Module\na, b = Two(loader, b=layer)\nanswer = b",
            _LAYER,
        ),
        case("the factory of a data class", "@dataclass\nclass A:\n    a: nn.Module = field(default_factory=lambda: layer)\nanswer = A().a", _LAYER),
        case("dict(zip(…))", 'box = dict(zip(["a", "b"], [loader, loader]))\nanswer = box["a"]', _LOADER),
        case("dict([pair])", 'answer = dict([("a", loader), ("b", layer)])["b"]', _LAYER),
        case("OrderedDict([pair])", 'answer = collections.OrderedDict([("a", layer)])["a"]', _LAYER),
        case("defaultdict(list)", 'box = collections.defaultdict(list)\nbox["a"].append(layer)\nanswer = box["a"][0]', _LAYER),
        case("ModuleDict", 'answer = nn.ModuleDict({"a": layer})["a"]', _LAYER),
        case("a layer's class with some arguments", "make = functools.partial(nn.LayerNorm, eps=1e-6)\nanswer = make(4)", "torch.nn.LayerNorm()"),
        case(
            "a loader's class with some arguments",
            "make = functools.partial(DataLoader, batch_size=4)\nanswer = make([1])",
            "unknown: torch.utils.data.DataLoader is called through functools.partial",
        ),
        case("chain.from_iterable(repeat(…))", "for x in itertools.chain.from_iterable(itertools.repeat(loader)):\n    answer = x", "batch"),
        case("Progress().track", "with Progress() as bar:\n    for x in bar.track(loader):\n        answer = x", "batch"),
        case("one of several losses is a list", "for x in nn.ModuleList([nn.MSELoss()]) if loader else nn.L1Loss():\n    answer = x", "torch.nn.MSELoss()"),
        case("iter(…).next()", "x, y = iter(loader).next()\nanswer = x", "batch"),
    ],
)  # fmt: skip
def test_holders(text: str, expected: set[str]) -> None:
    assert answers(_START + text)[-1] == expected


@pytest.mark.parametrize(
    "text",
    [
        "import models\nimport sys\nanswer = getattr(models, sys.argv[1])()",
        "import models\nimport sys\nanswer = models.__dict__[sys.argv[1]]()",
    ],
)
def test_a_class_of_the_project_chosen_by_its_name(text: str) -> None:
    models = "from torch import nn\nclass Small(nn.Module):\n    pass\ndef large():\n    return nn.Linear(1, 1)"

    assert answers(text, models=models) == [{"a Small", _LAYER}]


def test_apex_returns_what_it_is_given() -> None:
    assert answers(_START + "from apex import amp\nanswer, _ = amp.initialize(layer, 1)\nanswer = answer") == [{_LAYER}]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("real", "host"),
        ("data", "host"),
        ("mT", "host"),
        ("grad", "tensor"),
        ("is_sparse", "plain"),
        ("shape", "plain"),
    ],
)
def test_attributes_of_tensors(attribute: str, expected: str) -> None:
    (found,) = answers(_START + f"answer = torch.ones(2).{attribute}")

    assert {each.partition(" ")[0] for each in found} == {expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case(
            "a tensor is added to 0", "loss = 0\nfor x in loader:\n    loss += layer(x)\nanswer = loss.mean()", "tensor"
        ),
        case(
            "0 has a real part, too",
            "loss = 0\nfor x in loader:\n    loss += layer(x)\nanswer = loss.real",
            "tensor",
            "plain",
        ),
        case("texts are left alone", "text = 'a'\nanswer = text.mean()", "plain"),
    ],
)
def test_numbers_lack_what_tensors_have(text: str, expected: set[str]) -> None:
    assert answers(_START + text) == [expected]
