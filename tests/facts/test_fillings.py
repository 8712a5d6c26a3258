"""Tensors that are filled on the host and copied to a device."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.fillings import counted_indices, filled

HEAD = "import torch\nfrom torch.autograd import Variable\ndevice = torch.device('cuda')\n"
MADE = {
    "at once": ("torch.zeros(2).to(device)", "torch.zeros(2)", []),
    "with steps in between": ("torch.ones(4).view(2, 2).long().to(device)", "torch.ones(4)", ["long", "view"]),
    "in a function around it": ("torch.tril(torch.ones(2, 2)).cuda()", "torch.ones(2, 2)", ["tril"]),
    "in a variable": ("Variable(torch.zeros(2)).cuda()", "torch.zeros(2)", ["Variable"]),
}


def last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


@pytest.mark.parametrize(("code", "maker", "steps"), MADE.values(), ids=MADE)
def test_what_makes_it(code: str, maker: str, steps: list[str]) -> None:
    (found,) = filled(script(f"{HEAD}for _ in range(9):\n    y = {code}\n"))

    assert ast.unparse(found.maker) == maker
    assert [last(each.func) for each in found.steps] == steps
    assert found.why_not is None


def test_the_number_format_of_the_copy() -> None:
    code = f"{HEAD}for _ in range(9):\n    y = torch.zeros(2).to(device, torch.half), torch.ones(2).to(device, dtype=torch.long)\n"

    assert [each.number_format and last(each.number_format) for each in filled(script(code))] == ["half", "long"]


@pytest.mark.parametrize(
    "code",
    ["y = torch.zeros(2).to(device)\n", "for _ in range(9):\n    y = torch.tensor([2, 3]).to(device)\n"],
    ids=["once", "of data"],
)
def test_what_is_none(code: str) -> None:
    assert list(filled(script(HEAD + code))) == []


def test_a_comprehension_is_a_loop() -> None:
    assert len(list(filled(script(HEAD + "y = [torch.zeros(2).to(device) for _ in range(9)]\n")))) == 1


MODEL = """\
class Net({base}):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        {run}

    def help(self, x):
        {helped}
"""
ZEROS = "y = torch.zeros(2).to(x.device)"


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        pytest.param({"run": ZEROS}, 1, id="a model, for each batch"),
        pytest.param({"run": "self.help(x)", "helped": ZEROS}, 1, id="what its forward calls"),
        pytest.param({"helped": ZEROS}, 0, id="another method"),
        pytest.param({"made": "y = torch.zeros(2).to(device)"}, 0, id="what makes it runs once"),
        pytest.param({"base": "object", "run": ZEROS}, 0, id="another class"),
    ],
)
def test_a_forward_runs_again_and_again(parts: dict[str, str], count: int) -> None:
    base = {"base": "torch.nn.Module", "made": "pass", "run": "pass", "helped": "pass"}
    code = HEAD + MODEL.format(**{**base, **parts}) + "net = Net().to(device)\nnet(torch.zeros(2, device=device))\n"

    assert len(list(filled(script(code)))) == count


INTEGERS = {
    "a length": "len(xs)",
    "a size": "x.size(0)",
    "an item of the shape": "x.shape[-1]",
    "a negative one": "-3, 3",
    "a sum": "x.size(0) + 2 * 3",
    "a name": "n",
}


@pytest.mark.parametrize("given", INTEGERS.values(), ids=INTEGERS)
def test_integers_are_counted_alike(given: str) -> None:
    code = f"xs, x, n = [1], torch.ones(3), 4\nfor _ in range(9):\n    y = torch.arange({given}).to(device)\n"

    assert [each.why_not for each in filled(script(HEAD + code))] == [None]


INDEX = """\
import torch
from torch import nn

model = nn.Linear(4, 3).cuda()
labels = torch.zeros(2).long().cuda()
for x in torch.randn(9, 2, 4).cuda():
    y = model(x)
    {}
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("z = y[torch.arange(2), labels]", ["torch.arange(2) y"], id="beside another index"),
        pytest.param("y[torch.arange(len(y)), 0] = 1", ["torch.arange(len(y)) y"], id="what is written to"),
        pytest.param("z = y[torch.arange(2).view(2, 1) + 0]", ["torch.arange(2) y"], id="with steps in between"),
        pytest.param("z = y[torch.arange(2, device=y.device)]", [], id="it is there already"),
        pytest.param("z = y[torch.arange(2).cuda()]", [], id="a copy, which is a site of its own"),
        pytest.param("z = y[torch.zeros(2).long()]", [], id="it does not count"),
        pytest.param("z = model(x)[torch.arange(2)]", [], id="what is indexed has no name"),
        pytest.param("z = x.cpu(); w = z[torch.arange(2)]", [], id="what is indexed is on the host"),
        pytest.param("z = [1, 2]; w = z[torch.arange(2)]", [], id="a list"),
    ],
)
def test_what_is_counted_to_index_a_tensor(code: str, expected: list[str]) -> None:
    found = list(counted_indices(script(INDEX.format(code))))

    assert [f"{ast.unparse(each.maker)} {ast.unparse(each.tensor)}" for each in found] == expected
    assert not any(each.why_not for each in found)


def test_an_index_that_may_be_no_integers() -> None:
    (found,) = counted_indices(script(INDEX.format("z = y[torch.arange(float(input()), 5).long()]")))

    assert found.why_not is not None


def test_an_index_that_is_counted_once() -> None:
    text = INDEX.format("pass") + "z = model(labels)\nw = z[torch.arange(2)]\n"

    assert not list(counted_indices(script(text)))


def test_without_cuda_an_index_is_copied_nowhere() -> None:
    assert not list(counted_indices(script(INDEX.replace(".cuda()", "").format("z = y[torch.arange(2), labels]"))))
