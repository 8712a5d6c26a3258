"""Functions of the project that copy a tensor that they are given to a device before anything else reads it."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.copying_helpers import HelperCopy, first_copy, held, parameter_of

HEAD = """\
import functools
import numpy as np
import torch
from torch.autograd import Variable

use_cuda = torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")


"""
USE = "\nto_var(torch.ones(3), 1)\n"


def copied(text: str) -> HelperCopy | ast.AST:
    """What the function ``to_var`` of the text does first with its parameter ``t``."""
    made = script(HEAD + text + USE)
    given = [(each, parameter_of(made.flow, each.module, each.receiver)) for each in made.transfers]
    transfers = [each for each, parameter in given if parameter is not None and parameter.name == "t"]
    (function,) = {parameter.function for _, parameter in given if parameter is not None}
    return first_copy(function, "t", transfers)


FOUND = {
    "a copy that it returns": ("def to_var(t, k):\n    return t.to(device)\n", None, True),
    "a copy under its own name": ("def to_var(t, k):\n    t = t.cuda()\n    return Variable(t)\n", None, True),
    "one of two names": ("def to_var(t, k):\n    t, k = t.cuda(), 3\n    return t * k\n", None, True),
    "under another name, which alone is read": (
        "def to_var(t, k):\n    u = t.cuda()\n    return u + u\n",
        None,
        True,
    ),
    "a copy of its variable": ("def to_var(t, k):\n    return Variable(t.float()).cuda()\n", None, True),
    "where a condition holds": (
        'def to_var(t, k):\n    """On the GPU."""\n    if use_cuda:\n        t = t.cuda()\n    return t\n',
        "use_cuda",
        True,
    ),
    "of two branches": (
        "def to_var(t, k):\n    if use_cuda:\n        return t.cuda()\n    else:\n        return t\n",
        "use_cuda",
        True,
    ),
    "in the other branch": (
        "def to_var(t, k):\n    if k:\n        return t\n    else:\n        return t.cuda()\n",
        "k",
        False,
    ),
    "after what returns it otherwise": (
        "def to_var(t, k):\n    if k:\n        return t\n    return t.cuda()\n",
        "k",
        False,
    ),
    "in an expression": ("def to_var(t, k):\n    return t.cuda() if use_cuda else t\n", "use_cuda", True),
    "in the other part of one": ("def to_var(t, k):\n    return t if k else t.cuda()\n", "k", False),
    "of a lambda": ("to_var = lambda t, k: t.cuda() if use_cuda else t\n", "use_cuda", True),
    "of a static method": (
        "class Tools:\n    @staticmethod\n    def to_var(t, k):\n        return t.cuda()\n\n\nto_var = Tools.to_var\n",
        None,
        True,
    ),
    "after what only arrays need": (
        "def to_var(t, k):\n    if isinstance(t, np.ndarray):\n        t = torch.from_numpy(t)\n    return t.to(device)\n",
        None,
        True,
    ),
    "after what lists need": (
        "def to_var(t, k):\n    if isinstance(t, (list, tuple)):\n        return [to_var(each, k) for each in t]\n"
        "    if t is None:\n        return t\n    return t.to(device)\n",
        None,
        True,
    ),
    "of what is a tensor": (
        "def to_var(t, k):\n    if torch.is_tensor(t):\n        t = t.to(device)\n    return t\n",
        None,
        True,
    ),
    "of what has the method, on CUDA": (
        "def to_var(t, k):\n    if hasattr(t, 'cuda') and use_cuda:\n        t = t.cuda()\n    return t\n",
        "use_cuda",
        True,
    ),
    "of what is no tensor not": (
        "def to_var(t, k):\n    if not isinstance(t, torch.Tensor):\n        return t\n    return t.to(device)\n",
        None,
        True,
    ),
    "in an expression that asks whether it is one": (
        "def to_var(t, k):\n    return t.cuda() if isinstance(t, torch.Tensor) else t\n",
        None,
        True,
    ),
    "below a device of its own": (
        "def to_var(t, k):\n    import os\n    where = torch.device('cuda')\n    return t.to(where)\n",
        None,
        True,
    ),
}


@pytest.mark.parametrize(("text", "condition", "is_met"), FOUND.values(), ids=FOUND)
def test_the_copy_with_which_a_function_starts_is_found(text: str, condition: str | None, is_met: bool) -> None:  # noqa: FBT001
    copy = copied(text)

    assert isinstance(copy, HelperCopy)
    assert copy.transfer.call.func.attr in {"to", "cuda"}  # type: ignore[attr-defined]
    assert (copy.condition and ast.unparse(copy.condition), copy.is_met) == (condition, is_met)


AGAINST = {
    "it is read before": ("def to_var(t, k):\n    print(t)\n    return t.to(device)\n", "print(t)"),
    "it is changed before": ("def to_var(t, k):\n    t.add_(1)\n    return t.to(device)\n", "t.add_(1)"),
    "it is read beside the copy": ("def to_var(t, k):\n    return t.sum(), t.to(device)\n", "t"),
    "it is copied twice": (
        "def to_var(t, k):\n    return t.cuda() + t.cuda()\n",
        "return t.cuda() + t.cuda()",
    ),
    "it is read again": ("def to_var(t, k):\n    u = t.cuda()\n    u += 1\n    return t\n", "u = t.cuda()"),
    "a condition reads it": (
        "def to_var(t, k):\n    if t.sum() > 0:\n        t = t.cuda()\n    return t\n",
        "t.sum() > 0",
    ),
    "a condition reads it, too": (
        "def to_var(t, k):\n    if k and not t.is_cuda:\n        t = t.cuda()\n    return t\n",
        "k and (not t.is_cuda)",
    ),
    "a part of an expression reads it": (
        "def to_var(t, k):\n    return t.cuda() if len(t) > 1 else t\n",
        "t",
    ),
    "two conditions": (
        "def to_var(t, k):\n    if use_cuda:\n        if k:\n            t = t.cuda()\n    return t\n",
        "use_cuda",
    ),
    "something else runs first": ("def to_var(t, k):\n    k.append(1)\n    return t.cuda()\n", "k.append(1)"),
    "a variable of the module is set": (
        "def to_var(t, k):\n    global use_cuda\n    use_cuda = k\n    return t.cuda()\n",
        "global use_cuda",
    ),
    "another condition decides something else": (
        "def to_var(t, k):\n    if k:\n        print(k)\n    return t.cuda()\n",
        "if k:\n    print(k)",
    ),
    "errors are hidden": (
        "def to_var(t, k):\n    try:\n        return t.cuda()\n    except RuntimeError:\n        return t\n",
        "try:\n    return t.cuda()\nexcept RuntimeError:\n    return t",
    ),
    "only where something else is true": ("def to_var(t, k):\n    return k and t.cuda()\n", "k and t.cuda()"),
    "a generator runs later": ("def to_var(t, k):\n    yield t.cuda()\n", "(yield t.cuda())"),
    "a function within may read it": (
        "def to_var(t, k):\n    t = t.cuda()\n    return t, lambda: t\n",
        "lambda: t",
    ),
    "a lambda does more": ("to_var = lambda t, k: (t.sum(), t.cuda())\n", "lambda t, k: (t.sum(), t.cuda())"),
    "only one kind of tensors": (
        "def to_var(t, k):\n    if isinstance(t, torch.FloatTensor):\n        t = t.cuda()\n    return t\n",
        "isinstance(t, torch.FloatTensor)",
    ),
    "it may be something else": (
        "def to_var(t, k):\n    if isinstance(t, k):\n        t = t.cuda()\n    return t\n",
        "isinstance(t, k)",
    ),
}


@pytest.mark.parametrize(("text", "obstacle"), AGAINST.values(), ids=AGAINST)
def test_what_stands_against_it_is_told(text: str, obstacle: str) -> None:
    found = copied(text)

    assert isinstance(found, ast.AST)
    assert ast.unparse(found) == obstacle


def test_a_decorator_may_do_anything() -> None:
    found = copied("@functools.lru_cache\ndef to_var(t, k):\n    return t.cuda()\n")

    assert isinstance(found, ast.FunctionDef)


def test_only_parameters_are_given() -> None:
    text = (
        HEAD
        + "def run(t):\n    a = torch.ones(3).cuda()\n    for t in range(3):\n        t.cuda()\n    return a.cuda()\n"
    )
    made = script(text + "run(torch.ones(2))\n")

    assert {parameter_of(made.flow, each.module, each.receiver) for each in made.transfers} == {None}


def test_what_local_names_hold_is_known_where_they_are_given_it_once() -> None:
    text = "def run(k):\n    a = 1\n    b = 2\n    if k:\n        b = 3\n        c = 4\n    k = 5\n    return a\n"
    (function,) = ast.parse(text).body

    assert isinstance(function, ast.FunctionDef)
    assert {name: ast.unparse(value) for name, value in held(function).items()} == {"a": "1"}
