"""What in a model's code cannot be traced into one graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.models.compilability import draws, why_not_traced, why_recompiled

if TYPE_CHECKING:
    from codemods.facts.models.layers import Model

HEAD = """\
import random
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.autograd import Variable
def helper(x):
    return x.item()
class Printing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print(x)
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = {layer}
        self.count = 0
        self.scale = 1.0
        self.table = torch.zeros(3)
    def tick(self):
        self.count = self.count + 1
    def forward(self, x):
        y = self.layer(x)
{body}
        return y
model = Net()
"""


def model(body: str, layer: str = "nn.Linear(4, 4)") -> Model:
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    (found,) = script(HEAD.format(layer=layer, body=lines)).models
    return found


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("y = y + 1", id="arithmetic"),
        pytest.param("if y.shape[0] > 3:\n    y = y + 1", id="a branch on a shape"),
        pytest.param("if x is None:\n    y = y + 1", id="a branch on whether it is there"),
        pytest.param("if self.training:\n    y = y + 1", id="a branch on the mode"),
        pytest.param("self.table += 1", id="a tensor is counted up"),
        pytest.param("self.table = self.table + 1", id="a tensor is computed from itself"),
        pytest.param("self.count = self.count + y.sum()", id="a number becomes a tensor"),
        pytest.param("self.count = y.size(0)", id="a number is kept that is not computed from itself"),
        pytest.param("self.scale = self.scale * 0.5", id="a fraction is computed from itself"),
        pytest.param("n = int(y.size(0))", id="a size is converted"),
        pytest.param("self.layer.weight.data.mul_(2)", id="data is changed in place"),
        pytest.param("self.layer.weight.data[:, 1:] *= 0", id="a part of the data is changed"),
        pytest.param("y[y > 0] = 0", id="what a mask selects is written to"),
        pytest.param("y = y[torch.arange(3)]", id="rows by their numbers"),
        pytest.param("y = torch.where(y > 0, y, 0)", id="one of two by a mask"),
        pytest.param("y = y.masked_fill(y > 0, 0)", id="a mask fills"),
        pytest.param("names = ['a', 'b']\nnames = names[self.count > 1]", id="one of two by a number"),
    ],
)
def test_it_is_one_graph(body: str) -> None:
    assert why_not_traced(model(body)) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("if y.sum() > 0:\n    y = y + 1", "graph-break", id="a branch on a tensor"),
        pytest.param("while not y.any():\n    y = y + 1", "graph-break", id="a loop on a tensor"),
        pytest.param("y = y * y.sum().item()", "graph-break", id="a number of a tensor"),
        pytest.param("y = y * float(y.sum())", "graph-break", id="a conversion"),
        pytest.param("y = y * helper(y)", "graph-break", id="in a function that it calls"),
        pytest.param("rows = y.nonzero()", "graph-break", id="where a tensor is not zero"),
        pytest.param("rows = torch.nonzero(y > 0, as_tuple=True)", "graph-break", id="where a condition holds"),
        pytest.param("rows, columns = torch.where(y > 0)", "graph-break", id="where a condition holds, by where"),
        pytest.param("y = y.masked_select(y > 0)", "graph-break", id="a mask selects"),
        pytest.param("y = y[y > 0]", "graph-break", id="a condition selects"),
        pytest.param("mask = ~(y > 0) & (y < 3)\ny = y[:, mask]", "graph-break", id="a name for a mask selects"),
        pytest.param("y = y[torch.isnan(y)]", "graph-break", id="what is no number is selected"),
        pytest.param("y = torchvision.ops.nms(y, y, 0.5)", "graph-break", id="boxes are suppressed"),
        pytest.param("print(y)", "graph-break", id="it prints"),
        pytest.param("self.count += 1", "graph-break", id="it counts"),
        pytest.param("self.count = (self.count + y.size(0)) % 64", "graph-break", id="it moves on in a ring"),
        pytest.param("at = self.count\nend = at + len(x)\nself.count = end", "graph-break", id="it counts by names"),
        pytest.param("self.tick()", "graph-break", id="a method of its own counts"),
        pytest.param("y = Variable(y)", "graph-break", id="a Variable"),
        pytest.param("z = torch.zeros(3, requires_grad=True)", "graph-break", id="a leaf"),
        pytest.param("self.table = nn.Parameter(self.table * 2)", "graph-break", id="a Parameter"),
        pytest.param("z = torch.FloatTensor(y.size())", "inductor-fault", id="a size that is taken for data"),
        pytest.param("z = torch.LongTensor(unseen)", "inductor-fault", id="what may be an array of another format"),
        pytest.param("self.layer.weight.data *= 2", "inductor-fault", id="data that is given to itself"),
        pytest.param("y = torch.fft.fft(y)", "graph-break", id="what is not compiled"),
        pytest.param("g = F.affine_grid(y, y.size())", "dynamic-shapes", id="what fails where sizes differ"),
        pytest.param("y = Printing.apply(y)", "graph-break", id="a function of its own, which autograd applies"),
        pytest.param(
            "y = torch.utils.cpp_extension.load('fast', []).act(y)", "graph-break", id="a function of an extension"
        ),
    ],
)
def test_what_ends_the_graph(body: str, code: str) -> None:
    reason = why_not_traced(model(body))

    assert reason is not None
    assert reason.code == code


def test_what_to_write_for_data_that_is_given_to_itself() -> None:
    reasons = [why_not_traced(model(f"self.layer.weight.data {each} y")) for each in ("*=", "//=")]

    assert [each.remedy for each in reasons if each is not None] == ["write self.layer.weight.data.mul_(y)", ""]


OMITTED = """\
def longest(x, length=None):
    if length is None:
        length = x.max().item()
    return x[:length]
