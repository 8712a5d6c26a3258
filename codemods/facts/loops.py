"""Which code runs again and again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.source import FUNCTIONS, LOOPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.flow import Flow
    from codemods.facts.source import Module

REPEATING = (*LOOPS, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
"""Loops, and expressions that are loops."""


def around(
    flow: Flow, module: Module, node: ast.AST, seen: set[ast.AST] | None = None
) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What the node stands in, from the inside out, then what the calls of its function stand in.

    Yields:
        Pairs: the outer node, and the one directly in it that holds the node or the call.
    """
    seen = set() if seen is None else seen
    below = node
    for above in module.ancestors(node):
        yield above, below
        if isinstance(above, FUNCTIONS):
            if above not in seen:
                seen.add(above)
                for call in flow.callers(above):
                    yield from around(flow, module_of(flow, call), call, seen)
            return
        below = above


def loop_around(
    flow: Flow,
    module: Module,
    node: ast.AST,
    kinds: tuple[type[ast.stmt | ast.expr], ...] = LOOPS,
) -> ast.stmt | ast.expr | None:
    """The innermost loop that runs the node more than once, in its function or around a call of it.

    Args:
        flow: The values of the project.
        module: Where the node stands.
        node: What runs.
        kinds: What counts as a loop.
    """
    for above, below in around(flow, module, node):
        if isinstance(above, kinds) and below not in (getattr(above, "iter", None), *getattr(above, "orelse", ())):
            return above
    return None


def module_of(flow: Flow, node: ast.AST) -> Module:
    """The module in which the node stands."""
    return next(module for module in flow.modules if module.holds(node))
