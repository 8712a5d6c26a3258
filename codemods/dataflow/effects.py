"""What evaluating an expression does besides having a value: calls, yields, and names that it binds."""

from __future__ import annotations

import ast
from typing import TypeAlias

from codemods.dataflow.source import FUNCTIONS, LEAVES, children, kept, walk

Comprehension: TypeAlias = "ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp"
Doing: TypeAlias = "ast.Call | ast.Yield | ast.YieldFrom"
"""An expression that may do something besides having a value."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_BINDING = frozenset({*COMPREHENSIONS, ast.NamedExpr})
"""The expressions that bind names."""
DOING = (ast.Call, ast.Yield, ast.YieldFrom)


def always_run(node: ast.AST) -> ast.AST | None:
    """The part of ``a and b`` or ``a if b else c`` that is always evaluated."""
    return node.values[0] if isinstance(node, ast.BoolOp) else node.test if isinstance(node, ast.IfExp) else None


@kept
def is_flat(node: ast.AST) -> bool:
    """Whether evaluating it binds no name."""
    return _BINDING.isdisjoint(map(type, walk(node)))


@kept
def doing(node: ast.AST) -> tuple[Doing, ...]:
    """The calls and so on that evaluating the expression carries out, from the inside out."""
    if isinstance(node, FUNCTIONS):
        return ()
    found: list[Doing] = []
    for part in children(node):
        if type(part) not in LEAVES:
            found += doing(part)
    if isinstance(node, DOING):
        found.append(node)
    return tuple(found)
