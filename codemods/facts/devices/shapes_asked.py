"""Which names surely hold a tensor, or what has axes, as the code around them asks for its shape, or for a part?"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.facts.reaching import targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.source import Module

_ASKED = frozenset({"shape", "size", "dim", "ndim"})
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Assert)
_AT_TIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.comprehension, ast.ListComp, ast.GeneratorExp)


def has_shape(module: Module, name: ast.Name) -> bool:
    """Whether what the name holds is asked for its shape, in a statement that always runs before this one, or in it.

    A device and a number format, which ``y.to(x)`` takes as well, have none.
    """
    return any(_is_asked(module, each) for each in _read_before(module, name))


def has_axis(module: Module, name: ast.Name) -> bool:
    """Whether a part of what the name holds is taken or set, in a statement that runs whenever this one does, or in it.

    A single number of NumPy's has none: ``a[0]``, ``a[:, :3]``, ``a.shape[1]`` and ``len(a)`` fail for it.
    """
    reads = itertools.chain(_read_before(module, name), _read_after(module, name))
    return any(_is_taken_apart(module, each) for each in reads)


def _read_before(module: Module, name: ast.Name) -> Iterator[ast.Name]:
    """The reads of the same thing by the same name that surely run before this one, or in its statement."""
    function = module.function(name)
    if function is None or isinstance(function, ast.Lambda):
        return
    yield from _reads(module, name, _before(module, name))


def _read_after(module: Module, name: ast.Name) -> Iterator[ast.Name]:
    """The reads of the same thing by the same name that surely run after this one, in its suite."""
    function = module.function(name)
    is_caught = any(isinstance(each, ast.Try) for each in module.ancestors(name))
    if function is None or isinstance(function, ast.Lambda) or is_caught:
        return
    yield from _reads(module, name, _after(module, name))


def _after(module: Module, node: ast.AST) -> Iterator[ast.stmt]:
    """The statements behind a node's own in its suite, to the first that may leave it."""
    statement, behind = module.statement(node), False
    for each in module.suite(statement):
        if behind:
            yield each
            if any(isinstance(part, _LEAVING) for part in walk(each)):
                return
        behind = behind or each is statement


def _reads(module: Module, name: ast.Name, statements: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """The reads of the same thing by the same name in simple statements, where they run whenever these do."""
    bindings = targets(module.function(name) or module.tree)
    for statement in statements:
        if isinstance(statement, _SIMPLE):
            names = (each for each in walk(statement) if isinstance(each, ast.Name) and each.id == name.id)
            yield from (each for each in names if bindings.are_bound_alike(name, each) and _always_runs(module, each))


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
    """``x.shape``, ``x.size(0)``."""
    asked = module.parent(name)
    return isinstance(asked, ast.Attribute) and asked.attr in _ASKED


def _is_taken_apart(module: Module, name: ast.Name) -> bool:
    """``x[0]``, ``x[:, :3]``, ``x.shape[1]``, ``len(x)``."""
    taken: ast.AST | None = module.parent(name)
    part: ast.AST | None = name
    if isinstance(taken, ast.Call):
        return isinstance(taken.func, ast.Name) and taken.func.id == "len" and taken.args == [name]
    if isinstance(taken, ast.Attribute) and taken.attr == "shape":
        taken, part = module.parent(taken), taken
    if not isinstance(taken, ast.Subscript) or taken.value is not part:
        return False
    parts = taken.slice.elts if isinstance(taken.slice, ast.Tuple) else [taken.slice]
    return any(_is_number(each) or (part is name and isinstance(each, ast.Slice)) for each in parts)


def _is_number(node: ast.expr) -> bool:
    """``1``, ``-1``."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(number, ast.Constant) and type(number.value) is int


def _always_runs(module: Module, name: ast.Name) -> bool:
    """Whether it is computed whenever the statement around it runs."""
    around = itertools.takewhile(lambda each: not isinstance(each, ast.stmt), module.ancestors(name))
    return not any(isinstance(each, _AT_TIMES) for each in around)
