"""Lists of which nothing is known but that they are lists: which item may be an array, and is not known to be one?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.values import Container, Made, Unknown, in_order
from codemods.facts.data.environments import steps_one
from codemods.facts.data.number_likes import is_number
from codemods.facts.loops import module_of
from codemods.library.packages import is_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.data.arrays import Arrays
    from codemods.facts.data.replayed import Given


def unknown_item(arrays: Arrays, flow: Flow, node: ast.expr) -> tuple[Module, ast.expr] | None:
    """What is put into a list, or into a list in it, and may be anything; None where numbers are put there as well.

    Args:
        arrays: What is known of arrays.
        flow: The values of the project.
        node: The list, wherever it was made.
    """
    for each in closure(_lists(flow.values(node)), lambda each: _lists(flow.items(each))):
        items = list(_put_into(flow, each))
        if any(is_number(arrays, flow, module, item) for module, item in items):
            continue
        for module, item in items:
            if any(map(_may_be_anything, flow.values(item))):
                return module, item
    return None


def unknown_remembered(arrays: Arrays, flow: Flow, put: Sequence[Given]) -> Given | None:
    """What is remembered in one column and is not known to be an array; None where numbers are remembered there."""
    if any(is_number(arrays, flow, *each) or _is_handed_out(arrays, flow, *each, frozenset()) for each in put):
        return None
    return next((each for each in put if arrays.array(*each) is None), None)


def _is_handed_out(arrays: Arrays, flow: Flow, module: Module, node: ast.expr, seen: frozenset[ast.expr]) -> bool:
    """Whether it is a reward, or whether an episode is over, as an environment of gym says after a step."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.value, ast.Call):
        return node.slice.value != 0 and steps_one(flow, node.value)
    if not isinstance(node, ast.Name) or node in seen:
        return False
    given = list(arrays.bound.assignments(module, node))
    return bool(given) and all(
        each is not None and _is_handed_out(arrays, flow, where, each, seen | {node}) for where, each in given
    )


def _may_be_anything(value: Value) -> bool:
    """Whether nothing is known of it, or a library made it of which nothing is known."""
    return isinstance(value, Unknown) or (isinstance(value, Made) and not is_known(value.name))


def _lists(values: Values) -> list[Value]:
    return [each for each in in_order(values) if isinstance(each, Container) and each.name in {"list", "tuple"}]


def _put_into(flow: Flow, made: Value) -> Iterator[tuple[Module, ast.expr]]:
    """What a list begins with, and what is appended to it, by whatever name."""
    site = made.site
    if isinstance(site, ast.ListComp):
        yield module_of(flow, site), site.elt
    elif isinstance(site, (ast.List, ast.Tuple)):
        yield from ((module_of(flow, site), each) for each in site.elts)
    for module, named in flow.places(made):
        method = module.parent(named)
        call = module.parent(method) if isinstance(method, ast.Attribute) and method.value is named else None
        is_called = isinstance(call, ast.Call) and call.func is method and len(call.args) == 1
        if is_called and method.attr == "append":  # type: ignore[union-attr]
            yield module, call.args[0]  # type: ignore[union-attr]
