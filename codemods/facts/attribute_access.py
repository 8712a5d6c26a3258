"""Which attributes code gives a value or reads by their names: ``setattr(x, "last", y)``, ``vars(x)["last"]``."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, lasting
from codemods.dataflow.values import Instance, Unknown, keys_of, library_names
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_GETTERS = words("__getattr__ __getattribute__")


@dataclass(frozen=True, slots=True)
class Access:
    """A place that gives an attribute a value, or reads it."""

    node: ast.expr
    name: str | None
    """None where it is computed, so that it may be any."""
    given: ast.expr | None = None
    """What it is given; None where it is read, or where that is a part of something."""


@lasting
def are_kin(flow: Flow, one: ast.ClassDef, other: ast.ClassDef) -> bool:
    """Whether an object may be of both classes: of others that derive from one of them, too."""
    if one is other:
        return True
    classes = (each for module in flow.modules for each in module.nodes(ast.ClassDef))
    return any({one, other} <= {each, *flow.bases(each)} for each in classes)


def owner_of_self(flow: Flow, module: Module, node: ast.expr) -> ast.ClassDef | None:
    """The class whose object ``self`` is in ``self.x``, where that is the first parameter of its method."""
    function = module.function(node)
    if (
        not isinstance(node, ast.Attribute)
        or not isinstance(node.value, ast.Name)
        or not isinstance(function, FUNCTIONS)
    ):
        return None
    class_ = flow.owner(function)
    is_plain = isinstance(function, ast.FunctionDef) and not function.decorator_list
    first = signature(function).names[:1]
    stores = (each for each in module.stores.get(node.value.id, ()) if module.function(each) is function)
    return class_ if is_plain and tuple(first) == (node.value.id,) and not any(stores) else None


@lasting
def written_by_name(flow: Flow, module: Module) -> tuple[Access, ...]:
    """The places of a module that give an attribute a value by its name: ``setattr(x, "last", y)``."""
    items = (each for each in module.nodes(ast.Subscript) if isinstance(each.ctx, ast.Store))
    in_items = (each for item in items for each in _of_item(flow, item, _assigned(module, item)))
    return (*in_items, *(each for call in module.nodes(ast.Call) for each in _set_by(flow, call)))


@lasting
def read_by_name(flow: Flow, module: Module) -> tuple[Access, ...]:
    """The places of a module that read an attribute by its name: ``getattr(x, "last")``, ``vars(x)["last"]``."""
    items = (each for each in module.nodes(ast.Subscript) if isinstance(each.ctx, ast.Load))
    namespaces = (
        Access(each, None)
        for each in module.nodes(ast.Attribute, ast.Call)
        if is_namespace(flow, each) and not isinstance(module.parent(each), (ast.Subscript, ast.Attribute))
    )
    in_items = (each for item in items for each in _of_item(flow, item))
    return (*in_items, *namespaces, *(each for call in module.nodes(ast.Call) for each in _got_by(flow, call)))


def _set_by(flow: Flow, call: ast.Call) -> Iterator[Access]:
    """``setattr(x, "last", y)``, ``object.__setattr__(x, "last", y)``, ``vars(x).update(last=y)``."""
    match call:
        case ast.Call(_, [owner, name, given], []) if "builtins.setattr" in library_names(flow.values(call.func)):
            if may_be_object(flow, owner):
                yield from _named(flow, call, name, given)
        case ast.Call(ast.Attribute(_, "__setattr__"), [*_, name, given], []):
            yield from _named(flow, call, name, given)
        case ast.Call(ast.Attribute(_, "register_buffer"), [name, given, *_]):
            yield from _named(flow, call, name, given)
        case ast.Call(ast.Attribute(owner, "setdefault" | "__setitem__"), [name, given], []):
            if is_namespace(flow, owner):
                yield from _named(flow, call, name, given)
        case ast.Call(ast.Attribute(owner, "update"), positional, keywords) if is_namespace(flow, owner):
            yield from (Access(call, each.arg, each.value) for each in keywords)
            yield from (Access(call, None, each) for each in positional)


def _got_by(flow: Flow, call: ast.Call) -> Iterator[Access]:
    """``getattr(x, "last")``, ``operator.attrgetter("last")``, ``vars(x).get("last")``."""
    called = library_names(flow.values(call.func))
    match call:
        case ast.Call(_, [owner, name, *_]) if "builtins.getattr" in called:
            if may_be_object(flow, owner):
                yield from _named(flow, call, name)
        case ast.Call(_, names) if "operator.attrgetter" in called:
            yield from (each for name in names for each in _named(flow, call, name))
        case ast.Call(ast.Attribute(_, method), [*_, name]) if method in _GETTERS:
            yield from _named(flow, call, name)
        case ast.Call(ast.Attribute(owner, method), arguments) if is_namespace(flow, owner):
            if method in {"get", "pop"} and arguments:
                yield from _named(flow, call, arguments[0])
            elif method in {"items", "values", "copy"}:
                yield Access(call, None)


def _of_item(flow: Flow, item: ast.Subscript, given: ast.expr | None = None) -> Iterator[Access]:
    """``x.__dict__["last"]``, ``vars(x)["last"]``."""
    if is_namespace(flow, item.value):
        yield from _named(flow, item, item.slice, given)


def _named(flow: Flow, node: ast.expr, name: ast.expr, given: ast.expr | None = None) -> Iterator[Access]:
    keys = keys_of(flow.values(name)) or (None,)
    yield from (Access(node, each if isinstance(each, str) else None, given) for each in keys)


def is_namespace(flow: Flow, node: ast.AST) -> bool:
    """Whether it is the dictionary of an object's attributes: ``x.__dict__``, ``vars(x)``."""
    match node:
        case ast.Attribute(owner, "__dict__"):
            return may_be_object(flow, owner)
        case ast.Call(function, [owner], []) if "builtins.vars" in library_names(flow.values(function)):
            return may_be_object(flow, owner)
    return False


def may_be_object(flow: Flow, node: ast.expr) -> bool:
    """Whether it may be an object of the project, or a model, and not a module or the options of a script."""
    values = flow.values(node)
    return not values or any(isinstance(each, (Instance, Unknown)) or kind(flow, each) is Kind.MODEL for each in values)


def _assigned(module: Module, target: ast.expr) -> ast.expr | None:
    """What is assigned to the target; None where it is unpacked."""
    match module.parent(target):
        case ast.Assign(_, value) | ast.AugAssign(_, _, value) | ast.AnnAssign(_, _, ast.expr() as value):
            return value
    return None
