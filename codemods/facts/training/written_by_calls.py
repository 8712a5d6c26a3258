"""Which calls write into a tensor that they are given: ``dist.all_reduce(loss)``, or functions that do so?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import last_name, walk
from codemods.dataflow.values import library_names
from codemods.facts.models.local_steps import held_by, is_in_place, names_of_one, writes_into
from codemods.library.memory_format import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee


def writes_after(flow: Flow, within: ast.AST, node: ast.expr, name: str) -> Iterator[ast.Call]:
    """The calls below a node that write into what a name holds, or into a view of that."""
    for call in walk(within):
        if not isinstance(call, ast.Call) or (call.lineno, call.col_offset) < (node.lineno, node.col_offset):
            continue
        if writes(flow, call, name):
            yield call


def writes(flow: Flow, call: ast.Call, name: str, inside: frozenset[Callee] = frozenset()) -> bool:
    """Whether a call writes into what a name holds, which it is given; functions that are followed are not again."""
    given = {each for each in arguments_of(call) if held_by(each) == name}
    if not given:
        return False
    if any(each.arg == "out" and each.value in given for each in call.keywords):
        return True
    called = library_names(flow.values(call.func))
    if called & SHARED or (called and is_in_place(last_name(call.func) or "")):
        return True
    for function in flow.called(call):
        taken = flow.bind(function, call).given.items()
        parameters = [parameter for parameter, each in taken if each in given]
        if function not in inside and any(_is_written(flow, function, each, inside) for each in parameters):
            return True
    return False


def _is_written(flow: Flow, function: Callee, parameter: str, inside: frozenset[Callee]) -> bool:
    """Whether a function writes into what it is given, itself or by a call."""
    names, inside = names_of_one(function, parameter), inside | {function}
    return any(
        writes_into(each, name) or (isinstance(each, ast.Call) and writes(flow, each, name, inside))
        for each in walk(function)
        for name in names
    )
