"""What is said of TorchScript, held against the installed torch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from codemods.library.torchscript import CLASSES, COMPILING, MARKS, OF_SCRIPTS, TRACES

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("name", sorted(COMPILING | TRACES | MARKS | CLASSES))
def test_what_is_named_is_there(name: str) -> None:
    assert hasattr(torch.jit, name.removeprefix("torch.jit."))


@pytest.mark.parametrize("name", sorted(OF_SCRIPTS))
def test_only_scripted_models_have_it(name: str) -> None:
    model = nn.Linear(2, 2)

    assert hasattr(torch.jit.script(model), name)
    assert not hasattr(model, name)


def test_a_script_shares_weights_and_their_names_with_its_model() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    script = torch.jit.script(model)

    assert list(script.state_dict()) == list(model.state_dict())
    assert [id(each) for each in script.parameters()] == [id(each) for each in model.parameters()]


def test_a_script_has_a_mode_of_its_own() -> None:
    model = nn.Sequential(nn.Dropout())
    script = torch.jit.script(model)
    model.eval()

    assert script.training


def test_a_script_is_not_compiled() -> None:
    with pytest.raises(RuntimeError, match="not supported on ScriptModules"):
        torch.jit.script(nn.Linear(2, 2)).compile()


def test_a_scripted_function_does_not_break_the_graph_of_a_model() -> None:
    double = torch.jit.script(_double)

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = double(x) + 1
            return found

    seen = torch._dynamo.explain(Net())(torch.zeros(2))

    assert (seen.graph_count, seen.graph_break_count) == (1, 0)


def _double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_trace_runs_autocast_as_python_by_any_name() -> None:
    def by_old_name(x: torch.Tensor) -> torch.Tensor:
        with torch.cpu.amp.autocast_mode.autocast():
            return torch.mm(x, x)

    def by_new_name(x: torch.Tensor) -> torch.Tensor:
        with torch.amp.autocast("cpu"):
            return torch.mm(x, x)

    x = torch.ones(2, 2)

    assert torch.jit.trace(by_old_name, (x,))(x).dtype is torch.bfloat16  # type: ignore[no-untyped-call]
    assert torch.jit.trace(by_new_name, (x,))(x).dtype is torch.bfloat16  # type: ignore[no-untyped-call]
