"""Which layers does a model have."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.values import Instance
from codemods.facts.models.layers import Model, function_in_threads, held, holds_only_known, is_in_threads

HEAD = """\
import timm
import torch
import torch.nn.functional as F
from torch import nn
from torchvision import models
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3)
    def forward(self, x):
        return self.conv(x)
class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3, 3, 3, 3))
    def forward(self, x):
        return F.conv2d(x, self.weight)
class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        return library(self.layer(x))
class Recurrent(nn.LSTM):
    pass
class Row(nn.Sequential):
    def forward(self, x):
        for layer in self._modules.values():
            x = layer(x)
        return x
    def twice(self, x):
        return self(self(x))
class Fixed(nn.Sequential):
    def __init__(self, width):
        layers = [nn.Conv2d(3, width, 3), nn.Tanh()]
        super(Fixed, self).__init__(*layers)
class Longer(Fixed):
    pass
class Threads(nn.DataParallel):
    pass
"""


def model(code: str, after: str = "") -> Model:
    known = script(f"{HEAD}model = {code}\n{after}")
    value = next(iter(known.flow.values(known.module.tree.body[len(ast.parse(HEAD).body)].value)))  # type: ignore[attr-defined]
    return Model(known.flow, value)


def names(found: Model) -> list[str]:
    return sorted(
        (each.of.name if isinstance(each, Instance) else each.name).rpartition(".")[2] for each in found.layers
    )


@pytest.mark.parametrize(
    ("code", "after", "expected"),
    [
        pytest.param("nn.Linear(3, 3)", "", ["Linear"], id="one"),
        pytest.param("nn.Sequential(nn.Linear(3, 3), nn.ReLU())", "", ["Linear", "ReLU", "Sequential"], id="in a row"),
        pytest.param("nn.Sequential(*[nn.ReLU() for _ in range(3)])", "", ["ReLU", "Sequential"], id="of a list"),
        pytest.param("Block()", "", ["Block", "Conv2d"], id="of a class"),
        pytest.param("Row(nn.ReLU(), Block())", "", ["Block", "Conv2d", "ReLU", "Row"], id="given to a row of its own"),
        pytest.param("Row(*[nn.ReLU()])", "", ["ReLU", "Row"], id="given to it as a list"),
        pytest.param("Fixed(4)", "", ["Conv2d", "Fixed", "Tanh"], id="given to the row that it derives from"),
        pytest.param("Longer(4)", "", ["Conv2d", "Longer", "Tanh"], id="given by the class between"),
        pytest.param("nn.ModuleList([Block()])", "", ["Block", "Conv2d", "ModuleList"], id="nested"),
        pytest.param("nn.ModuleList()", "model.append(nn.ReLU())", ["ModuleList", "ReLU"], id="added later"),
        pytest.param("models.resnet18()", "model.fc = nn.Linear(3, 3)", ["Linear", "resnet18"], id="set later"),
    ],
)
def test_the_layers(code: str, after: str, expected: list[str]) -> None:
    assert names(model(code, after)) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("nn.Conv2d(3, 3, 3)", True),
        ("Block()", True),
        ("Functional()", True),
        ("nn.Sequential(nn.ReLU(), Block())", True),
        ("models.resnet18()", True),
        ("timm.create_model('resnet50')", True),
        ("models.vit_b_16()", False),
        ("timm.create_model('vit_base')", False),
        ("timm.create_model(name)", False),
        ("nn.Linear(3, 3)", False),
    ],
)
def test_whether_it_is_convolutional(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert model(code).has_convolution is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("nn.Linear(3, size)", True, id="no container"),
        pytest.param("nn.Sequential()", True, id="an empty one"),
        pytest.param("nn.Sequential(Block(), nn.ReLU())", True, id="written out"),
        pytest.param("nn.Sequential(*[Block() for _ in range(9)])", True, id="of a list"),
        pytest.param("nn.Sequential(dict(a=Block(), b=nn.ReLU()))", True, id="of a dictionary"),
        pytest.param("nn.Sequential(*nn.Sequential(Block()))", True, id="of another"),
        pytest.param("nn.Sequential(*list(models.vgg16().children())[:-1])", False, id="of a library's model"),
        pytest.param("nn.Sequential(*list(models.vgg16().features)[:9])", False, id="of a part of one"),
        pytest.param("nn.Sequential(Block(), made())", False, id="of a function that is not seen"),
        pytest.param("nn.ModuleList(made())", False, id="a list of them"),
    ],
)
def test_whether_all_layers_that_it_holds_are_known(code: str, expected: bool) -> None:  # noqa: FBT001 - as above
    found = model(code)

    assert holds_only_known(found.flow, found.value) is expected


@pytest.mark.parametrize(
    ("code", "recurrent", "exact", "any_size"),
    [
        pytest.param("nn.Linear(3, 3)", False, True, False, id="a layer"),
        pytest.param("nn.LSTM(3, 3)", True, False, False, id="torch's recurrent network"),
        pytest.param("Recurrent(3, 3)", True, False, False, id="a class that derives from one"),
        pytest.param("nn.LSTMCell(3, 3)", False, False, False, id="a cell"),
        pytest.param("nn.TransformerEncoderLayer(4, 2)", False, False, False, id="a layer with a faster path"),
        pytest.param("Unknown()", False, False, False, id="a function that is not known"),
        pytest.param("models.detection.fasterrcnn_resnet50_fpn()", False, True, True, id="a detector"),
        pytest.param(
            "nn.Sequential(*list(models.vit_b_16().children()))",
            False,
            False,
            False,
            id="layers that are not told apart",
        ),
    ],
)
def test_what_else_is_known_of_it(code: str, recurrent: bool, exact: bool, any_size: bool) -> None:  # noqa: FBT001
    found = model(code)

    assert (found.recurrent is not None, found.is_exact_without_gradients, found.takes_any_size) == (
        recurrent,
        exact,
        any_size,
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [("nn.DataParallel(Block())", True), ("Threads(Block())", True), ("Block()", False)],
)
def test_what_runs_in_threads(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    found = model(code)

    assert is_in_threads(found.flow, found.value) is expected


def test_the_function_that_runs_one_in_threads() -> None:
    known = script(HEAD + "nn.parallel.data_parallel(Block(), x)\nprint(x)\n")
    found = [function_in_threads(known.flow, each) for each in known.module.nodes(ast.Call)]

    assert [each for each in found if each is not None] == ["data_parallel"]


def test_what_a_holder_holds() -> None:
    found = model("nn.ModuleDict({'a': nn.ReLU(), 'b': nn.ModuleList([nn.Linear(3, 3)])})")

    assert sorted(each.name for each in held(found.flow, found.value)) == ["torch.nn.Linear", "torch.nn.ReLU"]
    alone = model("nn.ReLU()")
    assert [each.name for each in held(alone.flow, alone.value)] == ["torch.nn.ReLU"]


def test_any_object_of_a_row_has_the_layers_of_all() -> None:
    known = script(f"{HEAD}Row(nn.ReLU())\nRow(nn.Tanh())\n")
    (call,) = (each for each in known.module.nodes(ast.Call) if ast.unparse(each) == "self(x)")
    (value,) = known.flow.values(call.func)

    assert names(Model(known.flow, value)) == ["ReLU", "Row", "Tanh"]
