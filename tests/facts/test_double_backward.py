"""Which models are differentiated twice."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.autograd.double_backward import differentiated_inside, differentiated_twice, keeps_graph

HEAD = """\
import torch
from torch import nn
inner = nn.Linear(4, 4)
outer = nn.Linear(4, 1)
"""


def twice(body: str, **others: str) -> set[str]:
    """The names of the models through which second derivatives are computed."""
    known = script(HEAD + body, **others)
    names = dict(zip((each.value for each in known.models), ("inner", "outer"), strict=True))
    return {names[each] for each in differentiated_twice(known.flow, known.modules, known.models)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("inner(x).sum().backward()", set(), id="once"),
        pytest.param("g = torch.autograd.grad(inner(x).sum(), x, create_graph=True)", {"inner"}, id="one of two"),
        pytest.param(
            "y = outer(inner(x))\ng = torch.autograd.grad(y.sum(), x, create_graph=True)", {"inner", "outer"}, id="both"
        ),
        pytest.param(
            "y = inner(x)\ng = torch.autograd.grad(outer(y).sum(), y, create_graph=True)",
            {"outer"},
            id="from a point on",
        ),
        pytest.param(
            "y = outer(inner(x).detach())\ng = torch.autograd.grad(y.sum(), x, create_graph=True)",
            {"outer"},
            id="the graph is cut",
        ),
        pytest.param(
            "with torch.no_grad():\n    y = inner(x)\ng = torch.autograd.grad(outer(y).sum(), x, create_graph=True)",
            {"outer"},
            id="without gradients",
        ),
        pytest.param(
            "def through(x):\n    return inner(x)\ny = through(x)\ng = torch.autograd.grad(y, x, create_graph=True)",
            {"inner"},
            id="through a function",
        ),
        pytest.param("g = torch.autograd.grad(inner.forward(x), x, create_graph=True)", {"inner"}, id="its forward"),
        pytest.param("torch.func.hessian(outer)(x)", {"outer"}, id="a function that is transformed"),
        pytest.param("g = torch.autograd.grad(loss, x, create_graph=True)", {"inner", "outer"}, id="not known"),
    ],
)
def test_the_models_that_are_differentiated_twice(body: str, expected: set[str]) -> None:
    assert twice(body) == expected


def test_the_callers_say_which_model_a_function_is_given() -> None:
    penalty = """\
def penalty(net, x, again=True):
    return torch.autograd.grad(net(x).sum(), x, create_graph=again)[0].norm()
