"""Where reading an item changes what other readings see: the data set, the script, or an array that either holds.

A worker changes its own copy. What a name of a function shares with the data set is followed on every way through it:
``points = self.points[index]`` is a view of an array, and ``points *= 0.5`` changes the data set; after
``points = points - 1`` it does not.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.forward import ForwardAnalysis
from codemods.dataflow.names import bound_names, scope_of, words
from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import (
    NOTHING,
    Choice,
    Class,
    Container,
    External,
    Function,
    Instance,
    Literal,
    Made,
    Plain,
    Tensor,
    Unknown,
    class_of,
    library_names,
    without_none,
)
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason
from codemods.facts.workers.obstacles import opens
from codemods.facts.workers.shared_state import CHANGING_FUNCTIONS, CHANGING_METHODS, OF_ARRAYS
from codemods.library.handles import opener
from codemods.library.operators import Memory, operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.effects import Doing
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.workers.payload import WorkerCode

    _Statement: TypeAlias = ast.Assign | ast.AugAssign | ast.AnnAssign

_HANDING_OUT = words("builtins.enumerate builtins.filter builtins.list builtins.reversed builtins.sorted builtins.zip")
"""A loop over what they return is given the very items of their arguments."""
# Functions of arrays whose result is in the memory of their argument, wherever that can be.
_SHARING = words(
    """
    numpy.asanyarray numpy.asarray numpy.ascontiguousarray numpy.atleast_1d numpy.atleast_2d numpy.expand_dims
    numpy.moveaxis numpy.ravel numpy.reshape numpy.squeeze numpy.swapaxes numpy.transpose torch.as_tensor
    torch.from_numpy
    """
)
_VIEWS = words("get iloc loc numpy ravel swapaxes")
"""Methods and attributes of arrays, tables and dictionaries that return what is in them."""
_OF_DICTIONARIES = frozenset({"items", "values"})
_IMMUTABLE = (Literal, Plain, Choice, External, Function, Class)
_COPIED_BY = (Made, Tensor, Container)
"""Indices that are arrays, masks or lists: what they select is copied."""


def why_changed(code: WorkerCode, *, stay: bool = False) -> Reason | None:
    """Where reading an item changes the data set or the script: a worker changes its own copy.

    Args:
        code: What runs in the workers.
        stay: Whether the workers live on: then a cache of their own serves them.
    """
    changes = _Changes(code, stay)
    for function in code.functions:
        node = changes.of(function)
        if node is not None:
            text = "reading an item changes the data set or the script, and a worker changes only its own copy"
            return Reason("dataset-changes", f"{text} ({HERE})", (code.at(node),))
    return None


@dataclass(eq=False)
class _Changes:
    code: WorkerCode
    stay: bool
    _followed: dict[tuple[Callee, frozenset[str]], Sequence[tuple[ast.AST, frozenset[str]]]] = field(
        default_factory=dict
    )

    @property
    def _flow(self) -> Flow:
        return self.code.flow

    @cached_property
    def _given(self) -> dict[Callee, frozenset[str]]:
        """The parameters of the functions that are given something that is shared."""
        found: dict[Callee, frozenset[str]] = {}
        is_done = False
        while not is_done:
            before = dict(found)
            for function in self.code.functions:
                outer = _outer_names(self.code, function)
                for node, names in self._shared(function, found.get(function, frozenset())):
                    if isinstance(node, ast.Call):
                        for callee, name in self._passed(node, outer | names):
                            found[callee] = found.get(callee, frozenset()) | {name}
            is_done = found == before
        return found

    def _passed(self, call: ast.Call, names: frozenset[str]) -> Iterator[tuple[Callee, str]]:
        """The parameters of functions that run in the workers to which a call passes something that is shared."""
        for callee in self._flow.values(call.func):
            function = self._flow.run_by(callee)
            if function is None or function not in self.code.functions:
                continue
            for name, given in self._flow.bind(function, call).filled():
                if any(self.is_shared(each, names) for each in given):
                    yield function, name

    def of(self, function: Callee) -> ast.AST | None:
        """Where the function changes what other readings see."""
        outer = _outer_names(self.code, function)
        for node, names in self._shared(function, self._given.get(function, frozenset())):
            if isinstance(node, ast.Global):
                return node
            if isinstance(node, ast.Delete):
                if any(not isinstance(each, ast.Name) and _first_name(each) in outer | names for each in node.targets):
                    return node
            elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                if self._is_written(function, node, outer, names):
                    return node
            elif isinstance(node, ast.Call) and self._changes(node, outer | names):
                return node
        return None

    def _shared(self, function: Callee, given: frozenset[str]) -> Sequence[tuple[ast.AST, frozenset[str]]]:
        """The statements and calls of a function, each with its own names for what is shared there."""
        if (function, given) not in self._followed:
            outer = _outer_names(self.code, function)
            self._followed[function, given] = sorted(
                self._follow(function, outer, given).items(), key=lambda each: _end(each[0])
            )
        return self._followed[function, given]

    def _follow(
        self, function: Callee, outer: frozenset[str], given: frozenset[str]
    ) -> Mapping[ast.AST, frozenset[str]]:
        walk_ = _Sharing(self, outer, given)
        if isinstance(function, ast.Lambda):
            return dict.fromkeys([each for each in walk(function) if isinstance(each, ast.Call)], given)
        walk_.run(function.body)
        # A function within runs at any time, with the names of the one around it.
        for inner in own(function, *FUNCTIONS):
            if inner is not function and isinstance(inner, FUNCTIONS):
                local = bound_names(inner)
                walk_.found.update(self._follow(inner, outer - local, walk_.ever - local))
        return walk_.found

    def hands_out_items(self, node: ast.expr, names: frozenset[str]) -> bool:
        """Whether a loop over the expression is given what the names are, or hold: ``enumerate(self.items)``."""
        if isinstance(node, ast.Call) and library_names(self._flow.values(node.func)) & _HANDING_OUT:
            return any(self.hands_out_items(each, names) for each in node.args)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_DICTIONARIES:
            return self.is_shared(node.func.value, names)
        return self.is_shared(node, names)

    def looped(self, target: ast.expr, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
        """What a loop binds, each with what it is an element of, if anything: ``for x, m in zip(images, means)``."""
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        given = node.args if isinstance(node, ast.Call) and not node.keywords else []
        if not any(isinstance(each, ast.Starred) for each in (*parts, *given)) and isinstance(node, ast.Call):
            called = library_names(self._flow.values(node.func))
            if called == {"builtins.zip"} and len(parts) == len(given):
                for part, each in zip(parts, given, strict=True):
                    yield from self.looped(part, each)
                return
            if called == {"builtins.enumerate"} and len(parts) == 2 and given:  # noqa: PLR2004 - number and element
                yield parts[0], None
                yield from self.looped(parts[1], given[0])
                return
        yield target, node

    def is_shared(self, node: ast.expr, names: frozenset[str]) -> bool:
        """Whether what the expression is may be held, or be in the memory of what is held, by what the names are."""
        if isinstance(node, ast.Name):
            return node.id in names
        if isinstance(node, ast.Attribute):
            return self.is_shared(node.value, names)
        if isinstance(node, ast.Subscript):
            is_copied = isinstance(node.slice, ast.Compare) or any(map(_copies, self._flow.values(node.slice)))
            return not is_copied and not self._is_made_when_read(node.value) and self.is_shared(node.value, names)
        if isinstance(node, ast.IfExp):
            return self.is_shared(node.body, names) or self.is_shared(node.orelse, names)
        return isinstance(node, ast.Call) and self._returns_shared(node, names)

    def _is_made_when_read(self, node: ast.expr) -> bool:
        """Whether items of the expression are read from a file, or are what code of their own makes."""
        values = without_none(self._flow.values(node))
        return any(isinstance(each, Instance) or opener(each.name) is not None for each in values)

    def _returns_shared(self, call: ast.Call, names: frozenset[str]) -> bool:
        """Whether what the call returns may be held, or be in the memory of what is held, by what the names are."""
        functions = self._flow.called(call)
        if functions:
            return any(self._hands_out(each) for each in functions)
        operand, method = self._operand(call)
        row = operator(method)
        is_view = row is not None and row.memory in {Memory.VIEW, Memory.EITHER, Memory.SELF}
        return operand is not None and (is_view or method in _VIEWS) and self.is_shared(operand, names)

    def _operand(self, call: ast.Call) -> tuple[ast.expr | None, str]:
        """What the call of a library's function or method works on, and the operator that it is, if it is one."""
        called = library_names(self._flow.values(call.func))
        if not called:
            func = call.func
            return (func.value, func.attr) if isinstance(func, ast.Attribute) else (None, "")
        first = call.args[0] if call.args else None
        if called <= _SHARING:
            return first, "view"
        tensors = {each.rpartition(".")[2] for each in called if each.startswith("torch.")}
        return first, min(tensors, default="")

    def _hands_out(self, function: Callee) -> bool:
        """Whether a function of the project returns something that its object holds: ``return self.items[index]``."""
        outer = _outer_names(self.code, function)
        returned = (each.value for each in walk(function) if isinstance(each, ast.Return) and each.value is not None)
        plain = (each for each in returned if not isinstance(each, (ast.Call, ast.IfExp)))
        return any(self.is_shared(each, outer) for each in plain)

    def _is_written(self, function: Callee, node: _Statement, outer: frozenset[str], own: frozenset[str]) -> bool:
        """Whether a statement writes into something that is shared, and more than what only this reading sees."""
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            is_text = isinstance(node.value, ast.JoinedStr) or isinstance(getattr(node.value, "value", None), str)
            values = without_none(self._flow.before(node).get(node.target.id, NOTHING))
            is_number = bool(values) and all(isinstance(each, _IMMUTABLE) for each in values)
            return node.target.id in own and not is_text and not is_number
        stored = [each for each in _stored(node) if _first_name(each) in outer | own]
        # `self.file = h5py.File(path)` on the first use: each worker opens its own.
        if not stored or opens(self._flow, function, node.value):
            return False
        return not all(self._is_own_affair(function, node, each) for each in stored)

    def _is_own_affair(self, function: Callee, node: ast.stmt, target: ast.expr) -> bool:
        """Whether no other reading, nor the script, sees what the statement writes, or may do without."""
        if isinstance(node, ast.AugAssign):
            return False
        if isinstance(target, ast.Subscript):
            held = target.value
            is_cached = self.stay and not self.code.draws and isinstance(held, ast.Attribute)
            return is_cached and _is_key(function, target.slice) and self._is_read_in_workers(held)
        if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
            return False
        is_flag = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is True
        return (is_flag and self._is_read_in_workers(target)) or self._is_scratch(function, node, target)

    def _is_read_in_workers(self, attribute: ast.expr) -> bool:
        """Whether only functions that run in the workers read the attribute, or those that make the data set."""
        readers = [module.function(each) for module, each in self._reads(attribute)]
        return all(each in self.code.functions or getattr(each, "name", "") == "__init__" for each in readers)

    def _is_scratch(self, function: Callee, node: ast.stmt, target: ast.Attribute) -> bool:
        """Whether each call of the function writes the attribute before it reads it, and nothing else reads it."""
        if isinstance(function, ast.Lambda) or node not in function.body:
            return False
        reads = self._reads(target)
        return all(module.function(each) is function and _end(each) > _end(node) for module, each in reads)

    def _reads(self, attribute: ast.expr) -> Iterator[tuple[Module, ast.Attribute]]:
        """Where an attribute of that name is read of an object of the data set's classes, or of what is not known."""
        for module in self._flow.modules:
            for node in module.nodes(ast.Attribute):
                if node.attr == getattr(attribute, "attr", "") and isinstance(node.ctx, ast.Load):
                    values = self._flow.values(node.value)
                    if any(isinstance(each, Unknown) or class_of(each) in self.code.classes for each in values):
                        yield module, node

    def _changes(self, call: ast.Call, names: frozenset[str]) -> bool:
        """Whether a call of a library's function or method changes something that is shared."""
        called = library_names(self._flow.values(call.func))
        if called & CHANGING_FUNCTIONS:
            return bool(call.args) and _first_name(call.args[0]) in names
        written = argument_of(call, "out")
        if written is not None and self.is_shared(written, names):
            return True
        operand, method = self._operand(call)
        row = operator(method)
        in_place = row is not None and row.memory is Memory.SELF and method != "requires_grad_"
        if in_place and operand is not None and self.is_shared(operand, names):
            return True
        if method == "shuffle" and call.args and _first_name(call.args[0]) in names:
            return True  # of a generator of the data set's own
        return method in CHANGING_METHODS | OF_ARRAYS and not called and _first_name(call.func) in names


