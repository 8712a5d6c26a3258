"""Which parameters of a model a loss of its output surely reaches."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.coverage import depends, why_gradients_may_miss
from codemods.facts.reason import HERE

ONE = "self.a = nn.Linear(4, 4)"
TWO = f"{ONE}\nself.b = nn.Linear(4, 4)"
SEVERAL = "self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])"
BLOCK = """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x, time):
        return self.layer({})
"""


def indented(text: str) -> str:
    return "".join(f"        {line}\n" for line in text.split("\n"))


def why(
    init: str, forward: str, more: str = "", *, before: str = "", base: str = "nn.Module", after: str = ""
) -> str | None:
    """The reason of a model with this ``__init__`` and ``forward``, and more methods."""
    known = script(f"""\
import torch
import torch.nn.functional as F
from torch import nn
{before}
class Net({base}):
    def __init__(self):
        super().__init__()
{indented(init)}
    def forward(self, x):
{indented(forward)}
{more}
net = Net()
{after}""")
    (model,) = known.models
    reason = why_gradients_may_miss(model)
    return None if reason is None else reason.text


def unused(attribute: str) -> str:
    return f"self.{attribute} is not used in forward in a way that surely gives it a gradient"


@pytest.mark.parametrize(
    ("init", "forward"),
    [
        pytest.param(TWO, "return self.b(self.a(x))", id="one after the other"),
        pytest.param(TWO, "y = self.a(x)\nreturn self.b(x) + F.relu(y)", id="a sum"),
        pytest.param(TWO, "y = self.a(x)\ny += self.b(x)\nreturn y", id="added in place"),
        pytest.param(SEVERAL, "for layer in self.layers:\n    x = layer(x)\nreturn x", id="a loop over layers"),
        pytest.param(SEVERAL, "for layer in self.layers:\n    h = layer(x)\n    x = x + h\nreturn x", id="residuals"),
        pytest.param(f"{ONE}\nself.w = nn.Parameter(torch.ones(4))", "return self.a(x) * self.w", id="a parameter"),
        pytest.param(TWO, "return self.b(self.a(x).chunk(2)[1])", id="one of several alike"),
        pytest.param(TWO, "return self.b(self.a(x).max(1)[0])", id="the greatest values"),
        pytest.param(TWO, "return self.b(self.a(x).to(torch.float64))", id="another number format"),
    ],
)
def test_each_parameter_gets_a_gradient(init: str, forward: str) -> None:
    assert why(init, forward) is None


@pytest.mark.parametrize(
    ("init", "forward", "missed"),
    [
        pytest.param(TWO, "return self.a(x)", "b", id="it is not used"),
        pytest.param(TWO, "self.b(x)\nreturn self.a(x)", "b", id="its result is dropped"),
        pytest.param(TWO, "y = self.b(x)\ny = self.a(x)\nreturn y", "b", id="its result is overwritten"),
        pytest.param(TWO, "return self.b(self.a(x).detach())", "a", id="the graph is cut"),
        pytest.param(TWO, "return self.b(self.a(x).argmax(1))", "a", id="integers are made of it"),
        pytest.param(TWO, "return self.b(self.a(x).max(1)[1])", "a", id="where the greatest values stand"),
        pytest.param(TWO, "y = torch.sort(self.a(x))\nreturn self.b(y[1])", "a", id="the order, by a name"),
        pytest.param(TWO, "return self.b(self.a(x).to(torch.long))", "a", id="it is converted to integers"),
        pytest.param(TWO, "return self.b(self.a(x).type(torch.LongTensor))", "a", id="a type of integers"),
        pytest.param(TWO, "return self.b(torch.zeros_like(self.a(x)))", "a", id="only its shape is used"),
        pytest.param(TWO, "return self.b(x) * self.a(x).item()", "a", id="a number of it"),
        pytest.param(
            SEVERAL, "for layer in self.layers:\n    y = layer(x)\nreturn y", "layers", id="only the last of a loop"
        ),
        pytest.param(
            SEVERAL, "for layer in self.layers:\n    x = layer(x.detach())\nreturn x", "layers", id="cut in each pass"
        ),
        pytest.param(
            SEVERAL, "for layer in self.layers[1:]:\n    x = layer(x)\nreturn x", "layers", id="some layers of a list"
        ),
    ],
)
def test_a_parameter_may_get_none(init: str, forward: str, missed: str) -> None:
    assert why(init, forward) == unused(missed)


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        pytest.param("if x.any():\n    x = self.a(x)\nreturn x", f"forward has a branch ({HERE})", id="a branch"),
        pytest.param("with scope():\n    x = self.a(x)\nreturn x", f"forward has a with block ({HERE})", id="a block"),
        pytest.param(
            "return self.a(x), x",
            f"forward returns several values, not all of which may be in the loss ({HERE})",
            id="several values",
        ),
        pytest.param("self.a(x)", "forward returns nothing", id="nothing"),
    ],
)
def test_a_forward_that_is_not_straight(forward: str, reason: str) -> None:
    assert why(ONE, forward) == reason


def test_a_method_that_forward_calls_is_looked_into() -> None:
    helper = "    def features(self, x):\n        return self.a(x)\n"

    assert why(TWO, "return self.b(self.features(x))", helper) is None
    assert why(TWO, "return self.b(self.features(x))", "    @torch.no_grad()\n" + helper) == unused("a")


def test_a_decorator_may_switch_gradients_off() -> None:
    forward = "    @torch.no_grad()\n    def forward(self, x):\n        return self.a(x)\n"

    assert why(ONE, "pass", forward) == f"forward is decorated ({HERE})"


def test_a_layer_of_the_project_may_not_use_what_it_is_given() -> None:
    init, forward = "self.time = nn.Linear(4, 4)\nself.block = Block()", "return self.block(x, self.time(x))"

    assert why(init, forward, before=BLOCK.format("x + time")) is None
    assert why(init, forward, before=BLOCK.format("x")) == unused("time")
    assert why(init, forward, before=BLOCK.format("x + time.detach()")) == unused("time")


@pytest.mark.parametrize(
    "statement", ["self.register_parameter(name, w)", "self.add_module('part%d' % i, nn.Linear(4, 4))"]
)
def test_a_base_registers_layers_by_names_that_are_computed(statement: str) -> None:
    base = f"class Base(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {statement}\n"

    assert why(ONE, "return self.a(x)", before=base, base="Base") == f"its layers are registered by name ({HERE})"


def test_a_layer_that_is_added_from_outside() -> None:
    assert why(ONE, "return self.a(x)", after="net.extra = nn.Linear(4, 4)\n") == unused("extra")


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        ("nn.MultiheadAttention(4, 2)", "whether all of torch.nn.MultiheadAttention() is used is not known"),
        ("nn.Embedding(4, 4, sparse=True)", "torch.nn.Embedding() has gradients of its own kind"),
        ("nn.Sequential(*make())", "what torch.nn.Sequential() holds is not known"),
    ],
)
def test_a_layer_of_which_it_is_not_known(layer: str, reason: str) -> None:
    assert why(f"self.a = {layer}", "return self.a(x)") == reason


HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
criterion = nn.MSELoss()
def total(x):
    return x.sum() * 2
def perhaps(x):
    if x.sum() > 0:
        return x.sum()
    return torch.zeros(())
"""


