"""What is written on the host after a copy of it was queued."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, TypeGuard

from codemods.dataflow.source import lasting, walk
from codemods.dataflow.values import Batch, Value
from codemods.facts.data.elements import is_field
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.operators import Memory, operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.transfers import Transfer

_IN_PLACE = re.compile(r"[a-z]\w*[^_]_")


def why_written(flow: Flow, move: Transfer) -> Reason | None:
    """Where the batch that is moved may be written on the host while it is copied."""
    loaders = frozenset(move.loaders)
    for module, call in _calls_around(flow, move):
        for place, written in writes(module):
            here = module.function(place) is module.function(call)
            if here and _is_batch(flow, module, written, loaders) and _may_follow(flow, module, call, place):
                text = f"the batch is written on the host again while it may be copied ({HERE})"
                return Reason("written-while-copied", text, (at(module, place),))
    return None


def _calls_around(flow: Flow, move: Transfer) -> Iterator[tuple[Module, ast.Call]]:
    """The move, and the calls of the functions that it stands in: what they move may be written after each."""
    todo = [move.call]
    seen: set[ast.Call] = set()
    while todo:
        call = todo.pop()
        if call not in seen:
            seen.add(call)
            module = module_of(flow, call)
            yield module, call
            function = module.function(call)
            todo.extend(flow.callers(function) if function is not None else ())


def _only_views(name: str) -> bool:
    """``squeeze_``, ``detach_``: the elements stay as they are."""
    row = operator(name)
    return row is not None and row.memory is Memory.VIEW


@lasting
def writes(module: Module) -> tuple[tuple[ast.expr, ast.expr], ...]:
    """Where something is written in place, and what: ``x.mul_(2)``, ``x[0] = 0``, ``x += 1``, ``out=x``."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for call in module.nodes(ast.Call):
        func = call.func
        if isinstance(func, ast.Attribute) and _IN_PLACE.fullmatch(func.attr) and not _only_views(func.attr):
            found.append((call, func.value))
        found.extend((call, each.value) for each in call.keywords if each.arg == "out")
    for statement in module.nodes(ast.AugAssign):
        target = statement.target
        found.append((target, target.value if isinstance(target, ast.Subscript) else target))
    items = (each for each in module.nodes(ast.Subscript) if isinstance(each.ctx, ast.Store))
    found.extend((each, each.value) for each in items if not is_field(module, each))
    return tuple(sorted(found, key=lambda pair: module.span(pair[0])))


def _is_batch(flow: Flow, module: Module, node: ast.expr, loaders: frozenset[Value]) -> bool:
    """Whether it is a batch of one of the loaders, or an array that shares its memory: ``x.numpy()``."""
    if any(isinstance(each, Batch) and each.of in loaders for each in flow.values(node)):
        return True
    if isinstance(node, ast.Name):
        function = module.function(node)
        arrays = [call for name, call in _arrays(module) if name == node.id and module.function(call) is function]
        return any(_is_batch(flow, module, call, loaders) for call in arrays)
    return _is_array(node) and _is_batch(flow, module, node.func.value, loaders)  # type: ignore[attr-defined]


@lasting
def _arrays(module: Module) -> tuple[tuple[str, ast.Call], ...]:
    """The names that arrays are assigned to: ``a = x.numpy()``."""
    return tuple(
        (target.id, statement.value)
        for statement in module.nodes(ast.Assign)
        if _is_array(statement.value)
        for target in statement.targets
        if isinstance(target, ast.Name)
    )


def _is_array(node: ast.expr) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "numpy"


def _may_follow(flow: Flow, module: Module, call: ast.Call, write: ast.expr) -> bool:
    """Whether the write may come after the call, with the same batch."""
    if module.span(write) > module.span(call):
        return True
    for loop in module.ancestors(call):
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) and loop in module.ancestors(write):
            bound = [each for each in walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
            return not any(isinstance(value, Batch) for name in bound for value in flow.values(name))
    return False
