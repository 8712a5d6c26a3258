from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.devices.filled_arrays import filled_arrays

LOOP = """\
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

Floats = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.Tensor
for (batch,) in DataLoader(TensorDataset(torch.randn(8, 4))):
    images = batch.type(Floats)
    y = {}
"""


def test_an_array_that_a_tensor_type_copies() -> None:
    (found,) = filled_arrays(script(LOOP.format("Floats(np.zeros((len(images), 2)))")))

    assert ast.unparse(found.shape) == "(len(images), 2)"
    assert (found.function, found.like, found.transfer, found.why_not) == ("torch.zeros", "images", None, None)


def test_an_array_that_a_call_copies() -> None:
    (found,) = filled_arrays(script(LOOP.format("torch.from_numpy(np.ones(3)).float().cuda()")))

    assert ast.unparse(found.made) == "torch.from_numpy(np.ones(3)).float()"
    assert found.transfer is not None
    assert (found.function, found.like, found.why_not) == ("torch.ones", None, None)


@pytest.mark.parametrize("made", ["np.ones(3)", "torch.ones(3).cuda()", "Floats(3)", "torch.Tensor(np.ones(3)).cpu()"])
def test_other_tensors(made: str) -> None:
    assert not list(filled_arrays(script(LOOP.format(made))))


@pytest.mark.parametrize(("asks", "count"), [("False", 1), ("True", 0), ("train", 0)])
def test_what_asks_for_gradients_is_the_tensor_of_the_host(asks: str, count: int) -> None:
    made = f"torch.autograd.Variable(torch.Tensor(np.ones(3)), requires_grad={asks}).cuda()"

    assert len(list(filled_arrays(script(LOOP.format(made))))) == count
