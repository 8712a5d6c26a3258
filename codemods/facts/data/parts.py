"""The parts of batches: which of them a name holds, and whether they are tensors."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import (
    NONE,
    NOTHING,
    UNKNOWN_KEY,
    Batch,
    Container,
    Instance,
    Literal,
    Made,
    Plain,
    Tensor,
    Unknown,
    Value,
    Values,
)
from codemods.facts.data.elements import is_value_of_dictionary
from codemods.facts.loops import module_of
from codemods.facts.reaching import targets
from codemods.facts.reason import HERE, Reason, at
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.devices.transfers import Transfer

_SEQUENCES = frozenset({"tuple", "list"})


def is_callers_batch(move: Transfer) -> bool:
    """Whether it is a part of a batch of the caller's, who is not seen, and is only used where it was moved to.

    ``def train(loader): for x, y in loader: x, y = x.to(device), y.to(device)``. From pageable memory the copy is over
    when the call returns, or what is copied has been put aside. A part of a tuple is a tensor where it has a ``to``.
    """
    module, name = move.module, move.receiver
    function, statement = module.function(move.call), module.statement(move.call)
    if not isinstance(name, ast.Name) or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if move.flow.callers(function) or not isinstance(statement, ast.Assign):
        return False
    loop = next((each for each in module.ancestors(statement) if isinstance(each, (ast.For, ast.AsyncFor))), None)
    if loop is None:
        return False
    iterated, target = loop.iter, loop.target
    while isinstance(iterated, ast.Call) and iterated.args and _passes_on(move.flow, iterated):
        is_numbered = any(each.name == "builtins.enumerate" for each in move.flow.values(iterated.func))
        target = target.elts[-1] if is_numbered and isinstance(target, ast.Tuple) else target
        iterated = iterated.args[0]
    is_part = isinstance(target, ast.Tuple) and any(is_name(each, name.id) for each in target.elts)
    stored = [each for target in statement.targets for each in walk(target)]
    others = [each for each in walk(statement.value) if is_name(each, name.id) and each is not name]
    if not is_part or others or not any(is_name(each, name.id) for each in stored):
        return False
    taken = signature(function)
    required = {each.arg for each in taken.named} - taken.defaults.keys()
    return isinstance(iterated, ast.Name) and iterated.id in required


def why_no_tensor(loader: Loader, move: Transfer) -> Reason | None:
    """Why the batch may be something else than a tensor, whose ``to`` may not know ``non_blocking``."""
    collate = loader.arguments.get("collate_fn")
    if collate is None or collate.values == {NONE}:
        # The default collate_fn makes tensors, and containers of tensors, which have no such method.
        return None
    for value in collate.values:
        function = loader.flow.run_by(value)
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            place, handed_on = place_in_batch(loader.flow, move), _handed_on(loader, function)
            for returned in loader.flow.returned(function):
                is_known = isinstance(returned, Container) and place in loader.flow.keys(returned)
                parts = loader.flow.items(returned, place) if is_known else {returned}
                if any(_may_be_object(loader.flow, each, set(handed_on)) for each in parts):
                    return _no_tensor(loader, move)
        elif value.name.startswith("transformers."):
            # A BatchEncoding, whose own `to` knows no non_blocking in all versions; its fields are tensors.
            if not is_value_of_dictionary(move.module, move.moved):
                return _no_tensor(loader, move)
        elif not value.name.startswith("torch."):
            return _no_tensor(loader, move)
    return None


def _handed_on(loader: Loader, collate: Callee) -> Values:
    """What the collate function's results may hold of the data set's items, if none of these has a ``to`` of its own.

    ``return tuple(zip(*batch))``: what has one there is a tensor. What is called on such an item is one, too, or fails.
    """
    flow = loader.flow
    if not loader.dataset.parts or not all(_gives_no_objects(flow, each) for each in loader.dataset.parts):
        return NOTHING
    names = flow.signature(collate).positional_names[:1]
    if isinstance(collate, ast.Lambda):
        reads = (each for each in walk(collate.body) if isinstance(each, ast.Name) and each.id in names)
        given = NOTHING.union(*map(flow.values, reads))
    else:
        given = NOTHING.union(*(flow.before(collate.body[0]).get(each, NOTHING) for each in names))
    return frozenset(each for each in given if isinstance(each, Unknown))


def _gives_no_objects(flow: Flow, data_set: Value) -> bool:
    """Whether what the data set gives holds tensors, and else only what has no ``to``."""
    class_ = data_set.of.site if isinstance(data_set, Instance) and data_set.of is not None else None
    if not isinstance(class_, ast.ClassDef) or flow.method(class_, "__getitems__") is not None:
        return False
    method = flow.method(class_, "__getitem__")
    given = NOTHING if method is None or _is_decorated(method) else flow.returned(method)
    return bool(given) and not any(_may_be_object(flow, each, set()) for each in given)


def _no_tensor(loader: Loader, move: Transfer) -> Reason:
    """That a loader's batch may be no tensor; which loader's, where the move is of several."""
    if len(move.loaders) == 1:
        return Reason("unknown-batch", "its collate_fn may return something else than tensors")
    text = f"the collate_fn of one of its loaders ({HERE}) may return something else than tensors"
    return Reason("unknown-batch", text, (at(loader.module, loader.call),))


def may_hand_out(loader: Loader, move: Transfer) -> bool:
    """Whether the move may be of the loader's batches: not where a loop unpacks them into more or fewer names.

    ``for x, y in loader`` fails for the batches of three parts that the loader of another task has.
    """
    parts = [_unpacked(loader.flow, move, each) for each in _origins(move)]
    counts = None if None in parts or not parts else {len(each.elts) for each in parts if each is not None}
    lengths = _lengths_of_batches(loader) if counts is not None else None
    return counts is None or lengths is None or not counts.isdisjoint(lengths)


def why_inputs_made_anew(loader: Loader, moves: Sequence[Transfer]) -> Reason | None:
    """Why pinning would be in vain for the first part of each batch, which is mostly the largest one.

    It becomes an array, ``x, y = batch; x = scaled(x.numpy())``, and what is moved is made of that.

    Args:
        loader: The loader, of whose batches some other part is moved as it came.
        moves: All moves to devices.
    """
    origins = [store for move in loader.moves for store in _origins(move)]
    unpackings = {_unpacking(loader, each) for each in origins}
    parts = unpackings.pop() if len(unpackings) == 1 else None
    first = parts.elts[0] if parts is not None else None
    if not isinstance(first, ast.Name) or first in origins:
        return None
    module = module_of(loader.flow, first)
    arrays = list(_made_arrays(module, first))
    for move in moves:
        if arrays and move.module is module and move not in loader.moves:
            read = [each for each in walk(move.receiver) if isinstance(each, ast.Name)]
            behind = set(closure(read, partial(_given, module)))
            array = next((each for each in arrays if each in behind), None)
            if array is not None:
                text = f"the first part of each batch becomes an array ({HERE}), and a new tensor of that is moved"
                return Reason("converted-on-host", f"{text}: pinning it is in vain", (at(module, array),))
    return None


def _made_arrays(module: Module, store: ast.Name) -> Iterator[ast.Name]:
    """Where what the name is given there becomes an array: the ``x`` of ``x.numpy()``."""
    for each in walk(module.function(store) or module.tree):
        match each:
            case ast.Attribute(ast.Name() as read, "numpy") if _stores(module, read) == [store]:
                yield read


def _unpacking(loader: Loader, store: ast.Name) -> ast.Tuple | None:
    """The names that a statement or a loop unpacks a batch into, of which this is one."""
    parts = module_of(loader.flow, store).parent(store)
    is_batch = any(isinstance(each, Batch) and each.of == loader.value for each in loader.flow.values(store))
    is_all = isinstance(parts, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in parts.elts)
    return parts if is_all and is_batch and isinstance(parts, ast.Tuple) else None


def _given(module: Module, read: ast.Name) -> list[ast.Name]:
    """The names in what the name was given by the assignments before it: ``x = f(y)``."""
    values = [getattr(module.parent(each), "value", None) for each in _stores(module, read)]
    return [
        each for value in values if isinstance(value, ast.expr) for each in walk(value) if isinstance(each, ast.Name)
    ]


def _origins(move: Transfer) -> list[ast.Name]:
    """The names that may have been given what is moved, before it was cut, cast or renamed: ``y = y[:8].float()``."""
    module = move.module

    def given_before(store: ast.Name) -> list[ast.Name]:
        assignment = module.parent(store)
        root = _root(assignment.value) if isinstance(assignment, ast.Assign) else None
        return _stores(module, root) if root is not None else []

    root = _root(move.moved)
    first = _stores(module, root, move.call) if root is not None else []
    return [each for each in closure(first, given_before) if not given_before(each)]


def _root(node: ast.expr) -> ast.Name | None:
    """``x`` of ``x[:8].float()``."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return None
    return node