class _Sharing(ForwardAnalysis[bool]):
    """A name holds whether it may be something that is shared."""

    def __init__(self, changes: _Changes, outer: frozenset[str], given: frozenset[str]) -> None:
        super().__init__(dict.fromkeys(given, True), bottom=False)
        self._changes = changes
        self._outer = outer
        self.ever = given
        """What was shared at some time."""
        self.found: dict[ast.AST, frozenset[str]] = {}
        """The statements and calls, each with the names that may be shared there."""

    @property
    def _shared(self) -> frozenset[str]:
        return frozenset(name for name, is_shared in self.names.items() if is_shared)

    def join(self, one: bool, other: bool) -> bool:  # noqa: FBT001 - what a name holds
        return one or other

    def of(self, node: ast.expr) -> bool:
        return self._changes.is_shared(node, self._outer | self._shared)

    def element(self, node: ast.expr) -> bool:
        return self._changes.hands_out_items(node, self._outer | self._shared)

    def iterated(self, target: ast.expr, node: ast.expr) -> None:
        for part, given in self._changes.looped(target, node):
            self.bind(part, given is not None and self.element(given))

    def unpacked(self, node: ast.expr, count: int) -> Sequence[bool]:
        return [self.of(node)] * count

    def augmented(self, statement: ast.AugAssign) -> bool:
        return self.of(statement.target)  # what is changed in place, or a new one

    def bound(self, target: ast.Name, held: bool) -> None:  # noqa: FBT001 - what a name holds
        self.ever |= {target.id} if held else frozenset()

    def reached(self, statement: ast.stmt) -> None:
        if isinstance(statement, _FOLLOWED):
            self._note(statement)

    def done(self, node: Doing, *, is_statement: bool) -> None:
        del is_statement
        if isinstance(node, ast.Call):
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        self.found[node] = self.found.get(node, frozenset()) | self._shared


