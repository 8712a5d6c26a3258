"""Which expressions of a layer's code are surely numbers of Python, not tensors, and which are roots."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from codemods.dataflow.names import canonical
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS
from codemods.dataflow.values import Choice, Literal, Plain, Unknown, without_none
from codemods.facts.cost.definitions import binding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value

_ROOTS = frozenset({"math.sqrt", "numpy.sqrt"})
_OF_NUMBERS = _ROOTS | {"builtins.float", "builtins.int", "builtins.abs", "builtins.round", "math.log", "math.pow"}
_SIZES = frozenset({"size", "dim", "numel"})
_HALF = Fraction(1, 2)


def is_number(flow: Flow, module: Module, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> bool:
    """Whether the expression is surely a number of Python's."""
    if node in seen:
        return True
    seen |= {node}
    match node:
        case ast.Constant(value):
            return isinstance(value, (int, float))
        case ast.UnaryOp(ast.USub() | ast.UAdd(), inner):
            return is_number(flow, module, inner, seen)
        case ast.BinOp(left, _, right):
            return is_number(flow, module, left, seen) and is_number(flow, module, right, seen)
        case ast.BoolOp(_, parts):
            return all(_is_none(each) or is_number(flow, module, each, seen) for each in parts)
        case ast.IfExp(_, one, other):
            return all(_is_none(each) or is_number(flow, module, each, seen) for each in (one, other))
        case ast.Call():
            return _is_number_of_call(flow, module, node, seen)
        case ast.Subscript(ast.Attribute(_, "shape"), index) if not isinstance(index, ast.Slice):
            return True
        case ast.Name() | ast.Attribute():
            return _is_number_of_name(flow, module, node, seen)
    return False


def _is_number_of_call(flow: Flow, module: Module, call: ast.Call, seen: frozenset[ast.AST]) -> bool:
    names = {each.name for each in flow.values(call.func)}
    if names and names <= _OF_NUMBERS:
        return all(is_number(flow, module, each, seen) for each in call.args)
    if isinstance(call.func, ast.Attribute) and call.func.attr in _SIZES:
        # `q.size(-1)` is a number, `q.size()` is a tuple of them.
        return bool(call.args) or call.func.attr != "size"
    return False


def _is_number_of_name(flow: Flow, module: Module, node: ast.Name | ast.Attribute, seen: frozenset[ast.AST]) -> bool:
    values = without_none(flow.values(node))
    if values and all(_is_plain(each) for each in values):
        return True
    if any(not isinstance(each, Unknown) and not _is_plain(each) for each in values):
        return False
    given = list(definitions(flow, module, node))
    return bool(given) and all(
        _is_none(each) or _is_size(each) or is_number(flow, where, each, seen) for where, each in given
    )


