"""What is in one column of what a script remembers: all first items of the tuples that were put into a memory?

``states`` of ``states, actions = zip(*random.sample(memory, n))``, where ``memory.append((state, action))`` fills that.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import words
from codemods.dataflow.source import is_name
from codemods.dataflow.values import Container, Made, Method, library_names, without_none
from codemods.facts.data.collated import collated
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.data.bindings import Bindings

Given: TypeAlias = "tuple[Module, ast.expr]"

_DRAWS = words("random.sample random.choices")
_NAMED_TUPLE = "collections.namedtuple"
_ZIP = "builtins.zip"
_LISTS = frozenset({"builtins.list", "builtins.tuple"})
_ADDS = words("append appendleft")
_KEEPS = words("pop popleft clear count index copy remove rotate maxlen reverse")
"""Methods that put nothing into a list."""
_READS = (
    _DRAWS
    | words("random.shuffle random.choice")
    | frozenset(
        f"builtins.{name}"
        for name in words("len list tuple enumerate zip iter next reversed sorted print range sum any all")
    )
)
"""Functions that put nothing into a list that they are given."""


@dataclass(frozen=True)
class _Column:
    """``batch``, of whose tuples the items of that index, or of that name, are asked for."""

    batch: ast.expr
    key: int | str


def remembered(flow: Flow, bound: Bindings, module: Module, node: ast.expr) -> Sequence[Given]:
    """Everything that the list may hold, where it is a column of remembered tuples; nothing where not all is known."""
    column = _column(flow, bound, module, node)
    return _all_of(flow, bound, column) if column is not None else ()


def remembered_item(flow: Flow, bound: Bindings, module: Module, name: ast.Name) -> Sequence[Given]:
    """Everything that a name may be, where a loop takes remembered tuples apart: ``for state, action in batch:``."""
    store = _only_store(module, name)
    targets = module.parent(store) if store is not None else None
    if not isinstance(targets, ast.Tuple) or any(isinstance(each, ast.Starred) for each in targets.elts):
        return ()
    batch, taken = None, module.parent(targets)
    match taken:
        case ast.For(target, iterated) | ast.comprehension(target, iterated) if target is targets:
            batch = iterated
        case ast.Assign([target], ast.Name() as row) if target is targets:
            # ``for step in batch: state, action = step``
            loop = module.parent(_only_store(module, row) or row)
            batch = loop.iter if isinstance(loop, ast.For) and is_name(loop.target, row.id) else None
    index = next(i for i, each in enumerate(targets.elts) if each is store)
    return _all_of(flow, bound, _Column(batch, index)) if batch is not None else ()


def _only_store(module: Module, name: ast.Name) -> ast.expr | None:
    """The one place at which its function binds the name."""
    stores = [each for each in module.stores.get(name.id, ()) if module.function(each) is module.function(name)]
    return stores[0] if len(stores) == 1 and isinstance(stores[0], ast.expr) else None


def _all_of(flow: Flow, bound: Bindings, column: _Column) -> Sequence[Given]:
    found: list[Given] = []
    for items in _contents(flow, bound, column.batch):
        # What is no tuple cannot be taken apart: a memory may begin with None.
        rows = [item for item in items or () if not _is_nothing(item[1])]
        parts = [_parts(flow, bound, where, item, column.key) for where, item in rows]
        if not parts or any(some is None for some in parts):
            return ()
        found += [part for some in parts for part in some or ()]
    return found


def _contents(flow: Flow, bound: Bindings, batch: ast.expr) -> Iterator[Sequence[Given] | None]:
    """What is in each of the lists that a batch may be; None for one of which not all is known."""
    given = collated(flow, module_of(flow, batch), batch)
    if given:
        yield given
        return
    for each in _memories(flow, flow.values(batch)):
        yield put_into(flow, bound, each) if each is not None else None


def _column(flow: Flow, bound: Bindings, module: Module, node: ast.expr) -> _Column | None:
    match node:
        case ast.ListComp(ast.Attribute(ast.Name(item), name), [ast.comprehension(ast.Name(target), batch)]):
            return _Column(batch, name) if item == target else None
        case ast.ListComp(
            ast.Subscript(ast.Name(item), ast.Constant(int(index) | str(index))),
            [ast.comprehension(ast.Name(target), batch)],
        ):
            return _Column(batch, index) if item == target else None
        case ast.ListComp(ast.Name(item), [ast.comprehension(ast.Tuple(targets), batch)]):
            index_ = next((i for i, each in enumerate(targets) if is_name(each, item)), None)
            return _Column(batch, index_) if index_ is not None else None
        case ast.Attribute(ast.Name() as named, name):
            rows = _given(bound, module, named)
            match rows:
                case ast.Call(made, [ast.Starred(inner)], []) if _is_named_tuple(flow, made):
                    batch_ = _zipped(flow, inner)
                    return _Column(batch_, name) if batch_ is not None else None
        case ast.Subscript(ast.Name() as columns, ast.Constant(int(index))):
            match _given(bound, module, columns):
                case ast.Call(made, [inner], []) if _makes_list(flow, made):
                    batch_ = _zipped(flow, inner)
                    return _Column(batch_, index) if batch_ is not None else None
        case ast.Name():
            part = _given(bound, module, node)
            if isinstance(part, ast.Subscript) and bound.is_part(part) and isinstance(part.slice, ast.Constant):
                batch_ = _zipped(flow, part.value)
                return _Column(batch_, int(part.slice.value)) if batch_ is not None else None  # type: ignore[arg-type]
    return None


def _given(bound: Bindings, module: Module, name: ast.Name) -> ast.expr | None:
    """The one expression that the name is given."""
    given = [each for _, each in bound.assignments(module, name)]
    return given[0] if len(given) == 1 else None


def _zipped(flow: Flow, node: ast.expr) -> ast.expr | None:
    """``batch`` of ``zip(*batch)``."""
    match node:
        case ast.Call(function, [ast.Starred(batch)], []) if library_names(flow.values(function)) == {_ZIP}:
            return batch
    return None


def _makes_list(flow: Flow, function: ast.expr) -> bool:
    names = library_names(flow.values(function))
    return bool(names) and names <= _LISTS


def _is_named_tuple(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Made) and each.name == _NAMED_TUPLE for each in values)


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# Memories.


def _memories(flow: Flow, values: Values) -> Iterator[Value | None]:
    """The lists that the tuples of a batch are drawn from; None for whatever else it may be."""
    known = without_none(values)
    if not known:
        yield None
    for each in known:
        site = each.site
        if isinstance(each, Made) and each.name in _DRAWS and isinstance(site, ast.Call) and site.args:
            yield from _memories(flow, flow.values(site.args[0]))
        elif isinstance(each, Container) and each.name in {"list", "tuple"}:
            match site:
                case ast.ListComp(ast.Subscript(memory, ast.Name()), [_]):
                    yield from _memories(flow, flow.values(memory))
                case _:
                    yield each
        else:
            yield None


def put_into(flow: Flow, bound: Bindings, memory: Value) -> list[Given] | None:
    """What is put into a list, wherever the project names it; None where not all of that is seen."""
    items: list[Given] = []
    match memory.site:
        case ast.List(elts) | ast.Tuple(elts):
            items += [(module_of(flow, memory.site), each) for each in elts]
        case ast.ListComp(elt):
            items.append((module_of(flow, memory.site), elt))
        case ast.Call(_, [] | [ast.List([])]):
            pass
        case _:
            return None
    for module, named in flow.places(memory):
        put = _put(flow, bound, module, named)
        if put is None:
            return None
        items += [(module, each) for each in put]
    return items


def _put(flow: Flow, bound: Bindings, module: Module, named: ast.expr) -> list[ast.expr] | None:
    """What is put into a list where it is named: one thing or nothing; None where that is not seen."""
    above = module.parent(named)
    if isinstance(above, ast.AugAssign) and above.target is named:
        return None
    if isinstance(above, (ast.Call, ast.keyword)):
        return [] if _only_reads(flow, module, above) else None
    if isinstance(above, ast.Subscript) and above.value is named and not isinstance(above.ctx, ast.Load):
        given = bound.given(module, above) if isinstance(above.ctx, ast.Store) else None
        return [given] if given is not None else None
    if not isinstance(above, ast.Attribute) or above.value is not named:
        return []
    match module.parent(above):
        case ast.Call(function, [item], []) if function is above and above.attr in _ADDS:
            return [item]
    return [] if above.attr in _KEEPS else None


def _only_reads(flow: Flow, module: Module, above: ast.AST) -> bool:
    """Whether what is given the list puts nothing into it that is not seen: functions of the project are followed."""
    call = module.parent(above) if isinstance(above, ast.keyword) else above
    if not isinstance(call, ast.Call):
        return False
    values = flow.values(call.func)
    names = library_names(values)
    is_reading = all(each in _READS or each.startswith("numpy.") for each in names)
    return bool(flow.called(call)) or (bool(names) and len(names) == len(values) and is_reading)


# Tuples.


def _parts(flow: Flow, bound: Bindings, module: Module, item: ast.expr, key: int | str) -> list[Given] | None:
    """What stands at the place in a tuple that is put into a memory; None where that is not seen."""
    match item:
        case ast.Tuple(elts) | ast.List(elts) if isinstance(key, int) and key < len(elts):
            is_plain = not any(isinstance(each, ast.Starred) for each in elts)
            is_kept = isinstance(item, ast.Tuple) or not _is_replaced(flow, key)
            return [(module, elts[key])] if is_plain and is_kept else None
        case ast.Dict(keys, values) if isinstance(key, str) and not _is_replaced(flow, key):
            named = [
                each
                for one, each in zip(keys, values, strict=True)
                if isinstance(one, ast.Constant) and one.value == key
            ]
            is_plain = None not in keys and len(named) == 1
            return [(module, named[0])] if is_plain else None
        case ast.Call(made, arguments) if _is_named_tuple(flow, made):
            return _of_named(flow, module, item, arguments, key)
        case ast.Name():
            given = _given(bound, module, item)
            return _parts(flow, bound, module, given, key) if given is not None and not bound.is_part(given) else None
    return None


def _is_replaced(flow: Flow, index: int | str) -> bool:
    """Whether the project gives an item of that index, or key, another value anywhere: ``step[2] = reward``."""
    items = (each for module in flow.modules for each in module.nodes(ast.Subscript))
    stored = (each.slice for each in items if isinstance(each.ctx, ast.Store))
    return any(isinstance(each, ast.Constant) and each.value == index for each in stored)


def _of_named(
    flow: Flow, module: Module, item: ast.Call, arguments: Sequence[ast.expr], key: int | str
) -> list[Given] | None:
    kinds = {_fields(each) for each in flow.values(item.func)}
    fields = kinds.pop() if len(kinds) == 1 else ()
    if isinstance(key, str) and key not in fields:
        return None
    index = fields.index(key) if isinstance(key, str) else key
    named = next((each.value for each in item.keywords if index < len(fields) and each.arg == fields[index]), None)
    if named is not None:
        return [(module, named)]
    if any(isinstance(each, ast.Starred) for each in arguments):
        return _of_caller(flow, module, item, index)
    return [(module, arguments[index])] if index < len(arguments) else None


def _fields(value: Value) -> tuple[str, ...]:
    """``("state", "action")`` of ``namedtuple("Transition", "state action")``."""
    match value.site:
        case ast.Call(_, [_, ast.Tuple(names) | ast.List(names), *_]):
            return tuple(str(each.value) for each in names if isinstance(each, ast.Constant))
        case ast.Call(_, [_, ast.Constant(str(names)), *_]):
            return tuple(names.replace(",", " ").split())
    return ()


def _of_caller(flow: Flow, module: Module, item: ast.Call, index: int) -> list[Given] | None:
    """What the callers of ``def push(self, *args)`` give, which makes ``Transition(*args)`` of that."""
    function = module.function(item)
    if not isinstance(function, ast.FunctionDef) or flow.escapes(function) or function.args.vararg is None:
        return None
    is_all = len(item.args) == 1 and not item.keywords and isinstance(item.args[0], ast.Starred)
    named = [*function.args.posonlyargs, *function.args.args]
    is_method = flow.owner(function) is not None
    if not is_all or not is_name(item.args[0].value, function.args.vararg.arg) or len(named) != is_method:  # type: ignore[attr-defined]
        return None
    found: list[Given] = []
    for call in flow.callers(function):
        is_plain = not any(isinstance(each, ast.Starred) for each in call.args)
        is_bound = all(isinstance(each, Method) for each in flow.values(call.func)) or not is_method
        if not is_plain or not is_bound or index >= len(call.args):
            return None
        found.append((module_of(flow, call), call.args[index]))
    return found
