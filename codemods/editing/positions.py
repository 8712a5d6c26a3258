"""Where statements and expressions begin and end in the text."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Module


Span: TypeAlias = "tuple[int, int]"
REST_OF_LINE = re.compile(r"[ \t\f]*(;[ \t\f]*)?(#.*)?")
DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def leading(module: Module, node: ast.stmt) -> str:
    """The blanks before a statement that is the first in its line."""
    line = module.lines[node.lineno - 1]
    return line[: len(line) - len(line.lstrip())]


def index_in(suite: Sequence[ast.stmt], statement: ast.stmt) -> int:
    """At which place of its suite the statement stands."""
    return next(index for index, each in enumerate(suite) if each is statement)


def before(module: Module, statement: ast.stmt) -> str:
    """The text on the statement's first line before it; a decorator's ``@`` belongs to it."""
    first = first_node(statement)
    return module.lines[first.lineno - 1].encode()[: first.col_offset].decode()


def first_node(statement: ast.stmt) -> ast.expr | ast.stmt:
    """The first decorator, where there is one, else the statement."""
    if isinstance(statement, DECORATED) and statement.decorator_list:
        return statement.decorator_list[0]
    return statement


def first_line(statement: ast.stmt) -> int:
    """The line on which the statement starts, its decorators included."""
    return first_node(statement).lineno


def end_line(node: ast.expr | ast.stmt | ast.keyword) -> int:
    """The line on which the node ends."""
    return node.end_lineno or node.lineno


def whole(module: Module, node: ast.expr | ast.stmt) -> Span:
    """The node's span, decorators included."""
    start, end = module.span(node)
    return (min(start, module.span(first_node(node))[0]) if isinstance(node, ast.stmt) else start), end


def inside(inner: Span, outer: Span) -> bool:
    """Whether a span lies within another, or is it."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]
