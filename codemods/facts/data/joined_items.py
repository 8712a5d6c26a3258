"""Does a loader's ``collate_fn`` make new tensors of the items, and leave them as they are?

What reaches the training is then its own: whatever is done to a batch, the items stay the same.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned, decorators, words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import NONE, Class, External, Function, Instance, Made, Method, library_names
from codemods.facts.reach import own
from codemods.facts.workers.shared_state import changed_by, changes, changes_owner
from codemods.library.operators import Memory, operator
from codemods.library.repeating import method_repeats, repeats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee
    from codemods.facts.data.loaders import Loader

_DEFAULT = "torch.utils.data.default_collate"
_NEW = words(
    """
    builtins.bool builtins.float builtins.int builtins.len builtins.range builtins.str
    numpy.array numpy.concatenate numpy.full numpy.hstack numpy.ones numpy.stack numpy.vstack numpy.zeros
    torch.BoolTensor torch.FloatTensor torch.IntTensor torch.LongTensor torch.Tensor
    torch.nn.utils.rnn.pad_sequence torch.utils.data.default_collate
    """
)
"""Functions whose result shares no memory with what they are given."""
_AS_NEW = words("builtins.list builtins.max builtins.min builtins.sorted builtins.sum builtins.tuple")
_AS_NEW |= words("torch.as_tensor torch.from_numpy")
"""Functions whose result is new, or made of what is new, where their argument is."""
_OBJECTS = (Class, Instance, Made)
_KNOWN = ("numpy.", "torch.", "PIL.")
_NUMBERS = words("dim item nelement numel size tolist")
"""Methods that return numbers."""
_SHAPES = frozenset({"shape", "ndim", "dtype"})
_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_OF_LISTS = words("append extend insert reverse sort")


def hands_on_items(flow: Flow, loader: Loader) -> ast.AST | None:
    """What may hand the loader's items on as they are, or write to them; None where batches are new tensors."""
    given = loader.arguments.get("collate_fn")
    for value in given.values if given is not None else ():
        if value == NONE or (isinstance(value, External) and value.name == _DEFAULT):
            continue
        function = flow.run_by(value) if isinstance(value, (Function, Method, Instance)) else None
        if function is None or decorators(function) - {"staticmethod"}:
            return loader.call
        is_bound = not isinstance(value, Function) and not decorators(function)
        culprit = _Joining(flow, function, signature(function).positional_names[is_bound:][:1]).culprit
        if culprit is not None:
            return culprit
    return None


