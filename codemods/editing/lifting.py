"""Expressions that are given a name by a statement before the one they stand in."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import External

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr)
_ALWAYS_RUN = (ast.Call, ast.keyword, ast.Dict, ast.List, ast.Tuple)
_TEXTS = (ast.Constant, ast.JoinedStr)


def can_stand_before(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether the expression can be evaluated before its statement: that always does, and little before it."""
    if not isinstance(module.statement(node), _SIMPLE):
        return False
    start = module.span(node)[0]
    earlier = [
        each for each in walk(module.statement(node)) if hasattr(each, "lineno") and module.span(each)[1] <= start
    ]
    return (
        all(isinstance(each, _ALWAYS_RUN) for each in _around(module, node))
        and not any(isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)) for each in earlier)
        and all(_is_of_torch(flow, each) for each in earlier if isinstance(each, ast.Call))
    )


def _around(module: Module, node: ast.expr) -> Iterator[ast.AST]:
    """What holds the expression within its statement, from the inside out."""
    for above in module.ancestors(node):
        if isinstance(above, ast.stmt):
            return
        yield above


def _is_of_torch(flow: Flow, call: ast.Call) -> bool:
    values = flow.values(call.func)
    return bool(values) and all(
        isinstance(each, External) and each.name.partition(".")[0] in {"torch", "torchvision"} for each in values
    )


def lifted(module: Module, node: ast.expr, name: str) -> str | None:
    """The statement that gives the expression a name; None where its lines cannot be moved.

    Its other lines stand as far right of the first one's code as they did or, where the first one ends with an opening
    bracket, of the beginning of its line.
    """
    row, end = node.lineno - 1, node.end_lineno or node.lineno
    if row == end - 1:
        return f"{name} = {module.code(node)}"
    first, *others = module.code(node).splitlines()
    before = module.lines[row][: module.column(node) - 1]
    blanks = before[: len(before) - len(before.lstrip())]
    if any(each.end_lineno != each.lineno for each in walk(node) if isinstance(each, _TEXTS)) or "\\\n" in module.code(
        node
    ):
        return None
    if first.partition("#")[0].rstrip().endswith(("(", "[", "{")):
        moved = [each.removeprefix(blanks) for each in others]
    elif "\t" in before or any("\t" in each for each in others):
        return None
    else:
        by = len(f"{name} = ") - len(before)
        moved = [_shifted(each, by) for each in others]
    return "\n".join((f"{name} = {first}", *moved))


def _shifted(line: str, by: int) -> str:
    text = line.lstrip(" ")
    return " " * max(len(line) - len(text) + by, 0) + text if text else ""


def purpose(module: Module, node: ast.expr) -> str:
    """What the statement calls that for which the expression is made: ``train_loader``; an empty text where nothing."""
    below: ast.AST = node
    for holder in module.ancestors(node):
        name = _called(module, holder, below) if below is not node else ""
        if name or isinstance(holder, ast.stmt):
            return name
        below = holder
    return ""


def _called(module: Module, holder: ast.AST, node: ast.AST) -> str:
    """What the holder calls the node in it."""
    target: ast.expr | None = None
    match holder:
        case ast.keyword(str(name)) if name != "dataset":
            return name
        case ast.Dict(keys, values):
            key = keys[values.index(node)] if node in values else None
            text = key.value if isinstance(key, ast.Constant) else None
            return text if isinstance(text, str) and text.isidentifier() else ""
        case ast.Tuple(values) if node in values:
            above = module.parent(holder)
            if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Tuple):
                targets = above.targets[0].elts
                target = targets[values.index(node)] if len(targets) == len(values) else None
        case ast.Assign([only]) if isinstance(node, ast.Call):
            target = only
    match target:
        case ast.Name(name) | ast.Attribute(_, name):
            return name
    return ""
