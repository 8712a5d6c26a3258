"""Which models are made by a function of the project, and then only run, moved and given weights by their name?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import last_name
from codemods.library.kinds import SELF_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_HARMLESS = SELF_METHODS | words("load_state_dict state_dict forward")


def made_by_function(flow: Flow, module: Module, named: ast.expr) -> ast.Call | None:
    """The call of a function of the project that makes the model of that name; None where the name has other uses.

    To the flow, all models that such a function makes are one: ``teacher = build(args)`` and ``student = build(args)``.

    Args:
        flow: The values of the project.
        module: Where the name stands.
        named: A name, or an attribute, which counts as the same wherever one of that name is.
    """
    function = module.function(named)
    if isinstance(named, ast.Name) and function is not None and named.id in signature(function).names:
        return None
    made = [each for where, node in _stores(flow, module, named) for each in _given(where, node)]
    makers = [each for each in made if each is not None and not _is_named_alike(each, named)]
    calls = [each for each in makers if isinstance(each, ast.Call) and _is_made(flow, each)]
    is_one = len(makers) == len(calls) == 1 and None not in made
    is_run = is_one and all(_is_run(where, node) for where, node in _loads(flow, module, named))
    return calls[0] if is_run else None


def _stores(flow: Flow, module: Module, named: ast.expr) -> Sequence[tuple[Module, ast.AST]]:
    match named:
        case ast.Name(name):
            return [(module, each) for each in module.stores.get(name, ())]
        case ast.Attribute(_, name):
            return [(where, each) for where in flow.modules for each in where.attribute_stores.get(name, ())]
    return ()


def _loads(flow: Flow, module: Module, named: ast.expr) -> Iterator[tuple[Module, ast.expr]]:
    for where in flow.modules if isinstance(named, ast.Attribute) else [module]:
        for each in where.nodes(ast.Name, ast.Attribute):
            if type(each) is type(named) and last_name(each) == last_name(named) and isinstance(each.ctx, ast.Load):
                yield where, each


def _given(module: Module, store: ast.AST) -> list[ast.expr | None]:
    """What an assignment gives it alone, without the methods that hand on the model itself."""
    statement = module.parent(store)
    if not isinstance(statement, ast.Assign) or statement.targets != [store]:
        return [None]
    value = statement.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in SELF_METHODS:
        value = value.func.value
    return [value]


def _is_named_alike(node: ast.expr, named: ast.expr) -> bool:
    """``teacher = teacher.cuda()``."""
    return ast.unparse(node) == ast.unparse(named)


def _is_made(flow: Flow, call: ast.Call) -> bool:
    called = flow.called(call)
    return bool(called) and all(getattr(each, "name", "") != "__init__" for each in called)


def _is_run(module: Module, node: ast.expr) -> bool:
    """Whether it is called there, or one of its methods that train nothing and hand it to nobody."""
    above = module.parent(node)
    if isinstance(above, ast.Call):
        return above.func is node
    return isinstance(above, ast.Attribute) and above.attr in _HARMLESS
