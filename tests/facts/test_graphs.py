"""Which tensors carry a graph, and where they leave the code that computes them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from probe import script

from codemods.facts.autograd.graphs import Graphs

if TYPE_CHECKING:
    from codemods.facts.autograd.courses import Course

HEAD = """\
import torch
from torch import nn
model = nn.Linear(4, 4)
kept = []
def double(t):
    return t * 2
def count(t):
    return len(t)
def keep(t):
    kept.append(t)
def train(t):
    t.sum().backward()
"""


def course(body: str, arguments: str = "x") -> Course:
    """The course of a function with this body, whose parameters carry no graph, but what ``model(…)`` returns."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    known = script(f"{HEAD}def run({arguments}):\n{lines}")
    function = known.module.tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    graphs = Graphs(known.flow, lambda call: ast.unparse(call.func) == "model", lambda _: False, outside=False)
    return graphs.function(function, frozenset())


def fate(body: str, arguments: str = "x") -> str:
    found = course(body, arguments)
    fates = {"kept": found.kept, "returned": found.returned, "trained": found.trained}
    return ", ".join(name for name, node in fates.items() if node is not None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for a, b in zip(x, y):\n    return a", ""),
        ("for a, b in zip(x, y):\n    return b", "returned"),
        ("for a, b in zip(*x, y):\n    return a", "returned"),
        ("for a, *b in zip(x, y):\n    return a", "returned"),
        ("for a, b in enumerate(y):\n    return b", "returned"),
    ],
)
def test_what_is_gone_through_together(body: str, expected: str) -> None:
    assert fate(f"y = model(x)\n{body}") == expected


@pytest.mark.parametrize(
    "expression",
    [
        "y * 2",
        "y[0]",
        "[y, x]",
        "{'y': y}",
        "double(y)",
        "y.max(1)[0]",
        "y if x else 0",
        "y.to(torch.float64)",
        "[each for each in y]",
        "torch.cat([y, x])",
        "sum([y])",
        "dict.fromkeys(x, y)",
        "lambda: y",
        "torch.distributions.Normal(y, 1).rsample()",
        "torch.distributions.Normal(y, 1).log_prob(x)",
        "library(y).sample()",
    ],
)
def test_what_carries_the_graph_on(expression: str) -> None:
    assert fate(f"y = model(x)\nreturn {expression}") == "returned"


@pytest.mark.parametrize(
    "expression",
    [
        "y.detach()",
        "y.item()",
        "y.shape",
        "y.argmax(1)",
        "y.max(1)[1]",
        "y > 0",
        "f'{y}'",
        "count(y)",
        "y.to(torch.long)",
        "y.to(torch.int8)",
        "y.type(torch.BoolTensor)",
        "torch.zeros_like(y)",
        "torch.distributions.Normal(y, 1).sample()",
        "len(y)",
        "x",
    ],
)
def test_what_cuts_the_graph_off(expression: str) -> None:
    assert fate(f"y = model(x)\nreturn {expression}") == ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("model(x).sum().backward()", "trained", id="a backward"),
        pytest.param("torch.autograd.grad(model(x).sum(), x)", "trained", id="a gradient"),
        pytest.param("train(model(x))", "trained", id="a function that trains on it"),
        pytest.param("keep(model(x))", "kept", id="a function that keeps it"),
        pytest.param("kept.append(model(x))", "kept", id="a list of the module"),
        pytest.param("x.last = model(x)", "kept", id="an attribute"),
        pytest.param("setattr(x, 'last', model(x))", "kept", id="an attribute by its name"),
        pytest.param("object.__setattr__(x, 'last', model(x))", "kept", id="an attribute, past its class"),
        pytest.param("x.__dict__['last'] = model(x)", "kept", id="an item of the attributes"),
        pytest.param("vars(x).update(last=model(x))", "kept", id="the attributes are updated"),
        pytest.param("x.register_buffer('last', model(x))", "kept", id="a buffer"),
        pytest.param("own = {}\nown.update(last=model(x))", "", id="a dictionary of the function is updated"),
        pytest.param("meter.update(model(x).sum())", "", id="an object of a library is updated"),
        pytest.param("x['last'] = model(x)", "kept", id="an item of a parameter"),
        pytest.param("x += [model(x)]", "kept", id="a parameter grows in place"),
        pytest.param("global last\nlast = model(x)", "kept", id="a global name"),
        pytest.param("yield model(x)", "kept", id="it is yielded"),
        pytest.param("own = []\nown.append(model(x))", "", id="a list of the function"),
        pytest.param("x = x * 2\nx += model(x)", "", id="a name that is bound anew"),
        pytest.param("model(x)", "", id="nothing is done with it"),
        pytest.param("kept.append(model(x).item())", "", id="a number is kept"),
    ],
)
def test_where_a_graph_leaves_the_code(body: str, expected: str) -> None:
    assert fate(body) == expected


