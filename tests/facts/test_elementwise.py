"""What statements do to each tensor, as operations on lists; the forms are tested with the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.training.elementwise import (
    Applied,
    Change,
    Column,
    Elementwise,
    Kept,
    NoFormError,
    Operand,
    Step,
    names_of,
    needed_torch,
    operands,
    rounds_alike,
)

if TYPE_CHECKING:
    import ast


def reader(statement: str) -> tuple[Elementwise, ast.stmt]:
    module = script(f"import torch\ntau = 0.1\n{statement}\n").module
    return Elementwise(script(module.text).flow, module, ("p", "q")), module.tree.body[-1]


def steps(statement: str) -> list[Step]:
    found, node = reader(statement)
    return found.steps(node)


def shown(operand: Operand | None) -> str:
    match operand:
        case Column(code=code):
            return code
        case Applied(name, left, None):
            return f"{name}({shown(left)})"
        case Applied(name, left, right):
            return f"{name}({shown(left)}, {shown(right)})"
        case Kept():
            return "kept"
    return operand or ""


def told(step: Step) -> str:
    if isinstance(step, Kept):
        return f"keep {shown(step.value)}"
    return " ".join(each for each in (step.name, shown(step.target), shown(step.operand), step.alpha) if each)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param("p += 2", ["add_ p 2"], id="a number"),
        pytest.param("p.grad *= tau", ["mul_ p.grad tau"], id="a gradient"),
        pytest.param("p.data -= -q.data / 2", ["sub_ p.data div(neg(q.data), 2)"], id="an expression"),
        pytest.param("p.mul_(2).clamp_(min=0)", ["mul_ p 2", "clamp_min_ p 0"], id="methods one after the other"),
        pytest.param("p.copy_(q)", ["copy_ p q"], id="a plain copy"),
        pytest.param("p.copy_(2 * p)", ["mul_ p 2"], id="a copy of a product"),
        pytest.param("p.copy_(p - 2 * q)", ["sub_ p mul(q, 2)"], id="a copy of a difference"),
        pytest.param(
            "p.copy_(2 * p - 3 * q)", ["keep mul(q, 3)", "mul_ p 2", "sub_ p kept"], id="what is added is kept"
        ),
        pytest.param("p.lerp_(q, weight=tau)", ["lerp_ p q tau"], id="a weight"),
        pytest.param("p.detach().neg_()", ["neg_ p.detach()"], id="no operand"),
    ],
)
def test_which_operations_it_is(statement: str, expected: list[str]) -> None:
    assert [told(each) for each in steps(statement)] == expected


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("p.copy_(3 * q - 2 * p)", "not-elementwise", id="a difference the other way round"),
        pytest.param("p.copy_(q + q)", "not-elementwise", id="a sum without it"),
        pytest.param("p.copy_(2 * p + q)", "not-elementwise", id="a sum with what may be it"),
        pytest.param("p.data = q.data", "not-elementwise", id="other memory"),
        pytest.param("a['p'] = 0.9 * a['p'] + p", "not-elementwise", id="in a dictionary"),
        pytest.param("p **= 2", "not-elementwise", id="another operator"),
        pytest.param("p.grad.grad.mul_(2)", "not-elementwise", id="a gradient of a gradient"),
        pytest.param("p.clamp_(0, 1, 2)", "not-elementwise", id="too many arguments"),
        pytest.param("p.add_(2, q)", "not-elementwise", id="as before torch 1.5"),
        pytest.param("p.mul_(torch.tensor(2))", "unknown-number", id="a tensor"),
        pytest.param("pass", "not-elementwise", id="no operation"),
    ],
)
def test_what_has_no_operations(statement: str, code: str) -> None:
    with pytest.raises(NoFormError) as caught:
        steps(statement)

    assert caught.value.reason.code == code


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("p.data.mul_(2).add_(q)", True),
        ("p += 1", True),
        ("p.data = 2 * p.data", True),
        ("p.grad = None", False),
        ("a['p'] = 0.9 * a['p'] + 0.1 * p.data", True),
        ("a['p'] = 0.5 * p.norm()", False),
        ("x += 1", False),
        ("p.sum()", False),
        ("f(p).mul_(2)", False),
    ],
)
def test_what_changes_a_parameter(statement: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    found, node = reader(statement)

    assert found.updates(node) is expected


def test_what_is_known_of_steps() -> None:
    kept, scaled, added = steps("p.copy_(2 * p + 3 * q)")

    assert [shown(each) for each in operands(added)] == ["kept", "mul(q, 3)", "3", "q"]
    assert [list(names_of(each)) for each in (kept, scaled, added)] == [["mul"], ["mul_"], ["add_", "mul"]]
    assert rounds_alike(added)
    assert not rounds_alike(steps("p.add_(q, alpha=2)")[0])
    assert isinstance(scaled, Change)
    assert needed_torch([kept, scaled]) == (2, 0)
    assert needed_torch(steps("p.clamp_(0, 1)")) == (2, 1)
