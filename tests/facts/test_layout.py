from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.data.layout import why_not_in_order

X = "import numpy as np\nimport torch\nx = torch.randn(9, 3, 8, 8)\n"


def culprit(code: str) -> str | None:
    """What of the last statement's tensor is not known to be in order."""
    found = script(X + code)
    module = found.module
    last = module.tree.body[-1]
    assert isinstance(last, ast.Assign)
    reason = why_not_in_order(found.flow, module, last.value)
    return None if reason is None else ast.unparse(reason.places[0].nodes[0])


IN_ORDER = [
    *("torch.randn(9, 3)", "torch.zeros((9, 3))", "np.random.rand(9, 3)", "torch.tensor([[1, 2], [3, 4]])"),
    *("x", "x.float()", "x[:5]", "x[:, ::2]", "x.view(9, -1)", "x.reshape(9, -1).to(torch.float64)", "-x * 2 + x[:1]"),
    *(
        "(x > 0).float()",
        "torch.cat([x, x])",
        "torch.stack([x.permute(0, 2, 3, 1), x])",
        "torch.from_numpy(np.ones((9, 3)))",
    ),
    "x.permute(0, 2, 3, 1).contiguous()",
    "np.ascontiguousarray(np.load('x.npy'))",
]
UNKNOWN = [
    ("x.permute(0, 2, 3, 1)", "x.permute(0, 2, 3, 1)"),
    ("x.t()", "x.t()"),
    ("x.T", "x.T"),
    ("x.to(memory_format=torch.channels_last)", "x.to(memory_format=torch.channels_last)"),
    ("torch.load('x.pt')", "torch.load('x.pt')"),
    ("torch.tensor(np.load('x.npy'))", "np.load('x.npy')"),
    ("torch.cat([x, x.transpose(1, 2)])", "x.transpose(1, 2)"),
    ("np.zeros((9, 3), order='F')", "np.zeros((9, 3), order='F')"),
    ("x[:, [2, 1], y]", "x[:, [2, 1], y]"),
]


@pytest.mark.parametrize("tensor", IN_ORDER)
def test_is_in_order(tensor: str) -> None:
    assert culprit(f"answer = {tensor}\n") is None


@pytest.mark.parametrize(("tensor", "named"), UNKNOWN)
def test_may_be_in_another_order(tensor: str, named: str) -> None:
    assert culprit(f"answer = {tensor}\n") == named


def test_a_name_is_in_order_where_all_that_it_is_ever_given_is() -> None:
    assert culprit("y = x.float()\ny = y / 2\nanswer = y\n") is None
    assert culprit("y = x.float()\nif x.sum() > 0:\n    y = y.mT\nanswer = y\n") == "y.mT"
    assert culprit("y, z = x[:5], x[5:]\nanswer = z\n") is None
    assert culprit("with open('x') as y:\n    pass\nanswer = y\n") == "y"


def test_what_a_function_is_given_is_not_known() -> None:
    found = script(X + "def make(x):\n    x = x.float()\n    return x\n")
    (returned,) = found.module.nodes(ast.Return)
    assert returned.value is not None
    reason = why_not_in_order(found.flow, found.module, returned.value)
    assert reason is not None
    assert reason.code == "unknown-layout"
    assert reason.remedy == "write x.contiguous()"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("y = torch.randn(9, 3)\nz = y\ny = torch.load('y.pt')\n", None, id="later"),
        pytest.param("y = torch.load('y.pt')\ny = torch.randn(9, 3)\nz = y\n", None, id="earlier"),
        pytest.param("y = x.t()\ny = y.float()\nz = y\n", "x.t()", id="kept"),
        pytest.param("y = x\nif x.sum() > 3:\n    y = x.t()\nz = y\n", "x.t()", id="under a condition"),
    ],
)
def test_what_a_name_is_given_before_the_place_counts(code: str, expected: str | None) -> None:
    """As in a notebook, whose cells give one name to several things."""
    found = script(X + code)
    (tensor,) = [each.value for each in found.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "z"]
    reason = why_not_in_order(found.flow, found.module, tensor)

    assert (None if reason is None else ast.unparse(reason.places[0].nodes[0])) == expected


FUNCTIONS = """\
def pair(n):
    rows = np.zeros([n, 3])
    for i in range(n):
        rows[i] = i
    return torch.Tensor(rows).to("cuda"), torch.load("y.pt")
def one():
    return torch.ones(9, 3) if len(x) else None
def whole():
    y = torch.ones(9, 3).float()
    return y
def maybe(n):
    if n:
        return torch.ones(9, 3)
    return x.t()
def given(y):
    return y.float()
def again(n):
    return again(n - 1)
def none():
    return
def some():
    yield torch.ones(9, 3)
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("a, b = pair(9)\nanswer = a\n", None, id="an element"),
        pytest.param("a, b = pair(9)\nanswer = b\n", "torch.load('y.pt')", id="another one"),
        pytest.param("answer = whole()\n", None, id="the whole result"),
        pytest.param("y = torch.load('y.pt')\nanswer = whole()\n", None, id="names of the function are its own"),
        pytest.param("answer = maybe(3)\n", "x.t()", id="one of several results"),
        pytest.param("answer = one()\n", "torch.ones(9, 3) if len(x) else None", id="a result that is not followed"),
        pytest.param("answer = given(x)\n", "y", id="what the function is given"),
        pytest.param("answer = again(3)\n", "again(n - 1)", id="a function that returns what it returns"),
        pytest.param("answer = none()\n", "none()", id="nothing"),
        pytest.param("answer = some()\n", "some()", id="a generator"),
        pytest.param("a, *b = pair(9)\nanswer = a\n", "a", id="of a star's rest"),
    ],
)
def test_what_a_function_of_the_project_makes(code: str, expected: str | None) -> None:
    assert culprit(FUNCTIONS + code) == expected
