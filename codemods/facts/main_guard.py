"""Which part of a script has to stand under ``if __name__ == "__main__":`` before it may start worker processes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.facts.names import bound_names, declared_outer
from codemods.facts.passes import passes, top_statements
from codemods.facts.source import is_main_guard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.facts.script import Script
    from codemods.facts.source import Module
    from codemods.facts.worker_code import WorkerCode

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_CONSTANT_PARTS = (
    *(
        ast.Constant,
        ast.Tuple,
        ast.List,
        ast.Set,
        ast.Dict,
        ast.BinOp,
        ast.UnaryOp,
        ast.Name,
        ast.Attribute,
        ast.Subscript,
    ),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


@dataclass(frozen=True, slots=True)
class Unguarded:
    """What the script runs when it is imported, as each worker process that is not forked imports it."""

    line: int
    """Where a loader is read, or the call that leads there."""
    statements: tuple[ast.stmt, ...]
    """What goes under a guard: empty where that cannot be done right."""
    why_not: str = ""
    """Why it cannot, in words."""


def unguarded(script: Script, codes: Sequence[WorkerCode]) -> Unguarded | None:
    """What has to go under a guard; None where importing the script reads no loader.

    Args:
        script: the script; only its entry module is rewritten.
        codes: what runs in the workers of each of its loaders: the names that it reads stay outside.
    """
    module = script.entry
    body = module.tree.body
    reading = [each for code in codes for each in _reached(script, code)]
    elsewhere = next((each for each, _ in reading if each is not module), None)
    if elsewhere is not None:
        return Unguarded(1, (), f"importing {elsewhere.path} reads a loader")
    if not reading:
        return None
    first = min(body.index(each) for _, each in reading)
    line = body[first].lineno
    why_not = _why_not(body, first)
    if why_not is not None:
        return Unguarded(line, (), why_not)
    start = _start(script, codes, first)
    statements = tuple(body[start:])
    bound = {name for each in statements for name in _bound(each)}
    for code in codes:
        name = next((each for each in code.module_names if each in bound), None)
        if name is not None:
            where = code.module_names[name]
            return Unguarded(
                line, (), f"the data set reads '{name}' (line {where}), which has to stay outside the guard"
            )
    return Unguarded(line, statements)


def _reached(script: Script, code: WorkerCode) -> Iterator[tuple[Module, ast.stmt]]:
    for each in passes(script.flow, code.loader):
        yield from top_statements(script.flow, each.module, each.node)


def _why_not(body: list[ast.stmt], first: int) -> str | None:
    """Why what follows the first reading statement cannot all go under a guard."""
    for statement in body[first:]:
        definition = next(_definitions(statement), None)
        if definition is not None:
            return f"{definition.name} is defined after code that runs (line {definition.lineno})"
    guard = next((each for each in body if is_main_guard(each)), None)
    return None if guard is None else f"only a part of the script has a __main__ guard (line {guard.lineno})"


def _start(script: Script, codes: Sequence[WorkerCode], first: int) -> int:
    """Where the guard begins: after definitions, imports, settings and what workers read, before loaders are made."""
    body = script.entry.tree.body
    read = {name for code in codes for name in code.module_names}
    made = [
        body.index(each)
        for code in codes
        for _, each in top_statements(script.flow, code.loader.module, code.loader.call)
        if each in body
    ]
    stays = [index for index in range(first) if _stays(body[index]) or _bound(body[index]) & read]
    lowest = stays[-1] + 1 if stays else 0
    start = max(lowest, min([first, *made]))
    while start > lowest and not _is_constant(body[start - 1]):
        start -= 1
    return start


def _stays(statement: ast.stmt) -> bool:
    """Whether the statement belongs at module level: an import or a definition, or text."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, _IMPORTS) or any(_definitions(statement))


def _definitions(statement: ast.stmt) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The definitions in the statement, however deep."""
    return (each for each in ast.walk(statement) if isinstance(each, _DEFINITIONS))


def _is_constant(statement: ast.stmt) -> bool:
    """``batch_size = 64``, ``epochs = args.epochs``: a setting, which readers look for at the top."""
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
        return False
    return all(isinstance(each, _CONSTANT_PARTS) for each in ast.walk(statement.value))


def _bound(statement: ast.stmt) -> frozenset[str]:
    """The names of the module that the statement binds."""
    return bound_names(ast.Module([statement], []))


def why_names_are_missing(module: Module, code: WorkerCode) -> str | None:
    """Which name that a worker reads only running the script gives a value; None where each has one at import."""
    guards = [each for each in module.tree.body if is_main_guard(each)]
    outside = {name for each in module.tree.body if each not in guards for name in _bound(each)}
    guarded = {name for each in guards for name in _bound(each)} - outside
    written = {
        name
        for each in ast.walk(module.tree)
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
        for name in declared_outer(each)
    }
    for name, line in code.module_names.items():
        if name in guarded:
            return f"the data set reads '{name}' (line {line}), which is only bound under the __main__ guard"
        if name in written:
            return f"the data set reads '{name}' (line {line}), which a function sets while the script runs"
    return None
