"""Which data sets of the project do no more than to index arrays, so that many indices at once make a whole batch?

``torch.tensor(self.x[i])`` is one row for a number, and as many rows for a list of numbers.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import words
from codemods.dataflow.values import External, Instance, Tensor
from codemods.facts.data.arrays import Arrays
from codemods.facts.data.axes import Axes
from codemods.facts.data.layout import why_not_in_order
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.reason import Place
    from codemods.facts.script import Script

_BASES = words("torch.utils.data.Dataset typing.Generic object builtins.object")
_TENSORS = words("torch.tensor torch.as_tensor torch.from_numpy")
_CONVERTING = words("float double half long int bool clone copy")
"""Methods that change each number for itself."""
_INTO = words("to type astype")
"""The same, where they are given a number format."""
_LIES_IN_ORDER = 2
"""Axes of an array whose rows lie in order, however it lies."""


class RowClass(NamedTuple):
    """A data set whose items are rows of arrays, as its class says."""

    module: Module
    arrays: Sequence[ast.Attribute]
    """What is indexed: ``self.x``."""


def row_class(flow: Flow, value: Value) -> RowClass | None:
    """What the class of a data set indexes; None where it does anything else to read an item, or is a library's."""
    class_ = value.of.site if isinstance(value, Instance) else None
    if not isinstance(class_, ast.ClassDef) or flow.method(class_, "__getitems__") is not None:
        return None
    bases = list(flow.bases(class_))
    if not bases or any(not isinstance(each, ast.ClassDef) and each not in _BASES for each in bases):
        return None
    method = flow.method(class_, "__getitem__")
    if not isinstance(method, ast.FunctionDef) or method.decorator_list or is_replaced(flow):
        return None
    index = _index(method)
    returned = _returned(flow, method, index) if index is not None else None
    module = flow.module_of(method)
    return RowClass(module, returned) if returned else None


def why_not_many(script: Script, found: RowClass) -> Reason | None:
    """Why a list of indices may not make of an array what its rows make that are stacked."""
    flow, module = script.flow, found.module
    axes, arrays = Axes(flow), Arrays(flow)
    for indexed in found.arrays:
        most = axes.most(module, indexed)
        if most is not None and most <= _LIES_IN_ORDER:
            continue
        values = flow.values(indexed)
        is_tensor = bool(values) and all(isinstance(each, Tensor) for each in values)
        if most is None and not is_tensor and arrays.array(module, indexed) is None:
            what = ast.unparse(indexed)
            text = f"'{what}' is not known to be an array or a tensor ({HERE}), which takes many indices at once:"
            return Reason("unknown-array", text, (at(module, indexed),), remedy=f"make {what} one where it is set")
        order = "{}.contiguous()" if is_tensor else "np.ascontiguousarray({})"
        culprit = _why_in_another_order(flow, arrays, module, indexed)
        if culprit is not None:
            what = ast.unparse(indexed)
            text = (
                f"how the items of '{what}' lie in memory is not known ({HERE}), and a batch of them would lie alike:"
            )
            return Reason("unknown-layout", text, (culprit,), remedy=f"give {what} {order.format('...')}")
    return None


def _why_in_another_order(flow: Flow, arrays: Arrays, module: Module, indexed: ast.Attribute) -> Place | None:
    """What of the attribute's tensor, or array, is not known to lie in order."""
    assigned = list(arrays.bound.assignments(module, indexed))
    for where, given in assigned:
        sources = _sources(arrays, where, given)
        if not sources:
            return at(module, indexed)
        reasons = (why_not_in_order(flow, each, node) for each, node in sources)
        reason = next((each for each in reasons if each is not None), None)
        if reason is not None:
            return reason.places[0]
    return None if assigned else at(module, indexed)  # a property may compute it


