"""How many axes does an array of numbers have at most, or a tensor that is made of one?

A row of an array of two axes lies in memory in order however the array lies, also where many rows are indexed at once.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.values import library_names
from codemods.facts.data.array_sources import is_frame, is_of
from codemods.facts.data.bindings import Bindings, is_empty, item_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_MADE_OF = frozenset(
    {f"numpy.{each}" for each in words("array asarray ascontiguousarray")}
    | {f"torch.{each}" for each in words("tensor as_tensor from_numpy FloatTensor DoubleTensor LongTensor IntTensor")}
)
"""Functions whose result has the axes of what they are given: nested lists, an array or a tensor."""
_VECTORS = words("numpy.arange numpy.random.permutation torch.arange torch.randperm")
_TABLES = words("numpy.loadtxt numpy.genfromtxt")
_TABLE = 2
_SPLIT = "sklearn.model_selection.train_test_split"
_SCALERS = tuple(f"sklearn.preprocessing.{each}" for each in ("StandardScaler", "MinMaxScaler", "RobustScaler"))
_SCALING = words("fit_transform transform")
"""Their methods that make an array of a table."""
_OUTPUT = words("set_output set_config config_context")
_PLACES = (ast.Slice, ast.Constant, ast.UnaryOp)
"""What selects places of one axis: arrays in an index of several axes may lengthen it."""
_SINGLE = words("float int bool len ord str")
"""Functions of Python whose result is one number or one text."""
_KEEPING = words(
    """
    copy clip round mean std var sum float double half long int bool type to cpu numpy clone detach
    contiguous
    """
)
"""Methods whose result has no more axes than the array or tensor."""


class Axes:
    """Answers for one project; every answer is certain, or there is none."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._bound = Bindings(flow)
        self._busy: set[ast.AST] = set()
        self._is_made = False
        """Whether an array is made of what is asked for: ``values`` of a column of pandas may be none of NumPy's."""

    def most(self, module: Module, node: ast.expr) -> int | None:
        """The most axes that the array or tensor may have; None where it may be something else, or have any number."""
        if node in self._busy:
            return 0  # `x = x / 255`: what it is given elsewhere decides, as nothing that is followed adds an axis
        self._busy.add(node)
        try:
            return self._of(module, node)
        finally:
            self._busy.discard(node)

    def _of(self, module: Module, node: ast.expr) -> int | None:
        match node:
            case ast.Name() | ast.Attribute(ast.Name("self")):
                return self._named(module, node)
            case ast.Attribute(value, "T"):
                return self.most(module, value)
            case ast.Attribute(value, "values") if self._is_made:
                return _TABLE if is_frame(self._flow, value) else None
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right):
                return _largest(self._operand(module, each) for each in (left, right))
            case ast.Compare(left, [_], [right]):
                return _largest(self._operand(module, each) for each in (left, right))
            case ast.UnaryOp(ast.USub(), operand):
                return self.most(module, operand)
            case ast.Subscript(ast.Call() as call, ast.Constant(int() as index)) if self._bound.is_part(node):
                return self._part(module, call, index)
            case ast.Subscript(value, index):
                return self.most(module, value) if self._keeps_axes(module, index) else None
            case ast.Call():
                return self._call(module, node)
        return None

    def _operand(self, module: Module, node: ast.expr) -> int | None:
        return 0 if self._is_single(module, node) else self.most(module, node)

    def _named(self, module: Module, node: ast.Name | ast.Attribute) -> int | None:
        given = list(self._bound.assignments(module, node))
        return _largest(self.most(where, each) if each is not None else None for where, each in given)

    def _keeps_axes(self, module: Module, index: ast.expr) -> bool:
        """Whether what is indexed has no more axes than before: by numbers, slices and lists of rows."""
        match index:
            case ast.Slice() | ast.Constant(int()) | ast.UnaryOp(ast.USub(), ast.Constant(int())):
                return True
            case ast.Constant():
                return False  # `x[None]` adds one
            case ast.Tuple(parts):
                return all(isinstance(each, _PLACES) and self._keeps_axes(module, each) for each in parts)
        rows = self.most(module, index)
        return rows is not None and rows <= 1

    def _call(self, module: Module, call: ast.Call) -> int | None:
        names = library_names(self._flow.values(call.func))
        (name,) = names if len(names) == 1 else ("",)
        if name in _MADE_OF and call.args:
            is_plain = {each.arg for each in call.keywords} <= {"dtype", "device"}
            depth = self._depth(module, call.args[0])
            return (depth if depth is not None else self._made_of(module, call.args[0])) if is_plain else None
        if name in _VECTORS and call.args:
            is_vector = name != "numpy.random.permutation" or self._is_single(module, call.args[0])
            return 1 if is_vector else self.most(module, call.args[0])
        if name in _TABLES:
            return _TABLE if "ndmin" not in {each.arg for each in call.keywords} else None
        if not isinstance(call.func, ast.Attribute):
            return None
        if call.func.attr == "to_numpy" and is_frame(self._flow, call.func.value):
            return _TABLE
        if call.func.attr in _SCALING and is_of(self._flow, call.func.value, _SCALERS) and call.args:
            is_known = is_frame(self._flow, call.args[0]) or self._made_of(module, call.args[0]) is not None
            return _TABLE if is_known and not self._makes_frames() else None
        if call.func.attr == "astype":
            return self._made_of(module, call.func.value)
        return self.most(module, call.func.value) if call.func.attr in _KEEPING else None

    def _makes_frames(self) -> bool:
        """Whether the script may ask scikit-learn for tables of pandas instead of arrays."""
        modules = self._flow.modules
        return any(each.attr in _OUTPUT for module in modules for each in module.nodes(ast.Attribute)) or any(
            each.id in _OUTPUT for module in modules for each in module.nodes(ast.Name)
        )

    def _made_of(self, module: Module, node: ast.expr) -> int | None:
        before, self._is_made = self._is_made, True
        try:
            return self.most(module, node)
        finally:
            self._is_made = before

    def _part(self, module: Module, call: ast.Call, index: int) -> int | None:
        if {each.name for each in self._flow.values(call.func)} != {_SPLIT}:
            return _largest(self._returned(call, index))
        # Two parts of each array, which are arrays as well.
        is_plain = not any(isinstance(each, ast.Starred) for each in call.args) and index // 2 < len(call.args)
        return self.most(module, call.args[index // 2]) if is_plain else None

    def _returned(self, call: ast.Call, index: int) -> Iterator[int | None]:
        """The same of an item of what functions of the project return."""
        for callee in self._flow.values(call.func):
            function = callee.site
            if not isinstance(function, ast.FunctionDef) or function.decorator_list:
                yield None
                continue
            own = self._flow.module_of(function)
            ends = [
                each
                for each in own.nodes(ast.Return, ast.Yield, ast.YieldFrom)
                if own.function(each) is function  # what functions inside of it return is theirs
            ]
            for end in ends:
                item = item_of(end.value, index) if isinstance(end, ast.Return) else None
                yield self.most(own, item) if item is not None else None

    # Lists.

    def _depth(self, module: Module, node: ast.expr) -> int | None:
        """How deep lists of numbers are nested; None where they may hold something else."""
        match node:
            case ast.List(items) | ast.Tuple(items) if items:
                inner = _largest(self._item(module, each) for each in items)
            case ast.ListComp(item):
                inner = self._item(module, item)
            case ast.Name():
                filled = [each for each in self._bound.filled(module, node) if each[1] is None or not is_empty(each[1])]
                return _largest(self._depth(where, each) if each is not None else None for where, each in filled)
            case _:
                return None
        return None if inner is None else inner + 1

    def _item(self, module: Module, node: ast.expr) -> int | None:
        return 0 if self._is_single(module, node) else self._depth(module, node)

    def _is_single(self, module: Module, node: ast.expr) -> bool:
        """Whether it is one number, or one text, for certain."""
        match node:
            case ast.Constant():
                return True
            case ast.Call(ast.Name(name)):
                return name in _SINGLE and {each.name for each in self._flow.values(node.func)} == {f"builtins.{name}"}
            case ast.BinOp(left, _, right):
                return self._is_single(module, left) and self._is_single(module, right)
            case ast.UnaryOp(_, operand):
                return self._is_single(module, operand)
            case ast.IfExp(_, one, other):
                return self._is_single(module, one) and self._is_single(module, other)
            case ast.Subscript(ast.Name() as name):
                given = [each for _, each in self._bound.assignments(module, name)]
                return bool(given) and all(isinstance(each, ast.DictComp) and self._numbers(each) for each in given)
        return False

    def _numbers(self, made: ast.DictComp) -> bool:
        """Whether it gives each key its number: ``{name: number for number, name in enumerate(names)}``."""
        (part, *others) = made.generators
        if others or not isinstance(part.target, ast.Tuple) or not isinstance(part.iter, ast.Call):
            return False
        number = part.target.elts[0]
        is_number = isinstance(number, ast.Name) and isinstance(made.value, ast.Name) and number.id == made.value.id
        return is_number and {each.name for each in self._flow.values(part.iter.func)} == {"builtins.enumerate"}


def _largest(found: Iterable[int | None]) -> int | None:
    """The largest of the numbers; None where there is none, or one is not known."""
    known = list(found)
    numbers = [each for each in known if each is not None]
    return max(numbers) if numbers and len(numbers) == len(known) else None
