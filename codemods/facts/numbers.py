"""Which expressions are tensors without dimensions: losses, and what is computed of them alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow import names
from codemods.dataflow.names import words
from codemods.dataflow.signatures import signature
from codemods.dataflow.values import Choice, External, Literal, Made, Plain, Tensor, without_none
from codemods.facts.loops import module_of
from codemods.facts.precision.floats import is_of_parameters
from codemods.facts.unreached import never_runs
from codemods.library.kinds import Kind, kind
from codemods.library.losses import is_loss_function
from codemods.library.operations import operation
from codemods.library.operators import Memory, Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value

_REDUCTIONS = words("max mean median min norm prod std sum var")
"""Methods and functions of torch that reduce a tensor to one number, if they are told no dimension."""
_REDUCING = frozenset(f"torch.{each}" for each in _REDUCTIONS)
_KEEPS_DIMENSIONS = words("abs clone contiguous cpu cuda detach exp log neg sqrt")
_COMPUTES = words("add div mul sub")
"""Methods whose result has the dimensions of the tensor, if what they are given has none."""
_HAVE_ALL_ITEMS = words("detach squeeze unsqueeze view")
"""Methods whose result has all items of the tensor, in its memory."""
_SCALES = words("mul div")
_KEPT_ON_THE_WAY = words("cpu cuda detach item numpy tolist")
_KEEP_RESULTS = words("staticmethod classmethod no_grad enable_grad inference_mode autocast")
"""Decorators of functions that return what the function does."""
_TO_ONE = frozenset({Literal("'mean'"), Literal("'sum'"), Literal("'batchmean'")})
"""What a loss is told that makes one number of all items."""
_BEFORE_REDUCE = dict.fromkeys((f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss", "NLLLoss2d")), 3)
"""How many arguments a loss takes that do not say whether it reduces: weights, whether it averages, what it ignores."""
_WITH_OUTPUT = "torch.nn.AdaptiveLogSoftmaxWithLoss"
"""Returns a pair."""


def is_item_of_number(flow: Flow, module: Module, node: ast.Subscript) -> bool:
    """Whether it is ``loss[0]``, ``loss.data.cpu().numpy()[0]`` and so on of a tensor without dimensions."""
    index = node.slice.value if isinstance(node.slice, ast.Constant) else None
    if type(index) is not int or not isinstance(node.ctx, ast.Load):  # True, None and ... are dimensions of their own
        return False
    inner: ast.expr = node.value
    while True:
        if isinstance(inner, ast.Call) and not inner.args and isinstance(inner.func, ast.Attribute):
            if inner.func.attr not in _KEPT_ON_THE_WAY:
                break
            inner = inner.func.value
        elif isinstance(inner, ast.Attribute) and inner.attr == "data":
            inner = inner.value
        else:
            break
    return _Numbers(flow, module).holds(inner)


def is_without_dimensions(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether the expression is a tensor without dimensions in every pass."""
    return _Numbers(flow, module).holds(node)