def _unpacked(flow: Flow, move: Transfer, store: ast.Name) -> ast.Tuple | None:
    """The names that a loop unpacks each batch into, of which this is one."""
    parts = move.module.parent(store)
    is_all = isinstance(parts, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in parts.elts)
    return parts if is_all and isinstance(parts, ast.Tuple) and _is_batch_of_loop(flow, move, parts) else None


def _lengths_of_batches(loader: Loader) -> set[int] | None:
    """How many parts the loader's batches have; None where not all of that is known."""
    if loader.passing is None or loader.own_iteration is not None or loader.unknown_arguments is not None:
        return None
    found: set[int] = set()
    for maker in _makers(loader):
        returned = loader.flow.returned(maker) if maker is not None and not _is_decorated(maker) else NOTHING
        for each in returned:
            keys = loader.flow.keys(each) if isinstance(each, Container) and each.name in _SEQUENCES else frozenset()
            if not keys or UNKNOWN_KEY in keys:
                return None
            found.add(len(keys))
        if not returned:
            return None
    return found or None


def _makers(loader: Loader) -> Iterator[Callee | None]:
    """The functions whose results have as many parts as the loader's batches; None for what is not known."""
    flow, collate = loader.flow, loader.arguments.get("collate_fn")
    if collate is not None and collate.values != {NONE}:
        yield from (flow.run_by(each) for each in collate.values)
        return
    # The default collate_fn makes of items that are tuples a list of as many batches.
    for each in loader.dataset.parts:
        class_ = each.of.site if isinstance(each, Instance) and each.site is not None else None
        reads_several = class_ is not None and flow.method(class_, "__getitems__") is not None
        yield flow.method(class_, "__getitem__") if class_ is not None and not reads_several else None


