"""What in a model changes a whole number that it keeps, ``self.at = (self.at + n) % self.size``, or a length."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import Container, Literal, Tensor, without_none
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value

_OF_NUMBERS = frozenset({"builtins.int", "builtins.len", "builtins.min", "builtins.max"})
_SIZES = frozenset({"size", "numel"})
_LENGTHENING = frozenset({"append", "extend", "insert"})
_SHORTENING = frozenset({"clear", "pop", "remove"})


def counted(flow: Flow, node: ast.AST) -> ast.Attribute | None:
    """The attribute of ``self`` that the statement gives another number or, by ``=``, another whole number.

    TorchDynamo takes fractions that change for inputs of the graph, and compiles each whole number anew.
    """
    match node:
        case ast.AugAssign(ast.Attribute(ast.Name("self")) as target):
            values = without_none(flow.values(target))
            return None if any(isinstance(each, Tensor) for each in values) else target
        case ast.Assign(targets, given):
            kept = (each for each in targets if isinstance(each, ast.Attribute))
            return next((each for each in kept if _is_next(flow, each, given)), None)
    return None


def lengthened(flow: Flow, node: ast.AST) -> ast.Attribute | None:
    """The list of ``self`` that a call makes longer and nothing empties: each length is compiled anew."""
    match node:
        case ast.Call(ast.Attribute(ast.Attribute(ast.Name("self")) as kept, method)) if method in _LENGTHENING:
            values = without_none(flow.values(kept))
            is_list = bool(values) and all(isinstance(each, Container) and each.name == "list" for each in values)
            return kept if is_list and not any(_shortens(each, kept.attr) for each in flow.modules) else None
    return None


def _shortens(module: Module, name: str) -> bool:
    """Whether code empties the list in an attribute of that name, or puts another there than the constructor does."""
    for store in module.attribute_stores.get(name, ()):
        if getattr(module.function(store), "name", "") != "__init__":
            return True
    for each in module.nodes(ast.Attribute):
        above = module.parent(each)
        if each.attr == name and isinstance(above, ast.Attribute) and above.attr in _SHORTENING:
            return True
        if each.attr == name and isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load):
            return True
    return False


def _is_next(flow: Flow, target: ast.Attribute, given: ast.expr) -> bool:
    """Whether the attribute of ``self`` is a whole number, and is given one that is computed from itself."""
    is_own = isinstance(target.value, ast.Name) and target.value.id == "self"
    if not is_own or not _reads(flow, given, ast.unparse(target)) or not _is_whole(flow, given):
        return False
    values = [value for each in _others(flow, target) for value in without_none(flow.values(each))]
    return any(map(_is_integer, values)) and all(map(_may_be_integer, values))


def _others(flow: Flow, target: ast.Attribute) -> Iterator[ast.expr]:
    """What else the class of a method, or a base of it, assigns to an attribute of ``self``."""
    module = module_of(flow, target)
    class_ = next((each for each in module.ancestors(target) if isinstance(each, ast.ClassDef)), None)
    written = ast.unparse(target)
    for each in flow.project_bases(class_) if class_ is not None else ():
        for node in walk(each):
            if not isinstance(node, ast.Assign) or target in node.targets:
                continue
            if any(ast.unparse(one) == written for one in node.targets):
                yield node.value


def _reads(flow: Flow, node: ast.expr, attribute: str) -> bool:
    """Whether the expression is computed from the attribute, there or through names."""

    def before(given: ast.expr) -> Iterator[ast.expr]:
        for name in walk(given):
            if isinstance(name, ast.Name):
                yield from _assigned(flow, name)

    parts = (part for given in closure([node], before) for part in walk(given))
    return any(isinstance(each, ast.Attribute) and ast.unparse(each) == attribute for each in parts)


def _is_whole(flow: Flow, node: ast.expr) -> bool:
    """Whether the expression is a whole number; an attribute is one unless it is known to be something else.

    A name is one where all that it is assigned is, computed from whole numbers, itself perhaps among them.
    """
    return all(_may_be_whole(flow, each) for each in closure([node], lambda each: _computed_from(flow, each)))


def _computed_from(flow: Flow, node: ast.expr) -> Sequence[ast.expr]:
    """What has to be whole for the expression to be."""
    match node:
        case ast.Name() if not _is_known_whole(flow, node):
            return [*_assigned(flow, node)]
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right):
            return [left, right]
    return []


def _is_known_whole(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and all(map(_is_integer, values))


def _may_be_whole(flow: Flow, node: ast.expr) -> bool:
    """Whether the expression is a whole number, if what it is computed from is."""
    match node:
        case ast.Constant(value):
            return type(value) is int
        case ast.Attribute():
            return all(map(_may_be_integer, without_none(flow.values(node))))
        case ast.Name():
            return _is_known_whole(flow, node) or any(True for _ in _assigned(flow, node))
        case ast.BinOp():
            return bool(_computed_from(flow, node))
        case ast.Call(ast.Attribute(_, name)) if name in _SIZES:
            return bool(node.args) or name == "numel"
        case ast.Call(func):
            return any(each.name in _OF_NUMBERS for each in flow.values(func))
        case ast.Subscript(ast.Attribute(_, "shape") | ast.Call(ast.Attribute(_, "size"), []), index):
            return not isinstance(index, ast.Slice)
    return False


def _is_integer(value: Value) -> bool:
    return isinstance(value, Literal) and type(value.value) is int


def _may_be_integer(value: Value) -> bool:
    return _is_integer(value) or not isinstance(value, (Literal, Tensor))


def _assigned(flow: Flow, name: ast.Name) -> Iterator[ast.expr]:
    """What the name alone is assigned in its function, by no unpacking."""
    for statement in module_of(flow, name).assignments(name):
        if any(is_name(each, name.id) for each in statement.targets):
            yield statement.value
