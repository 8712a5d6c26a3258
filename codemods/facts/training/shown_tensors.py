"""Which tensors of a device does each iteration write out, or go on by, without asking for their numbers itself?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.dataflow.source import last_name, unparsed, walk
from codemods.facts.devices.readings import is_on_device, is_sure, waits
from codemods.facts.training.number_uses import Use
from codemods.facts.training.step_loops import step_loop
from codemods.facts.training.sums import MANY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_LONG = 40
_SCALAR = "add_scalar"
_PRINT = frozenset({"print", "format", "str"})


def shown_tensors(flow: Flow, module: Module) -> Iterator[tuple[ast.expr, Use]]:
    """Where each pass of a loop that trains waits for such a tensor: the first place of a statement, and its use."""
    for loop in module.nodes(ast.For, ast.While):
        if step_loop(flow, module, loop.body[0]) is not loop:
            continue
        for statement in loop.body:
            found: dict[ast.stmt, tuple[ast.expr, Use]] = {}
            for where, node in waits(flow, module, [statement]):
                use = _use(module, node) if where is module and node in walk(loop) else None
                if use is not None:
                    found.setdefault(module.statement(node), (node, use))
            for call, use in _scalars(flow, module, statement):
                found.setdefault(module.statement(call), (call, use))
            yield from found.values()


def _use(module: Module, node: ast.expr) -> Use | None:
    """What is done with a tensor where the host waits for it; None where its number is asked for."""
    parent = module.parent(node)
    match node:
        case ast.FormattedValue() | ast.BinOp():
            pass
        case ast.Call(func) if last_name(func) in _PRINT:
            pass
        case _ if isinstance(parent, (ast.If, ast.While)) and parent.test is node:
            written = unparsed(node)
            shown = f"'{written}'" if len(written) <= _LONG else "what it computes"
            return Use(node, f"the iteration goes on by {shown}", MANY)
        case _:
            return None
    return Use(module.statement(node), "a tensor of the device is written out in each iteration", MANY)


def _scalars(flow: Flow, module: Module, statement: ast.stmt) -> Iterator[tuple[ast.Call, Use]]:
    """``writer.add_scalar("loss", loss, step)``, which asks for the number."""
    for call in walk(statement):
        if isinstance(call, ast.Call) and last_name(call.func) == _SCALAR and is_sure(module, call, statement):
            value = argument_of(call, "scalar_value", 1)
            if value is not None and is_on_device(flow, module, value):
                text = f"{_SCALAR}() asks for the number of '{unparsed(value)}' in each iteration"
                yield call, Use(call, text, MANY)