def is_float(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether a number is surely one of floating point, not a whole one."""
    match node:
        case ast.Constant(value):
            return isinstance(value, float)
        case ast.UnaryOp(ast.USub() | ast.UAdd(), inner):
            return is_float(flow, module, inner)
        case ast.BinOp(left, ast.Mult() | ast.Add() | ast.Sub(), right):
            return is_float(flow, module, left) or is_float(flow, module, right)
        case ast.BinOp(_, ast.Pow(), written):
            number = _fraction(written)
            return number is not None and (number < 0 or number.denominator > 1)
        case ast.BinOp(_, ast.Div()):
            return True
        case ast.Call(function):
            names = {each.name for each in flow.values(function)}
            return bool(names) and names <= _ROOTS | {"builtins.float"}
        case ast.Attribute() | ast.Name():
            given = list(definitions(flow, module, node))
            return (
                bool(given)
                and not any(isinstance(each, (ast.Name, ast.Attribute)) for _, each in given)
                and all(is_float(flow, where, each) for where, each in given)
            )
    return False


def _is_plain(value: Value) -> bool:
    if isinstance(value, Literal):
        return isinstance(value.value, (int, float))
    return isinstance(value, (Plain, Choice)) and not value.name.endswith("…")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_size(node: ast.expr) -> bool:
    """``x.shape`` and ``x.size()``, of which an assignment to several names takes the parts."""
    match node:
        case ast.Attribute(_, "shape") | ast.Call(ast.Attribute(_, "size"), []):
            return True
        case ast.Subscript(ast.Attribute(_, "shape"), ast.Slice()):
            return True
    return False


def definitions(flow: Flow, module: Module, node: ast.Name | ast.Attribute) -> Iterator[tuple[Module, ast.expr]]:
    """What statements give a local name, or an attribute of the object that a method is called on.

    Of what a constructor is given by code that is not seen, the default counts: sizes of layers are numbers.
    """
    function = module.function(node)
    if isinstance(node, ast.Attribute):
        class_ = flow.owner(function) if isinstance(function, FUNCTIONS) else None
        if class_ is None or not isinstance(node.value, ast.Name):
            return
        for each in flow.family(class_):
            where = next(other for other in flow.modules if other.holds(each))
            yield from ((where, value) for value in _stored_in(where, each, f"{node.value.id}.{node.attr}"))
        return
    stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is function]
    yield from ((module, _given(module, each)) for each in stores)
    if not stores and isinstance(function, ast.FunctionDef) and node.id in signature(function).names:
        given = signature(function).defaults.get(node.id)
        if function.name == "__init__":
            yield module, given if given is not None else ast.Constant(0)
        elif given is not None and not _is_none(given):
            yield module, given


def _stored_in(module: Module, class_: ast.ClassDef, path: str) -> Iterator[ast.expr]:
    for each in module.stores.get(path, ()):
        if class_ in module.ancestors(each):
            yield _given(module, each)


def _given(module: Module, store: ast.expr) -> ast.expr:
    """What a statement gives a name or attribute; a text where that is not seen."""
    statement, parent = module.statement(store), module.parent(store)
    value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
    if value is None or (parent is statement) or _is_size(value):
        return ast.Constant("unknown") if value is None else value
    targets, parts = getattr(parent, "elts", []), getattr(value, "elts", [])
    is_starred = any(isinstance(each, ast.Starred) for each in (*targets, *parts))
    is_pairwise = len(targets) == len(parts) and not is_starred
    return parts[targets.index(store)] if is_pairwise and store in targets else ast.Constant("unknown")


def is_positive(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether the number is surely above 0, where what it is a root of is a size."""
    match node:
        case ast.Constant(value):
            return isinstance(value, (int, float)) and value > 0
        case ast.BinOp(_, ast.Pow(), number):
            return _is_root(flow, node) or isinstance(number, (ast.Constant, ast.UnaryOp))
        case ast.BinOp(left, ast.Mult() | ast.Div(), right):
            return is_positive(flow, module, left) and is_positive(flow, module, right)
        case ast.Call():
            return _is_root(flow, node)
        case ast.Name() | ast.Attribute():
            given = list(definitions(flow, module, node))
            return bool(given) and all(
                not isinstance(each, (ast.Name, ast.Attribute)) and is_positive(flow, where, each)
                for where, each in given
            )
    return False


def _is_root(flow: Flow, node: ast.expr) -> bool:
    return power(flow, node)[1].denominator > 1


def radicand(flow: Flow, node: ast.expr) -> tuple[ast.expr, bool] | None:
    """What a number is the square root of, and whether it is one divided by the root; None where it is no root."""
    base, exponent = power(flow, node)
    return (base, exponent < 0) if abs(exponent) == _HALF else None


def power(flow: Flow, node: ast.expr) -> tuple[ast.expr, Fraction]:
    """A number as another one to a power: that of ``1 / math.sqrt(math.sqrt(d))`` is ``d`` to the -1/4."""
    match node:
        case ast.Call(function, [inner]) if not node.keywords:
            names = {each.name for each in flow.values(function)}
            if names and names <= _ROOTS:
                base, exponent = power(flow, inner)
                return base, exponent / 2
        case ast.BinOp(inner, ast.Pow(), written) if (number := _fraction(written)) is not None:
            base, exponent = power(flow, inner)
            return base, exponent * number
        case ast.BinOp(ast.Constant(1), ast.Div(), inner):
            base, exponent = power(flow, inner)
            return base, -exponent
    return node, Fraction(1)


def _fraction(node: ast.expr) -> Fraction | None:
    """The number that is written there: ``-0.5``, ``1 / 4``."""
    match node:
        case ast.Constant(int() | float() as value) if math.isfinite(value):
            return Fraction(value)
        case ast.UnaryOp(ast.USub(), inner) if (number := _fraction(inner)) is not None:
            return -number
        case ast.BinOp(ast.Constant(int(one)), ast.Div(), ast.Constant(int(other))) if other:
            return Fraction(one, other)
    return None


def is_infinite(flow: Flow, node: ast.expr) -> bool:
    """Whether the expression is minus infinity: ``float("-inf")``, ``-math.inf``, ``-torch.inf``."""
    match node:
        case ast.Call(function, [ast.Constant(str(text))]):
            is_float = {each.name for each in flow.values(function)} == {"builtins.float"}
            return is_float and text.strip().lower() in {"-inf", "-infinity"}
        case ast.UnaryOp(ast.USub(), ast.Call(function, [ast.Constant(str(text))])):
            is_float = {each.name for each in flow.values(function)} == {"builtins.float"}
            return is_float and text.strip().lower() in {"inf", "infinity", "+inf"}
        case ast.UnaryOp(ast.USub(), inner):
            names = {canonical(each.name) for each in flow.values(inner)}
            return bool(names) and names <= {"math.inf", "numpy.inf", "torch.inf", "numpy.Inf"}
    return any(isinstance(each, Literal) and each.value == float("-inf") for each in flow.values(node))


_MINUS_LARGE = -1e4
"""Added to a score, it leaves nothing of its exponential in 32 bits, whatever the score is."""


def is_large_negative(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a number so small that a softmax makes 0 of it: ``-1e9``, ``torch.finfo(q.dtype).min``."""
    match node:
        case ast.Attribute(ast.Call(function), "min") | ast.UnaryOp(
            ast.USub(), ast.Attribute(ast.Call(function), "max")
        ):
            return {each.name for each in flow.values(function)} == {"torch.finfo"}
        case ast.Call(function, [ast.Constant(str(text))]):
            is_float = {each.name for each in flow.values(function)} == {"builtins.float"}
            return is_float and _number(text) <= _MINUS_LARGE
    bound = binding(flow, node) if isinstance(node, ast.Name) else None
    try:
        numbers = [ast.literal_eval(node if bound is None else bound)]
    except ValueError:
        numbers = [each.value if isinstance(each, Literal) else None for each in flow.values(node)]
    return bool(numbers) and all(isinstance(each, (int, float)) and each <= _MINUS_LARGE for each in numbers)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
