"""Where does each iteration copy a tensor to the host only to keep a list of it, or to count on the host?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.devices.readings import is_copy_to_host, is_on_device, is_sure
from codemods.facts.training.number_uses import Use
from codemods.facts.training.step_loops import rare_suite, step_loop
from codemods.facts.training.totals import added

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_SAME = frozenset({"detach", "cpu", "numpy"})
"""Methods that take a tensor to the host, as it is."""
_LISTS = "keep the tensors, detached, and make lists of them after the loop"
_THERE = "compare it on the device with what was moved there, and ask for the sum where it is read"


def kept_copies(flow: Flow, module: Module) -> Iterator[tuple[ast.Call, Use]]:
    """Such copies in loops that run a model, each with what the iteration does with it."""
    for call in module.nodes(ast.Call):
        statement = module.statement(call)
        if _is_kept_list(statement, call):
            tensor, use = _root(call.func), Use(call, "its items are kept in a list in each iteration", _LISTS)
        elif is_copy_to_host(flow, call) and _is_counted(module, statement, call):
            tensor, use = _root(call), Use(call, "it is compared and counted on the host in each iteration", _THERE)
        else:
            continue
        loop = step_loop(flow, module, call) if is_on_device(flow, module, tensor) else None
        if loop is None or rare_suite(module, loop, call) is not None:
            continue
        within = next((each for each in loop.body if is_sure(module, call, each) and statement in ast.walk(each)), None)
        if within is not None:
            yield call, use


def _is_kept_list(statement: ast.stmt, call: ast.Call) -> bool:
    """``labels += y.tolist()``, ``labels.extend(y.cpu().tolist())``."""
    match statement:
        case ast.AugAssign(ast.Name(), ast.Add(), value):
            kept = value
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(), "extend"), [value], [])):
            kept = value
        case _:
            return False
    return kept is call and isinstance(call.func, ast.Attribute) and call.func.attr == "tolist" and not call.args


def _is_counted(module: Module, statement: ast.stmt, call: ast.Call) -> bool:
    """``hits += out.cpu().eq(y).sum()``, also of ``out.cpu() == y``, and its number."""
    compared = module.parent(call)
    match compared:
        case ast.Attribute(attr="eq"):
            compared = module.parent(compared)
        case ast.Compare(left, [ast.Eq()]) if left is call:
            pass
        case _:
            return False
    pair = added(statement)
    value = pair[1] if pair is not None else None
    match value:
        case ast.Call(ast.Attribute(inner, "item"), [], []):
            value = inner
    match value:
        case ast.Call(ast.Attribute(inner, "sum"), [], []):
            return inner is compared
    return False


def _root(node: ast.expr) -> ast.expr:
    """``y`` of ``y.detach().cpu().tolist``."""
    match node:
        case ast.Call(ast.Attribute(inner, name), [], []) if name in _SAME:
            return _root(inner)
        case ast.Attribute(inner, "data" | "tolist"):
            return _root(inner)
        case ast.Call(ast.Attribute(inner, "to"), [_], []):
            return _root(inner)
    return node