def is_reached(text: str) -> bool:
    """Whether ``loss`` is surely computed from the model."""
    known = script(f"{HEAD}{text}\nloss\n")
    *statements, last = known.module.tree.body
    assert isinstance(last, ast.Expr)
    return depends(known.flow, last.value, statements, lambda call: ast.unparse(call.func) == "model")


@pytest.mark.parametrize(
    "text",
    [
        "loss = model(x).sum()",
        "y = model(x)\nloss = criterion(y, x) + 1",
        "y = model(x)\nloss = total(y)",
        "loss = torch.stack([model(x).sum(), x.sum()])[0] + model(x).sum()",
    ],
)
def test_a_loss_that_depends_on_the_model(text: str) -> None:
    assert is_reached(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("loss = x.sum()", id="something else"),
        pytest.param("loss = model(x).detach().sum()", id="the graph is cut"),
        pytest.param("y = model(x)\ny = x\nloss = y.sum()", id="the name is bound twice"),
        pytest.param("y = model(x)\nloss = perhaps(y)", id="a function that may return a constant"),
        pytest.param("y = model(x)\nloss = library(y)", id="a function that is not known"),
        pytest.param("if x:\n    y = model(x)\nloss = y.sum()", id="only under a condition"),
    ],
)
def test_a_loss_that_may_not_depend_on_it(text: str) -> None:
    assert not is_reached(text)


def test_numbers_in_lists_of_lists_are_no_parameters() -> None:
    assert why(f"{ONE}\nself.sizes = [[[[[[1, 2]]]]]]", "return self.a(x)") is None


def test_a_list_that_holds_itself_and_a_layer_that_is_not_used() -> None:
    init = f"{ONE}\nself.kept = []\nself.kept.append(self.kept)\nself.kept.append(nn.Linear(4, 4))"

    assert why(init, "return self.a(x)") == "self.kept is not used in forward in a way that surely gives it a gradient"
