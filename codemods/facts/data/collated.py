"""What a collate function is given: all that ``__getitem__`` of its loaders' data sets returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.signatures import argument_of, signature
from codemods.dataflow.source import FUNCTIONS, is_name, lasting
from codemods.dataflow.values import NONE, Instance, class_of, library_names
from codemods.facts.data.datasets import Dataset
from codemods.facts.loops import module_of
from codemods.facts.reach import own
from codemods.library.kinds import LOADER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value

Given: TypeAlias = "tuple[Module, ast.expr]"
_COLLATE = 6
"""The place of ``collate_fn`` among the arguments of a loader."""
_ORDERS = (("sampler", 3), ("batch_sampler", 4))


def collated(flow: Flow, module: Module, name: ast.expr) -> Sequence[Given]:
    """Everything that an item of a batch may be, where the name is the batch that a collate function is given.

    Nothing where that is not the case, or where not all is known.
    """
    function = module.function(name)
    if not isinstance(name, ast.Name) or not isinstance(function, ast.FunctionDef):
        return ()
    is_first = signature(function).positional_names[:1] == (name.id,)
    loaders = _collating(flow).get(function, ()) if is_first and not _is_bound_anew(function, name.id) else ()
    items = [_items_of(flow, each) for each in loaders]
    if not items or not all(items) or not _only_collates(flow, function):
        return ()
    return [each for several in items for each in several]


@lasting
def _collating(flow: Flow) -> Mapping[Callee, Sequence[ast.Call]]:
    """The calls that make loaders, by the functions of the project that they may be given to collate with."""
    found: dict[Callee, list[ast.Call]] = {}
    for module in flow.modules:
        for call in flow.calls_of(module, {LOADER}):
            for value in _collate_functions(flow, call):
                if isinstance(value.site, FUNCTIONS):
                    found.setdefault(value.site, []).append(call)
    return found


def _collate_functions(flow: Flow, call: ast.Call) -> frozenset[Value]:
    given = argument_of(call, "collate_fn", _COLLATE)
    return flow.values(given) if given is not None else frozenset()


def _is_bound_anew(function: ast.FunctionDef, name: str) -> bool:
    return any(is_name(each, name) and not isinstance(each.ctx, ast.Load) for each in own(function, ast.Name))


def _only_collates(flow: Flow, function: ast.FunctionDef) -> bool:
    """Whether the function is only given to loaders, maybe by other names, so that nothing else calls it."""
    loaders = _collating(flow)[function]
    values = {each for call in loaders for each in _collate_functions(flow, call) if each.site is function}
    return not flow.callers(function) and all(
        _is_handed_on(module, named, loaders) for value in values for module, named in flow.places(value)
    )


def _is_handed_on(module: Module, named: ast.expr, loaders: Sequence[ast.Call]) -> bool:
    """Whether the function is bound to a name there, chosen by a condition, or given to a loader."""
    above = module.parent(named)
    if isinstance(above, ast.IfExp):
        return True  # which is looked at itself
    call = module.parent(above) if isinstance(above, ast.keyword) else above
    is_store = isinstance(getattr(named, "ctx", None), ast.Store)
    return is_store or isinstance(above, (ast.Assign, ast.AnnAssign)) or any(call is each for each in loaders)


def _items_of(flow: Flow, call: ast.Call) -> Sequence[Given]:
    """Everything that the items of a loader's data set may be; nothing where not all is known."""
    dataset, size = argument_of(call, "dataset", 0), argument_of(call, "batch_size", 1)
    is_spread = any(each.arg is None for each in call.keywords) or any(
        isinstance(each, ast.Starred) for each in call.args
    )
    if dataset is None or is_spread or (size is not None and NONE in flow.values(size)):
        return ()
    read = Dataset(flow, flow.values(dataset))
    if read.why_unknown is not None or read.is_iterable:
        return ()
    orders = [argument_of(call, *each) for each in _ORDERS]
    is_in_order = all(each is None or flow.values(each) == {NONE} for each in orders)
    items = [_returned(flow, each, may_slice=not is_in_order) for each in read.parts]
    return [each for several in items for each in several] if all(items) else ()


def _returned(flow: Flow, part: Value, *, may_slice: bool) -> Sequence[Given]:
    """Everything that ``__getitem__`` of a data set of the project may return for the indices of a loader."""
    class_ = class_of(part) if isinstance(part, Instance) else None
    if class_ is None or flow.method(class_, "__getitems__") is not None:
        return ()
    method = flow.method(class_, "__getitem__")
    if not isinstance(method, ast.FunctionDef) or method.decorator_list or any(True for _ in own(method, ast.Yield)):
        return ()
    module = module_of(flow, method)
    ends = [each for each in own(method, ast.Return) if may_slice or not _is_for_slices(flow, module, each)]
    values = [each.value for each in ends]
    return [(module, each) for each in values if each is not None] if None not in values else ()


def _is_for_slices(flow: Flow, module: Module, end: ast.Return) -> bool:
    """Whether it is under ``if isinstance(index, slice):``, which no index of a loader is."""
    below: ast.AST = end
    for above in module.ancestors(end):
        match above:
            case ast.If(ast.Call(function, [_, ast.Name("slice")]), body) if below in body:
                if library_names(flow.values(function)) == {"builtins.isinstance"}:
                    return True
        below = above
    return False
