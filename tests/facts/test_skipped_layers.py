"""Which layers does a model's forward reach in some calls, and not in others?"""

from __future__ import annotations

import ast
import textwrap

import pytest
from probe import script

from codemods.facts.models.skipped_layers import has_parameters, skipped_layers

CODE = """\
import random
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self, use=True, n=3, down=None):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.extra = nn.Linear(2, 2)
        self.down = down
        self.act = nn.ReLU()
        self.use = use
        self.n = n
        self.p = 0.1
        self.step = 0
        self.limit = self.limited(n)
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(n)])
        self.heads = nn.ModuleDict({{"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)}})

    def limited(self, n):
        self.depth = n
        return n

    def block(self, x, go):
        if go:
            x = self.extra(x)
        return x

    def forward(self, x, y=None, flag=False, task="a"):
{}
net = Net()
for i in range(3):
    for x in torch.randn(3, 2, 2):
        out = {}
"""


def skipped(body: str, call: str = "net(x)") -> list[tuple[str, str]]:
    known = script(CODE.format(textwrap.indent(body, " " * 8), call))
    (model,) = known.models
    return [(each.name, ast.unparse(each.node)) for each in skipped_layers(model)]


BOTH = "random.choice(['a', 'b'])"
ALWAYS = {
    "there are no branches": ("x = self.a(x)\nreturn self.extra(x)", "net(x)"),
    "the object has the layer or has not": (
        "if self.down is not None:\n    x = self.down(x)\nreturn self.a(x)",
        "net(x)",
    ),
    "an option of the object": ("if self.use:\n    x = self.extra(x)\nreturn self.a(x)", "net(x)"),
    "an attribute that a method sets while the object is made": (
        "if self.depth > 2 and self.limit:\n    x = self.extra(x)\nreturn self.a(x)",
        "net(x)",
    ),
    "what a name is given": ("go = not self.use\nif go:\n    x = self.extra(x)\nreturn self.a(x)", "net(x)"),
    "the model trains": ("if self.training:\n    x = self.extra(x)\nreturn self.a(x)", "net(x)"),
    "both ways reach it": (
        "if y is not None:\n    return F.mse_loss(self.a(x), y)\nreturn self.a(x[:, -1])",
        "net(x, x)",
    ),
    "layers without parameters": ("if x.sum() > 0:\n    x = self.act(x)\nreturn self.a(x)", "net(x)"),
    "the place in a list of layers": (
        "for i, layer in enumerate(self.layers):\n    x = layer(x)\n    if i < self.n - 1:\n        x = self.act(x)\n"
        "return self.a(x)",
        "net(x)",
    ),
    "an index that counts": ("for i in range(self.n):\n    x = self.layers[i](x)\nreturn self.a(x)", "net(x)"),
    "a slice of all": ("for each in self.layers[:-1]:\n    x = each(x)\nreturn self.layers[-1](x)", "net(x)"),
    "all calls give the same": ("if flag:\n    x = self.extra(x)\nreturn self.a(x)", "net(x, flag=True)"),
    "a method is given the same": ("x = self.block(x, self.use)\nreturn self.a(x)", "net(x)"),
    "the type of what it is given": (
        "if isinstance(x, list):\n    x = self.extra(x[0])\nelse:\n    x = self.a(x)\nreturn x",
        "net(x)",
    ),
    "a handler": ("try:\n    x = self.a(x)\nexcept RuntimeError:\n    x = self.extra(x)\nreturn x", "net(x)"),
    "layers by computed names": ("for i in range(self.n):\n    x = getattr(self, f'l{i}')(x)\nreturn x", "net(x)"),
    "a comprehension": ("return sum(each(x) for each in self.layers) + self.a(x)", "net(x)"),
    "layers beside inputs": ("for one, other in zip(self.layers, x):\n    x = one(other)\nreturn self.a(x)", "net(x)"),
    "TorchScript": ("if torch.jit.is_scripting():\n    x = self.extra(x)\nreturn self.a(x)", "net(x)"),
    "a function inside": ("def go(x):\n    return self.extra(x)\nreturn go(self.a(x))", "net(x)"),
    "a loop that runs until it breaks": ("while True:\n    x = self.extra(x)\n    break\nreturn self.a(x)", "net(x)"),
    "a constant that is matched": (
        "match self.use:\n    case True:\n        x = self.a(x)\n    case _:\n        x = self.extra(x)\nreturn x",
        "net(x)",
    ),
    "each way raises, or goes on": ("if x.sum() > 0:\n    raise ValueError\nreturn self.a(x)", "net(x)"),
    "a graph that is always cut": ("x = self.a(x)\nif self.use:\n    x = x.detach()\nreturn self.extra(x)", "net(x)"),
}


