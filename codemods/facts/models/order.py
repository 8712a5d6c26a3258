"""What has run by the time that a statement ends, and how often a run of the script comes to a function."""

from __future__ import annotations

import ast
from itertools import combinations
from typing import TYPE_CHECKING

from codemods.facts.loops import module_of, places_that_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module


def may_have_run(flow: Flow, node: ast.AST, module: Module, statement: ast.stmt) -> bool:
    """Whether a way to the node is known that comes to it before the statement of this module ends."""
    ways = _seen_from(flow, node, module, module.function(statement))
    return any(each is not None and _line(each) <= (statement.end_lineno or statement.lineno) for each in ways)


def runs_only_before(flow: Flow, node: ast.AST, module: Module, statement: ast.stmt) -> bool:
    """Whether every way to the node comes to it before a statement that runs once."""
    ways = list(_seen_from(flow, node, module, module.function(statement)))
    return bool(ways) and all(each is not None and _line(each) < statement.lineno for each in ways)


def _seen_from(
    flow: Flow, node: ast.AST, module: Module, scope: Callee | None, seen: frozenset[ast.AST] = frozenset()
) -> Iterator[ast.AST | None]:
    """What in the scope leads to the node, for each way to it; None for a way that is not seen from there."""
    where = module_of(flow, node)
    function = where.function(node)
    if where is module and function is scope:
        yield node
        return
    if function in seen:
        return
    places = [] if function is None or flow.escapes(function) else list(places_that_run(flow, function))
    if not places:
        yield None
    for place in places:
        yield from _seen_from(flow, place, module, scope, seen | {function} if function is not None else seen)


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def calls_in_one_run(flow: Flow, function: Callee) -> int:
    """How many of the calls of the function may run: of those in branches that exclude each other, one."""
    callers = flow.callers(function)
    exclude = all(_exclude_each_other(flow, *pair) for pair in combinations(callers, 2))
    return min(len(callers), 1) if exclude else len(callers)


def _exclude_each_other(flow: Flow, first: ast.AST, second: ast.AST) -> bool:
    """Whether the nodes are in different branches of one ``if`` of one function."""
    module = module_of(flow, first)
    if not module.holds(second) or module.function(first) is not module.function(second):
        return False
    above = {each: below for below, each in _ancestry(module, first)}
    for below, each in _ancestry(module, second):
        if each in above:
            branches = (each.body, each.orelse) if isinstance(each, ast.If) else ()
            return sorted(_index(branches, one) for one in (above[each], below)) == [0, 1]
    return False


def _ancestry(module: Module, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes that hold it, from the inside out, each after the one directly in it that holds it."""
    below = node
    for above in module.ancestors(node):
        yield below, above
        below = above


def _index(branches: tuple[list[ast.stmt], ...], node: ast.AST) -> int:
    return next((index for index, branch in enumerate(branches) if any(each is node for each in branch)), -1)
