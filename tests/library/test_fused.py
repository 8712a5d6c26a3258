"""The table of optimizers, held against the installed torch."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import pytest
import torch

from codemods.library.fused import FORMS, FUSED, NOT_FUSED, SPARSE

CLASSES: dict[str, Any] = {
    f"torch.optim.{name}": class_
    for name, class_ in vars(torch.optim).items()
    if inspect.isclass(class_) and issubclass(class_, torch.optim.Optimizer) and class_ is not torch.optim.Optimizer
}


def _has_fused_step_on_cuda(class_: type[torch.optim.Optimizer]) -> bool:
    return "fused" in inspect.signature(class_).parameters and "cuda_unsupported" not in inspect.getsource(class_)


def test_the_optimizers_that_have_a_fused_step_on_cuda_are_the_ones_of_the_table() -> None:
    assert {name for name, class_ in CLASSES.items() if _has_fused_step_on_cuda(class_)} == FUSED.keys()


@pytest.mark.parametrize("name", FUSED)
def test_the_fused_step_is_only_asked_for_by_name(name: str) -> None:
    parameters = inspect.signature(CLASSES[name]).parameters

    assert parameters.keys() >= FORMS
    assert parameters["fused"].kind is inspect.Parameter.KEYWORD_ONLY
    assert NOT_FUSED & parameters.keys()


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("other", ["foreach", "differentiable"])
def test_what_is_not_given_beside_it_is_refused(name: str, other: str) -> None:
    with pytest.raises(RuntimeError, match="fused"):
        CLASSES[name]([torch.nn.Parameter(torch.ones(1))], fused=True, **{other: True})


@pytest.mark.parametrize("name", FUSED)
def test_without_cuda_a_step_that_is_told_not_to_be_fused_is_the_plain_one(name: str) -> None:
    def trained(**given: bool) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        optimizer = CLASSES[name](model.parameters(), lr=0.1, **given)
        for x in torch.randn(5, 16, 8):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    assert torch.equal(trained(), trained(fused=False))


@pytest.mark.parametrize("name", [each for each in FUSED if FUSED[each].is_exact])
def test_an_exact_fused_step_gives_the_same_bits(name: str) -> None:
    def trained(**given: bool) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 64)
        optimizer = CLASSES[name](model.parameters(), lr=0.1, **given)
        for x in torch.randn(5, 16, 64):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return model.weight.detach()

    assert torch.equal(trained(), trained(fused=True))


def test_a_plain_checkpoint_switches_it_off_again() -> None:
    model = torch.nn.Linear(2, 2)
    fused = torch.optim.Adam(model.parameters(), fused=True)
    fused.load_state_dict(torch.optim.Adam(model.parameters()).state_dict())

    assert not fused.param_groups[0]["fused"]
    assert fused._step_supports_amp_scaling


@pytest.mark.parametrize("name", SPARSE)
def test_where_sparse_stands_among_the_arguments(name: str) -> None:
    function = operator.attrgetter(name.removeprefix("torch."))(torch)

    assert list(inspect.signature(function).parameters).index("sparse") == SPARSE[name]
