"""Which values may carry a graph by what they are, and which functions of libraries hand one on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.values import (
    Container,
    External,
    HostTensor,
    Made,
    Method,
    MovedTensor,
    SomeTensor,
    Unknown,
    Value,
    Values,
)
from codemods.library.kinds import MODULE_METHODS, Kind, is_parameter, kind
from codemods.library.operators import function
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow


# Built-in functions that hand out what they are given, and those that compute with it; the others return numbers, texts
# and the like.
_HANDS_OUT = frozenset(
    {"zip", "enumerate", "list", "tuple", "dict", "set", "filter", "sorted", "reversed", "iter", "next", "getattr"}
    | {"vars", "frozenset", "dict.fromkeys"}
)
_COMPUTES = frozenset({"sum", "max", "min", "abs", "pow", "map", "round"})
_RUN_TEXT = frozenset({"builtins.eval", "builtins.exec"})


def hands_out(name: str) -> bool:
    """Whether a function returns what it was given, or holds it, and computes nothing with it."""
    package, _, rest = name.partition(".")
    return (package == "builtins" and rest in _HANDS_OUT) or name in {"copy.copy", "copy.deepcopy"}


def runs_text(name: str) -> bool:
    """Whether a function may read names, and bind them, that are not seen to be: it is given them as text."""
    return name in _RUN_TEXT


def passes_on(name: str) -> bool:
    """Whether what a library's function returns may carry the graphs of its arguments."""
    package, _, rest = name.partition(".")
    if package == "builtins":
        return rest in _HANDS_OUT | _COMPUTES or runs_text(name)
    row = function(name)
    return row.carries_graph if row is not None else not has(name, Trait.GRAPHLESS)


def may_carry(flow: Flow, values: Values, *, opaque: bool = True) -> bool:
    """Whether a value from outside may carry a graph: batches, numbers and fresh tensors do not.

    Args:
        flow: The values of the project.
        values: What the expression may be.
        opaque: Whether a value of which nothing is known may.
    """
    return any(
        isinstance(value, SomeTensor)
        or (isinstance(value, Unknown) and opaque)
        or (_is_moved(value) and _starts_graph(value.site))
        or is_parameter(flow, value)
        or _is_of_layer(flow, value)
        for value in closure(values, lambda each: _parts(flow, each))
    )


def _is_moved(value: Value) -> bool:
    """Whether it is a tensor that a call made, moved or converted, and no part of another value."""
    return isinstance(value, (HostTensor, MovedTensor)) and value.of is None


def _starts_graph(call: ast.AST | None) -> bool:
    """Whether the call, of which nothing else is known, may ask for gradients."""
    return not isinstance(call, ast.Call) or any(each.arg == "requires_grad" for each in call.keywords)


def _is_of_layer(flow: Flow, value: Value) -> bool:
    """Whether it is ``layer.weight``, or another attribute of a model that is no method of every module."""
    if not isinstance(value, Method) or value.site is not None or value.name in MODULE_METHODS:
        return False
    return kind(flow, value.of) is Kind.MODEL


def _parts(flow: Flow, value: Value) -> Values:
    """What a value was made of that hands on its graph: a container, a moved or converted tensor, a distribution."""
    if isinstance(value, Container):
        return flow.items(value)
    if _is_moved(value):
        return _receiver(flow, value.site)
    if not isinstance(value, Made) or not value.name.startswith("torch.distributions.") or value.site is None:
        return frozenset()
    given = arguments_of(value.site) if isinstance(value.site, ast.Call) else []
    return frozenset(each for argument in given for each in flow.values(argument))


def _receiver(flow: Flow, call: ast.AST | None) -> Values:
    """``x`` of ``x.to(device)``."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return frozenset()
    is_function = any(isinstance(each, External) for each in flow.values(call.func))
    return frozenset() if is_function else flow.values(call.func.value)
