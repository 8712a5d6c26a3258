"""Whether several results of one call of a model may be differentiated one after the other.

``first, second = critic(x)`` has two graphs, which two backwards free one by one. A compiled model computes both in one
function: its first backward frees what the second one needs.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk
from codemods.facts.reach import own
from codemods.facts.training.iterations import is_backward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_WITHOUT_GRAPH = frozenset({"detach", "item", "data", "tolist", "numpy", "shape", "size", "dtype", "device", "argmax"})
_SEVERAL = 2


def differentiated_apart(
    flow: Flow,
    modules: Iterable[Module],
    calls: Iterable[tuple[Module, ast.Call]],
    only_reads: Callable[[Module, ast.stmt], bool],
) -> tuple[Module, ast.Call] | None:
    """The call of a model of whose results some may reach one backward, and others another; None where there is none.

    Args:
        flow: The values of the project.
        modules: All that may run in one process.
        calls: The calls of the model, each with its module.
        only_reads: Whether a statement neither differentiates nor keeps what it reads: ``print(x.mean())``.
    """
    if sum(_times(flow, module, call) for module in modules for call in _backwards(flow, module)) < _SEVERAL:
        return None
    return next(((module, call) for module, call in calls if _may_part(module, call, only_reads)), None)


@lasting  # each model asks
def _backwards(flow: Flow, module: Module) -> tuple[ast.Call, ...]:
    return tuple(each for each in module.nodes(ast.Call) if is_backward(flow, each))


def _times(flow: Flow, module: Module, call: ast.Call) -> int:
    """From how many places the backward is run: those that call its function, or its own."""
    function = module.function(call)
    return 1 if function is None else max(1, len(flow.callers(function)))


def _may_part(module: Module, call: ast.Call, only_reads: Callable[[Module, ast.stmt], bool]) -> bool:
    """Whether results get names of their own, and are differentiated, or leave the function, in different things."""
    statement = module.statement(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) != 1:
        return False
    targets = statement.targets[0]
    if not isinstance(targets, (ast.Tuple, ast.List)) or len(targets.elts) < _SEVERAL:
        return False
    scope = module.function(call) or module.tree
    parts = [_derived(scope, {each.id}) for each in targets.elts if isinstance(each, ast.Name)]
    sinks = [(at, _carried(each)) for at, each in _sinks(scope, statement)]
    reached = [(at, frozenset(index for index, names in enumerate(parts) if names & sink)) for at, sink in sinks]
    found = [each for at, each in reached if each and not (isinstance(at, ast.Expr) and only_reads(module, at))]
    return any(one.isdisjoint(other) for one in found for other in found)


def _derived(scope: ast.AST, names: set[str]) -> set[str]:
    """The names, and those of what is computed from them with their graphs."""
    found = set(names)
    assignments = [pair for each in own(scope, ast.Assign, ast.AugAssign) for pair in _pairs(each)]
    is_growing = True
    while is_growing:
        is_growing = False
        for target, value in assignments:
            bound = {each.id for each in walk(target) if isinstance(each, ast.Name)}
            if not bound <= found and found & _carried(value):
                found |= bound
                is_growing = True
    return found


def _pairs(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a statement gives a value, and the value: each item of ``a, b = c, d`` by itself."""
    if isinstance(statement, ast.AugAssign):
        yield statement.target, statement.value
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        match target, statement.value:  # type: ignore[attr-defined]
            case ast.Tuple(names), ast.Tuple(values) if len(names) == len(values):
                yield from zip(names, values, strict=True)
            case _, value:
                yield target, value


def _carried(node: ast.AST) -> set[str]:
    """The names that an expression reads with their graphs."""
    if isinstance(node, ast.Attribute) and node.attr in _WITHOUT_GRAPH:
        return set()
    if isinstance(node, ast.Name):
        return {node.id}
    return {name for part in ast.iter_child_nodes(node) for name in _carried(part)}


def _sinks(scope: ast.AST, statement: ast.Assign) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """What is differentiated in the scope, handed out of it, or given to a call that is a statement of its own."""
    for each in own(scope, ast.Return, ast.Expr, ast.Assign):
        match each:
            case ast.Return(ast.Tuple(values) | ast.List(values)):
                yield from ((each, value) for value in values)
            case ast.Return(ast.expr() as value):
                yield each, value
            case ast.Assign(targets, value) if each is not statement:
                if any(isinstance(target, ast.Attribute) for target in targets):
                    yield each, value
            case ast.Expr(ast.Call(ast.Attribute(value, "backward"))):
                yield each, value
            case ast.Expr(ast.Call(_, values)):
                yield from ((each, value) for value in values)
