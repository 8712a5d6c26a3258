"""Where an import goes, and whether it reaches a place."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, TypeAlias

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.placement import is_free_for
from codemods.editing.positions import DECORATED, before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.source import Module


Place: TypeAlias = 'tuple[Literal["before", "after"], ast.stmt] | None'


def is_future(statement: ast.stmt) -> bool:
    """``from __future__ import …``."""
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__" and statement.level == 0


def is_docstring(module: Module, statement: ast.stmt) -> bool:
    """Whether the statement is the docstring of a module, class or function."""
    owner = module.parent(statement)
    return (
        isinstance(owner, (ast.Module, *DECORATED))
        and owner.body[0] is statement
        and isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def import_place(module: Module, code: str) -> Place:
    """Before or after which statement of the module the import goes; None where the module has no statement.

    It goes after the first top-level imports of the same package (a script may set environment variables before it
    imports torch), else after the first imports of all, else after the docstring and the ``__future__`` imports.
    """
    body = module.tree.body
    wanted = _packages(ast.parse(code).body[0])
    runs = (
        [index for index, each in enumerate(body) if _packages(each) & wanted],
        [index for index, each in enumerate(body) if _packages(each)],
        [index for index, each in enumerate(body) if is_future(each) or is_docstring(module, each)],
    )
    for run in runs:
        if run:
            last = next(at for at, following in zip(run, [*run[1:], -1], strict=True) if following != at + 1)
            return "after", body[last]
    # A notebook's first statement is the line above its first cell.
    return ("after" if module.notebook else "before", body[0]) if body else None


def importing(module: Module, package: str) -> ast.ImportFrom | None:
    """The first statement of the module's top that imports names from the package, if it has its lines alone."""
    for statement in module.tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == package and not statement.level:
            beside = [each for each in module.tree.body if each.lineno == statement.end_lineno or each is statement]
            is_star = any(each.name == "*" for each in statement.names)
            return None if is_star or len(beside) > 1 or before(module, statement).strip() else statement
    return None


def joining(module: Module, package: str, names: Sequence[str]) -> ast.ImportFrom | None:
    """The statement that imports the names, too; None where there is none, or its line would get too wide."""
    statement = importing(module, package)
    if statement is None or statement.end_lineno != statement.lineno:
        return statement
    width = len(module.lines[statement.lineno - 1]) + sum(len(f", {each}") for each in names)
    return statement if width <= module.widest else None


def can_import_name(module: Module, package: str, name: str, node: ast.AST) -> bool:
    """Whether ``from package import name`` at the module's top is what is read as ``name`` where the node stands."""
    place = importing(module, package) or (import_place(module, f"from {package} import {name}") or (0, None))[1]
    return _reaches(module, place, name, node) and is_free_for(module, name, f"{package}.{name}")


def can_import(module: Module, name: str, node: ast.AST) -> bool:
    """Whether ``import name``, put beside the other imports, is what is read as ``name`` where the node stands.

    Args:
        module: The module.
        name: Of a top-level package.
        node: An expression or a statement of the module.
    """
    place = import_place(module, f"import {name}")
    return place is not None and _reaches(module, place[1], name, node) and is_free_for(module, name, name)


def _reaches(module: Module, statement: ast.stmt | None, name: str, node: ast.AST) -> bool:
    """Whether a name that the statement of the module's top imports is bound, and means that, where the node stands."""
    holders = (node, *module.ancestors(node))
    top = [each for each in holders if isinstance(each, ast.stmt)][-1]
    functions = [each for each in holders if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    local = frozenset().union(*(bound_names(each) | declared_outer(each) for each in functions))
    return statement is not None and statement.lineno < top.lineno and name not in local


def _packages(statement: ast.stmt) -> set[str]:
    """The top-level packages that an import statement names; a relative import names the package ``.``."""
    if isinstance(statement, ast.Import):
        return {alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.ImportFrom) and not is_future(statement):
        return {"." if statement.level else (statement.module or "").partition(".")[0]}
    return set()