class _Joining:
    """A function that joins items to a batch."""

    def __init__(self, flow: Flow, function: Callee, items: Sequence[str]) -> None:
        self._flow = flow
        self._function = function
        self._items = items
        """The name of its list of items."""
        self._asked: set[str] = set()
        """The names that are looked at: each is new unless one of its values is not."""

    @property
    def culprit(self) -> ast.AST | None:
        """What of it may hand on an item, or write to one."""
        function = self._function
        if any(own(function, ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)):
            return function
        for call in own(function, ast.Call):
            if not self._only_reads(call):
                return call
        for _, change in changes(function):
            if not self._is_of_its_own(change):
                return change
        for statement in own(function, ast.AugAssign):
            if not self._is_new(statement.target):
                return statement
        returned = [each.value for each in own(function, ast.Return)]
        returned = [function.body] if isinstance(function, ast.Lambda) else returned
        return next((each or function for each in returned if each is None or not self._is_new(each)), None)

    def _only_reads(self, call: ast.Call) -> bool:
        """Whether a call does no more than to compute of what it is given."""
        values = self._flow.values(call.func)
        names = library_names(values)
        if names:
            is_known = all(isinstance(each, External) and repeats(each.name) for each in values)
            return is_known and not any(each.arg == "out" for each in call.keywords)
        return not self._runs_unknown(call) and isinstance(call.func, ast.Attribute) and method_repeats(call.func.attr)

    def _runs_unknown(self, call: ast.Call) -> bool:
        """Whether the call may run code of the project, or of an object that is no array, tensor or image."""
        for value in self._flow.values(call.func):
            owner = value.of if isinstance(value, Method) else None
            is_other = isinstance(owner, (Instance, Made)) and not owner.name.startswith(_KNOWN)
            if is_other or value.site is not None or isinstance(value, _OBJECTS):
                return True
        return False

    def _is_of_its_own(self, change: ast.expr) -> bool:
        """Whether what is changed is a list, an array or a tensor that the function made itself."""
        changed = changed_by(change)
        is_list = (
            isinstance(change, ast.Call) and isinstance(change.func, ast.Attribute) and change.func.attr in _OF_LISTS
        )
        if isinstance(changed, ast.Name) and is_list:
            return changed.id in self._items or self._is_made_here(changed)
        is_put = isinstance(change, ast.Subscript) and isinstance(changed, ast.Name) and self._is_made_here(changed)
        return is_put or self._is_new(changed)

    def _is_made_here(self, name: ast.Name) -> bool:
        """Whether it is a list or dictionary that is written out, or made by ``list(…)``."""
        values = self._given(name)
        return values is not None and all(
            isinstance(each, _DISPLAYS)
            or (isinstance(each, ast.Call) and library_names(self._flow.values(each.func)) <= {"builtins.list"})
            for each in values
        )

    def _given(self, name: ast.Name) -> list[ast.expr] | None:
        """What the name is given, where each of its bindings is an assignment to it alone."""
        stores = [each for each in walk(self._function) if is_name(each, name.id) and isinstance(each.ctx, ast.Store)]
        found: list[ast.expr] = []
        for statement in own(self._function, ast.Assign):
            found += [value for target, value in assigned(statement) if is_name(target, name.id)]
        found += [each.value for each in own(self._function, ast.AugAssign) if is_name(each.target, name.id)]
        is_parameter = name.id in signature(self._function).names
        return found if stores and len(stores) == len(found) and not is_parameter else None

    def _is_new(self, node: ast.expr) -> bool:  # noqa: C901 - one case for each kind of expression
        """Whether what the expression is shares no memory with an item."""
        match node:
            case ast.Constant() | ast.Compare() | ast.JoinedStr():
                return True
            case ast.Name():
                return self._is_new_name(node)
            case ast.Tuple(elements) | ast.List(elements) | ast.Set(elements):
                return all(map(self._is_new, elements))
            case ast.Dict(_, values):
                return all(map(self._is_new, values))
            case ast.ListComp(element) | ast.GeneratorExp(element) | ast.SetComp(element):
                return self._is_new(element)
            case ast.DictComp(_, value):
                return self._is_new(value)
            case ast.BinOp(left, _, right):
                return self._is_new(left) and self._is_new(right)
            case ast.UnaryOp(_, operand):
                return self._is_new(operand)
            case ast.IfExp(_, body, orelse):
                return self._is_new(body) and self._is_new(orelse)
            case ast.Attribute(inner, name):
                return name in _SHAPES or self._is_new(inner)
            case ast.Subscript(inner):
                return self._is_new(inner)
            case ast.Call():
                return self._makes_new(node)
        return False

    def _is_new_name(self, name: ast.Name) -> bool:
        if name.id in self._asked:
            return True
        self._asked.add(name.id)
        values = self._given(name)
        is_new = values is not None and all(map(self._is_new, values)) and all(map(self._is_new, self._added_to(name)))
        if not is_new:
            self._asked.discard(name.id)
        return is_new

    def _added_to(self, name: ast.Name) -> list[ast.expr]:
        """What is put into a list or array of that name: ``lengths.append(len(x))``; ``padded[i] = x`` is copied."""
        found: list[ast.expr] = []
        for call in own(self._function, ast.Call):
            if (
                isinstance(call.func, ast.Attribute)
                and is_name(call.func.value, name.id)
                and call.func.attr in _OF_LISTS
            ):
                found += call.args
        values = self._given(name) or []
        if any(isinstance(each, _DISPLAYS) for each in values):
            for statement in own(self._function, ast.Assign):
                stored = [each for each in statement.targets if isinstance(each, ast.Subscript)]
                found += [statement.value for each in stored if is_name(each.value, name.id)]
        return found

    def _makes_new(self, call: ast.Call) -> bool:
        names = library_names(self._flow.values(call.func))
        if names:
            return all(self._function_makes_new(each, call) for each in names)
        if not isinstance(call.func, ast.Attribute) or self._runs_unknown(call):
            return False
        method = call.func.attr
        row = operator(method)
        is_copy = (
            row is not None and row.memory is Memory.NEW and method not in {"long", "int", "short", "char", "bool"}
        )
        return method in _NUMBERS or is_copy or self._is_new(call.func.value)

    def _function_makes_new(self, name: str, call: ast.Call) -> bool:
        if name in _NEW:
            return True
        if name in _AS_NEW:
            return bool(call.args) and all(map(self._is_new, call.args))
        package, _, last = name.rpartition(".")
        row = operator(last) if package in {"torch", "torch.nn.functional"} else None
        return row is not None and row.memory is Memory.NEW and not changes_owner(last)
