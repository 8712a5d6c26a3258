"""What a legacy constructor makes whose elements are all given one value at once: ``torch.FloatTensor(8, 1).fill_(1)``.

It takes no device. ``torch.ones(8, 1, device=device)`` is the same tensor, where what it is given surely is a size: of
a list, or a tuple that is no ``torch.Size``, the legacy constructor makes a tensor with these elements. Where nothing
gives them a value at once, it is ``torch.empty(8, 1, device=device)``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.values import Literal, Tensor, library_names, without_none
from codemods.facts.loops import module_of
from codemods.facts.reaching import reaching
from codemods.library.fills import FILLING
from codemods.library.tensors import LEGACY_FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codemods.facts.script import Script

_BY_VALUE: Mapping[object, str] = {0: "torch.zeros", 1: "torch.ones"}
_UNFILLED = "torch.empty"
_SINGLE = "float32"


@dataclass(frozen=True, eq=False)
class LegacyFill:
    """How else the tensor is made."""

    call: ast.Call
    """The call that fills it, of which the constructor is a part, or the constructor."""
    function: str
    """How the script writes ``torch.zeros``, ``torch.ones``, ``torch.full`` or ``torch.empty``."""
    sizes: tuple[ast.expr, ...]
    is_shape: bool
    """Whether it is given one ``torch.Size``, and no numbers."""
    value: ast.expr | None
    """What ``torch.full`` fills it with."""
    number_format: str | None
    """How the script writes the number format, where it has to be said."""


def legacy_fill(script: Script, name: str, steps: Sequence[ast.Call]) -> LegacyFill | None:
    """How else a tensor is made by a chain of calls, from the outside in; None where that is not known.

    Args:
        script: The script.
        name: The qualified name of the constructor.
        steps: The calls.
    """
    made = LEGACY_FORMATS.get(name.rpartition(".")[2])
    maker = steps[-1]
    if made is None or maker.keywords or script.default_format or script.default_device:
        return None
    is_shape = len(maker.args) == 1 and _is_shape(script, maker.args[0])
    if not (is_shape or _are_sizes(script, maker.args)):
        return None
    filling = _filling(steps)
    value = _value(script, filling, made) if filling is not None else None
    if filling is not None and value is None:
        return None
    exact = _exact(value)
    is_said = made != _SINGLE or exact is None
    module = module_of(script.flow, maker)
    statement = module.statement(maker)
    function = script.spelled(module, exact or "torch.full", statement)
    number_format = script.spelled(module, f"torch.{made}", statement) if is_said else None
    if function is None or (is_said and number_format is None):
        return None
    given = None if exact else value
    return LegacyFill(filling or maker, function, tuple(maker.args), is_shape, given, number_format)


def _filling(steps: Sequence[ast.Call]) -> ast.Call | None:
    """What gives all elements a value as soon as they are made."""
    maker, next_one = steps[-1], steps[-2] if len(steps) > 1 else None
    function = next_one.func if next_one is not None else None
    is_filled = isinstance(function, ast.Attribute) and function.value is maker and function.attr in FILLING
    return next_one if is_filled else None


def _exact(value: ast.expr | None) -> str | None:
    """What makes a tensor of that value in any number format; of none it is ``torch.empty``."""
    if value is None:
        return _UNFILLED
    is_number = isinstance(value, ast.Constant) and type(value.value) in {int, float}
    return _BY_VALUE.get(value.value) if isinstance(value, ast.Constant) and is_number else None


def _value(script: Script, filling: ast.Call, made: str) -> ast.expr | None:
    """What all elements are given; None where that is not known, or may be cut to the number format."""
    given = arguments_of(filling)
    if filling.func.attr == "zero_":  # type: ignore[attr-defined]
        return None if given else ast.Constant(0)
    if len(filling.args) != 1 or filling.keywords or isinstance(given[0], ast.Starred):
        return None
    is_float = made.startswith("float")
    return given[0] if is_float or _is_integer(script, given[0]) else None


def _are_sizes(script: Script, given: Sequence[ast.expr]) -> bool:
    """Whether they are numbers: of several arguments the constructor takes no others, a single one is known to be."""
    if any(isinstance(each, ast.Starred) for each in given):
        return False
    return len(given) > 1 or (len(given) == 1 and _is_integer(script, given[0]))


def _is_integer(script: Script, node: ast.expr, seen: frozenset[ast.expr] = frozenset()) -> bool:
    """Whether it is an integer: a constant, a length, a size, a name for one, or what is computed of such."""
    match node:
        case ast.Constant(value):
            return type(value) is int
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right):
            return _is_integer(script, left, seen) and _is_integer(script, right, seen)
        case ast.Call(ast.Attribute(owner, "size"), [ast.Constant(int())], []):
            return _has_size(script, owner)
        case ast.Subscript(ast.Attribute(owner, "shape"), ast.Constant(int())):
            return _is_tensor(script, owner)
        case ast.Call():
            return "builtins.len" in library_names(script.flow.values(node.func))
        case ast.Name() if node not in seen:
            function = module_of(script.flow, node).function(node)
            given = reaching(function).given(node) if function is not None else None
            if given and all(_is_integer(script, each, seen | {node}) for each in given):
                return True
    values = script.flow.values(node)
    return bool(values) and all(isinstance(each, Literal) and type(each.value) is int for each in values)


def _is_shape(script: Script, node: ast.expr) -> bool:
    """Whether it is a ``torch.Size``: a tensor's, or one that a tuple is added to."""
    match node:
        case ast.Call(ast.Attribute(owner, "size"), [], []):
            return _has_size(script, owner)
        case ast.Attribute(owner, "shape"):
            return _is_tensor(script, owner)
        case ast.BinOp(left, ast.Add(), ast.Tuple()):
            return _is_shape(script, left)
    return False


def _has_size(script: Script, owner: ast.expr) -> bool:
    """Whether it is a tensor: of what has a method of that name, nothing else may be meant."""
    return _is_tensor(script, owner) or not any(
        each.name == "size" for module in script.modules for each in module.nodes(ast.FunctionDef)
    )


def _is_tensor(script: Script, node: ast.expr) -> bool:
    values = without_none(script.flow.values(node))
    return bool(values) and all(isinstance(each, Tensor) for each in values)
