"""Is it a number of Python's own, an integer, a tensor? What is filled, and how large it is, depends on that."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.values import Literal, Tensor, without_none
from codemods.facts.data.number_likes import counts as count_in_loops
from codemods.facts.loops import module_of
from codemods.facts.reaching import reaching

if TYPE_CHECKING:
    from codemods.dataflow.source import Module
    from codemods.facts.script import Script


def is_counted(script: Script, node: ast.expr) -> bool:
    """Whether it is a number of Python's own: a constant, one that is counted, or what is computed of such."""
    match node:
        case ast.Constant(value):
            return type(value) in {int, float}
        case ast.UnaryOp(ast.USub(), operand):
            return is_counted(script, operand)
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod(), right):
            return is_counted(script, left) and is_counted(script, right)
        case ast.Name() if count_in_loops(script.flow, module_of(script.flow, node), node.id):
            return True
        case ast.Attribute() if _is_said_to_be_number(script, node.attr):
            return True
    values = script.flow.values(node)
    is_literal = bool(values) and all(isinstance(each, Literal) and type(each.value) in {int, float} for each in values)
    return is_literal or is_integer(script, node)


def _is_said_to_be_number(script: Script, attribute: str) -> bool:
    """Whether attributes of the name are only given parameters that are said to be numbers: ``def f(self, n: int)``."""
    stores = [
        (module, each)
        for module in script.modules
        for each in module.nodes(ast.Attribute)
        if each.attr == attribute and not isinstance(each.ctx, ast.Load)
    ]
    return bool(stores) and all(_is_given_number(module, each) for module, each in stores)


def _is_given_number(module: Module, store: ast.Attribute) -> bool:
    """``self.n = n`` of a parameter ``n: int`` that is given nothing else in its function."""
    statement, function = module.parent(store), module.function(store)
    match statement:
        case ast.Assign([_], ast.Name(name)) if function is not None:
            said = next((each.annotation for each in signature(function).named if each.arg == name), None)
            is_bound = any(module.function(each) is function for each in module.stores.get(name, ()))
            return isinstance(said, ast.Name) and said.id in {"int", "float"} and not is_bound
    return False


def is_integer(script: Script, node: ast.expr, seen: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether it is an integer: a constant, a length, a size, a sum or product of such, or a name for one.

    Args:
        script: The script.
        node: The expression.
        seen: The names on the way to it: what is counted on, ``n = n + 1``, is an integer if all else of it is.
    """
    match node:
        case ast.Constant(value):
            return type(value) is int
        case ast.UnaryOp(ast.USub(), operand):
            return is_integer(script, operand, seen)
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right):
            return is_integer(script, left, seen) and is_integer(script, right, seen)
        case ast.Call(ast.Attribute(_, "size" | "dim" | "numel" | "nelement")):
            return not isinstance(node.func, ast.Attribute) or is_tensor(script, node.func.value)
        case ast.Call():
            return any(each.name == "builtins.len" for each in script.flow.values(node.func))
        case ast.Subscript(ast.Attribute(owner, "shape")):
            return is_tensor(script, owner)
        case ast.Name() if node in seen:
            return True
        case ast.Name():
            given = _given(script, node)
            if given and all(is_integer(script, each, seen | {node}) for each in given):
                return True
    values = script.flow.values(node)
    return bool(values) and all(isinstance(each, Literal) and type(each.value) is int for each in values)


def is_size(script: Script, node: ast.expr, seen: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether it is an integer that is not below zero: a length, a size, or a name for one."""
    match node:
        case ast.Constant(value):
            return type(value) is int and value >= 0
        case ast.BinOp(left, ast.Add() | ast.Mult() | ast.FloorDiv(), right):
            return is_size(script, left, seen) and is_size(script, right, seen)
        case ast.Name() if node in seen:
            return True
        case ast.Name():
            given = _given(script, node)
            if given and all(is_size(script, each, seen | {node}) for each in given):
                return True
        case ast.Call() | ast.Subscript():
            return is_integer(script, node)
    values = script.flow.values(node)
    return bool(values) and all(
        isinstance(each, Literal) and type(each.value) is int and each.value >= 0 for each in values
    )


def _given(script: Script, name: ast.Name) -> tuple[ast.expr, ...]:
    """What the name is given where it is read; nothing where that is not known."""
    module = module_of(script.flow, name)
    return tuple(reaching(module.function(name) or module.tree).given(name) or ())


def is_tensor(script: Script, node: ast.expr) -> bool:
    """Whether it is known to be a tensor."""
    values = without_none(script.flow.values(node))
    return bool(values) and all(isinstance(each, Tensor) for each in values)
