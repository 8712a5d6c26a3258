"""Which number has a name for a sum or list alone: ``value = loss.item()``, and then ``total += value``?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.source import walk
from codemods.dataflow.values import Tensor, Unknown
from codemods.facts.models.local_steps import names_of_one, writes_into
from codemods.facts.reaching import is_seen_elsewhere, reaching
from codemods.facts.training.totals import added, appended, told
from codemods.facts.training.written_by_calls import writes_after
from codemods.library.operations import operation
from codemods.library.operators import Memory

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.training.totals import Loop


class Named(NamedTuple):
    """What is added to a sum, or appended to a list, by a name."""

    total: str
    """The sum, list or meter."""
    read: ast.Name
    """Where the name is read, once."""
    given: ast.expr
    """What it holds there."""


def named(flow: Flow, loop: Loop, one: Reading) -> Named | None:
    """The sum, list or meter to which a name adds what is read from the device; None where the name has any other use.

    Nor may anything in the loop write into the tensor, as the name would hold what is written.
    """
    module, statement = one.module, one.module.statement(one.node)
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return None
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Name) or is_seen_elsewhere(module, target):
        return None
    found = reaching(module.function(statement) or module.tree)
    readers = found.readers(value)
    if len(readers) != 1 or found.given(readers[0]) != [value] or readers[0] not in walk(loop):
        return None
    user = module.statement(readers[0])
    pair = added(user) or appended(user) or told(user)
    if pair is None or pair[0] == target.id or readers[0] not in walk(pair[1]):
        return None
    read = {each.id for each in walk(one.tensor) if isinstance(each, ast.Name)}
    names = {each for name in read for each in names_of_one(loop, name)}
    if not _is_of_pass(flow, module, loop, one.tensor) or any(
        any(writes_into(each, name) for each in walk(loop)) or any(writes_after(flow, loop, one.node, name))
        for name in names
    ):
        return None
    return Named(pair[0], readers[0], value)


def _is_of_pass(flow: Flow, module: Module, loop: Loop, tensor: ast.expr) -> bool:
    """Whether each pass makes the tensor anew, so that code elsewhere does not write to it: no attribute, no item."""
    match tensor:
        case ast.Name(name):
            return any(each in walk(loop) for each in module.stores.get(name, ()))
        case ast.Attribute() | ast.Subscript():
            return False
        case ast.Call(func, arguments):
            row = operation(flow, tensor)
            if row is None or row.memory is Memory.NEW:
                return True
            of = [*arguments[:1], *([func.value] if isinstance(func, ast.Attribute) else [])]
            return all(_is_of_pass(flow, module, loop, each) for each in of if _may_be_tensor(flow, each))
    return True


def _may_be_tensor(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return not values or any(isinstance(each, (Tensor, Unknown)) for each in values)