@pytest.mark.parametrize(("body", "call"), ALWAYS.values(), ids=ALWAYS)
def test_each_call_reaches_what_others_do(body: str, call: str) -> None:
    assert skipped(body, call) == []


RANDOM = "random.random() < self.p"
AT_TIMES = {
    "a layer is dropped": (f"if {RANDOM}:\n    x = self.extra(x)\nreturn self.a(x)", "net(x)", "extra", RANDOM),
    "a way ends early": (
        "if self.training and torch.rand(1) < self.p:\n    return x\nreturn self.a(x)",
        "net(x)",
        "a",
        "self.training and torch.rand(1) < self.p",
    ),
    "steps are counted": (
        "self.step += 1\nif self.step > 3:\n    x = self.extra(x)\nreturn self.a(x)",
        "net(x)",
        "extra",
        "self.step > 3",
    ),
    "an attribute is set in a loop": (
        "if self.use:\n    x = self.extra(x)\nreturn self.a(x)",
        "net(x)\n        net.use = i > 1",
        "extra",
        "self.use",
    ),
    "some of a list are passed over": (
        f"for each in self.layers:\n    if {RANDOM}:\n        continue\n    x = each(x)\nreturn self.a(x)",
        "net(x)",
        "layers",
        RANDOM,
    ),
    "some of a list are called": (
        f"for each in self.layers:\n    if {RANDOM}:\n        x = each(x)\nreturn self.a(x)",
        "net(x)",
        "layers",
        RANDOM,
    ),
    "as many as the data say": (
        "for i in range(int(x.sum())):\n    x = self.layers[i](x)\nreturn self.a(x)",
        "net(x)",
        "layers",
        "i",
    ),
    "a slice that varies": (
        "for each in self.layers[:int(x.sum())]:\n    x = each(x)\nreturn self.a(x)",
        "net(x)",
        "layers",
        ":int(x.sum())",
    ),
    "the task chooses a head": ("return self.heads[task](self.a(x))", f"net(x, task={BOTH})", "heads", "task"),
    "a call through a wrapper chooses": (
        "return self.heads[task](self.a(x))",
        "nn.DataParallel(net)(x, task='b')",
        "heads",
        "task",
    ),
    "calls give other things": (
        "if flag:\n    x = self.extra(x)\nreturn self.a(x)",
        "net(x, flag=True) + net(x)",
        "extra",
        "flag",
    ),
    "a wrapper is given something by place": (
        "if flag:\n    x = self.extra(x)\nreturn self.a(x)",
        "nn.DataParallel(net)(x, None, i > 1)",
        "extra",
        "flag",
    ),
    "a method is given what varies": ("x = self.block(x, x.sum() > 0)\nreturn self.a(x)", "net(x)", "extra", "go"),
    "a shape decides": (
        "if x.size(0) > 3:\n    x = self.extra(x)\nreturn self.a(x)",
        "net(x)",
        "extra",
        "x.size(0) > 3",
    ),
    "a loop that may not run": (
        "while x.sum() > 0:\n    x = self.extra(x)\nreturn self.a(x)",
        "net(x)",
        "extra",
        "x.sum() > 0",
    ),
    "an operand that may not be asked": (
        "return self.a(x) + (flag and self.extra(x))",
        "net(x, flag=i > 1)",
        "extra",
        "flag",
    ),
    "a choice among layers": (
        "return random.choice(self.layers)(self.a(x))",
        "net(x)",
        "layers",
        "random.choice(self.layers)",
    ),
    "a sample of layers": (
        "for each in random.sample(list(self.layers), 2):\n    x = each(x)\nreturn self.a(x)",
        "net(x)",
        "layers",
        "random.sample(list(self.layers), 2)",
    ),
    "a comprehension with a condition": (
        f"return sum(each(x) for each in self.layers if {RANDOM}) + self.a(x)",
        "net(x)",
        "layers",
        RANDOM,
    ),
    "a computed name": (
        "return getattr(self, f'l{int(x.sum())}')(x)",
        "net(x)",
        "",
        "getattr(self, f'l{int(x.sum())}')",
    ),
    "no gradient at first": (
        "self.step += 1\nx = self.a(x)\nif self.step < 3:\n    x = x.detach()\nreturn self.extra(x)",
        "net(x)",
        "",
        "self.step < 3",
    ),
    "gradients are switched on later": (
        "self.step += 1\nwith torch.set_grad_enabled(self.step > 3):\n    x = self.a(x)\nreturn self.extra(x)",
        "net(x)",
        "",
        "self.step > 3",
    ),
    "gradients are switched off at first": (
        "self.step += 1\nwith torch.no_grad() if self.step < 3 else torch.enable_grad():\n    x = self.a(x)\n"
        "return self.extra(x)",
        "net(x)",
        "",
        "self.step < 3",
    ),
}


