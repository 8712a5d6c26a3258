"""Lists of which nothing is known but that they are lists: which item may be an array, and is not known to be one?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.values import Container, Made, Unknown, in_order
from codemods.facts.data.number_likes import is_number
from codemods.facts.loops import module_of
from codemods.library.packages import is_known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.data.arrays import Arrays


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
