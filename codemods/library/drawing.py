"""Whether a call or an object of a library draws random numbers of PyTorch's, or one of Python's or NumPy's."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import argument_of
from codemods.dataflow.values import External, Made, Method, Unknown, library_names, without_none
from codemods.library.layers import DRAWING_METHODS, dropout, may_draw
from codemods.library.operations import operation
from codemods.library.operators import Draws

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value

_DISTRIBUTIONS = "torch.distributions."
_CONVERTS = frozenset({"builtins.int", "builtins.float"})


def call_draws(flow: Flow, call: ast.Call) -> bool:
    """Whether calling a library's function or layer, or a method of a tensor or distribution, may draw."""
    for value in without_none(flow.values(call.func)):
        if isinstance(value, External) and _may_draw(value.name, call) and not value.name.startswith(_DISTRIBUTIONS):
            return True
        if _samples(value) or (isinstance(value, Made) and layer_draws(value)):
            return True
    row = operation(flow, call) if isinstance(call.func, ast.Attribute) else None
    return row is not None and row.draws is Draws.YES


def _samples(value: Value) -> bool:
    """Whether it is ``distribution.rsample``, or ``sample`` of something of which nothing is known."""
    if not isinstance(value, Method) or value.site is not None:
        return False
    may_be = isinstance(value.of, Unknown) or value.of.name.startswith(_DISTRIBUTIONS)
    return may_be and value.name in DRAWING_METHODS


def samples_without_graph(method: Value) -> bool:
    """Whether it is ``distribution.sample``: what it draws carries no graph, as what ``rsample`` draws does."""
    if not isinstance(method, Method) or method.site is not None:
        return False
    return method.name in {"sample", "sample_n"} and _is_distribution(method.of)


def _is_distribution(value: Value | None) -> bool:
    return value is not None and isinstance(value, Made) and value.name.startswith(_DISTRIBUTIONS)


def layer_draws(layer: Value) -> bool:
    """Whether calling a library's layer or network may draw: one that drops values out does."""
    return _may_draw(layer.name, layer.site)


def _may_draw(name: str, call: object) -> bool:
    """Whether what is called so may draw, where a dropout of 0 given in the call drops nothing."""
    argument = dropout(name)
    if argument is None or not isinstance(call, ast.Call):
        return may_draw(name)
    given = [each.value for each in call.keywords if each.arg == argument.name]
    if argument.position is not None and not any(isinstance(each, ast.Starred) for each in call.args):
        given += call.args[argument.position : argument.position + 1]
    if not given and all(each.arg is not None for each in call.keywords):
        return argument.default > 0
    return not (len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 0)


_NUMBERS = {
    **dict.fromkeys(
        (f"random.{each}" for each in words("randint randrange choice uniform random gauss normalvariate triangular")),
        None,
    ),
    **{f"numpy.random.{each}": 0 for each in words("rand randn random random_sample ranf sample standard_normal")},
    **{f"numpy.random.{each}": 1 for each in words("choice exponential geometric poisson rayleigh standard_gamma")},
    **{f"numpy.random.{each}": 2 for each in words("randint random_integers normal uniform binomial beta gamma")},
}
"""Functions that draw a number of Python's, and where they may be given how many: an array of them is none."""


def draws_number(flow: Flow, call: ast.Call) -> bool:
    """Whether the call draws one number of Python's: ``random.randint(2, 9)``, ``int(torch.randint(9, (1,)))``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "item":
        return isinstance(call.func.value, ast.Call) and call_draws(flow, call.func.value)
    names = library_names(flow.values(call.func))
    if names & _CONVERTS and len(call.args) == 1 and isinstance(call.args[0], ast.Call):
        return call_draws(flow, call.args[0])
    for name in names & _NUMBERS.keys():
        position = _NUMBERS[name]
        is_starred = any(isinstance(each, ast.Starred) for each in call.args)
        if position is None or (not is_starred and argument_of(call, "size", position) is None):
            return True
    return False
