"""Which expressions are NumPy arrays for certain, of which number format, and who else holds their memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import Container, External, Function, Made, Method, Tensor, owner_of, without_none
from codemods.facts.data.array_sources import (
    drawn,
    from_file,
    given_format,
    gives_axes,
    is_archive,
    is_float,
    is_frame,
    is_image,
    is_number,
    is_of,
    joins_arrays,
    least_axes,
    orders_axes,
    recording,
)
from codemods.facts.data.array_values import Array, all_dense, any_floats, any_of, computed, is_laid_out, same_float
from codemods.facts.data.bindings import Bindings, is_empty, item_of
from codemods.facts.data.environments import is_vector_environment, observes_arrays
from codemods.facts.data.replayed import put_into, remembered, remembered_item
from codemods.facts.loops import module_of
from codemods.library.ndarrays import (
    COMPUTE,
    CONSTRUCTORS,
    ENVIRONMENT_ARRAYS,
    FLOATS,
    FORMATS,
    FROM_FILES,
    GENERATORS,
    GIVE_FLOATS,
    HIERARCHICAL,
    METHODS,
    NEED_AXES,
    NEW_METHODS,
    ORDER,
    RANDOM_FLOATS,
    RANDOM_OTHERS,
    READERS,
    READERS_OF_PARTS,
    REDUCING,
    REPEATING,
    VIEW_METHODS,
    VIEWS,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

    _Of = Callable[[Module, ast.expr], Array | None]

_SEQUENCES = (ast.List, ast.Tuple, ast.ListComp)
_MANY = 6
"""Names that are bound more often are not followed."""


class Arrays:
    """What is known of arrays; every answer is certain, or there is none."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.bound = Bindings(flow)
        self._busy: set[ast.AST] = set()
        self._listed: set[ast.AST] = set()
        self.obstacle: tuple[Module, ast.expr] | None = None
        """The last name that is not known to be an array, as something else may be given to it."""

    def array(self, module: Module, node: ast.expr) -> Array | None:
        """The array that the expression is; None where it may be something else."""
        if node in self._busy:
            return None
        self._busy.add(node)
        before = self.obstacle
        try:
            array = self._of(module, node)
        finally:
            self._busy.discard(node)
        if array is not None:
            self.obstacle = before  # whatever of it is not known is none
        return array

    def _of(self, module: Module, node: ast.expr) -> Array | None:
        match node:
            case ast.Call():
                return self._call(module, node)
            case ast.BinOp():
                return self._computed(module, node)
            case ast.UnaryOp(ast.USub(), operand):
                inner = self.array(module, operand)
                return None if inner is None else inner._replace(is_new=True, owner=None, is_locked=False)
            case ast.IfExp(_, body, orelse):
                one, other = self.array(module, body), self.array(module, orelse)
                return None if one is None or other is None else any_of([one, other], one.owner or other.owner or node)
            case ast.Subscript(value):
                return self._item(module, value, node.slice)
            case ast.Attribute(value, "T"):
                return self.array(module, value)
            case ast.Attribute(value, "values") if is_frame(self._flow, value):
                return Array(owner=node, has_axes=True, is_dense=True, is_read=True, is_locked=True)
            case ast.Name() | ast.Attribute():
                return self._named(module, node)
        return None

    # Calls.

    def _call(self, module: Module, call: ast.Call) -> Array | None:
        callees = self._flow.values(call.func)
        if len(callees) > 1 and not isinstance(call.func, ast.Attribute):
            return None  # what is made depends on the run: `make = np.zeros if fast else list`
        for callee in callees:
            if isinstance(callee, External) and callee.name.startswith("numpy."):
                return self._function(module, callee.name.removeprefix("numpy."), call)
            if isinstance(callee, External) and callee.name in READERS:
                return Array(None, is_new=True, has_axes=True, is_dense=True, is_read=True)
            if isinstance(callee, (Function, Method)) and isinstance(callee.site, FUNCTIONS):
                return self._result(call)
        if observes_arrays(self._flow, call, is_whole=True):
            return Array(owner=call, has_axes=True)
        return self._method(module, call, call.func) if isinstance(call.func, ast.Attribute) else None

    def _function(self, module: Module, name: str, call: ast.Call) -> Array | None:
        keywords = {each.arg for each in call.keywords}
        if keywords & {"out", "copy", "order", "like", None}:
            return None
        if name in FROM_FILES:
            return from_file(self._flow, name, call)
        if name == "random.permutation":
            return Array(is_new=True, has_axes=True, is_dense=True)  # of a number, or of whatever has rows
        if name in RANDOM_FLOATS or name in RANDOM_OTHERS:
            return drawn(self._flow, name, call)
        if not call.args:
            return None
        if name in FLOATS:
            given = given_format(self._flow, call, FLOATS[name], "float64")
            axes = least_axes(call.args[0])
            return Array(given, is_new=True, has_axes=axes > 0, is_dense=True, has_several_axes=axes > 1)
        if name == "asarray" and self._is_list(module, call.args[0]):
            name = "array"
        if name in CONSTRUCTORS:
            inner = self.array(module, call.args[0]) or self.list_of(module, call.args[0])
            default = inner.format if name == "array" and inner is not None else None
            axes = name not in {"array", "full"} or self._is_list(module, call.args[0])
            axes = axes or (name == "array" and inner is not None and inner.has_axes)
            is_read = (inner is not None and inner.is_read) or is_of(self._flow, call.args[0], HIERARCHICAL)
            given = given_format(self._flow, call, CONSTRUCTORS[name], default)
            axes = axes or is_image(self._flow, call.args[0])
            several = name == "array" and inner is not None and inner.has_several_axes
            return Array(given, is_new=True, has_axes=axes, is_dense=True, is_read=is_read, has_several_axes=several)
        if name in FORMATS:
            # `np.float32(a)` converts, unless it is that already.
            inner = self.array(module, call.args[0])
            is_new = inner is not None and inner.format not in {None, name}
            axes, is_dense = inner is not None and inner.has_axes, inner is not None and inner.is_dense
            return Array(name, is_new, call.args[0], axes, is_dense)
        return self._of_arrays(module, name, call, keywords)

    def _of_arrays(self, module: Module, name: str, call: ast.Call, keywords: set[str | None]) -> Array | None:
        """What a function makes of arrays: a new one, or the same memory in another shape."""
        if name == "asarray" and is_image(self._flow, call.args[0]):
            converts = "dtype" in keywords or len(call.args) > 1
            given = given_format(self._flow, call, 1, None)
            return Array(given, is_new=True, has_axes=True, is_dense=True, is_locked=not converts)
        if name in REPEATING and not keywords - {"repeats", "reps", "axis"}:
            # Whatever says how often: ``np.tile(a, [n, 1])``.
            repeated = self.array(module, call.args[0])
            return None if repeated is None else computed(repeated.format, [repeated])
        if name in ORDER:
            is_array = self.array(module, call.args[0]) is not None
            return Array(is_new=True, has_axes=True, is_dense=True) if is_array else None
        arrays = [self.array(module, each) for each in call.args if not isinstance(each, ast.Constant)]
        if name == "asarray" and arrays == [None]:
            # An array, whatever it is given: perhaps in the memory of that.
            return Array(given_format(self._flow, call, 1, None), owner=call.args[0])
        if not arrays or any(each is None for each in arrays) or "dtype" in keywords:
            return None
        if name in COMPUTE:
            return computed(same_float(arrays), arrays)._replace(is_float=name in GIVE_FLOATS)
        (viewed,) = arrays if name in VIEWS and len(arrays) == 1 else (None,)
        if viewed is None:
            return None
        axes = (viewed.has_axes and name != "squeeze") or name in NEED_AXES
        return viewed._replace(has_axes=axes, is_dense=is_laid_out(name, viewed), has_several_axes=False)

    def _result(self, call: ast.Call, index: int | None = None, of: _Of | None = None) -> Array | None:
        """What the project's functions return that may be called there; they may keep hold of that.

        Args:
            call: The call.
            index: Which item of the tuple that they return is asked for, if not all of it.
            of: What is asked of that: ``list_of`` where it is a list of arrays.
        """
        functions = [each.site for each in self._flow.values(call.func)]
        # What returns nothing is no array either way: it is there for derived classes.
        ending = [each for each in functions if not isinstance(each, ast.FunctionDef) or self._ends(each)]
        results = [
            self._returned(each, call, index, of) if isinstance(each, ast.FunctionDef) else None for each in ending
        ]
        known = [each for each in results if each is not None]
        return any_of(known, call) if known and len(known) == len(results) else None

    def _handed_on(self, call: ast.Call, index: int) -> Array | None:
        """An item of what a function returns as another one returns it; none where that is the function itself."""
        if call in self._busy:
            return None
        self._busy.add(call)
        try:
            return self._part(call, index)
        finally:
            self._busy.discard(call)

    def _ends(self, function: ast.FunctionDef) -> list[ast.Return | ast.Yield | ast.YieldFrom]:
        own = self._flow.module_of(function)
        return [
            each
            for each in walk(function)
            if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)) and own.function(each) is function
        ]

    def _returned(
        self, function: ast.FunctionDef, call: ast.Call, index: int | None, of: _Of | None = None
    ) -> Array | None:
        own, ends = self._flow.module_of(function), self._ends(function)
        if function.decorator_list or not isinstance(function.body[-1], ast.Return):
            return None
        arrays = []
        for end in ends:
            value = end.value if isinstance(end, ast.Return) else None
            if index is not None and isinstance(value, ast.Call):
                array = self._handed_on(value, index) if of is None else None
            else:
                value = value if index is None else item_of(value, index)
                array = (of or self.array)(own, value) if value is not None else None
            if array is None:
                return None
            arrays.append(array)
        return any_of(arrays, call)

    def _method(self, module: Module, call: ast.Call, func: ast.Attribute) -> Array | None:
        if func.attr == "numpy" and not call.args:
            # Whatever has such a method is a tensor, of PyTorch or of another library.
            is_projects = any(isinstance(each.site, FUNCTIONS) for each in self._flow.values(func))
            return None if is_projects else Array(owner=func.value)
        if func.attr == "to_numpy" and is_frame(self._flow, func.value):
            return Array(owner=call, has_axes=True, is_dense=True, is_read=True, is_locked=True)
        if f"random.{func.attr}" in RANDOM_FLOATS and is_of(self._flow, func.value, tuple(GENERATORS)):
            return drawn(self._flow, f"random.{func.attr}", call)
        if func.attr not in METHODS:
            if all(not isinstance(each, External) for each in self._flow.values(func)):
                self._note(module, call)
            return None
        inner = self.array(module, func.value)
        if inner is None:
            return None
        if func.attr == "astype":
            # Without ``copy=False`` the result is always new.
            kept = any(each.arg == "copy" for each in call.keywords) or len(call.args) > 1
            given = given_format(self._flow, call, 0, None)
            return None if kept else computed(given, [inner])
        if func.attr in REDUCING and not any(each.arg in {"dtype", "out"} for each in call.keywords):
            floats = func.attr in GIVE_FLOATS or any_floats([inner])
            return Array(same_float([inner]), is_new=True, is_dense=True, is_float=floats)
        is_dense = is_laid_out(func.attr, inner)
        if func.attr in VIEW_METHODS:
            several = orders_axes(call)
            axes = several or gives_axes(func.attr, call.args) or (func.attr == "transpose" and inner.has_axes)
            return inner._replace(has_axes=axes, is_dense=is_dense, has_several_axes=several)
        return inner._replace(is_new=True, owner=None, is_dense=True, is_locked=False, has_several_axes=False)

    # Operators, items, names.

    def _computed(self, module: Module, node: ast.BinOp) -> Array | None:
        left, right = node.left, node.right
        one, other = self.array(module, left), self.array(module, right)
        if one is None and other is None:
            return None
        for each, known in ((left, one), (right, other)):
            if known is None and not is_number(self._flow, each):
                return None  # of an array and a tensor, PyTorch makes a tensor
        # A Python number keeps the format of floats; that of integers may change.
        both = [known for each, known in ((left, one), (right, other)) if not isinstance(each, ast.Constant)]
        floats = isinstance(node.op, ast.Div) or any_floats([one, other]) or any(map(is_float, (left, right)))
        several = any(known is not None and known.has_several_axes for known in (one, other))
        return computed(same_float(both), [one, other])._replace(is_float=floats, has_several_axes=several)

    def _is_list(self, module: Module, node: ast.expr) -> bool:
        """Whether it is a list or a tuple for certain, and no array."""
        values = self._flow.values(node)
        is_container = bool(values) and all(isinstance(each, Container) for each in values)
        return isinstance(node, _SEQUENCES) or is_container or self.list_of(module, node) is not None

    def _item(self, module: Module, value: ast.expr, index: ast.expr) -> Array | None:
        """A part of an array: a view, a copy, or a number of NumPy's own, which nothing can write to."""
        if isinstance(value, ast.Call) and isinstance(index, ast.Constant) and isinstance(index.value, int):
            part = self._part(value, index.value)
            if part is not None:
                return part
        if isinstance(index, ast.Constant) and isinstance(index.value, str) and is_archive(self._flow, module, value):
            return Array(is_new=True, is_dense=True, is_read=True)
        parts = index.elts if isinstance(index, ast.Tuple) else []
        is_slice = any(isinstance(each, ast.Slice) for each in (index, *parts))
        if is_slice and is_of(self._flow, value, HIERARCHICAL):
            return Array(is_new=True, has_axes=True, is_dense=True, is_read=True)
        inner = self.array(module, value)
        if inner is None:
            before = self.obstacle
            element = self._element(module, value) if not is_slice and not parts else None
            self.obstacle = before if element is not None else self.obstacle
            if element is None:
                self._note_item(module, value)
            return element
        if any(self._is_several(module, each) for each in parts or [index]):
            return inner._replace(owner=None, is_new=True, has_axes=True, is_dense=not parts, has_several_axes=False)
        is_gap = (isinstance(index, ast.Slice) and index.step is not None) or any(
            not isinstance(each, (ast.Name, ast.Constant)) for each in parts
        )
        is_dense = inner.is_dense and not is_gap
        owner = None if inner.is_new else inner.owner or value
        # A slice keeps its axis, whatever else is asked for; a number takes one away, an array puts its own there.
        axes = is_slice or (inner.has_several_axes and self._selects_rows(module, index))
        several = inner.has_several_axes and isinstance(index, ast.Slice)
        return inner._replace(owner=owner, has_axes=axes, is_dense=is_dense, has_several_axes=several)

    def _element(self, module: Module, value: ast.expr) -> Array | None:
        """What an item of a name is where that is a list of arrays, or an array at times; the list has it still."""
        if not isinstance(value, (ast.Name, ast.Attribute)):
            return None
        arrays: list[Array | None] = []
        for where, given in self.bound.assignments(module, value):
            whole = self.array(where, given) if given is not None else None
            if whole is not None:
                arrays.append(whole._replace(has_axes=False, has_several_axes=False))
            else:
                arrays += self._put_into(given) if given is not None else [None]
        known = [each for each in arrays if each is not None]
        return any_of(known, value) if known and len(known) == len(arrays) else None

    def _put_into(self, made: ast.expr) -> list[Array | None]:
        """The arrays that a list is made of, or that are put into it wherever it is named."""
        found: list[Array | None] = []
        for each in self._flow.values(made):
            is_list = isinstance(each, Container) and each.name == "list"
            put = put_into(self._flow, self.bound, each) if is_list else None
            found += [self.array(*item) for item in put] if put is not None else [None]
        return found or [None]

    def _is_several(self, module: Module, index: ast.expr) -> bool:
        """Whether it is an array or a list of indices: NumPy copies what they select."""
        array = self.array(module, index)
        return isinstance(index, ast.List) or (array is not None and array.has_axes)

    def _selects_rows(self, module: Module, index: ast.expr) -> bool:
        """Whether it is a number or an array, and no tuple of several."""
        is_constant = isinstance(index, ast.Constant) and isinstance(index.value, int)
        return is_constant or is_number(self._flow, index) or self.array(module, index) is not None

    def _part(self, call: ast.Call, index: int) -> Array | None:
        """An item of what is returned by a function of the project, an environment or ``map(np.stack, …)``."""
        callees = self._flow.values(call.func)
        if callees and all(isinstance(each.site, ast.FunctionDef) for each in callees):
            return self._result(call, index)
        if index == 0 and observes_arrays(self._flow, call, is_whole=False):
            return Array(owner=call, has_axes=True)
        (only,) = callees if len(callees) == 1 else (None,)
        if only is not None and only.name == "builtins.map" and joins_arrays(self._flow, call.args[0]):
            return Array(is_new=True, has_axes=True, is_dense=True)
        if only is not None and isinstance(only, External) and only.name in READERS_OF_PARTS:
            return recording(self._flow, only.name, call, index)
        arrays = ENVIRONMENT_ARRAYS.get(only.name, 0) if only is not None and isinstance(only, Method) else 0
        # The last of what a step returns is a dictionary.
        if only is not None and index < min(arrays, self.bound.items_taken(call, arrays + 1) - 1):
            return Array(owner=call, has_axes=True) if is_vector_environment(self._flow, owner_of(only)) else None
        return None

    def _made(self, node: ast.expr) -> Array | None:
        """What the expression is given on every way that leads to it, where NumPy made all of that; it may be kept."""
        values = without_none(self._flow.values(node))
        made = [each.site for each in values if isinstance(each, Made) and each.name.startswith("numpy.")]
        calls = [each for each in made if isinstance(each, ast.Call)]
        arrays = [self.array(module_of(self._flow, each), each) for each in calls]
        known = [each for each in arrays if each is not None]
        return any_of(known, node) if known and len(known) == len(values) else None

    def _named(self, module: Module, node: ast.Name | ast.Attribute) -> Array | None:
        """What all assignments of the name say, or those that reach it; it is held by the name."""
        return self._assigned(module, node) or self._made(node) or self._replayed(module, node)

    def _replayed(self, module: Module, node: ast.Name | ast.Attribute) -> Array | None:
        """What a loop takes out of a memory, where all that was put there is arrays; the memory has it still."""
        put = remembered_item(self._flow, self.bound, module, node) if isinstance(node, ast.Name) else ()
        arrays = [self.array(where, each) for where, each in put]
        known = [each for each in arrays if each is not None]
        return any_of(known, node) if known and len(known) == len(arrays) else None

    def _assigned(self, module: Module, node: ast.Name | ast.Attribute) -> Array | None:
        arrays: list[Array] = []
        assignments = list(self.bound.assignments(module, node))
        if len(assignments) > _MANY:
            self._note(module, node)
            return None
        for where, given in assignments:
            if given in self._busy or _is_nothing(given):
                continue  # `x = x / 255`: an array if the others are; of nothing no tensor is made either way
            known = self.array(where, given) if given is not None else None
            if known is None:
                if given is not None and self._is_later(node, given):
                    continue
                self._note(module, node) if given is None else self._note(where, given)
                return None
            arrays.append(known)
        if not arrays:
            return None
        shared = next((each.owner for each in arrays if each.owner is not None), None)
        return any_of(arrays, shared or node)

    def times_bound(self, module: Module, node: ast.expr) -> int:
        """How often the name is bound, where that is more often than is followed; else 0."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return 0
        times = len(list(self.bound.assignments(module, node)))
        return times if times > _MANY else 0

    def _note(self, module: Module, node: ast.expr) -> None:
        """Notes what is not known, where it is no part of a library."""
        named = node
        if isinstance(node, ast.Subscript) and self.bound.is_part(node):
            node = node.value
            named = node.func if isinstance(node, ast.Call) else node
        is_library = any(isinstance(each, External) for each in self._flow.values(named))
        if self.obstacle is None and not is_library:
            self.obstacle = module, node

    def _note_item(self, module: Module, owner: ast.expr) -> None:
        """Notes the item of a dictionary, or of an object, that is not known: not all of what has it."""
        item = module.parent(owner)
        is_dictionary = self.obstacle is not None and isinstance(self.obstacle[1], ast.Dict)
        if isinstance(item, ast.Subscript) and (is_dictionary or _is_self(owner)):
            self.obstacle = module, item

    def _is_later(self, node: ast.expr, given: ast.expr) -> bool:
        """Whether a name is given a tensor there that it never is here: ``x = torch.Tensor(x)``, and no loop around."""
        here, there = ({type(each) for each in self._flow.values(each)} for each in (node, given))
        return (
            isinstance(node, ast.Name)
            and not self.bound.is_part(given)
            and bool(here)
            and bool(there)
            and all(issubclass(each, Tensor) for each in there)
            and not here & there
        )

    # Lists.

    def list_of(self, module: Module, node: ast.expr) -> Array | None:
        """The array that each item of a list is, of their common format; None where one may be something else."""
        if node in self._listed:
            return None
        self._listed.add(node)
        try:
            known = self._items(module, node)
        finally:
            self._listed.discard(node)
        if not known:
            return None
        formats = {each.format for each in known}
        return Array(formats.pop() if len(formats) == 1 else None, is_dense=all_dense(known))

    def _items(self, module: Module, node: ast.expr) -> list[Array]:
        """The arrays that a list is made of; none where one may be something else."""
        put = remembered(self._flow, self.bound, module, node)
        if put:
            columns = [self.array(where, each) for where, each in put]
            known = [each for each in columns if each is not None]
            return known if len(known) == len(columns) else []
        match node:
            case ast.List(items) | ast.Tuple(items) if items:
                arrays = [self._listed_item(module, each) for each in items]
            case ast.ListComp(item):
                arrays = [self._listed_item(module, item)]
            case ast.Call():
                arrays = [self._result(node, of=self.list_of)]
            case ast.Subscript(ast.Call() as call, ast.Constant(int(index))) if self.bound.is_part(node):
                arrays = [self._result(call, index, self.list_of)]
            case ast.Name() if taken := remembered_item(self._flow, self.bound, module, node):
                arrays = [self.list_of(where, each) for where, each in taken]
            case ast.Name():
                arrays = [
                    self.list_of(where, each) if each is not None and not is_empty(each) else None
                    for where, each in self.bound.listed(module, node)
                    if each is None or not self._is_later(node, each)
                ]
            case _:
                return []
        known = [each for each in arrays if each is not None]
        return known if len(known) == len(arrays) else []

    def _listed_item(self, module: Module, item: ast.expr) -> Array | None:
        """An item of a list: an array, or a list of such; one that may be empty has a format of its own."""
        array = self.array(module, item)
        inner = self.list_of(module, item) if array is None else None
        if inner is None:
            return array
        return inner if isinstance(item, (ast.List, ast.Tuple)) else inner._replace(format=None)

    def made_by_methods(self, module: Module, node: ast.expr) -> ast.expr | None:
        """An item of a list that a method of arrays made of something else: ``observation.copy()``."""
        match node:
            case ast.List(items) | ast.Tuple(items):
                parts: list[ast.expr] = items
            case ast.ListComp(item):
                parts = [item]
            case ast.Name():
                lists = [each for _, each in self.bound.filled(module, node) if each is not None and not is_empty(each)]
                parts = [each.elts[0] for each in lists if isinstance(each, ast.List)]
            case _:
                return None
        methods = NEW_METHODS | {"astype"}
        return next((each for each in parts if _method_name(each) in methods), None)


def _is_nothing(node: ast.expr | None) -> bool:
    """Whether it is ``None``, which many names are given until there is something."""
    return isinstance(node, ast.Constant) and node.value is None


def _is_self(node: ast.expr) -> bool:
    """Whether it is an object that has items itself: ``self["actions"]``."""
    return isinstance(node, ast.Name) and node.id == "self"


def _method_name(node: ast.expr) -> str:
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return node.func.attr if is_method else ""  # type: ignore[attr-defined]
