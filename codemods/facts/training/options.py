"""Which option or condition of the script decides whether a piece of its code runs, or what it is given?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import walk
from codemods.dataflow.values import Choice, Literal
from codemods.facts.devices.devices import branches, for_cuda
from codemods.facts.loops import module_of
from codemods.facts.workers.arguments import by_default

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.devices.devices import Branch
    from codemods.facts.script import Script

_OPPOSITES = {ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is")}


def is_true(script: Script, node: ast.expr) -> bool | None:
    """Whether an argument is true where the user gives no options; None where that is not known."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    values = script.flow.values(node)
    if values and all(isinstance(each, Literal) for each in values):
        found = {bool(each.value) for each in values if isinstance(each, Literal)}
        return found.pop() if len(found) == 1 else None
    return by_default(script, node)


def deciding(script: Script, module: Module, node: ast.AST) -> Iterator[Branch]:
    """The conditions around a node, and around the calls of its function, that are about the node alone.

    A condition that decides whether the script trains at all, or whether there is CUDA, is none of them. Nor is one
    around a call of a function that trains.
    """
    training = script.whole.iterations.training_functions
    todo: list[tuple[Module, ast.AST]] = [(module, node)]
    seen: set[ast.AST] = set()
    while todo:
        where, here = todo.pop()
        yield from (each for each in branches(where, here) if _is_about_it(script, where, each))
        function = where.function(here)
        if function is not None and function not in training and function not in seen:
            seen.add(function)
            todo += ((module_of(script.flow, call), call) for call in script.flow.callers(function))


def runs_by_default(script: Script, module: Module, node: ast.AST) -> bool:
    """Whether the node may run where the user gives no options: no condition around it or its callers forbids that."""

    def is_under_one_off(place: tuple[Module, ast.AST]) -> bool:
        return any(is_off(script, each) and asks_options(script, each.test) for each in branches(*place))

    def callers(place: tuple[Module, ast.AST]) -> list[tuple[Module, ast.AST]]:
        function = place[0].function(place[1])
        if function is None or script.flow.escapes(function) or is_under_one_off(place):
            return []
        return [(module_of(script.flow, call), call) for call in script.flow.callers(function)]

    reached = [each for each in closure([(module, node)], callers) if not callers(each)]
    # What nothing is seen to call may be called from anywhere. Functions that only call each other lead nowhere.
    return not all(is_under_one_off(each) for each in reached)


def asks_options(script: Script, test: ast.expr) -> bool:
    """Whether the attributes in a test are the user's options, and no settings of a file, as ``config.amp`` may be."""
    attributes = (each for each in walk(test) if isinstance(each, ast.Attribute))
    return all(any(isinstance(value, Choice) for value in script.flow.values(each)) for each in attributes)


def _is_about_it(script: Script, module: Module, branch: Branch) -> bool:
    if for_cuda(script.flow, branch.test) is not None:
        return False
    above = module.parent(branch.test)
    return above is None or script.whole.iterations.why_trains(above) is None


def is_off(script: Script, branch: Branch) -> bool:
    """Whether what the branch holds does not run where the user gives no options."""
    held = by_default(script, branch.test)
    held = is_true(script, branch.test) if held is None else held
    return held is not None and held is not branch.holds


def said(module: Module, test: ast.expr, *, holds: bool) -> str | None:
    """The test, or its opposite, as a part of a longer condition; None where it is not a plain one."""
    match test:
        case ast.UnaryOp(ast.Not(), ast.Name() | ast.Attribute() as operand):
            return said(module, operand, holds=not holds)
        case ast.Name() | ast.Attribute():
            return module.code(test) if holds else f"not {module.code(test)}"
        case ast.Compare(left, [operator], [ast.Constant() as right]) if type(operator) in _OPPOSITES:
            sign = _OPPOSITES[type(operator)][not holds]
            return f"{module.code(left)} {sign} {module.code(right)}"
    return None