@pytest.mark.parametrize(
    "takes_up",
    [
        pytest.param("own.update({'a': y})", id="another dictionary"),
        pytest.param("own.update(a=y)", id="a name of it"),
        pytest.param("own['b'].update(a=y)", id="a dictionary within it"),
        pytest.param("own.extendleft([y])", id="a queue"),
        pytest.param("_ = own.update(a=y)", id="with a result that nobody wants"),
        pytest.param("x or own.update(a=y)", id="under a condition"),
        pytest.param("[own.append(each) for each in [y]]", id="for each item of a list"),
    ],
)
@pytest.mark.parametrize("own", ["{}", "[]", "library()"])
def test_what_a_container_takes_up_is_in_it(own: str, takes_up: str) -> None:
    assert fate(f"y = model(x)\nown = {own}\n{takes_up}\nreturn own") == "returned"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param("import torchmetrics\nown = torchmetrics.MeanMetric()\nown.update(y)", "", id="a metric's class"),
        pytest.param("own = library()\nown.update(y, x)", "", id="a metric is told two things"),
        pytest.param("own = x * 2\nz = own.add(y)", "", id="a sum is another tensor"),
    ],
)
def test_what_only_computes_with_it_does_not_hold_it(body: str, expected: str) -> None:
    assert fate(f"y = model(x)\n{body}\nreturn own") == expected


def test_a_number_that_a_function_is_given_does_not_change_for_its_caller() -> None:
    assert fate("total += model(x).sum()", "x, total=0") == ""


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param("y = model(x)\nz = y.detach()", {"y"}, id="by name"),
        pytest.param("y = model(x)\ny = 1", set(), id="bound anew"),
        pytest.param("if x:\n    y = model(x)\nelse:\n    y = 1", {"y"}, id="on one way"),
        pytest.param("while x:\n    z = y\n    y = model(x)", {"y", "z"}, id="in a later pass"),
        pytest.param("y = model(x)\ndel y", set(), id="deleted"),
        pytest.param("a, b = model(x), 1", {"a"}, id="one of two"),
        pytest.param("values, places = model(x).max(1)", {"values"}, id="values and where they stand"),
    ],
)
def test_the_names_that_hold_a_graph_at_the_end(body: str, names: set[str]) -> None:
    assert course(body).at_end == names


def test_a_graph_goes_on_after_some_statements() -> None:
    known = script(HEAD + "for x in data:\n    y = model(x)\n    break\ny.sum().backward()\n")
    graphs = Graphs(known.flow, lambda call: ast.unparse(call.func) == "model", lambda _: False, outside=False)
    loop = known.module.tree.body[-2]
    assert isinstance(loop, ast.For)
    first = loop.body[0]
    inside = graphs.statements(known.module, [first])

    assert inside.at_end == {"y"}
    assert graphs.after(known.module, first, inside).trained is not None


@pytest.mark.parametrize(("strict", "expected"), [(True, True), (False, False)])
def test_code_that_is_not_seen_may_keep_it(strict: bool, expected: bool) -> None:  # noqa: FBT001 - the expectation
    known = script(HEAD + "library(model(x))\n")
    graphs = Graphs(
        known.flow, lambda call: ast.unparse(call.func) == "model", lambda _: False, outside=False, strict=strict
    )

    assert (graphs.statements(known.module, known.module.tree.body[-1:]).kept is not None) is expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("several(model(x))", "returned", id="one of any number of arguments"),
        pytest.param("Steps.second(Steps(), x, model(x))", "returned", id="a method that is given its object, too"),
        pytest.param("Steps.second(Steps(), model(x), x)", "", id="another parameter of it"),
        pytest.param("Steps()(x, model(x))", "returned", id="an object that is called"),
    ],
)
def test_a_graph_goes_on_in_the_parameter_that_is_given_it(call: str, expected: str) -> None:
    body = f"""\
def several(*tensors, **more):
    return tensors
class Steps:
    def second(self, t, u):
        return u
    def __call__(self, t, u):
        return u
return {call}"""
    assert fate(body) == expected


@pytest.mark.parametrize(
    ("given", "carries"),
    [
        pytest.param("torch.zeros(3).cpu().cuda().cpu().cuda().cpu()", False, id="moved often"),
        pytest.param(
            "torch.zeros(3, requires_grad=True).cpu().cuda().cpu().cuda().cpu()", True, id="a leaf of a graph"
        ),
        pytest.param("[[[[[[layer.weight]]]]]][0][0][0][0]", True, id="in lists of lists"),
        pytest.param("again", False, id="moved again in a loop"),
    ],
)
def test_whether_what_comes_from_outside_carries_a_graph(given: str, carries: bool) -> None:  # noqa: FBT001
    known = script(
        f"{HEAD}layer = nn.Linear(4, 4)\nagain = torch.zeros(3)\nfor _ in range(3):\n    again = again.cpu()\n"
        f"given = {given}\ndef run(x):\n    kept.append(given * 2)\n"
    )
    function = known.module.tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    graphs = Graphs(known.flow, lambda _: False, lambda _: False, outside=True)

    assert (graphs.function(function, frozenset()).kept is not None) is carries


@pytest.mark.parametrize(
    ("returned", "given", "expected"),
    [
        pytest.param("y, y.detach()", "a", "returned", id="the first of two"),
        pytest.param("y, y.detach()", "b", "", id="the second of two"),
        pytest.param("(y, y.detach()) if x else (y.detach(), y)", "b", "returned", id="not written out"),
        pytest.param("y, *rest", "b", "returned", id="of any length"),
        pytest.param("y, (y.detach(), 1)", "b", "", id="a pair in a pair"),
    ],
)
def test_which_item_of_a_tuple_that_a_function_returns(returned: str, given: str, expected: str) -> None:
    assert fate(f"def step(y, *rest):\n    return {returned}\na, b = step(model(x))\nreturn {given}") == expected


def test_a_lambda_may_call_itself() -> None:
    """What is worked out again and again until nothing new is found names the same statement each time."""
    assert fate("again = lambda t: again(t) if len(t) else model(t)\nreturn again(x)") == "returned"
