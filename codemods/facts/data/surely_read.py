"""What torch calls whenever a loop reads a loader: methods of its data set, and what joins the items to a batch."""

from __future__ import annotations

import ast
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import decorators, scope_of
from codemods.dataflow.source import FUNCTIONS, is_name, lasting
from codemods.dataflow.values import External, Function, Instance, Made, Method, library_names, without_none
from codemods.facts.data.loaders import Loader
from codemods.library.kinds import LOADER, PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value

_PASSING_ON = PROGRESS | {"builtins.enumerate", "builtins.zip", "builtins.iter"}
_DATA_SETS = ("torch.utils.data.Dataset", "torchvision.datasets.")
"""Bases of which it is known that they leave it to ``__getitem__`` to make an item: they have no ``__getitems__``."""
_LOOPS = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp)
_KEEPS = frozenset({"staticmethod", "classmethod"})


class Reading(NamedTuple):
    """A loop over a loader."""

    module: Module
    loop: ast.AST


@lasting
def surely_read(flow: Flow) -> Mapping[Callee, Sequence[Reading]]:
    """The functions that reading a loader runs, each with the loops that do; each loop is taken to get a batch."""
    functions: dict[Value, frozenset[Callee]] = {}
    for module in flow.modules:
        for call in flow.calls_of(module, {LOADER}):
            for value in flow.values(call):
                if isinstance(value, Made) and value.name == LOADER and value.site is call:
                    functions[value] = frozenset(_run_by(Loader(flow, module, value, call, call, ())))
    found: dict[Callee, list[Reading]] = {}
    # Where a loop reads one of several loaders, what all of them run is sure.
    places = {node: module for value, ran in functions.items() if ran for module, node in flow.places(value)}
    for node, module in places.items():
        ran = [functions.get(each, frozenset()) for each in without_none(flow.values(node))]
        common = frozenset.intersection(*ran)
        for loop in _loops(flow, module, node) if common else ():
            for function in common:
                found.setdefault(function, []).append(Reading(module, loop))
    return MappingProxyType(found)


def _loops(flow: Flow, module: Module, node: ast.expr, *, is_named: bool = False) -> Iterator[ast.AST]:
    """The loops over a loader, ``enumerate(loader)``, or the name of a progress bar around it."""
    here, above = node, module.parent(node)
    while isinstance(above, ast.Call) and here in above.args:
        names = library_names(flow.values(above.func))
        if not names or not names <= _PASSING_ON or not all(isinstance(x, External) for x in flow.values(above.func)):
            return
        here, above = above, module.parent(above)
    loops: list[ast.AST] = []
    if isinstance(above, (ast.For, ast.comprehension)):
        loop = above if isinstance(above, ast.For) else module.parent(above)
        loops = [loop] if above.iter is here and isinstance(loop, _LOOPS) else []
    else:
        bar = _named(module, above) if here is not node and not is_named else None
        loops = [] if bar is None else [loop for each in bar for loop in _loops(flow, module, each, is_named=True)]
    for loop in loops:
        function = module.function(loop)
        # A generator may never be asked for anything.
        if function is None or not scope_of(function).yields:
            yield loop


def _named(module: Module, binding: ast.AST | None) -> Sequence[ast.Name] | None:
    """The uses of the local name that is given something there and nowhere else; None where it is none."""
    match binding:
        case ast.Assign([ast.Name() as bound]) | ast.withitem(optional_vars=ast.Name() as bound):
            function = module.function(bound)
        case _:
            return None
    same = [each for each in module.nodes(ast.Name) if is_name(each, bound.id) and module.function(each) is function]
    is_once = [each for each in same if not isinstance(each.ctx, ast.Load)] == [bound]
    return [each for each in same if each is not bound] if is_once else None


def _run_by(loader: Loader) -> Iterator[Callee]:
    """The functions that are called for each batch of the loader."""
    if loader.unknown_arguments is not None:
        return
    collate = loader.arguments.get("collate_fn")
    joining = {_body(each) for each in collate.values} if collate is not None and not _is_set(loader) else {None}
    yield from (each for each in joining if each is not None and len(joining) == 1)
    flow, data = loader.flow, loader.dataset
    if not data.parts or data.why_replaced is not None:
        return
    items = {_method(flow, each, "__getitem__") for each in data.parts}
    yield from (each for each in items if each is not None and len(items) == 1)
    if {"sampler", "batch_sampler"}.isdisjoint(loader.arguments):
        lengths = {_method(flow, each, "__len__") for each in without_none(data.values)}
        yield from (each for each in lengths if each is not None and len(lengths) == 1)


def _is_set(loader: Loader) -> bool:
    """Whether the script gives the loader another collate function later."""
    return any(
        loader.value in loader.flow.values(node.value)
        for module in loader.flow.modules
        for node in module.nodes(ast.Attribute)
        if node.attr == "collate_fn" and isinstance(node.ctx, ast.Store)
    )


def _body(value: Value) -> Callee | None:
    """The function of the project that the value is."""
    function = value.site if isinstance(value, (Function, Method)) else None
    return function if isinstance(function, FUNCTIONS) and decorators(function) <= _KEEPS else None


def _method(flow: Flow, value: Value, name: str) -> Callee | None:
    """The method of a data set that torch calls for an item, or to know how many there are."""
    if not isinstance(value, Instance) or value.site is None:
        return None
    class_ = value.of.site
    bases = [each for each in flow.bases(class_) if isinstance(each, str)]
    method = flow.method(class_, name)
    is_plain = all(each.startswith(_DATA_SETS) for each in bases) and flow.method(class_, "__getitems__") is None
    return method if method is not None and is_plain and not decorators(method) else None
