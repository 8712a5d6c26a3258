"""Which tensors are moved to which device, under which conditions."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.devices import DeviceKind
from codemods.facts.devices.transfers import Making, Transfer, makings

HEAD = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.zeros(8, 3), torch.zeros(8).long()), 4)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""


def moves(body: str, **others: str) -> list[Transfer]:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return list(script(f"{HEAD}for x, y in loader:\n{lines}", **others).transfers)


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        pytest.param("x.cuda()", DeviceKind.CUDA, id="cuda"),
        pytest.param("x.to('cuda:1')", DeviceKind.CUDA, id="a device by its name"),
        pytest.param("x.to(device)", DeviceKind.CONDITIONAL, id="CUDA where there is one"),
        pytest.param("x.to(device=device)", DeviceKind.CONDITIONAL, id="by keyword"),
        pytest.param("x.to('cpu')", DeviceKind.CPU, id="the host"),
        pytest.param("x.to('xpu')", DeviceKind.OTHER, id="another accelerator"),
        pytest.param("x.to(choose())", DeviceKind.UNKNOWN, id="a device that is not known"),
        pytest.param("x.type(torch.cuda.FloatTensor)", DeviceKind.CUDA, id="a type of old"),
        pytest.param("x.type(torch.FloatTensor)", DeviceKind.CPU, id="a type of the host"),
    ],
)
def test_where_a_batch_is_moved(statement: str, kind: DeviceKind) -> None:
    (move,) = moves(statement)

    assert move.device.kind is kind
    assert [each.name for each in move.loaders] == ["torch.utils.data.DataLoader"]


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("x.to(torch.float64)", id="a number format"),
        pytest.param("x.to(dtype=torch.float64)", id="a number format by keyword"),
        pytest.param("x.float()", id="a cast"),
        pytest.param("'text'.to('cuda')", id="a text"),
        pytest.param("x.copy_(y)", id="a copy on the host"),
    ],
)
def test_what_moves_nothing(statement: str) -> None:
    assert moves(statement) == []


def test_where_another_tensor_is() -> None:
    found = moves("x = x.cuda()\ny = y.to(x)")

    assert [each.device.kind for each in found] == [DeviceKind.CUDA, DeviceKind.CUDA]


@pytest.mark.parametrize(
    ("statement", "loaders", "made_from"),
    [
        pytest.param("x.cuda()", 1, 0, id="as it came"),
        pytest.param("x.view(4, 3).cuda()", 1, 0, id="a view"),
        pytest.param("(x * 2).cuda()", 0, 1, id="a new tensor"),
        pytest.param("x.float().cuda()", 1, 0, id="a cast that can follow"),
        pytest.param("torch.from_numpy(x.numpy()).cuda()", 0, 1, id="through NumPy"),
        pytest.param("torch.ones(3).cuda()", 0, 0, id="nothing of a batch"),
    ],
)
def test_what_is_moved(statement: str, loaders: int, made_from: int) -> None:
    (move,) = moves(statement)

    assert (len(move.loaders), len(move.made_from)) == (loaders, made_from)


@pytest.mark.parametrize(
    ("statement", "cast"),
    [
        pytest.param("x.float().cuda()", "x.float()", id="to 32 bits"),
        pytest.param("x.to(torch.float32).cuda()", "x.to(torch.float32)", id="by the format"),
        pytest.param("x.half().cuda()", None, id="to half of the bytes"),
        pytest.param("x.long().cuda()", None, id="to integers"),
        pytest.param("x.float().cuda(non_blocking=True)", None, id="it does not block already"),
        pytest.param("x.float().to('cpu')", None, id="not to CUDA"),
        pytest.param("(x * 2).float().cuda()", None, id="not of a batch as it came"),
    ],
)
def test_the_cast_that_can_follow_the_copy(statement: str, cast: str | None) -> None:
    (move,) = moves(statement)

    assert (None if move.cast is None else ast.unparse(move.cast)) == cast


@pytest.mark.parametrize(
    ("statement", "argument"),
    [
        ("x.cuda(non_blocking=True)", "True"),
        ("x.cuda(0, True)", "True"),
        ("x.to(device, torch.float32, flag)", "flag"),
        ("x.to(device, non_blocking=flag)", "flag"),
        ("x.cuda()", None),
        ("x.to(device)", None),
    ],
)
def test_the_argument_that_says_whether_it_blocks(statement: str, argument: str | None) -> None:
    (move,) = moves(statement)

    assert (None if move.non_blocking is None else ast.unparse(move.non_blocking)) == argument


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("x = x.cuda()", True, id="in each pass"),
        pytest.param("if len(x) > 2:\n    x = x.cuda()", False, id="under a condition"),
        pytest.param("if torch.cuda.is_available():\n    x = x.cuda()", False, id="where CUDA is found"),
        pytest.param("try:\n    x = x.cuda()\nexcept RuntimeError:\n    pass", False, id="the script goes on without"),
        pytest.param("try:\n    x = x.cuda()\nfinally:\n    pass", True, id="the script does not go on without"),
    ],
)
def test_whether_it_is_certain(body: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    (move,) = moves(body)

    assert move.is_certain is expected


def test_a_function_that_may_return_before_it_is_not_certain() -> None:
    function = "def move(x):\n    if not x.dim():\n        return x\n    return x.cuda()\n"
    known = script(f"{HEAD}{function}for x, y in loader:\n    move(x)\n")
    (move,) = known.transfers

    assert not move.is_certain


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param("buffer = torch.zeros(4, 3, device='cuda')\nbuffer.copy_(x)", DeviceKind.CUDA, id="made there"),
        pytest.param("buffer = torch.zeros(4, 3).cuda()\nbuffer.copy_(x)", DeviceKind.CUDA, id="moved there"),
        pytest.param("make().copy_(x)", DeviceKind.UNKNOWN, id="not seen"),
    ],
)
def test_a_tensor_that_is_filled(body: str, kind: DeviceKind) -> None:
    fills = [each for each in moves(body) if each.method == "copy_"]

    assert [(each.device.kind, ast.unparse(each.receiver)) for each in fills] == [(kind, "x")]


def test_an_element_of_something_unknown_may_be_a_batch() -> None:
    known = script("for batch in make():\n    batch = batch.to('cuda')\n    batch.to('cuda')\nthing.to('cuda')\n")

    assert [ast.unparse(each.call) for each in known.transfers] == ["batch.to('cuda')"]


def test_models_and_tensors_that_are_made_on_a_device() -> None:
    known = script("""\
import torch
model = torch.nn.Linear(4, 2, device="cuda")
x = torch.zeros(4, device="cpu")
print(x, device="cuda")
""")
    found = list(makings(known.flow, known.modules))

    assert all(isinstance(each, Making) for each in found)
    assert [ast.unparse(each.call.func) for each in found] == ["torch.nn.Linear"]
    assert [each.device.kind for each in found] == [DeviceKind.CUDA]
