"""Models of one make."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.models.alike import Alike

HEAD = """\
import copy
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)
"""


def are_alike(body: str, **others: str) -> bool:
    found = script(HEAD + body, **others)
    call = next(
        each for each in found.module.nodes(ast.Call) if isinstance(each.func, ast.Name) and each.func.id == "ask"
    )
    one, other = call.args
    return Alike(found.flow).holds(found.module, one, other)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("a = Net(4)\nb = copy.deepcopy(a)\nask(a, b)", True, id="a copy"),
        pytest.param("a, b = Net(4), Net(4)\nask(a, b)", True, id="of the same arguments"),
        pytest.param("a, b = Net(4), Net(5)\nask(a, b)", False, id="of other arguments"),
        pytest.param("n = 4\na, b = Net(n), Net(n)\nask(a, b)", True, id="of a name"),
        pytest.param("n = 4\na = Net(n)\nn = 5\nb = Net(n)\nask(a, b)", False, id="of a name that changes"),
        pytest.param("def f(n): return Net(n)\na, b = f(4), Net(4)\nask(a, b)", False, id="in another function"),
        pytest.param(
            "def f(): return Net(4)\na, b = f(), Net(4)\nask(a, b)", True, id="of numbers in another function"
        ),
        pytest.param("a, b = Net(4), unknown()\nask(a, b)", False, id="not known"),
        pytest.param(
            "a, b = Net(4), Net(2 + 2)\nb.load_state_dict(a.state_dict())\nask(a, b)", True, id="with its weights"
        ),
        pytest.param("a = Net(4)\nb = copy.deepcopy(a)\ndel b.fc\nask(a, b)", False, id="one loses a layer"),
        pytest.param(
            "a = nn.Sequential(Net(4))\nb = copy.deepcopy(a)\na.append(Net(2))\nask(a, b)", False, id="one gets more"
        ),
        pytest.param(
            "a = Net(4)\nb = copy.deepcopy(a)\nb.fc.register_parameter('w', None)\nask(a, b)", False, id="in a layer"
        ),
        pytest.param(
            "a = Net(4)\nb = copy.deepcopy(a)\nnn.utils.weight_norm(a.fc)\nask(a, b)", False, id="reparametrized"
        ),
        pytest.param("kept = []\na = Net(4)\nb = copy.deepcopy(a)\nkept.append(a)\nask(a, b)", True, id="one is kept"),
        pytest.param(
            "def f(n): return Net(n)\na, b = f(4), f(5)\nask(a, b)", False, id="of other arguments of a function"
        ),
        pytest.param(
            "def f(n): return Net(n)\na, b = f(4), f(4)\nask(a, b)", True, id="of the arguments of a function"
        ),
        pytest.param(
            "def f(n): return Net(n)\na, c = f(4), f(5)\nb = copy.deepcopy(a)\nask(a, b)",
            True,
            id="a copy, as others are made",
        ),
        pytest.param(
            "def f(n): return Net(n)\ndef g(n): return f(n)\na, b = g(4), g(5)\nask(a, b)", False, id="of two functions"
        ),
        pytest.param("a, b = Net(4), nn.Linear(4, 4)\nask(a, b)", False, id="of other classes"),
        pytest.param(
            "def f(a, b): ask(a, b)\nm = Net(4)\nf(m, copy.deepcopy(m))\nf(m.fc, m.fc)", True, id="in each call"
        ),
        pytest.param("def f(a, b): ask(a, b)\nf(Net(4), Net(4))\nf(Net(4), Net(5))", False, id="not in each call"),
        pytest.param("a, b = Net(4), Net(4)\nask(a.fc, b.fc)", True, id="the same part of both"),
        pytest.param(
            "net = Net(4)\na, b = nn.DataParallel(net), nn.DataParallel(copy.deepcopy(net))\nask(a.module, b.module)",
            True,
            id="in wrappers",
        ),
        pytest.param("a, b = Net(4), Net(5)\nask(a.fc, b.fc)", False, id="the same part of others"),
        pytest.param("a = Net(4)\nb = copy.deepcopy(a)\nask(a.fc, b)", False, id="a part of one"),
        pytest.param(
            "a, b = Net(4), Net(4)\na.fc.weight = nn.Parameter(x)\nask(a.fc, b.fc)", False, id="a part that is changed"
        ),
        pytest.param("a, b = Net(4), Net(4)\na.fc = nn.Linear(4, 5)\nask(a.fc, b.fc)", False, id="a part that is new"),
        pytest.param(
            "def f(a, b): ask(a, b)\na, b = Net(4), Net(4)\nf(a, b)\nf(a.fc, b.fc)", True, id="whole, and in part"
        ),
        pytest.param("def f(a, b=None): ask(a, b)\nf(Net(4))\nf(Net(4), Net(5))", False, id="one is not given"),
    ],
)
def test_which_models_are_alike(body: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert are_alike(body) is expected


def test_of_several_modules() -> None:
    nets = "from torch import nn\ndef make():\n    return nn.Linear(4, 4)\n"

    assert are_alike("from nets import make\na, b = make(), make()\nask(a, b)", nets=nets)
    assert not are_alike("from nets import make\na, b = make(), nn.Linear(5, 4)\nask(a, b)", nets=nets)
