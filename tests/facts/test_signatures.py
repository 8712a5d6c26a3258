"""What a function takes, and which argument of a call each parameter is given."""

from __future__ import annotations

import ast

import pytest
from probe import script

from codemods.dataflow.signatures import argument_of, arguments_of, signature

TEXT = "def run(first, /, second, third=3, *rest, fourth, fifth=5, **more): ..."


def taken(text: str = TEXT) -> ast.FunctionDef:
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    return function


def call(text: str) -> ast.Call:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    return node


def test_parameters_are_told_apart_by_how_they_may_be_given() -> None:
    seen = signature(taken())

    assert seen.positional_names == ("first", "second", "third")
    assert [each.arg for each in seen.named] == ["first", "second", "third", "fourth", "fifth"]
    assert seen.names == ("first", "second", "third", "fourth", "fifth", "rest", "more")
    assert {name: ast.unparse(node) for name, node in seen.defaults.items()} == {"third": "3", "fifth": "5"}


@pytest.mark.parametrize(
    ("text", "given", "is_whole"),
    [
        pytest.param("run(1, 2, 4)", {"first": "1", "second": "2", "third": "4"}, True, id="by position"),
        pytest.param("run(1, fourth=4, second=2)", {"first": "1", "second": "2", "fourth": "4"}, True, id="by name"),
        pytest.param("run(1, 2, 3, 4, 5)", {"first": "1", "second": "2", "third": "3"}, True, id="more than it names"),
        pytest.param("run(1, other=7)", {"first": "1"}, True, id="a name that ** takes"),
        pytest.param(
            "run(1, *xs, 5, fourth=4)", {"first": "1", "fourth": "4"}, False, id="what follows a * is not known"
        ),
        pytest.param("run(1, **options)", {"first": "1"}, False, id="a ** may give the rest"),
    ],
)
def test_arguments_are_bound_as_far_as_they_are_given_one_by_one(
    text: str, given: dict[str, str], *, is_whole: bool
) -> None:
    binding = signature(taken()).bind(call(text))

    assert {name: ast.unparse(node) for name, node in binding.given.items()} == given
    assert binding.is_whole is is_whole


@pytest.mark.parametrize(
    ("decorator", "names"),
    [
        pytest.param("", ("x",), id="its object binds a method"),
        pytest.param("@classmethod\n    ", ("x",), id="its class binds a class method"),
        pytest.param("@staticmethod\n    ", ("self", "x"), id="nothing binds a static method"),
    ],
)
def test_the_flow_leaves_out_what_a_method_is_bound_to(decorator: str, names: tuple[str, ...]) -> None:
    seen = script(f"class Net:\n    {decorator}def run(self, x): ...\n\nNet().run(1)\n")
    (method,) = seen.module.nodes(ast.FunctionDef)

    assert seen.flow.signature(method).positional_names == names


CALLED = """\
    import functools
    import torch.multiprocessing as mp

    class Net:
        def __init__(self, x): ...
        def __call__(self, x): ...
        def run(self, x): ...
        @staticmethod
        def alone(x): ...

    net = Net(3)
    {call}
"""


@pytest.mark.parametrize(
    ("call", "function", "given"),
    [
        pytest.param("net.run(7)", "run", ["7"], id="its object binds a method"),
        pytest.param("Net.run(net, 7)", "run", ["7"], id="the object is given, too"),
        pytest.param("Net.alone(7)", "alone", ["7"], id="a static method"),
        pytest.param("net.alone(7)", "alone", ["7"], id="a static method of an object"),
        pytest.param("Net(7)", "__init__", ["7"], id="an object is made"),
        pytest.param("net(7)", "__call__", ["7"], id="an object is called"),
        pytest.param("net.run(*xs, 7)", "run", ["xs", "7"], id="any of what follows a star"),
        pytest.param("list(map(net.run, xs))", "run", ["net.run", "xs"], id="other code gives it what it likes"),
        pytest.param(
            "mp.spawn(net.run, (7,))", "run", ["net.run", "(7,)"], id="a process gives it something else first"
        ),
        pytest.param("functools.partial(net.run)(7)", "run", ["7"], id="something may be given before"),
    ],
)
def test_a_parameter_gets_one_of_these_arguments(call: str, function: str, given: list[str]) -> None:
    seen = script(CALLED.format(call=call))
    method = next(each for each in seen.module.nodes(ast.FunctionDef) if each.name == function)
    binding = seen.flow.bind(method, seen.flow.callers(method)[-1])

    assert [ast.unparse(each) for each in binding.candidates("x")] == given
    assert binding.is_whole is (given == ["7"] and "partial" not in call)


def test_a_parameter_that_is_not_given_has_its_default() -> None:
    binding = signature(taken()).bind(call("run(1, 2, 3, 4, other=7)"))

    assert [ast.unparse(each) for each in binding.candidates("rest")] == ["4", "7"]
    assert not binding.candidates("fifth")
    assert [name for name, _ in binding.filled()] == ["first", "second", "third", "rest", "more"]


def test_what_a_call_is_given_by_position_or_by_name() -> None:
    node = call("f(1, *rows, size=2, **options)")

    assert [ast.unparse(each) for each in arguments_of(node)] == ["1", "*rows", "2", "options"]


@pytest.mark.parametrize(
    ("text", "position", "given"),
    [
        pytest.param("f(x, 3, dim=1)", 1, "1", id="by name"),
        pytest.param("f(x, 3)", 1, "3", id="by position"),
        pytest.param("f(x, 3)", None, None, id="it can be given by name alone"),
        pytest.param("f(x)", 1, None, id="it is not given"),
        pytest.param("f(x, **options)", 1, None, id="a ** may give it"),
    ],
)
def test_what_a_call_gives_one_parameter(text: str, position: int | None, given: str | None) -> None:
    found = argument_of(call(text), "dim", position)

    assert (found and ast.unparse(found)) == given


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        pytest.param("run(1, 2, fourth=4)", True, id="what is demanded"),
        pytest.param("run(1, 2, 3, 4, 5, fourth=4, sixth=6)", True, id="more, where stars collect it"),
        pytest.param("run(1, second=2, fourth=4)", True, id="by name"),
        pytest.param("run(*a, fourth=4)", True, id="a star may be what is missing"),
        pytest.param("run(1, **more)", True, id="two stars may be what is missing"),
        pytest.param("run(1, fourth=4)", False, id="one too few"),
        pytest.param("run(1, 2)", False, id="a name too few"),
    ],
)
def test_whether_arguments_are_taken(text: str, is_taken: bool) -> None:  # noqa: FBT001 - the expectation itself
    assert signature(taken()).may_take(call(text)) is is_taken


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        pytest.param("run(1)", True, id="the default stays"),
        pytest.param("run(1, 2)", True, id="all of it"),
        pytest.param("run()", False, id="one too few"),
        pytest.param("run(1, 2, 3)", False, id="one too many"),
        pytest.param("run(1, third=3)", False, id="a name that it has not"),
    ],
)
def test_whether_arguments_are_taken_where_nothing_collects(text: str, is_taken: bool) -> None:  # noqa: FBT001
    assert signature(taken("def run(first, second=2): ...")).may_take(call(text)) is is_taken