def is_number_alone(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether what ``item()`` reads in every pass is a new tensor, which keeps no memory but that of its one item."""
    while isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    is_new = isinstance(node, (ast.Name, ast.Call, ast.BinOp)) and is_without_dimensions(flow, module, node)
    return is_new or _Alone(flow, module).holds(node)


_Given: TypeAlias = "tuple[_Numbers, ast.expr]"
"""An expression, and what knows its module."""


class _Numbers:
    """Tells which expressions of a module are surely tensors without dimensions."""

    def __init__(
        self,
        flow: Flow,
        module: Module,
        known: dict[ast.expr, bool] | None = None,
        open_: set[tuple[Callee | None, str]] | None = None,
    ) -> None:
        self._flow = flow
        self._module = module
        self._known: dict[ast.expr, bool] = {} if known is None else known
        """What was asked so far; what is computed of itself counts as no number."""
        self._open: set[tuple[Callee | None, str]] = set() if open_ is None else open_
        """The containers whose items are being looked for, by their functions and names."""

    def _in(self, module: Module) -> _Numbers:
        return type(self)(self._flow, module, self._known, self._open)

    def holds(self, node: ast.expr) -> bool:
        """Whether the expression is a tensor without dimensions in every pass."""
        if node not in self._known:
            self._known[node] = False
            self._known[node] = self._holds(node)
        return self._known[node]

    def _holds(self, node: ast.expr) -> bool:
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self._all_hold(self._given(node))
        if isinstance(node, ast.UnaryOp):
            return self.holds(node.operand)
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right)
            found = [self.holds(each) for each in sides]
            return any(found) and all(
                is_number or self._is_plain(each) for is_number, each in zip(found, sides, strict=True)
            )
        if isinstance(node, ast.Subscript):
            return self._all_hold(self._items(node.value))
        if isinstance(node, ast.IfExp):
            return (self.holds(node.body) and self.holds(node.orelse)) or self._is_one_of_several(node)
        return isinstance(node, ast.Call) and self._call(node)

    def _is_one_of_several(self, node: ast.IfExp) -> bool:
        """``found[0] if isinstance(found, tuple) else found``: either has an ``item()``, or the script ends there."""
        match node.body, node.orelse:
            case (ast.Subscript(ast.Name(one), ast.Constant(int(index))), ast.Name(other)) if one == other:
                given = self._given(node.orelse) or []
                return bool(given) and all(where._is_at(each, index) for where, each in given)  # noqa: SLF001 - its own
        return False

    def _is_at(self, node: ast.expr, index: int) -> bool:
        """Whether each callee returns a tensor without dimensions, alone or at that place of what it writes out."""
        if not isinstance(node, ast.Call):
            return self._is_written_at(node, index)
        callees = without_none(self._flow.values(node.func))
        results = [self._returned(each) for each in callees if not self._reduces(each, node)]
        given = [each for several in results if several is not None for each in several]
        is_known = bool(callees) and all(results)
        return is_known and all(where._is_written_at(each, index) for where, each in given)  # noqa: SLF001 - its own

    def _is_written_at(self, node: ast.expr, index: int) -> bool:
        if not isinstance(node, (ast.Tuple, ast.List)):
            return self.holds(node)
        is_told = 0 <= index < len(node.elts) and not any(isinstance(each, ast.Starred) for each in node.elts)
        return is_told and self.holds(node.elts[index])

    @staticmethod
    def _all_hold(given: list[_Given] | None) -> bool:
        """Whether all of it is tensors without dimensions, but for the numbers that a sum starts from."""
        tensors = [(where, each) for where, each in given or () if not isinstance(each, ast.Constant)]
        return bool(tensors) and all(where.holds(each) for where, each in tensors)

    def _is_plain(self, node: ast.expr) -> bool:
        values = self._flow.values(node)
        if isinstance(node, ast.Constant) or _is_size(node):
            return True
        if values and all(isinstance(each, (Literal, Choice, Plain)) for each in values):
            return True
        given = self._given(node) if isinstance(node, ast.Name) else None
        return bool(given) and all(_is_size(each) for _, each in given or ())

    def _given(self, node: ast.expr) -> list[_Given] | None:
        """What a name or attribute is given, by every place that does; None where that is not all known."""
        home = self._home(node) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Name) and home is not None and self._is_parameter(home, node.id):
            return self._passed(home, node.id)
        found: list[_Given] = []
        for where, store in self._stores(node):
            given = where.bound_to(store)
            if given is None:
                return None
            found.extend(given)
        return found

    def _is_parameter(self, function: Callee, name: str) -> bool:
        return any(each.arg == name for each in signature(function).named)

    def _passed(self, function: Callee, name: str) -> list[_Given] | None:
        """What the calls of a function give a parameter that it does not bind anew; None where others may call it."""
        nodes = self._module.nodes(ast.Name)
        is_bound = any(
            each.id == name and isinstance(each.ctx, ast.Store) and self._module.function(each) is function
            for each in nodes
        )
        calls = self._flow.callers(function)
        if is_bound or not calls or self._flow.escapes(function):
            return None
        found: list[_Given] = []
        for call in calls:
            binding = self._flow.bind(function, call)
            given = binding.get(name) or signature(function).defaults.get(name)
            if not binding.is_whole or given is None:
                return None
            where = module_of(self._flow, call)
            found.append((self._in(where), given))
        return found

    def _stores(self, node: ast.expr) -> Iterator[tuple[_Numbers, ast.expr]]:
        """The places that bind a name of the function or module, or an attribute of that name of whatever object."""
        if isinstance(node, ast.Attribute):
            for module in self._flow.modules:
                where = self._in(module)
                yield from ((where, each) for each in module.attribute_stores.get(node.attr, ()))
        elif isinstance(node, ast.Name):
            home = self._home(node)
            if home is None or not self._is_parameter(home, node.id):
                for each in self._module.nodes(ast.Name):
                    is_here = each.id == node.id and self._module.function(each) is home
                    if is_here and isinstance(each.ctx, ast.Store):
                        yield self, each

    def _home(self, node: ast.Name) -> Callee | None:
        """The function of which it is a name; None for one of the module."""
        home = self._module.function(node)
        return home if home is not None and node.id in names.bound_names(home) else None

    def bound_to(self, store: ast.expr) -> list[_Given] | None:
        """What a target of an assignment is given; None of other targets."""
        parent = self._module.parent(store)
        if isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            return [(self, parent.value)] if parent.value is not None else []
        statement = self._module.parent(parent) if isinstance(parent, ast.Tuple) else None
        if not isinstance(parent, ast.Tuple) or not isinstance(statement, ast.Assign):
            return None
        results = [(self, statement.value)]
        if isinstance(statement.value, ast.Call):
            results = self._results(statement.value) or []
        found = []
        for where, each in results:
            items = where._items(each) if isinstance(each, ast.Name) else None  # noqa: SLF001 - its own
            if isinstance(each, ast.Tuple) and len(each.elts) == len(parent.elts):
                items = [(where, each.elts[parent.elts.index(store)])]
            if items is None:
                return None
            found.extend(items)
        return found or None

    def _items(self, container: ast.expr) -> list[_Given] | None:
        """The items of a list or dictionary that a function makes, and hands to no other; None where others may be."""
        if not isinstance(container, ast.Name) or self._home(container) is not self._module.function(container):
            return None
        which = (self._home(container), container.id)
        if which in self._open:
            return None  # `pair, rest = pair`
        self._open.add(which)
        found = self._items_of(container)
        self._open.remove(which)
        return found

    def _items_of(self, container: ast.Name) -> list[_Given] | None:
        found: list[_Given] = []
        for where, each in self._given(container) or ():
            match each:
                case ast.List(items) | ast.Tuple(items) | ast.Dict(values=items):
                    found.extend((where, item) for item in items)
                case _:
                    return None
        home = self._home(container)
        for each in self._module.nodes(ast.Name):
            if each.id == container.id and self._module.function(each) is home and isinstance(each.ctx, ast.Load):
                added = self._added(each)
                if added is None:
                    return None
                found.extend(added)
        return found

    def _added(self, container: ast.Name) -> list[_Given] | None:
        """What a use of a list or dictionary puts into it; None where that is not known."""
        parent = self._module.parent(container)
        above = self._module.parent(parent) if parent is not None else None
        match parent, above:
            case ast.Subscript(ctx=ast.Store()), _:
                return self.bound_to(parent)
            case ast.Attribute(attr="append"), ast.Call(args=[item]):
                return [(self, item)]
            case ast.Attribute(attr="items" | "keys" | "values"), ast.Call():
                return []
        is_read = isinstance(parent, (ast.Subscript, ast.For, ast.comprehension, ast.Return))
        builtin = isinstance(parent, ast.Call) and any(
            each.name.startswith("builtins.") for each in self._flow.values(parent.func)
        )
        return [] if is_read or builtin else None

    def _results(self, call: ast.Call) -> list[_Given] | None:
        """What the functions of the project return that are called; None where others may be."""
        found: list[_Given] = []
        for callee in without_none(self._flow.values(call.func)):
            results = self._returned(callee)
            if results is None:
                return None
            found.extend(results)
        return found

    def _returned(self, callee: Value) -> list[_Given] | None:
        """What a function of the project returns; None of all else that may be called."""
        function = self._flow.run_by(callee)
        if not isinstance(function, ast.FunctionDef) or not names.decorators(function) <= _KEEP_RESULTS:
            return None
        module = self._flow.module_of(function)
        returns = [
            each
            for each in module.nodes(ast.Return)
            if module.function(each) is function and not never_runs(self._flow, each)
        ]
        if names.scope_of(function).yields or any(each.value is None for each in returns):
            return None
        where = self._in(module)
        return [(where, each.value) for each in returns if each.value is not None]

    def _call(self, call: ast.Call) -> bool:
        # Of several losses to choose from, each is asked for itself.
        callees = without_none(self._flow.values(call.func))
        others = [self._returned(each) for each in callees if not self._reduces(each, call)]
        given = [each for results in others if results is not None for each in results]
        if callees and None not in others and (not others or self._all_hold(given)):
            return True
        if not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr.removesuffix("_") in _COMPUTES:
            # In place, a tensor keeps its dimensions, whatever it is computed with.
            is_in_place = call.func.attr.endswith("_")
            operands = () if is_in_place else call.args
            return self.holds(call.func.value) and all(self.holds(each) or self._is_plain(each) for each in operands)
        results = self._flow.values(call)
        is_of_parameter = bool(results) and all(map(is_of_parameters, results))
        if call.func.attr == "norm" and is_of_parameter:
            return len(call.args) <= 1 and not call.keywords  # else perhaps of rows
        if call.args or call.keywords:
            return False
        if call.func.attr in _KEEPS_DIMENSIONS:
            return self.holds(call.func.value)
        is_of_tensor = all(isinstance(each, Tensor) for each in self._flow.values(call.func.value))
        return call.func.attr in _REDUCTIONS and (is_of_parameter or is_of_tensor)

    def _reduces(self, callee: Value, call: ast.Call) -> bool:
        """Whether what is called surely returns a single number, as losses do that are not told otherwise."""
        if self._may_keep_items(call.keywords):
            return False
        if isinstance(callee, External):
            reduces = callee.name in _REDUCING and len(call.args) == 1 and not call.keywords
            return reduces or is_loss_function(callee.name)
        if kind(self._flow, callee) is not Kind.LOSS or not isinstance(callee, Made):
            return False
        made = callee.site
        if callee.name == _WITH_OUTPUT or not isinstance(made, ast.Call):
            return False
        if len(made.args) > _BEFORE_REDUCE.get(callee.name, 1) or any(
            isinstance(each, ast.Starred) for each in made.args
        ):
            return False
        return not self._may_keep_items(made.keywords)

    def _may_keep_items(self, keywords: Sequence[ast.keyword]) -> bool:
        """Whether a loss may be told not to make one number of all items; ``reduction="mean"`` tells it to."""
        return any(
            each.arg in {"reduce", None}
            or (each.arg == "reduction" and not frozenset() < self._flow.values(each.value) <= _TO_ONE)
            for each in keywords
        )


class _Alone(_Numbers):
    """Tells which expressions are surely tensors that are computed anew, where ``item()`` reads one of their items."""

    def _holds(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(keywords=[*keywords]) if any(each.arg in {"out", "inplace"} for each in keywords):
                return False
            case ast.Name():
                is_own = self._home(node) is self._module.function(node)  # a global one may be anybody's
                return is_own and self._all_hold(self._given(node))
            case ast.Subscript(ast.Call() as call, ast.Constant(int())):
                return self._are_all_alone(call) or (_is_first(node) and self._keeps_one(call))
            case ast.Subscript(value) if _is_first(node):
                return self._keeps_one(value)
            case ast.BinOp() | ast.UnaryOp():
                return True
        return isinstance(node, ast.Call) and self._call(node)

    def _are_all_alone(self, call: ast.Call) -> bool:
        """Whether a function returns a list of such tensors: ``accuracy(out, y)[0]``."""
        lists = self._results(call) or []
        items = [where._items(each) for where, each in lists]  # noqa: SLF001 - its own
        return bool(items) and all(self._all_hold(each) for each in items)

    def _keeps_one(self, node: ast.expr) -> bool:
        """Whether an item is all there is, if it is a number: of ``sum(0, keepdim=True)``, which may be scaled."""
        match node:
            case ast.Name():
                given = self._given(node) or []
                alone = [(where, each) for where, each in given if isinstance(where, _Alone)]
                return bool(given) and all(where._keeps_one(each) for where, each in alone)  # noqa: SLF001 - its own
            case ast.BinOp(left, ast.Mult() | ast.Div(), right):
                return self._keeps_one(left) and self._is_plain(right)
            case ast.Call(ast.Attribute(value, name), [factor], []) if name.removesuffix("_") in _SCALES:
                return self._keeps_one(value) and (name.endswith("_") or self._is_plain(factor))
            case ast.Call(ast.Attribute(attr="sum" | "mean"), [ast.Constant(0)], [ast.keyword("keepdim", is_kept)]):
                return isinstance(is_kept, ast.Constant) and is_kept.value is True
            case ast.Call(ast.Attribute(attr="sum" | "mean"), [ast.Constant(0), ast.Constant(True)], []):
                return True
        return False

    def _call(self, call: ast.Call) -> bool:
        row = operation(self._flow, call)
        if row is None:
            given = self._results(call)
            return given is not None and self._all_hold(given)
        if row.memory is Memory.NEW:
            return row.result not in {Result.SEVERAL, Result.INDEXED}
        if not isinstance(call.func, ast.Attribute):
            return False
        has_all = row.memory in {Memory.SELF, Memory.EITHER} or call.func.attr in _HAVE_ALL_ITEMS
        return has_all and self.holds(call.func.value)


def _is_first(node: ast.Subscript) -> bool:
    """``x[0]``."""
    return isinstance(node.slice, ast.Constant) and type(node.slice.value) is int and node.slice.value == 0


def _is_size(node: ast.expr) -> bool:
    """``x.size(0)``, ``x.shape[0]``, ``len(x)`` or ``x.numel()``, which are numbers of Python's."""
    match node:
        case ast.Call(ast.Attribute(attr="size"), [_]) | ast.Call(ast.Attribute(attr="numel"), []):
            return True
        case ast.Call(ast.Name("len"), [_]):
            return True
        case ast.Subscript(ast.Attribute(attr="shape"), index):
            return not isinstance(index, (ast.Slice, ast.Tuple))
    return False
