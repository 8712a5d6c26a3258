"""Is a condition the same in all steps of a training?"""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.source import LOOPS
from codemods.facts.training.steady_tests import SteadyTests

CODE = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, on=True, p=0.1):
        super().__init__()
        self.on = on
        self.p = p
        self.late = False
        self.by_name = False
        self.changed = [False]
        self.kept = [1, 2]
        self.bias = torch.zeros(2)
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x, mask=None):
        asked = {asked}
        if mask is None:
            mask = x > 0
        return x

OPTIONS = {{"on": True}}
CHANGED = {{"on": True}}
net = Net()
for epoch in range(3):
    for x in torch.randn(3, 2, 2):
        net(x)
    net.late = True
    setattr(net, "by_name", True)
    net.changed.append(True)
    CHANGED["on"] = False
    {loop}
"""


@pytest.mark.parametrize(
    ("asked", "loop", "is_steady"),
    [
        ("self.on", "pass", True),
        ("self.p > 0 and not self.on", "pass", True),
        ("self.kept[0]", "pass", True),
        ("self.bias is not None", "pass", True),
        ("OPTIONS['on']", "pass", True),
        ("hasattr(self, 'on')", "pass", True),
        ("self.late", "pass", False),
        ("self.late is None", "pass", False),
        ("isinstance(self.late, bool)", "pass", False),
        ("self.by_name", "pass", False),
        ("self.changed[0]", "pass", False),
        ("self.bias", "pass", False),
        ("self.steps", "pass", False),
        ("CHANGED['on']", "pass", False),
        ("epoch", "pass", False),
        ("x.sum() > 0", "pass", False),
        ("self.training", "pass", True),
        ("self.training", "net.eval()", False),
        ("self.training", "net.train(); net.eval()", True),
    ],
)
def test_what_is_the_same_in_each_step(asked: str, loop: str, *, is_steady: bool) -> None:
    known = script(CODE.format(asked=asked, loop=loop))
    loops = frozenset(known.module.nodes(*LOOPS))
    tests = SteadyTests(known.flow, loops=loops)
    (answer,) = (each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "asked")

    assert tests.holds(answer.value) == is_steady


def test_what_is_filled_where_no_call_gives_it_is_the_same() -> None:
    known = script(CODE.format(asked="x", loop="pass"))
    (choice,) = known.module.nodes(ast.If)

    assert SteadyTests(known.flow, loops=frozenset(known.module.nodes(*LOOPS))).holds(choice.test)
