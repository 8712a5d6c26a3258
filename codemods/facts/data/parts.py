"""The parts of batches: which of them a name holds, and whether they are tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.placement import dominates
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import NONE, Batch, Container, HostTensor, Literal, Made, Plain, SomeTensor, Value
from codemods.facts.data.elements import is_value_of_dictionary
from codemods.facts.reason import Reason
from codemods.library.packages import Trait, has

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.devices.transfers import Transfer

_NO_TENSOR = Reason("unknown-batch", "its collate_fn may return something else than tensors")


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
            place = _place_in_batch(loader.flow, move)
            for returned in loader.flow.returned(function):
                is_known = isinstance(returned, Container) and place in loader.flow.keys(returned)
                parts = loader.flow.items(returned, place) if is_known else {returned}
                if any(_may_be_object(loader.flow, each, set()) for each in parts):
                    return _NO_TENSOR
        elif value.name.startswith("transformers."):
            # A BatchEncoding, whose own `to` knows no non_blocking in all versions; its fields are tensors.
            if not is_value_of_dictionary(move.module, move.moved):
                return _NO_TENSOR
        elif not value.name.startswith("torch."):
            return _NO_TENSOR
    return None


def _place_in_batch(flow: Flow, move: Transfer) -> int | str | None:
    """Which part of each batch is moved: the key or position of an item, None where several may be or none is named."""
    module, moved = move.module, move.moved
    if not isinstance(moved, ast.Name):
        return _key_of_batch(flow, move, moved)
    stores = _stores(module, moved, aside=module.statement(move.call))
    found = {_place_stored(flow, move, store) for store in stores}
    return found.pop() if len(found) == 1 else None


def _stores(module: Module, read: ast.Name, aside: ast.stmt | None = None) -> list[ast.Name]:
    """Where the name was given what is read: in the innermost loop around it that certainly gives it anew, or anywhere.

    A loop over another loader may use the same names. What stands in the statement ``aside`` does not count.
    """
    stores = [
        each
        for each in module.nodes(ast.Name)
        if each.id == read.id
        and not isinstance(each.ctx, ast.Load)
        and module.function(each) is module.function(read)
        and module.statement(each) is not aside
    ]
    reading = module.statement(read)
    for loop in module.ancestors(reading):
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            inside = [each for each in stores if loop in module.ancestors(each)]
            if any(each in walk(loop.target) or dominates(module, module.statement(each), reading) for each in inside):
                return inside
    return stores


def _place_stored(flow: Flow, move: Transfer, store: ast.Name) -> int | str | None:
    """Which part of a batch the name is given: ``for …, (x, y) in loader``, ``x = batch["x"]``."""
    module = move.module
    parts = module.parent(store)
    if isinstance(parts, ast.Assign):
        return _key_of_batch(flow, move, parts.value)
    is_part = (
        isinstance(parts, ast.Tuple)
        and not any(isinstance(each, ast.Starred) for each in parts.elts)
        and _is_batch_of_loop(flow, move, parts)
    )
    return parts.elts.index(store) if is_part and isinstance(parts, ast.Tuple) else None


def _key_of_batch(flow: Flow, move: Transfer, node: ast.expr) -> int | str | None:
    """The key of ``batch["x"]``, where a loop over the loader alone gives ``batch``."""
    match node:
        case ast.Subscript(ast.Name() as batch, ast.Constant(int() | str() as key)):
            module = move.module
            stores = _stores(module, batch)
            return key if stores and all(_is_batch_of_loop(flow, move, each) for each in stores) else None
    return None


def _is_batch_of_loop(flow: Flow, move: Transfer, target: ast.expr) -> bool:
    """Whether a loop gives the target each batch of the loaders as it is: ``for batch in``, ``for i, batch in``."""
    loop = move.module.parent(target)
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
    if isinstance(value, Made) and has(value.name, Trait.ARRAYS):
        return False
    if not isinstance(value, Container):
        return not isinstance(value, (HostTensor, SomeTensor, Batch, Plain, Literal))
    if value in seen:
        return False
    seen.add(value)
    return any(_may_be_object(flow, each, seen) for each in flow.items(value))
