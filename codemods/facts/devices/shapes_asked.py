"""Which names surely hold a tensor, or something like it, as the code around them asks for its shape?"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.facts.reaching import targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module

_ASKED = frozenset({"shape", "size", "dim", "ndim"})
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_AT_TIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.ListComp, ast.GeneratorExp)


def has_shape(module: Module, name: ast.Name) -> bool:
    """Whether what the name holds is asked for its shape, in a statement that always runs before this one, or in it.

    A device and a number format, which ``y.to(x)`` takes as well, have none.
    """
    function = module.function(name)
    if function is None or isinstance(function, ast.Lambda):
        return False
    bindings = targets(function)
    return any(
        each.id == name.id and bindings.are_bound_alike(name, each) and _is_asked(module, each)
        for statement in _before(module, name)
        if isinstance(statement, _SIMPLE)
        for each in walk(statement)
        if isinstance(each, ast.Name)
    )


def _before(module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """The statement of a node, and those above it that run whenever it does, to the start of its function."""
    statement = module.statement(node)
    yield statement
    while True:
        suite = module.suite(statement)
        yield from itertools.takewhile(lambda each, last=statement: each is not last, suite)  # type: ignore[misc]
        above = module.parent(statement)
        if not isinstance(above, ast.stmt) or isinstance(above, FUNCTIONS):
            return
        statement = above


def _is_asked(module: Module, name: ast.Name) -> bool:
    """``x.shape``, ``x.size(0)``, where that is computed whenever the statement around it runs."""
    asked = module.parent(name)
    if not isinstance(asked, ast.Attribute) or asked.attr not in _ASKED:
        return False
    around = itertools.takewhile(lambda each: not isinstance(each, ast.stmt), module.ancestors(name))
    return not any(isinstance(each, _AT_TIMES) for each in around)