def _sources(arrays: Arrays, module: Module, given: ast.expr | None) -> list[tuple[Module, ast.expr]]:
    """What an attribute is given: of a parameter, what calls give to that; nothing where it is not seen."""
    if not isinstance(given, ast.Name):
        return [(module, given)] if given is not None else []
    found = list(arrays.bound.assignments(module, given))
    is_seen = all(each is not None for _, each in found)
    return [(where, each) for where, each in found if each is not None] if is_seen else []


def is_replaced(flow: Flow) -> bool:
    """Whether the script gives some object or class another way to read items."""
    return any(
        each.attr in {"__getitem__", "__getitems__"} and isinstance(each.ctx, ast.Store)
        for module in flow.modules
        for each in module.nodes(ast.Attribute)
    )


def _index(method: ast.FunctionDef) -> str | None:
    """The parameter that an item is asked for by."""
    given = method.args
    is_plain = len(given.args) == 2 and not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs)  # noqa: PLR2004 - self and the index
    return given.args[1].arg if is_plain and given.args[0].arg == "self" else None


def _returned(flow: Flow, method: ast.FunctionDef, index: str) -> list[ast.Attribute] | None:
    """The arrays whose rows are returned, where that is all that the method does."""
    rows: dict[str, list[ast.Attribute]] = {}
    for statement in method.body:
        match statement:
            case ast.Expr(ast.Constant()):
                continue
            case ast.If() if _takes_tensors(flow, statement, index):
                continue
            case ast.Assign([ast.Name(name)], value) if name != index:
                row = _row(flow, value, index, rows)
                if row is None:
                    return None
                rows[name] = row
            case ast.Return(ast.Tuple(items) | ast.List(items) | ast.Dict(_, items)):
                if isinstance(statement.value, ast.Dict) and not _has_names(statement.value):
                    return None
                found = [_row(flow, each, index, rows) for each in items]
                return [part for each in found if each is not None for part in each] if None not in found else None
            case ast.Return(ast.expr() as value):
                return _row(flow, value, index, rows)
            case _:
                return None
    return None


def _has_names(items: ast.Dict) -> bool:
    return all(isinstance(each, ast.Constant) for each in items.keys)


def _takes_tensors(flow: Flow, statement: ast.If, index: str) -> bool:
    """``if torch.is_tensor(i): i = i.tolist()``, which is nothing to a list."""
    match statement:
        case ast.If(ast.Call(function, [ast.Name(asked)]), [ast.Assign([ast.Name(given)], value)], []):
            is_asked = {each.name for each in flow.values(function)} == {"torch.is_tensor"}
            return is_asked and asked == given == index and ast.unparse(value) == f"{index}.tolist()"
    return False


def _row(flow: Flow, node: ast.expr, index: str, rows: dict[str, list[ast.Attribute]]) -> list[ast.Attribute] | None:
    """The array of which the expression is a row, perhaps as a tensor or in another number format."""
    match node:
        case ast.Name(name):
            return rows.get(name)
        case ast.Subscript(ast.Attribute(ast.Name("self")) as array, ast.Name(name)) if name == index:
            return [array]
        case ast.Call(ast.Attribute(inner, method), [], []) if method in _CONVERTING:
            return _row(flow, inner, index, rows)
        case ast.Call(ast.Attribute(inner, method), [given], []) if method in _INTO and _is_format(flow, given):
            return _row(flow, inner, index, rows)
        case ast.Call(function, [inner], keywords):
            names = {each.name for each in flow.values(function)}
            is_plain = all(each.arg == "dtype" and _is_format(flow, each.value) for each in keywords)
            return _row(flow, inner, index, rows) if names and names <= _TENSORS and is_plain else None
    return None


def _is_format(flow: Flow, node: ast.expr) -> bool:
    """Whether it names a number format of torch or NumPy."""
    values = flow.values(node)
    return bool(values) and all(
        isinstance(each, External) and each.name.rpartition(".")[0] in {"torch", "numpy"} for each in values
    )
