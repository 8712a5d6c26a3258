"""Hooks and processes: the names are torch's, and no hook of torch's is missing."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn

from codemods.library import hooks, processes

MODULES = {name for name in dir(nn.Module) if name.startswith("register_") and name.endswith("_hook")}
OF_ALL = {name for name in dir(nn.modules.module) if name.startswith("register_module_") and name.endswith("_hook")}
TENSORS = {name for name in dir(torch.Tensor) if name.startswith("register_") and name.endswith("hook")}
OF_STATES = {name for name in MODULES if "state_dict" in name}
REGISTRATIONS = {"register_module_module_registration_hook", "register_module_parameter_registration_hook"}
REGISTRATIONS |= {"register_module_buffer_registration_hook"}


def test_no_hook_is_missing() -> None:
    known = {*hooks.hooks(), *OF_STATES, *REGISTRATIONS, "register_module_full_backward_pre_hook"}

    assert known >= MODULES | OF_ALL | TENSORS
    assert hooks.hooks() - MODULES - OF_ALL - TENSORS <= {"register_multi_grad_hook"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(hooks.hooks() & MODULES))
def test_hooks_are_given_what_is_said(name: str) -> None:
    """A hook for gradients runs in the backward, one for outputs before."""
    model, seen = nn.Linear(2, 2), []
    getattr(model, name)(lambda *_: seen.append(name))
    result = model(torch.ones(1, 2, requires_grad=True))
    forward = bool(seen)
    result.sum().backward()

    assert forward is hooks.is_given_outputs(name)
    assert bool(seen) is True
    assert hooks.is_given_gradients(name) is not forward
    assert hooks.is_of_modules(name)


@pytest.mark.parametrize("name", sorted(hooks.hooks() & TENSORS))
def test_hooks_of_tensors_are_given_gradients(name: str) -> None:
    assert hooks.is_given_gradients(name)
    assert not hooks.is_of_modules(name)


@pytest.mark.parametrize(
    "name",
    [*sorted(processes.threads_and_processes()), "torch.multiprocessing.spawn.spawn", "multiprocessing.Pool"],
)
def test_what_starts_processes_is_there(name: str) -> None:
    package, _, last = name.rpartition(".")
    # The function hides the module of its name.
    module = importlib.import_module("torch.multiprocessing.spawn" if package.endswith(".spawn") else package)

    assert callable(getattr(module, last))
    assert (name in processes.sending_arguments()) is (name != "threading.Thread")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("torch.multiprocessing.spawn", True),
        ("torch.multiprocessing.start_processes", True),
        ("multiprocessing.context.Process", True),
        ("multiprocessing.Pool", False),
        ("threading.Thread", False),
    ],
)
def test_what_may_run_the_training(name: str, *, answer: bool) -> None:
    assert processes.starts_training(name) is answer
