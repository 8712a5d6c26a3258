"""Which code runs again and again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codemods.facts.flow import Flow
    from codemods.facts.source import Module

_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_DEEPEST = 3
"""Calls of the project's functions are looked through so far."""


def loop_around(flow: Flow, module: Module, node: ast.AST, depth: int = _DEEPEST) -> ast.AST | None:
    """The loop in which the node runs: in its own function, or around a call of it."""
    below = node
    for above in module.ancestors(node):
        if isinstance(above, _LOOPS) and below is not getattr(above, "iter", None):
            return above
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for call in flow.callers(above) if depth else ():
                where = next((each for each in flow.modules if each.holds(call)), None)
                loop = loop_around(flow, where, call, depth - 1) if where is not None else None
                if loop is not None:
                    return loop
            return None
        below = above
    return None
