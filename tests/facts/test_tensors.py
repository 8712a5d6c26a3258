"""What makes tensors, what their methods and attributes are, and what is computed of them."""

from __future__ import annotations

import pytest
from probe import script, shown

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
loader = DataLoader(torch.zeros(8, 3), 4)
model = nn.Linear(3, 3)
for batch in loader:
    host = torch.zeros(3)
    moved = host.cuda()
    answer = {0}
"""


def answer(expression: str) -> set[str]:
    """The sorts of tensors that it may be, or else what it is."""
    known = script(HEAD.format(expression))
    loop = known.module.tree.body[-1]
    node = loop.body[-1].value  # type: ignore[attr-defined]
    return {shown(value) for value in known.flow.values(node)}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("torch.randn(3)", {"host"}, id="on the host"),
        pytest.param("torch.zeros(3, device='cpu')", {"host"}, id="on the host, as is said"),
        pytest.param("torch.zeros(3, device='cuda')", {"moved"}, id="on a device"),
        pytest.param("torch.FloatTensor(3)", {"host"}, id="by a class of old"),
        pytest.param("torch.cuda.FloatTensor(3)", {"moved"}, id="by such a class on a device"),
        pytest.param("torch.zeros_like(moved)", {"moved"}, id="like one on a device"),
        pytest.param("torch.zeros_like(model(batch))", {"tensor"}, id="like any"),
    ],
)
def test_what_makes_a_tensor(expression: str, expected: set[str]) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("F.relu(moved)", {"moved"}, id="of one on a device"),
        pytest.param("F.relu(host)", {"host"}, id="of one on the host"),
        pytest.param("torch.cat([host, moved])", {"moved"}, id="of both"),
        pytest.param("torch.stack((host, host))", {"host"}, id="of a tuple"),
        pytest.param("torch.exp(batch)", {"host"}, id="of a batch"),
        pytest.param("F.relu(model(batch))", {"tensor"}, id="of what a model made"),
        pytest.param("model.forward(moved)", {"moved"}, id="by a layer's own method"),
        pytest.param("nn.DataParallel(model).forward(moved)", {"moved"}, id="by the method of what wraps a model"),
        pytest.param("nn.MSELoss().forward(moved, batch)", {"moved"}, id="by a loss's own method"),
        pytest.param("torch.is_tensor(moved)", {"torch.is_tensor()"}, id="what makes none"),
    ],
)
def test_what_a_function_makes_of_tensors(expression: str, expected: set[str]) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("batch.view(-1)", {"batch"}, id="a view of a batch is the batch"),
        pytest.param("batch.add_(1)", {"batch"}, id="what is done in place is, too"),
        pytest.param("batch.float()", {"batch", "host"}, id="a cast may be the batch"),
        pytest.param("batch.half()", {"host"}, id="a cast to another format is not"),
        pytest.param("batch.exp()", {"host"}, id="what is computed of it is on the host"),
        pytest.param("moved.exp()", {"moved"}, id="or on the device"),
        pytest.param("batch.sum().item()", {"plain"}, id="a number of Python's"),
        pytest.param("batch.cuda()", {"moved"}, id="moved"),
        pytest.param("moved.cpu()", {"host"}, id="and back"),
        pytest.param("batch.to('cpu')", {"host"}, id="to the host"),
        pytest.param("batch.to(device)", {"moved"}, id="to a device"),
        pytest.param("batch.to(torch.float16)", {"host"}, id="to a format"),
        pytest.param("moved.to(torch.float16)", {"moved"}, id="to a format, on the device"),
        pytest.param("batch.type(torch.cuda.FloatTensor)", {"moved"}, id="to a type of the device"),
        pytest.param("moved.type(torch.FloatTensor)", {"moved"}, id="to a type"),
    ],
)
def test_what_a_method_returns(expression: str, expected: set[str]) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("batch.T", {"batch"}, id="a view"),
        pytest.param("batch.shape", {"plain"}, id="a size"),
        pytest.param("moved.grad", {"tensor"}, id="its gradient"),
        pytest.param("batch.text", {"batch"}, id="a field of a batch"),
        pytest.param("moved.view", {"method view"}, id="a method"),
    ],
)
def test_what_an_attribute_is(expression: str, expected: set[str]) -> None:
    assert answer(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("batch[0]", {"batch"}, id="by a number: a view"),
        pytest.param("batch[1:2]", {"batch"}, id="a range: a view"),
        pytest.param("batch[[0, 1]]", {"host"}, id="by a list: a copy"),
        pytest.param("batch[host]", {"host"}, id="by a tensor: a copy"),
        pytest.param("batch[0, [1]]", {"host"}, id="by both: a copy"),
    ],
)
def test_which_items_are_copies(expression: str, expected: set[str]) -> None:
    assert answer(expression) == expected