def _is_decorated(function: Callee) -> bool:
    return not isinstance(function, ast.Lambda) and bool(function.decorator_list)


def place_in_batch(flow: Flow, move: Transfer) -> int | str | None:
    """Which part of each batch is moved: the key or position of an item, None where several may be or none is named."""
    module, moved = move.module, move.moved
    if not isinstance(moved, ast.Name):
        return _key_of_batch(flow, move, moved)
    found = {_place_stored(flow, move, store) for store in _stores(module, moved, move.call)}
    return found.pop() if len(found) == 1 else None


def _stores(module: Module, read: ast.Name, move: ast.Call | None = None) -> list[ast.Name]:
    """Where the name may have been given what is read; nothing where not all of that is seen.

    What stands in the statement of the move itself, ``x = x.to(device)``, does not count.
    """
    found = targets(module.function(read) or module.tree).of(read) or ()
    aside = module.statement(move) if move is not None else None
    return [each for each in found if module.statement(each) is not aside]


def _place_stored(flow: Flow, move: Transfer, store: ast.Name) -> int | str | None:
    """Which part of a batch the name is given: ``for …, (x, y) in loader``, ``x = batch["x"]``, ``x, y = batch``."""
    module = move.module
    parts = module.parent(store)
    if isinstance(parts, ast.Assign):
        return _key_of_batch(flow, move, parts.value)
    if not isinstance(parts, ast.Tuple) or any(isinstance(each, ast.Starred) for each in parts.elts):
        return None
    position = parts.elts.index(store)
    assignment = module.parent(parts)
    if not isinstance(assignment, ast.Assign):
        return position if _is_batch_of_loop(flow, move, parts) else None
    given = assignment.value
    if isinstance(given, ast.Name):
        return position if _is_whole_batch(flow, move, given) else None
    if not isinstance(given, ast.Tuple) or len(given.elts) != len(parts.elts):
        return None
    is_spread = any(isinstance(each, ast.Starred) for each in given.elts)
    return None if is_spread else _key_of_batch(flow, move, given.elts[position])


