"""Which tensors surely keep the elements of each of their items in the order of the axes?

Tensors may lie otherwise in memory: ``x.permute(0, 3, 1, 2)`` moves no element, and arrays that are read from files of
MATLAB's are stored by columns. Items that are stacked lie in order whatever the tensor does, and those that are indexed
at once lie as in the tensor: convolutions may then be computed by another algorithm, and ``view`` may fail.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.values import library_names, without_none
from codemods.facts.data.bindings import set_before
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

_MADE_IN_ORDER = words("randn rand zeros ones full empty randint arange linspace eye randperm normal")
"""Functions of ``torch`` and NumPy, which make them of sizes and numbers."""
_MADE_OF = words("tensor as_tensor from_numpy Tensor FloatTensor DoubleTensor LongTensor IntTensor array asarray")
"""Functions that keep the order of what they are given: none is needed where that is lists of numbers."""
_OF_NUMPY = words("numpy numpy.random")
_JOINING = words("torch.cat torch.concat numpy.concatenate")
_IN_ORDER = words("contiguous tolist")
_KEEPING = words(
    """
    reshape flatten view unsqueeze squeeze float double half long int bool type to cpu astype copy numpy clone detach
    abs add mul div sub neg sqrt exp log sin cos pow clamp round floor ceil add_ mul_ div_ sub_
    """
)
"""Methods whose result is in order where the tensor, or the array, is."""


def why_not_in_order(flow: Flow, module: Module, tensor: ast.expr) -> Reason | None:
    """Why the items of the tensor may lie otherwise than in the order of their axes; None where they do not."""
    culprit = _culprit(flow, _Source(module, tensor), frozenset(), frozenset())
    if culprit is None:
        return None
    what = ast.unparse(tensor)
    text = f"how the items of '{what}' lie in memory is not known ({HERE}), and a batch of them would lie alike:"
    return Reason("unknown-layout", text, (at(culprit.module, culprit.node),), remedy=f"write {what}.contiguous()")


class _Source(NamedTuple):
    """What a tensor is made of."""

    module: Module
    node: ast.expr
    """A tensor, or an array or lists of numbers that one is made of."""
    element: int | None = None
    """Which of the elements, where the expression yields several."""


def _culprit(flow: Flow, source: _Source, around: frozenset[str], seen: frozenset[Callee]) -> _Source | None:
    """The part of the expression of which it is not known; None where all of it is in order.

    Args:
        flow: The values of the project.
        source: The expression.
        around: The names that it is given to: ``x = x.float()`` is in order where what ``x`` was before is.
        seen: The functions whose results are followed already.
    """
    module, node, index = source
    inner: Sequence[_Source] | None
    match node:
        case ast.Call() if functions := _run_by(flow, node):
            inner = _results(flow, functions, index) if seen.isdisjoint(functions) else None
            around, seen = frozenset(), seen | {*functions}
        case ast.Tuple(elements) if index is not None:
            is_there = index < len(elements) and not any(isinstance(each, ast.Starred) for each in elements)
            inner = [_Source(module, elements[index])] if is_there else None
        case _ if index is not None:
            inner = None
        case ast.Name(name):
            before = set_before(module, node)
            is_same = before is None and name in around
            inner = [_Source(module, before)] if before is not None else [] if is_same else _bound(module, node)
            around = around if before is not None else around | {name}
        case _:
            parts = _parts(flow, node)
            inner = [_Source(module, each) for each in parts] if parts is not None else None
    if inner is None:
        return source
    culprits = (_culprit(flow, each, around, seen) for each in inner)
    return next((each for each in culprits if each is not None), None)


def _parts(flow: Flow, node: ast.expr) -> Sequence[ast.expr] | None:
    """What has to be in order for the expression to be; None where it may not be whatever that is."""
    match node:
        case ast.Constant() | ast.List() | ast.ListComp() | ast.Tuple():
            return []
        case ast.BinOp(left, _, right):
            return [left, right]
        case ast.UnaryOp(_, operand):
            return [operand]
        case ast.Compare(left, _, others):
            return [left, *others]
        case ast.Subscript(value, index):
            return [value] if _selects_rows(index) else None
        case ast.Call():
            return _operands(flow, node)
    return None


def _run_by(flow: Flow, call: ast.Call) -> Sequence[Callee]:
    """The project's functions that the call runs, where they are all that it may run."""
    found = flow.called(call)
    return found if len(found) == len(without_none(flow.values(call.func))) else []


def _results(flow: Flow, functions: Sequence[Callee], index: int | None) -> Sequence[_Source] | None:
    """What the functions return, or that element of it; None where that is not all that they hand out."""
    found: list[_Source] = []
    for function in functions:
        module = flow.module_of(function)
        if isinstance(function, ast.Lambda):
            found.append(_Source(module, function.body, index))
            continue
        if any(own(function, ast.Yield)) or any(own(function, ast.YieldFrom)) or function.decorator_list:
            return None
        for each in own(function, ast.Return):
            if each.value is None:
                return None
            found.append(_Source(module, each.value, index))
    return found or None


def _operands(flow: Flow, call: ast.Call) -> Sequence[ast.expr] | None:
    """The operands that have to be in order for the result to be; None where it may not be whatever they are."""
    names = library_names(flow.values(call.func))
    (name,) = names if len(names) == 1 else ("",)
    package, _, last = name.rpartition(".")
    if name == "numpy.ascontiguousarray":
        return []
    if name == "torch.stack" or (package in {"torch", *_OF_NUMPY} and last in _MADE_IN_ORDER):
        return [] if not any(each.arg in {"order", "memory_format"} for each in call.keywords) else None
    if package in {"torch", "numpy"} and last in _MADE_OF:
        is_plain = all(each.arg in {"dtype", "device"} for each in call.keywords)
        return call.args[:1] if is_plain else None
    if name in _JOINING and call.args and isinstance(call.args[0], (ast.Tuple, ast.List)):
        return call.args[0].elts
    if not isinstance(call.func, ast.Attribute) or name:
        return None
    if call.func.attr in _IN_ORDER:
        return []
    is_plain = not any(each.arg in {"order", "memory_format"} for each in call.keywords)
    return [call.func.value] if call.func.attr in _KEEPING and is_plain else None


def _selects_rows(index: ast.expr) -> bool:
    """``x[:800]``, ``x[indices]``: rows as they are. Slices of other axes leave gaps, which are closed in any case."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    is_plain = all(isinstance(each, (ast.Slice, ast.Constant)) for each in parts)
    return is_plain or isinstance(index, ast.Name)


def _bound(module: Module, name: ast.Name) -> Sequence[_Source] | None:
    """All that the name is ever given in its function, or in the module; None where that is not seen."""
    found: list[_Source] = []
    function = module.function(name)
    if function is not None and name.id in signature(function).names:
        return None
    for store in module.stores.get(name.id, ()):
        if module.function(store) is not function:
            continue
        statement = module.statement(store)
        given = _given(module, statement, store) if isinstance(statement, ast.Assign) else None
        if given is None:
            return None
        found.append(given)
    return found or None


def _given(module: Module, statement: ast.Assign, store: ast.expr) -> _Source | None:
    """What an assignment gives to one of its targets."""
    for target in statement.targets:
        if target is store:
            return _Source(module, statement.value)
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Call) and store in target.elts:
            is_plain = not any(isinstance(each, ast.Starred) for each in target.elts)
            return _Source(module, statement.value, target.elts.index(store)) if is_plain else None
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            for one, value in zip(target.elts, statement.value.elts, strict=False):
                if one is store:
                    return _Source(module, value)
    return None
