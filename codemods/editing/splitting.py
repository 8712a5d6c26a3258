"""Assignments to several names at once that get too wide, and are split into one statement for each name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk
from codemods.editing.values import Replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from codemods.dataflow.source import Module

_USUAL = 88
"""Columns that every file may have: those of Black and Ruff."""
_LONG_TEXT = 20
"""A line with a longer text says nothing of how wide the file's code is."""


def split(module: Module, statement: ast.stmt, calls: Collection[ast.Call], added: int) -> Replace | None:
    """``x, y = f(x), g(y)`` as two statements; None where it stays one.

    Args:
        module: Its module.
        statement: The statement.
        calls: Calls of which it is known that they do nothing to the names.
        added: By how many columns the statement's line gets longer.
    """
    match statement:
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
            pass
        case _:
            return None
    line = module.lines[statement.lineno - 1].rstrip()
    before, _, after = line.partition(module.code(statement))
    stands_alone = statement.lineno == statement.end_lineno and not before.strip() and after.lstrip()[:1] in {"", "#"}
    if not stands_alone or len(line) + added <= width(module):
        return None
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    if len(names) != len(targets) or not all(_may_follow(each, names[:i], calls) for i, each in enumerate(values)):
        return None
    template = "\n".join(f"{name} = {{{_hole(i)}}}" for i, name in enumerate(names))
    return Replace(module, statement, template, tuple((_hole(i), each) for i, each in enumerate(values)))


def _hole(index: int) -> str:
    return f"value{index}"


def _may_follow(value: ast.expr, names: Collection[str], calls: Collection[ast.Call]) -> bool:
    """Whether a value is the same where these names have been bound before it is computed."""
    inside = list(walk(value))
    return not any(
        (isinstance(each, ast.Name) and each.id in names)
        or isinstance(each, (ast.Await, ast.NamedExpr, ast.Starred))
        or (isinstance(each, ast.Call) and each not in calls)
        for each in inside
    )


@lasting
def width(module: Module) -> int:
    """How wide the file's lines of code are, or were before it was changed, within what its formatter allows."""
    texts = (
        each for each in module.nodes(ast.Constant) if isinstance(each.value, str) and len(each.value) > _LONG_TEXT
    )
    aside = {row for each in texts for row in range(each.lineno, (each.end_lineno or each.lineno) + 1)}
    code = {each.lineno for each in module.nodes(ast.Name, ast.Attribute)} - aside
    widest = max((len(module.lines[row - 1].rstrip()) for row in code), default=0)
    return min(module.widest, max(_USUAL, module.earlier_width, widest))
