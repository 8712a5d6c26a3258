"""The table of PyTorch's losses, held against the installed torch."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch.nn import functional

from codemods.library.losses import is_loss_class, is_regression, is_stateless_loss, losses


def test_the_functions_are_those_of_torch() -> None:
    public = {name for name in dir(functional) if not name.startswith("_") and "_has_" not in name}
    found = {name for name in public if name.endswith(("_loss", "cross_entropy", "_with_logits")) or name == "kl_div"}

    assert {name.rpartition(".")[2] for name in losses()} == found


def test_what_compares_numbers_takes_targets_in_any_format_of_floats() -> None:
    given = torch.rand(2, 2), torch.rand(2, 2)
    functions = {name for name in losses() if is_regression(name)}
    classes = {name for name in dir(torch.nn) if is_regression(f"torch.nn.{name}")}

    assert len(functions) == len(classes)
    assert all(is_loss_class(f"torch.nn.{name}") for name in classes)
    for name in functions:
        function = getattr(functional, name.rpartition(".")[2])
        assert function(*given) == function(*reversed(given))
        assert {"input", "target"} <= inspect.signature(function).parameters.keys()


@pytest.mark.filterwarnings("ignore:`NLLLoss2d` has been deprecated")
def test_only_two_losses_have_weights_of_their_own() -> None:
    classes = [name for name in dir(torch.nn) if is_loss_class(f"torch.nn.{name}")]
    made = {name: getattr(torch.nn, name) for name in classes if is_stateless_loss(f"torch.nn.{name}")}

    assert set(classes) - set(made) == {"AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"}
    assert not any(list(each().parameters()) for each in made.values())


def test_an_old_name_of_a_loss_is_one() -> None:
    assert issubclass(torch.nn.NLLLoss2d, torch.nn.NLLLoss)
    assert is_loss_class("torch.nn.NLLLoss2d")
    assert not is_loss_class("torch.nn.Dropout2d")
