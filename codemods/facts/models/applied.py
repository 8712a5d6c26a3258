"""Calls of torch's operators and layers on a tensor, whether they are written as functions or as methods."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting
from codemods.dataflow.values import Made, library_names
from codemods.library.operations import operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value


@dataclass(frozen=True, eq=False)
class Applied:
    """An operator of torch and what it is given."""

    name: str
    tensor: ast.expr
    """What it is called on, or given first."""
    others: Sequence[ast.expr]
    """What it is given by position after that."""
    named: Mapping[str, ast.expr]

    def argument(self, position: int, *names: str) -> ast.expr | None:
        """What it is given at that position after the tensor, or by one of the names."""
        given = next((self.named[each] for each in names if each in self.named), None)
        return self.others[position] if given is None and position < len(self.others) else given


@lasting
def applied(flow: Flow, call: ast.expr) -> Applied | None:
    """The operator that a call applies to a tensor; None where it is none, or its arguments cannot be told apart."""
    if not isinstance(call, ast.Call) or operation(flow, call) is None:
        return None
    named = {each.arg: each.value for each in call.keywords if each.arg is not None}
    if len(named) != len(call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    functions = library_names(flow.values(call.func))
    if functions:
        name = next(iter(functions)).rpartition(".")[2]
        given = [*call.args]
        first = given.pop(0) if given else named.pop("input", None)
        return None if first is None else Applied(name, first, given, named)
    if not isinstance(call.func, ast.Attribute):
        return None
    return Applied(call.func.attr, call.func.value, call.args, named)


def layers(flow: Flow, call: ast.expr) -> list[Value]:
    """The layers of torch that a call may run, where it runs nothing else and is given one tensor alone."""
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return []
    values = list(flow.values(call.func))
    is_layer = all(isinstance(each, Made) and each.name.startswith("torch.nn.") for each in values)
    return values if is_layer else []


def whole_number(node: ast.expr | None) -> int | None:
    """The number that is written there: ``-1``."""
    try:
        found = ast.literal_eval(node) if isinstance(node, (ast.Constant, ast.UnaryOp)) else None
    except ValueError:
        return None
    return found if type(found) is int else None
