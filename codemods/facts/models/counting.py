"""Which assignments of a model change a whole number that the model keeps: ``self.at = (self.at + n) % self.size``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import Literal, Tensor, without_none
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value

_OF_NUMBERS = frozenset({"builtins.int", "builtins.len", "builtins.min", "builtins.max"})
_SIZES = frozenset({"size", "numel"})


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