def shown(x):
    print(x)
def number(x):
    return x.item()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x, length=None):
        y = longest(x, length)
        {rest}
        return self.layer(y)
model = Net()
"""


@pytest.mark.parametrize(
    ("rest", "line"),
    [
        pytest.param("y = y * number(y)", 10, id="another one runs in each call"),
        pytest.param("if length is not None: y = y * number(y)", 10, id="another one runs where it is given"),
        pytest.param("if length is None: y = y * y.sum().item()", 17, id="each runs where an argument is omitted"),
        pytest.param("shown(y)", 5, id="another one can be mended"),
        pytest.param("pass", 5, id="there is no other"),
    ],
)
def test_what_runs_where_an_argument_is_omitted_is_said_last(rest: str, line: int) -> None:
    (found,) = script("import torch\nfrom torch import nn\n" + OMITTED.format(rest=rest)).models
    reason = why_not_traced(found)

    assert reason is not None
    assert [each.lines for each in reason.places] == [(line,)]


def test_layers_that_are_not_traced() -> None:
    recurrent = why_not_traced(model("pass", "nn.GRU(4, 4)"))

    assert recurrent is not None
    assert recurrent.code == "recurrent-model"


@pytest.mark.parametrize(
    ("body", "layer", "expected"),
    [
        ("pass", "nn.Linear(4, 4)", False),
        ("pass", "nn.Dropout()", True),
        ("y = F.dropout(y)", "nn.Linear(4, 4)", True),
        ("y = y + torch.randn(3)", "nn.Linear(4, 4)", True),
        ("y = y + random.random()", "nn.Linear(4, 4)", False),
        ("y = y + torch.zeros(3)", "nn.Linear(4, 4)", False),
    ],
)
def test_whether_it_draws(body: str, layer: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert draws(model(body, layer)) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("y = F.max_pool1d(y, y.size(2))", True, id="a length is the size of a kernel"),
        pytest.param("n = y.shape[1]\ny = F.avg_pool1d(y, kernel_size=n)", True, id="by a name"),
        pytest.param("for i in range(y.size(1)):\n    y = y + i", True, id="a loop over a length"),
        pytest.param("rows, length = y.shape\nfor i in range(length):\n    y = y + i", True, id="unpacked"),
        pytest.param("for i in range(y.size(0)):\n    y = y + i", False, id="a loop over the rows"),
        pytest.param("for i in range(3):\n    y = y + i", False, id="a loop of its own length"),
        pytest.param("y = F.max_pool1d(y, 2)", False, id="a kernel of its own size"),
    ],
)
def test_whether_each_length_is_compiled_anew(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    assert (why_recompiled(model(body)) is not None) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "a = y.size(1)\nb = a - 1\nc = b\nd = c // 2\ne = int(d)\nfor i in range(e):\n    y = y + i",
            True,
            id="a length by many names",
        ),
        pytest.param(
            "a = 3\nb = a - 1\nc = b\nd = c // 2\ne = int(d)\nfor i in range(e):\n    y = y + i", False, id="a number"
        ),
        pytest.param(
            "n = 3\nwhile n < 9:\n    n = n * 2\nfor i in range(n):\n    y = y + i", False, id="made of itself"
        ),
        pytest.param(
            "n = y.size(1)\nwhile n > 9:\n    n = n // 2\nfor i in range(n):\n    y = y + i",
            True,
            id="a length that is made of itself",
        ),
    ],
)
def test_lengths_that_names_hand_on(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation
    assert (why_recompiled(model(body)) is not None) is expected
