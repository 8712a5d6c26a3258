"""How code runs models, and where it switches gradients off."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.training.modes import Modes

HEAD = """\
import torch
from torch import nn

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = nn.Linear(4, 2)

    def forward(self, x):
        return self.policy(x)

    def step(self, x):
        with torch.no_grad():
            return self.policy(x)

    def act(self, x):
        return self.step(x)[0]

    @torch.no_grad()
    def decorated(self, x):
        return self.policy(x)

    def score(self, x):
        with torch.no_grad():
            old = self.policy(x)
        return self.policy(x) - old

    def zeros(self):
        return torch.zeros(4)

agent = Agent()
x = torch.ones(2, 4)
"""


def last_call(code: str, **others: str) -> tuple[Modes, ast.Call]:
    found = script(HEAD + code, **others)
    call = found.module.tree.body[-1].value  # type: ignore[attr-defined]
    return Modes(found.flow, found.flow.modules), call


@pytest.mark.parametrize("code", ["agent(x)", "agent.forward(x)", "agent.score(x)"])
def test_what_runs_a_model_with_gradients(code: str) -> None:
    modes, call = last_call(code)

    assert modes.calls(call)
    assert not modes.runs_without(call)


@pytest.mark.parametrize("code", ["agent.step(x)", "agent.act(x)", "agent.decorated(x)"])
def test_methods_that_switch_gradients_off_around_all_that_they_run(code: str) -> None:
    modes, call = last_call(code)

    assert not modes.calls(call)
    assert modes.runs_without(call)


def test_a_method_that_runs_no_layers_is_neither() -> None:
    modes, call = last_call("agent.zeros()")

    assert not modes.calls(call)
    assert not modes.runs_without(call)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("net = torch.load('net.pt')\nnet(x)", True, id="what was saved is called"),
        pytest.param("net = torch.load('net.pt')\nnet.eval()\nnet = net.cuda()\nnet(x)", True, id="and moved"),
        pytest.param("net = torch.jit.load('net.pt').cuda()\nnet.eval()\nnet(x)", True, id="TorchScript"),
        pytest.param("saved = torch.load('all.pt')\nread = saved.get('read')\nread(x)", False, id="an item is called"),
        pytest.param(
            "saved = torch.load('all.pt')\nsaved.eval()\nread = saved.get('read')\nread(x)", False, id="a method's"
        ),
        pytest.param("x = torch.load('x.pt')\nx.cuda()", False, id="a tensor is moved"),
    ],
)
def test_a_model_that_is_loaded_from_a_file(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    modes, call = last_call(code)

    assert modes.calls(call) is expected


@pytest.mark.parametrize("use", ["eval()", "train()", "parameters()"])
def test_what_is_used_as_only_a_model_is_is_one(use: str) -> None:
    modes, call = last_call(f"from library import make\nthing = make()\nthing.{use}\nthing(x)")

    assert modes.calls(call)


@pytest.mark.parametrize("use", ["state_dict()", "zero_grad()"])
def test_what_optimizers_and_loss_scalers_have_too_makes_no_model(use: str) -> None:
    modes, call = last_call(f"from library import make\nthing = make()\nthing.{use}\nthing(x)")

    assert not modes.calls(call)


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        pytest.param("torch.no_grad()", False, id="off"),
        pytest.param("torch.set_grad_enabled(False)", False, id="off, as it is written"),
        pytest.param("torch.no_grad() if X else torch.inference_mode()", False, id="off in two ways"),
        pytest.param("torch.set_grad_enabled(X)", True, id="the script decides"),
        pytest.param("torch.enable_grad() if X else torch.no_grad()", True, id="the script chooses"),
        pytest.param("open('log')", True, id="no switch"),
    ],
)
def test_what_may_run_with_gradients(switch: str, *, expected: bool) -> None:
    found = script(f"{HEAD}with {switch}:\n    model(x)\n")
    call = found.module.tree.body[-1].body[0].value  # type: ignore[attr-defined]

    assert Modes(found.flow, found.flow.modules).may_have_gradients(found.module, call) is expected


def is_without(code: str) -> bool:
    found = script(HEAD + code)
    call = found.module.tree.body[-1].body[0].value  # type: ignore[attr-defined]
    return Modes(found.flow, found.flow.modules).without_gradients(found.module, call)


@pytest.mark.parametrize(
    "code",
    [
        "with torch.no_grad():\n    agent(x)",
        "with torch.inference_mode():\n    agent(x)",
        "with torch.set_grad_enabled(False):\n    agent(x)",
        "torch.set_grad_enabled(False)\nif x.sum():\n    agent(x)",
    ],
)
def test_gradients_are_off(code: str) -> None:
    assert is_without(code)


@pytest.mark.parametrize(
    "code",
    [
        "with torch.inference_mode(False):\n    agent(x)",
        "with torch.set_grad_enabled(True):\n    agent(x)",
        "with torch.enable_grad():\n    agent(x)",
        "if x.sum():\n    agent(x)",
    ],
)
def test_gradients_are_on(code: str) -> None:
    assert not is_without(code)


@pytest.mark.parametrize(
    ("code", "mode"),
    [
        ("agent.eval()", "eval"),
        ("agent.train(False)", "eval"),
        ("agent.train()", "train"),
        ("agent.train(True)", "train"),
        ("agent.train(x.sum() > 0)", None),
    ],
)
def test_the_mode_that_a_call_sets(code: str, mode: str | None) -> None:
    modes, call = last_call(code)

    assert [each for each in ("eval", "train", None) if modes.sets(call, each)] == [mode]


SOLVED = """\
from scipy import integrate

def sample(y):
    with torch.no_grad():
        def drift(t, y):
            {inside}
        {before}
        return {call}
"""


@pytest.mark.parametrize(
    ("inside", "before", "call", "expected"),
    [
        pytest.param("agent(x)", "", "integrate.solve_ivp(drift, (0, 1), y)", True, id="to a solver, without"),
        pytest.param("agent(x)", "", "integrate.solve_ivp(fun=drift, t_span=(0, 1), y0=y)", True, id="by its name"),
        pytest.param("agent(x)", "other(drift)", "integrate.solve_ivp(drift, (0, 1), y)", False, id="to others, too"),
        pytest.param("agent(x)", "", "drift", False, id="it is returned"),
        pytest.param("agent(x)", "", "integrate.RK45(drift, 0, y, 1)", False, id="to an object that keeps it"),
        pytest.param(
            "with torch.enable_grad():\n                agent(x)",
            "",
            "integrate.solve_ivp(drift, (0, 1), y)",
            False,
            id="it switches them on itself",
        ),
    ],
)
def test_gradients_are_off_in_what_a_solver_is_given(inside: str, before: str, call: str, *, expected: bool) -> None:
    found = script(HEAD + SOLVED.format(inside=inside, before=before or "pass", call=call))
    (model,) = (each for each in found.module.nodes(ast.Call) if ast.unparse(each) == "agent(x)")

    assert Modes(found.flow, found.flow.modules).without_gradients(found.module, model) is expected
