"""Which models no optimizer steps, and who would see that they get no gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.training.unstepped import Unstepped

if TYPE_CHECKING:
    from codemods.dataflow.values import Value

HEAD = """\
import copy
import itertools
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 2)
    def forward(self, x):
        return self.out(x)
teacher, student = Net(), Net()
"""
STEP = """\
for x in torch.randn(3, 8, 4):
    loss = (student(x) - teacher(x)).pow(2).sum()
    loss.backward()
    optimizer.step()
"""


def known(body: str) -> tuple[Unstepped, Value]:
    """What is known of the script, and its teacher."""
    found = script(HEAD + body)
    (teacher,) = (each for each in found.flow.values(found.module.tree.body[-1].value))  # type: ignore[attr-defined]
    return Unstepped(found.flow, found.whole.graph_uses), teacher


@pytest.mark.parametrize(
    ("optimizer", "is_one"),
    [
        ("torch.optim.SGD(student.parameters())", True),
        ("torch.optim.SGD(filter(lambda p: p.requires_grad, student.parameters()))", True),
        ("torch.optim.SGD([{'params': student.parameters(), 'lr': 1}])", True),
        ("torch.optim.SGD(teacher.parameters())", False),
        ("torch.optim.SGD(itertools.chain(student.parameters(), teacher.parameters()))", False),
        ("torch.optim.SGD(nn.ModuleList([student, teacher]).parameters())", False),
        ("torch.optim.SGD([student.out.weight, teacher.out.weight])", False),
        ("torch.optim.SGD(unknown)", False),
        ("None", False),
    ],
)
def test_whether_it_is_known_that_no_optimizer_steps_it(optimizer: str, *, is_one: bool) -> None:
    facts, teacher = known(f"optimizer = {optimizer}\n{STEP}teacher\n")

    assert facts.is_one(teacher) is is_one


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", None),
        ("student.load_state_dict(teacher.state_dict())\n", None),
        ("for p, q in zip(student.parameters(), teacher.parameters()):\n    q.data.lerp_(p.data, 0.1)\n", None),
        ("print([p.grad for p in student.parameters()])\n", None),
        ("print(student.out.weight.grad)\n", None),
        ("for group in optimizer.param_groups:\n    print(group['params'][0].grad)\n", None),
        ("print([p.grad for p in teacher.parameters()])\n", "gradients-read"),
        ("print(teacher.out.weight.grad)\n", "gradients-read"),
        ("print([p.grad for net in (student, teacher) for p in net.parameters()])\n", "gradients-read"),
        ("other.train(teacher)\n", "gradients-read"),
        ("other.train([student, teacher])\n", "gradients-read"),
        ("student.out = teacher.out\n", "unknown-model"),
        ("setattr(student, 'out', teacher.out)\n", "unknown-model"),
        ("torch.autograd.grad(loss, student.parameters())\n", "needs-gradients"),
        ("(teacher(x) * 2).sum().backward()\n", "needs-gradients"),
        ("with torch.no_grad():\n    y = student(x)\n(y - teacher(x)).sum().backward()\n", "needs-gradients"),
    ],
)
def test_who_would_see_that_it_gets_no_gradients(body: str, code: str | None) -> None:
    facts, teacher = known(f"optimizer = torch.optim.SGD(student.parameters())\n{STEP}{body}teacher\n")
    reason = facts.why_seen(teacher)

    assert (reason and reason.code) == code


def test_what_is_differentiated_without_a_trained_model() -> None:
    step = "optimizer = torch.optim.SGD(student.parameters())\n"

    alone, teacher = known(f"{step}{STEP}teacher(x).sum().backward()\nteacher\n")
    assert alone.is_differentiated_alone(teacher)
    beside, teacher = known(f"{step}{STEP}teacher\n")
    assert not beside.is_differentiated_alone(teacher)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("loss = 0\nfor x in xs:\n    loss += student(x).sum()\nloss.backward()\n", None),
        ("if xs:\n    loss = student(x)\nelse:\n    loss = student(x) * 2\nloss.sum().backward()\n", None),
        ("if xs:\n    loss = student(x)\nelse:\n    loss = teacher(x)\nloss.sum().backward()\n", "needs-gradients"),
        ("def step(loss):\n    loss.backward()\nstep(student(x).sum())\n", None),
        ("def step(loss):\n    loss.backward()\nstep(teacher(x).sum())\n", "needs-gradients"),
        ("torch.autograd.backward(student(x).sum() + teacher(x).sum())\n", None),
        ("torch.autograd.backward(teacher(x).sum())\n", "needs-gradients"),
    ],
)
def test_each_way_to_a_backward_has_to_go_through_a_trained_model(body: str, code: str | None) -> None:
    facts, teacher = known(f"optimizer = torch.optim.SGD(student.parameters())\nx = torch.randn(8, 4)\n{body}teacher\n")
    reason = facts.why_seen(teacher)

    assert (reason and reason.code) == code
