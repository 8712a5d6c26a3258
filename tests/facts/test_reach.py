"""Which code runs when a piece of code runs."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.facts.reach import Reach, is_model_call, own, passing_over, stores, switches_gradients_off, written

HEAD = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
    def forward(self, x):
        return helper(self.inner(x))
    def decode(self, x):
        return x
class Inner(nn.Module):
    def forward(self, x):
        return x
def helper(x):
    return deep(x)
def deep(x):
    return x
def around():
    return around()
model = Net()
"""


def reached(code: str, **others: str) -> set[str]:
    known = script(HEAD + code, **others)
    return {getattr(each, "name", "lambda") for each in Reach(known.flow).functions(known.module.tree.body[-1:])}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print(1)", set()),
        ("helper(1)", {"helper", "deep"}),
        ("model(1)", {"forward", "helper", "deep"}),
        ("model.decode(1)", {"decode"}),
        ("around()", {"around"}),
        ("(lambda x: deep(x))(1)", {"lambda", "deep"}),
        ("helper", set()),
        ("class A:\n    def f(self):\n        helper(1)", set()),
        (
            "class A:\n    def __enter__(self):\n        helper(1)\n    def __exit__(self, *error):\n        pass\n\n"
            "with A() as a:\n    pass",
            {"__enter__", "__exit__", "helper", "deep"},
        ),
    ],
)
def test_the_functions_that_it_reaches(code: str, expected: set[str]) -> None:
    assert reached(code) == expected


def test_what_the_arguments_run_is_not_what_the_call_runs() -> None:
    known = script(HEAD + "deep(around())")
    call = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert {getattr(each, "name", "") for each in Reach(known.flow).run_by(call)} == {"deep"}


def test_the_code_is_told_with_its_module() -> None:
    known = script("import other\nother.f()\n", other="def f():\n    return g()\ndef g():\n    return 1\n")
    last = known.module.tree.body[-1]
    found = [(module.path, getattr(node, "name", "")) for module, node in Reach(known.flow).code(known.module, [last])]

    assert found == [("train.py", ""), ("other.py", "f"), ("other.py", "g")]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("with torch.no_grad():\n    pass", True),
        ("with torch.inference_mode():\n    pass", True),
        ("with open('f') as f, torch.no_grad():\n    pass", True),
        ("@torch.no_grad()\ndef f():\n    pass", True),
        ("with torch.enable_grad():\n    pass", False),
        ("with torch.no_grad() if X else torch.inference_mode():\n    pass", True),
        ("with torch.no_grad() if X else torch.enable_grad():\n    pass", False),
        ("def f():\n    pass", False),
        ("torch.no_grad()", False),
    ],
)
def test_what_switches_gradients_off(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(HEAD + code)

    assert switches_gradients_off(known.flow, known.module.tree.body[-1]) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("model(x)", True),
        ("model.forward(x)", True),
        ("model.decode(x)", True),
        ("model.inner(x)", True),
        ("nn.Linear(3, 3)(x)", True),
        ("model.parameters()", False),
        ("model.to('cpu')", False),
        ("helper(x)", False),
        ("unknown(x)", False),
    ],
)
def test_whether_a_call_runs_a_model(code: str, expected: bool) -> None:  # noqa: FBT001 - the expectation itself
    known = script(HEAD + code)
    call = known.module.tree.body[-1].value  # type: ignore[attr-defined]

    assert is_model_call(known.flow, call) is expected


def test_the_names_that_a_node_writes_itself() -> None:
    tree = ast.parse("a, b.c = 1, 2\nd[0] = e\nf += 1\ndef g():\n    h = 1\nfor i in j:\n    k = i\n")

    assert written(tree) == {"a", "b.c", "f", "i", "k"}
    assert [ast.unparse(each) for each in stores(tree)] == ["a", "b.c", "f", "i", "k"]


def test_the_nodes_of_a_function_defined_inside_are_not_its_own() -> None:
    tree = ast.parse("x()\ndef f():\n    y()\nclass A:\n    z()\n")

    assert [ast.unparse(each) for each in own(tree, ast.Call)] == ["x()"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("for x in a:\n    here()\n", None, id="in a loop"),
        pytest.param("for x in a:\n    if x:\n        continue\n    here()\n", 3, id="after what goes on"),
        pytest.param("for x in a:\n    here()\n    if x:\n        continue\n", None, id="before what goes on"),
        pytest.param("def f():\n    if x:\n        return\n    here()\n", 3, id="after a return"),
        pytest.param("def f():\n    def g():\n        return 1\n    here()\n", None, id="after a return of another"),
        pytest.param("if x:\n    here()\n", 1, id="in an if"),
        pytest.param("if here():\n    pass\n", None, id="in the test of an if"),
        pytest.param("if __name__ == '__main__':\n    here()\n", None, id="in the main guard"),
        pytest.param("while x:\n    here()\n", 1, id="in a while"),
        pytest.param("while True:\n    here()\n", None, id="in a while that goes on"),
        pytest.param("x and here()\n", 1, id="after a test"),
        pytest.param("here() and x\n", None, id="a test"),
        pytest.param("try:\n    here()\nexcept ValueError:\n    pass\n", 1, id="in a try"),
        pytest.param("try:\n    here()\nfinally:\n    pass\n", None, id="in a try that catches nothing"),
    ],
)
def test_what_may_pass_over_code(text: str, line: int | None) -> None:
    module = script(text).module
    here = next(each for each in module.nodes(ast.Call) if ast.unparse(each.func) == "here")
    found = passing_over(module, here)

    assert (None if found is None else getattr(found, "lineno", 0)) == line


def test_what_is_around_the_statement_from_which_on_is_asked_does_not_count() -> None:
    module = script("if x:\n    for y in x:\n        here()\n").module
    (loop,), (call,) = module.nodes(ast.For), module.nodes(ast.Call)

    assert passing_over(module, call, loop) is None
    assert isinstance(passing_over(module, call), ast.If)