_FOLLOWED = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.Global)


def _end(node: ast.AST) -> tuple[int, int, bool]:
    """Where the node ends; what is in a statement comes before that."""
    return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0), isinstance(node, ast.stmt)


def _copies(value: Value) -> bool:
    return isinstance(value, _COPIED_BY) and value.name != "tuple"


def _is_key(function: Callee, node: ast.expr) -> bool:
    """Whether it is a parameter of the function that it does not bind again: the index."""
    bound = {each.id for each in walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    given = {each.arg for each in signature(function).named}
    return isinstance(node, ast.Name) and node.id in given - bound


def _targets(statement: _Statement) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _stored(statement: _Statement) -> Iterator[ast.expr]:
    """The attributes and items that the statement writes; not ``self.size`` of ``x[: self.size] = 0``."""
    for target in _targets(statement):
        for each in walk(target):
            if isinstance(each, (ast.Attribute, ast.Subscript)) and isinstance(each.ctx, ast.Store):
                yield each


def _outer_names(code: WorkerCode, function: Callee) -> frozenset[str]:
    """The names in the function that stand for what it does not make itself: its object, and names of the module."""
    outside = bound_names(code.flow.module_of(function).tree) - bound_names(function) - scope_of(function).local
    first = signature(function).positional_names[:1]
    if code.flow.owner(function) in code.classes and getattr(function, "name", "") != "__init__":
        outside |= {*first}
    return outside


def _first_name(node: ast.expr) -> str:
    """The name that an attribute or item is reached from: ``self.cache[i].data`` → ``self``, as of ``type(self).n``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    match node:
        case ast.Call(ast.Name("type"), [argument]):
            node = argument
    return node.id if isinstance(node, ast.Name) else ""