def _key_of_batch(flow: Flow, move: Transfer, node: ast.expr) -> int | str | None:
    """The key of ``batch["x"]``, where a loop over the loader alone gives ``batch``."""
    match node:
        case ast.Subscript(ast.Name() as batch, ast.Constant(int() | str() as key)):
            return key if _is_whole_batch(flow, move, batch) else None
    return None


def _is_whole_batch(flow: Flow, move: Transfer, name: ast.Name) -> bool:
    """Whether loops over the loader alone give the name what it holds there, whose items keep their places."""
    stores = _stores(move.module, name)
    is_batch = bool(stores) and all(_is_batch_of_loop(flow, move, each) for each in stores)
    return is_batch and not _is_rearranged(move.module, name)


def _is_rearranged(module: Module, name: ast.Name) -> bool:
    """Whether a list of that name is changed: ``batch.reverse()``, ``batch.pop(0)``, ``del batch[0]``."""
    for each in walk(module.function(name) or module.tree):
        match each:
            case ast.Attribute(ast.Name(changed), "insert" | "pop" | "remove" | "reverse" | "sort"):
                is_changed = True
            case ast.Subscript(ast.Name(changed)):
                is_changed = isinstance(each.ctx, ast.Del)
            case _:
                continue
        if is_changed and changed == name.id:
            return True
    return False


def _is_batch_of_loop(flow: Flow, move: Transfer, target: ast.expr) -> bool:
    """Whether a loop gives the target each batch of the loaders as it is: ``for batch in``, ``for i, batch in``."""
    loop = move.module.parent(target)
    if isinstance(loop, ast.For) and isinstance(target, ast.Tuple) and _is_number(flow, target.elts[0]):
        return False  # the number and the batch
    numbered = isinstance(loop, ast.Tuple) and len(loop.elts) == 2 and _is_number(flow, loop.elts[0])  # noqa: PLR2004
    loop = move.module.parent(loop) if loop is not None and numbered else loop
    return (
        isinstance(loop, ast.For) and target in walk(loop.target) and _hands_on_batches(flow, loop.iter, move.loaders)
    )


def _hands_on_batches(flow: Flow, node: ast.expr, loaders: Sequence[Value]) -> bool:
    """Whether iterating yields the loaders' batches as they are: the loader itself, ``enumerate(loader)``, ``tqdm``."""

    def wraps(each: ast.expr) -> list[ast.expr]:
        calls = [value.site for value in flow.values(each) - set(loaders)]
        return [call.args[0] for call in calls if isinstance(call, ast.Call) and call.args]

    return all(
        bool(flow.values(each)) and all(value in loaders or _passes_on(flow, value.site) for value in flow.values(each))
        for each in closure([node], wraps)
    )


def _passes_on(flow: Flow, call: ast.AST | None) -> bool:
    if not isinstance(call, ast.Call) or not call.args:
        return False
    names = {each.name for each in flow.values(call.func)}
    return bool(names) and all(each == "builtins.enumerate" or "tqdm" in each.lower() for each in names)


def _is_number(flow: Flow, node: ast.expr) -> bool:
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Plain) for each in values)


def _may_be_object(flow: Flow, value: Value, seen: set[Value]) -> bool:
    """Whether it is, or holds, an object with a ``to`` of its own: numbers, texts, arrays and containers have none."""
    is_array = isinstance(value, Made) and (has(value.name, Trait.ARRAYS) or value.name.startswith("PIL."))
    if is_array or value in seen:
        return False
    if not isinstance(value, Container):
        return not isinstance(value, (Tensor, Plain, Literal))
    seen.add(value)
    return any(_may_be_object(flow, each, seen) for each in flow.items(value))
