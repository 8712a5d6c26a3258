"""What has run by the time that a statement ends."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.loops import module_of, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module


def may_have_run(flow: Flow, node: ast.AST, module: Module, statement: ast.stmt) -> bool:
    """Whether a way to the node is known that comes to it before the statement of this module ends."""
    ways = _seen_from(flow, node, module, module.function(statement))
    return any(each is not None and _line(each) <= (statement.end_lineno or statement.lineno) for each in ways)


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
    places = [] if function is None or flow.escapes(function) else list(runs(flow, function))
    if not places:
        yield None
    for place in places:
        yield from _seen_from(flow, place, module, scope, seen | {function} if function is not None else seen)


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
