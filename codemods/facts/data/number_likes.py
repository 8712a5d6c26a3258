"""Which expressions are surely no arrays: numbers, sizes, lists and tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned, declared_outer, words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, last_name, unparsed
from codemods.dataflow.values import (
    Choice,
    Container,
    HostTensor,
    Literal,
    MovedTensor,
    Plain,
    instance,
    library_names,
    without_none,
)
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.arrays import Arrays

_SIZES = words("shape ndim")
"""Attributes of tensors, arrays and tables alike: numbers, or tuples of them."""
_OF_SIZES = words("shape size")
_NUMBERS = words("item numel nelement dim tolist count index")
"""Methods that return numbers or lists, whatever has them."""
_CALCULATES = frozenset(
    f"builtins.{name}" for name in words("len int float bool round ord str range list tuple sorted")
)
_DRAWS = frozenset(
    f"random.{name}" for name in words("sample choices randint random uniform gauss randrange normalvariate")
)
"""What Python's own ``random`` hands out: numbers, and lists of what it was given."""
_REDUCES = words("sum mean std var min max prod any all argmax argmin")
_PLAIN = words("int float bool str list tuple List Tuple Sequence")
"""Annotations of what is no array."""


def is_number(arrays: Arrays, flow: Flow, module: Module, node: ast.expr, around: frozenset[str] = frozenset()) -> bool:
    """Whether it is a number, a size, a text or the user's choice, of which there is nothing to copy.

    Args:
        arrays: What is known of arrays.
        flow: The values of the project.
        module: Where it stands.
        node: The expression.
        around: Names that are numbers if this is one, which they are given.
    """
    match node:
        case ast.Constant():
            return True
        case ast.BinOp(left, _, right):
            return all(is_number(arrays, flow, module, each, around) for each in (left, right))
        case ast.UnaryOp(_, operand):
            return is_number(arrays, flow, module, operand, around)
        case ast.Subscript(value) if _is_of_size(flow, module, value):
            return True
        case ast.IfExp(_, body, orelse):
            return all(is_number(arrays, flow, module, each, around) for each in (body, orelse))
        case ast.Call() if _returns_number(arrays, flow, module, node):
            return True
        case ast.Name() if (
            node.id in around
            or counts(flow, module, node.id)
            or _is_index(flow, module, node)
            or _is_said_to_be_no_array(module, node)
            or _is_given_numbers(arrays, flow, module, node, around)
        ):
            return True
    values = flow.values(node)
    return _is_size(flow, node) or _is_counted_to(flow, module, node) or (bool(values) and all(map(_is_plain, values)))