"""

    assert twice(f"{penalty}penalty(outer, x).backward()") == {"outer"}
    assert twice(f"{penalty}penalty(outer, x, False)\n".replace("=True", "=False")) == set()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("y.backward()", False, id="nothing is said"),
        pytest.param("y.backward(create_graph=True)", True, id="by name"),
        pytest.param("y.backward(create_graph=False)", False, id="the opposite"),
        pytest.param("y.backward(create_graph=flag)", True, id="not known"),
        pytest.param("y.backward(None, True, True)", True, id="by position"),
        pytest.param("y.backward(None, True, False)", False, id="the opposite by position"),
        pytest.param("y.backward(None, True)", False, id="the graph is kept for another backward"),
        pytest.param("torch.autograd.grad(y, x, None, True, True)", True, id="of a function by position"),
        pytest.param("torch.autograd.backward([y], None, True, True)", True, id="of several by position"),
        pytest.param("torch.autograd.grad(y, x, **{'create_graph': True})", True, id="in a dict"),
        pytest.param("torch.autograd.grad(y, x, **{'retain_graph': True})", False, id="a dict without it"),
        pytest.param("torch.autograd.grad(y, x, **options)", True, id="a dict that is not known"),
        pytest.param("library(**options)", False, id="what is not known to differentiate"),
    ],
)
def test_a_call_that_lets_gradients_be_differentiated_again(call: str, expected: bool) -> None:  # noqa: FBT001 - expected
    known = script(HEAD + call)
    node = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert keeps_graph(known.flow, node) is expected


INSIDE = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        self.middle = self.layer(x)
        return self.middle * 2, self.middle
model = Net()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            "y, z = model(x)\ntorch.autograd.grad(y.sum(), z)",
            "torch.autograd.grad(y.sum(), z)",
            id="one of its outputs by another",
        ),
        pytest.param(
            "y = model(x)[0]\ntorch.autograd.grad(y.sum(), model.middle)",
            "torch.autograd.grad(y.sum(), model.middle)",
            id="what it kept",
        ),
        pytest.param("model(x)\nmodel.middle.retain_grad()", "model.middle.retain_grad()", id="a gradient is kept"),
        pytest.param("y, z = model(x)\ntorch.autograd.grad(y.sum(), x)", None, id="by its input"),
        pytest.param("y, z = model(x)\ny.sum().backward()", None, id="a backward"),
    ],
)
def test_a_gradient_by_what_the_model_computes_on_the_way(body: str, expected: str | None) -> None:
    known = script(INSIDE + body)
    (model,) = known.models
    found = differentiated_inside(known.flow, known.modules, model)

    assert (None if found is None else ast.unparse(found)) == expected


HOOKED = """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
other = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
kept, means = {{}}, {{}}
tensors, last = [], None
def keep(module, given, output):
    {keep}
{hang}
y = model(x)
{ask}
"""
HANG = "model[0].register_forward_hook(keep)"
ASK = "torch.autograd.grad(y.sum(), kept['a'])"


@pytest.mark.parametrize(
    ("keep", "hang", "ask", "expected"),
    [
        pytest.param("kept['a'] = output", HANG, ASK, True, id="in a dict"),
        pytest.param("kept['a'] = given[0]", HANG, ASK, True, id="what the layer is given"),
        pytest.param("out = output * 1\n    kept['a'] = out", HANG, ASK, True, id="by a name"),
        pytest.param("tensors.append(output)", HANG, "torch.autograd.grad(y.sum(), tensors)", True, id="in a list"),
        pytest.param("tensors.append(output)", HANG, "tensors[0].retain_grad()", True, id="its gradient is kept"),
        pytest.param(
            "global last\n    last = output", HANG, "torch.autograd.grad(y.sum(), last)", True, id="in a global name"
        ),
        pytest.param(
            "kept['a'] = output",
            HANG,
            "inner = kept['a']\ntorch.autograd.grad(y.sum(), inner)",
            True,
            id="asked by a name",
        ),
        pytest.param(
            "pass",
            "def hook(name):\n    def inside(module, given, output):\n        kept[name] = output\n    return inside\n"
            "for name, each in model.named_modules():\n    each.register_forward_hook(hook(name))",
            ASK,
            True,
            id="by a function that is returned",
        ),
        pytest.param(
            "pass",
            "class Keeper:\n    def keep(self, module, given, output):\n        self.output = output\n"
            "keeper = Keeper()\nmodel[0].register_forward_hook(keeper.keep)",
            "torch.autograd.grad(y.sum(), keeper.output)",
            True,
            id="by a method, in an attribute",
        ),
        pytest.param("kept['a'] = output.detach()", HANG, ASK, False, id="detached"),
        pytest.param("means['a'] = output", HANG, ASK, False, id="in another dict"),
        pytest.param("kept['a'] = output", HANG, "torch.autograd.grad(y.sum(), x)", False, id="by the input"),
        pytest.param("kept['a'] = output", "other[0].register_forward_hook(keep)", ASK, False, id="of another model"),
        pytest.param("kept['a'] = output", "pass", ASK, False, id="the hook is not hung up"),
    ],
)
def test_a_gradient_by_what_a_hook_keeps(keep: str, hang: str, ask: str, expected: bool) -> None:  # noqa: FBT001
    known = script(HOOKED.format(keep=keep, hang=hang, ask=ask))
    model = next(each for each in known.models if len(each.layers) > 2)

    assert (differentiated_inside(known.flow, known.modules, model) is not None) is expected


def test_what_callers_of_callers_differentiate_by_is_where_the_search_ends() -> None:
    functions = "def f0(y, x):\n    return torch.autograd.grad(outer(y).sum(), x, create_graph=True)\n" + "".join(
        f"def f{at}(y, x{at}):\n    return f{at - 1}(y, x{at})\n" for at in range(1, 7)
    )

    assert twice(f"{functions}point = inner(x)\nf6(point, point)\n") == {"outer"}


def test_a_function_that_hands_its_argument_to_itself() -> None:
    body = "def f(y, n):\n    return f(y, n - 1) if n else torch.autograd.grad(outer(y).sum(), y, create_graph=True)\n"

    assert twice(f"{body}f(inner(x), 3)\n") == {"outer"}
