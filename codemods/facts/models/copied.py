"""Which expressions are a copy of a model, ``copy.deepcopy(model)``, and which surely are none?

To the flow, a copy is the same as what it is a copy of.
"""

from __future__ import annotations

import ast
import enum
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, lasting
from codemods.dataflow.values import library_names
from codemods.facts.loops import module_of
from codemods.library.kinds import COPYING_WRAPPERS, SELF_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_COPIES = COPYING_WRAPPERS | {"copy.deepcopy"}


class Origin(enum.Enum):
    """What an expression that is a model comes from."""

    COPY = "a copy"
    OTHER = "no copy"
    UNKNOWN = "perhaps a copy"


@lasting
def origin(flow: Flow, node: ast.expr) -> Origin:
    """Whether the expression is always a copy, or never one, by all that gives a value to the names in it."""
    found = set(_origins(flow, node, set()))
    return found.pop() if len(found) == 1 else Origin.UNKNOWN


def _origins(flow: Flow, node: ast.expr, seen: set[ast.AST]) -> Iterator[Origin]:
    """What the expression may come from; nothing where that leads back to what is looked at already."""
    if node in seen:
        return
    seen.add(node)
    module = module_of(flow, node)
    match node:
        case ast.Call(ast.Attribute(inner, method)) if method in SELF_METHODS and not _is_librarys(flow, node.func):
            yield from _origins(flow, inner, seen)
        case ast.Call():
            is_copy = not library_names(flow.values(node.func)).isdisjoint(_COPIES)
            called = flow.called(node)
            is_made = not called or all(getattr(each, "name", "") == "__init__" for each in called)
            yield Origin.COPY if is_copy else Origin.OTHER if is_made else Origin.UNKNOWN
        case ast.Name() | ast.Attribute():
            yield from _of_stores(flow, module, node, seen)
        case ast.IfExp(_, body, orelse):
            yield from _origins(flow, body, seen)
            yield from _origins(flow, orelse, seen)
        case ast.Constant(None):
            return
        case _:
            yield Origin.UNKNOWN


def _is_librarys(flow: Flow, node: ast.expr) -> bool:
    return bool(library_names(flow.values(node)))


def _of_stores(flow: Flow, module: Module, node: ast.Name | ast.Attribute, seen: set[ast.AST]) -> Iterator[Origin]:
    """The same of a name in its function, or of an attribute wherever one of that name is given a value."""
    if isinstance(node, ast.Attribute):
        stores: list[tuple[Module, ast.expr]] = [
            (where, each) for where in flow.modules for each in where.attribute_stores.get(node.attr, ())
        ]
    else:
        function = module.function(node)
        stores = _stores(module, node.id, function)
        given = list(_arguments(flow, function, node.id)) if function is not None else []
        while not stores and not given and function is not None:
            function = module.function(function)
            stores = _stores(module, node.id, function)
            given = list(_arguments(flow, function, node.id)) if function is not None else []
        for each in given:
            yield from _origins(flow, each, seen) if each is not None else [Origin.UNKNOWN]
        if given and not stores:
            return
    if not stores:
        yield Origin.UNKNOWN
    for where, target in stores:
        value = _assigned(where, target)
        yield from _origins(flow, value, seen) if value is not None else [Origin.UNKNOWN]


def _stores(module: Module, name: str, function: ast.AST | None) -> list[tuple[Module, ast.expr]]:
    """Where the name is bound in a function, or in the module."""
    return [(module, each) for each in module.stores.get(name, ()) if module.function(each) is function]


def _arguments(flow: Flow, function: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """What callers give for a parameter; None where they are not all seen."""
    if not isinstance(function, FUNCTIONS) or name not in {each.arg for each in _parameters(function)}:
        return
    if flow.escapes(function) or not flow.callers(function):
        yield None
    for call in flow.callers(function):
        yield flow.bind(function, call).given.get(name)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _assigned(module: Module, target: ast.expr) -> ast.expr | None:
    """What is assigned to a name or attribute, alone or as one of several."""
    above = module.parent(target)
    match above:
        case ast.Assign(targets, value) if target in targets:
            return value
        case ast.AnnAssign(_, _, ast.expr() as value):
            return value
        case ast.Tuple(targets):
            match module.parent(above):
                case ast.Assign([only], ast.Tuple(values)) if only is above and len(values) == len(targets):
                    return values[targets.index(target)]
    return None