def _is_counted_to(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether the function counts to it elsewhere, ``range(args.labels)``, which takes whole numbers alone."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return False
    text, function = unparsed(node), module.function(node)
    counting = (each for each in flow.calls_of(module, {"builtins.range"}) if module.function(each) is function)
    return any(unparsed(given) == text for each in counting for given in each.args)


def _is_given_numbers(arrays: Arrays, flow: Flow, module: Module, name: ast.Name, around: frozenset[str]) -> bool:
    """Whether all that a name of a function is given, or added to it, is numbers: ``s = 0.0`` and ``s += x.item()``."""
    function = module.function(name)
    stores = [each for each in module.stores.get(name.id, ()) if isinstance(each, ast.Name)]
    if function is None or name.id in signature(function).names or name.id in declared_outer(function):
        return False
    own_stores = [each for each in stores if module.function(each) is function]
    given = [_given(module.statement(each), each) for each in own_stores]
    return bool(given) and all(
        each is not None and is_number(arrays, flow, module, each, around | {name.id}) for each in given
    )


def _given(statement: ast.stmt, store: ast.Name) -> ast.expr | None:
    """What the statement gives to the name, or adds to it; None where that is no expression of its own."""
    if isinstance(statement, ast.AugAssign):
        return statement.value
    if not isinstance(statement, ast.Assign):
        return None
    of = statement.value.func if isinstance(statement.value, ast.Call) else statement.value
    if all(isinstance(each, ast.Tuple) for each in statement.targets) and last_name(of) in _OF_SIZES:
        return statement.value  # ``batch, width = x.shape``
    return next((value for target, value in assigned(statement) if target is store), None)


def _is_plain(value: Value) -> bool:
    return isinstance(value, (Literal, Choice)) or (isinstance(value, Plain) and value.name == "a number")


def is_number_or_tensor(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a number in some cases and a tensor in others, and an array in none."""
    values = without_none(flow.values(node))
    return bool(values) and all(_is_plain(each) or isinstance(each, (HostTensor, MovedTensor)) for each in values)


def _is_size(flow: Flow, node: ast.expr) -> bool:
    """Whether it is ``x.shape`` or ``x.size()``, of whatever."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute):
        return func.attr == "size" and not _is_projects(flow, func)
    return isinstance(node, ast.Attribute) and node.attr in _SIZES


def _is_of_size(flow: Flow, module: Module, node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
    """Whether it is a size, a part of one, or a name of such: ``size = x.shape[-2:]``, and ``size = size[1:]``."""
    if isinstance(node, ast.Subscript):
        return _is_of_size(flow, module, node.value, seen)
    function = module.function(node)
    if not isinstance(node, ast.Name) or function is None or node.id in signature(function).names:
        return _is_size(flow, node)
    if node.id in seen:
        return True
    stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is function]
    given = [_given(module.statement(each), each) for each in stores if isinstance(each, ast.Name)]
    around = seen | {node.id}
    return bool(given) and all(each is not None and _is_of_size(flow, module, each, around) for each in given)


def _is_projects(flow: Flow, func: ast.Attribute) -> bool:
    """Whether the project has a method of the name."""
    return any(isinstance(each.site, FUNCTIONS) for each in flow.values(func))


def _returns_number(arrays: Arrays, flow: Flow, module: Module, call: ast.Call) -> bool:
    """Whether a call returns numbers of Python's own, or one number of NumPy's."""
    func, callees = call.func, flow.values(call.func)
    names = library_names(callees)
    if names and len(names) == len(callees):
        return names <= _CALCULATES | _DRAWS
    if not isinstance(func, ast.Attribute) or _is_projects(flow, func):
        return False
    if func.attr in _NUMBERS:
        return True
    return func.attr in _REDUCES and not (call.args or call.keywords) and arrays.array(module, func.value) is not None


def _is_said_to_be_no_array(module: Module, name: ast.Name) -> bool:
    """Whether it is a parameter that is said to be a number or a list, and given nothing else in its function."""
    function = module.function(name)
    if function is None:
        return False
    said = next((each.annotation for each in signature(function).named if each.arg == name.id), None)
    base = said.value if isinstance(said, ast.Subscript) else said
    is_said = isinstance(base, ast.Name) and base.id in _PLAIN
    return is_said and not any(
        each.id == name.id and isinstance(each.ctx, ast.Store) and module.function(each) is function
        for each in module.nodes(ast.Name)
    )


def makes_items(flow: Flow, function: Callee) -> bool:
    """Whether it is ``__getitem__`` or the like of a data set."""
    if getattr(function, "name", "") not in {"__getitem__", "__getitems__", "__iter__"}:
        return False
    owner = flow.owner(function)
    return owner is not None and kind(flow, instance(owner)) is Kind.DATASET


def _is_index(flow: Flow, module: Module, name: ast.Name) -> bool:
    """Whether it is the index that a data set is asked for."""
    function = module.function(name)
    if function is None or getattr(function, "name", "") != "__getitem__" or not makes_items(flow, function):
        return False
    return flow.signature(function).positional_names[:1] == (name.id,)


def counts(flow: Flow, module: Module, name: str) -> bool:
    """Whether the name is only ever bound by ``for name in range(…)``."""
    stores = [each for each in module.nodes(ast.Name) if each.id == name and isinstance(each.ctx, ast.Store)]
    loops = [module.parent(each) for each in stores]
    return bool(loops) and all(
        isinstance(each, (ast.For, ast.comprehension))
        and isinstance(each.iter, ast.Call)
        and any(callee.name == "builtins.range" for callee in flow.values(each.iter.func))
        for each in loops
    )


def is_list(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a list or a tuple, of whatever, which is copied in any case."""
    values = flow.values(node)
    return isinstance(node, (ast.List, ast.Tuple, ast.ListComp)) or (
        bool(values) and all(isinstance(each, Container) and each.name in {"list", "tuple"} for each in values)
    )


def is_tensor(flow: Flow, node: ast.expr) -> bool:
    """Whether it is a tensor that PyTorch made or moved; what comes out of a data set may be anything."""
    values = without_none(flow.values(node))
    made = (HostTensor, MovedTensor)
    several = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"split", "chunk", "unbind", "max", "min"}
    )
    return bool(values) and all(isinstance(each, made) for each in values) and not several
