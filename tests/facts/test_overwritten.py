"""What scripts replace of libraries."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.overwritten import names_of, overwritten, why_overwritten

IMPORTS = """\
from unittest import mock
import torchvision
from torchvision import datasets
from torchvision.datasets import CIFAR10, mnist
data = datasets.MNIST("data")
"""
MNIST = "torchvision.datasets.MNIST"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("datasets.MNIST.__getitem__ = f", {f"{MNIST}.__getitem__"}),
        ("torchvision.datasets.mnist.MNIST.__getitem__ = f", {f"{MNIST}.__getitem__"}),
        ("mnist.MNIST.__getitem__ = f", {f"{MNIST}.__getitem__"}),
        ("CIFAR10.__len__, x = f, 3", {"torchvision.datasets.CIFAR10.__len__"}),
        ("datasets.MNIST = datasets.FashionMNIST", {MNIST}),
        ("del datasets.MNIST.__add__", {f"{MNIST}.__add__"}),
        ("datasets.MNIST.classes += ['none']", {f"{MNIST}.classes"}),
        ("setattr(datasets.MNIST, '__getitem__', f)", {f"{MNIST}.__getitem__"}),
        ("setattr(datasets.MNIST, name, f)", {f"{MNIST}.?"}),
        ("data.__class__.__getitem__ = f", {f"{MNIST}.__getitem__"}),
        ("type(data).__getitem__ = f", {f"{MNIST}.__getitem__"}),
        ("datasets.__dict__['MNIST'] = f", {MNIST}),
        ("mock.patch('torchvision.datasets.mnist.MNIST.__getitem__', f).start()", {f"{MNIST}.__getitem__"}),
        ("with mock.patch.object(datasets.MNIST, '__len__', f):\n    pass", {f"{MNIST}.__len__"}),
        (
            "for each in (datasets.MNIST, CIFAR10):\n    each.__len__ = f",
            {f"{MNIST}.__len__", "torchvision.datasets.CIFAR10.__len__"},
        ),
        ("def patch(class_):\n    class_.__len__ = f\npatch(datasets.MNIST)", {f"{MNIST}.__len__"}),
        ("getattr(datasets, name).__len__ = f", {"torchvision.datasets.?.__len__"}),
        ("data.transform = f", set()),
        ("print(datasets.MNIST.__getitem__)", set()),
        ("class Mine(datasets.MNIST):\n    pass\nMine.__getitem__ = f", set()),
    ],
)
def test_what_is_replaced(change: str, names: set[str]) -> None:
    known = script(f"{IMPORTS}name = input()\ndef f(self, i): ...\n{change}\n")

    assert {each.name for each in overwritten(known.flow, known.module)} == names


def test_a_module_of_the_project_that_the_script_imports_counts() -> None:
    known = script(
        "import patches\nfrom torchvision import datasets\ndata = datasets.FashionMNIST('data')\n",
        patches="from torchvision.datasets import MNIST\nMNIST.__getitem__ = lambda self, i: i\n",
    )

    reason = why_overwritten(known.flow, known.module, {"torchvision.datasets.FashionMNIST"})
    assert reason is not None
    assert reason.words.said(known.module).text == (
        "the script replaces torchvision.datasets.MNIST.__getitem__ (patches.py, line 2), "
        "and what FashionMNIST does then is not known"
    )


def test_a_module_that_another_script_imports_does_not_count() -> None:
    known = script(
        "from torchvision import datasets\ndata = datasets.MNIST('data')\n",
        other="from torchvision.datasets import MNIST\nMNIST.__getitem__ = lambda self, i: i\n",
    )

    assert why_overwritten(known.flow, known.module, {MNIST}) is None


def test_an_object_of_a_class_of_the_project_is_one_of_its_bases() -> None:
    known = script(
        "from torchvision import datasets\nclass Mine(datasets.MNIST): ...\ndata = Mine('data')\nother = len(data)\n"
    )
    data, other = (value for each in known.module.nodes(ast.Assign) for value in known.flow.values(each.value))

    assert MNIST in names_of(known.flow, data)
    assert not names_of(known.flow, other)
