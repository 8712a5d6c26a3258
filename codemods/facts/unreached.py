"""Which code never runs, as a parameter that decides about it has one value only, such as its default?"""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, lasting
from codemods.dataflow.values import Literal
from codemods.facts.decided import agreed, holds
from codemods.facts.devices.devices import branches
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow


@lasting  # each layer of each model asks
def never_runs(flow: Flow, node: ast.AST) -> bool:
    """Whether an ``if`` around the node is never taken: ``if attend:`` in ``def __init__(self, attend=False)``."""
    return any(
        holds(each.test, partial(_holds, flow)) is (not each.holds) for each in branches(module_of(flow, node), node)
    )


def _holds(flow: Flow, test: ast.expr) -> bool | None:
    """Whether the test of parameters holds for all values that they are given; None where it may or may not."""
    match test:
        case ast.Compare(ast.Name() as left, [ast.Is() | ast.IsNot() as how], [ast.Constant(None)]):
            return agreed((value is None) is isinstance(how, ast.Is) for value in _given(flow, left))
        case ast.Compare(ast.Name() as left, [ast.Eq() | ast.NotEq() as how], [ast.Constant(other)]):
            return agreed((value == other) is isinstance(how, ast.Eq) for value in _given(flow, left))
        case ast.Name():
            return agreed(bool(value) for value in _given(flow, test))
    return None


def _given(flow: Flow, name: ast.Name) -> tuple[object, ...]:
    """What the parameter of that name may be; nothing where it is none, is written to, or may be what is not known."""
    module = module_of(flow, name)
    function = module.function(name)
    if not isinstance(function, FUNCTIONS) or not any(each.arg == name.id for each in signature(function).named):
        return ()
    if any(getattr(each, "decorator_list", ()) for each in (function, module.parent(function))):
        return ()  # `@gin.configurable` gives parameters what a file says
    values = flow.values(name)
    constants = tuple(each.value for each in values if isinstance(each, Literal))
    return constants if len(constants) == len(values) else ()