@pytest.mark.parametrize(("body", "call", "name", "test"), AT_TIMES.values(), ids=AT_TIMES)
def test_some_calls_pass_over_a_layer(body: str, call: str, name: str, test: str) -> None:
    assert skipped(body, call) == [(name, test)]


@pytest.mark.parametrize(
    ("body", "call"),
    [
        pytest.param("return self.a(x) if torch.rand(1) > 0.5 else self.extra(x)", "net(x)", id="an expression"),
        pytest.param(
            "match task:\n    case 'a':\n        x = self.a(x)\n    case _:\n        x = self.extra(x)\nreturn x",
            f"net(x, task={BOTH})",
            id="a pattern",
        ),
    ],
)
def test_each_of_two_ways_has_a_layer_of_its_own(body: str, call: str) -> None:
    assert [name for name, _ in skipped(body, call)] == ["a", "extra"]


def test_layers_of_layers_are_looked_at_and_their_classes_once() -> None:
    known = script(
        """\
        import random
        from torch import nn
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(2, 2)
            def forward(self, x):
                return x if random.random() < 0.1 else self.inner(x)
        net = nn.Sequential(Block(), Block())
        """
    )

    assert [each.name for each in skipped_layers(known.models[0])] == ["inner"]


@pytest.mark.parametrize(
    ("layer", "has"),
    [
        ("nn.Linear(2, 2)", True),
        ("nn.ReLU()", False),
        ("nn.Parameter(torch.ones(2))", True),
        ("nn.Sequential()", False),
        ("nn.Sequential(nn.ReLU())", False),
        ("nn.Sequential(nn.ReLU(), nn.Linear(2, 2))", True),
        ("nn.Sequential(*make())", True),
        ("Empty()", False),
        ("Full()", True),
        ("Derived()", True),
        ("torch.ones(2)", False),
    ],
)
def test_has_parameters(layer: str, *, has: bool) -> None:
    known = script(
        f"""\
        import torch
        from torch import nn
        from others import make
        class Empty(nn.Module):
            def __init__(self):
                super().__init__()
                self.act = nn.ReLU()
        class Full(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = [nn.Linear(2, 2)]
        class Derived(nn.Linear):
            pass
        answer = {layer}
        """
    )
    (answer,) = (each for each in known.module.nodes(ast.Assign) if ast.unparse(each.targets[0]) == "answer")

    assert {has_parameters(known.flow, each) for each in known.flow.values(answer.value)} == {has}
