"""Which tensors does a loop cut batches from by hand, and could they be on the device before it?"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names
from codemods.dataflow.source import FUNCTIONS, LOOPS
from codemods.facts.data.host_uses import DESCRIBING, REGROUPING, why_written
from codemods.facts.data.layout import why_not_in_order
from codemods.facts.data.on_device import (
    bytes_of,
    said_alike,
    why_not_once,
    why_not_to_cuda,
    why_several,
    why_too_large,
)
from codemods.facts.devices.copies import is_cut_by_hand
from codemods.facts.reason import HERE, Reason, at
from codemods.library.tensors import copies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.devices.transfers import Transfer
    from codemods.facts.script import Script


class Cut(NamedTuple):
    """One batch that is cut from a tensor and moved: ``x[rows].to(device)``."""

    move: Transfer
    part: ast.Subscript
    tensor: ast.Name


class Ahead(NamedTuple):
    """How the tensors get to the device before the loop."""

    names: tuple[str, ...]
    move: str
    size: int


def cut_loops(script: Script) -> Iterator[tuple[ast.stmt, Sequence[Cut]]]:
    """The outermost loops of the module that cut batches from tensors that have names, with what they cut."""
    found: defaultdict[ast.stmt, list[Cut]] = defaultdict(list)
    for move in script.transfers:
        cut = _cut(script, move) if move.module is script.module else None
        loop = _outermost(script.module, move.call) if cut is not None else None
        if cut is not None and loop is not None and not _is_bound_in(script.module, loop, cut.tensor.id):
            found[loop].append(cut)
    yield from found.items()


def _cut(script: Script, move: Transfer) -> Cut | None:
    if not is_cut_by_hand(script, move):
        return None
    node: ast.expr = move.receiver
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in REGROUPING:
        node = node.func.value
    match node:
        case ast.Subscript(ast.Name() as tensor):
            return Cut(move, node, tensor)
    return None


def _is_bound_in(module: Module, loop: ast.stmt, name: str) -> bool:
    """Whether the loop gives the name a value: ``order = torch.randperm(n)`` in each epoch is no data."""
    stores = (each for each in module.stores.get(name, ()) if isinstance(each, ast.Name))
    return any(loop in module.ancestors(each) for each in stores)


def _outermost(module: Module, node: ast.AST) -> ast.stmt | None:
    """The outermost loop around the node in its function."""
    found = None
    for above in module.ancestors(node):
        if isinstance(above, FUNCTIONS):
            break
        found = above if isinstance(above, LOOPS) else found
    return found


def ahead(script: Script, loop: ast.stmt, cuts: Sequence[Cut]) -> Ahead | Reason:
    """How what the loop cuts batches from gets to the device before it; why it cannot, or should not."""
    module, flow = script.module, script.flow
    tensors = {each.tensor.id: each.tensor for each in cuts}
    moves = [each.move for each in cuts]
    reasons = (
        *(why_not_to_cuda(each) for each in moves),
        *(_why_a_view(script, each) for each in cuts),
        *(_why_used_otherwise(module, name, loop, cuts) for name in tensors),
        why_several(script),
        why_not_once(script, module, loop),
        why_written(module, loop, tensors.values()),
        *(why_not_in_order(flow, module, each) for each in tensors.values()),
    )
    reason = next((each for each in reasons if each is not None), None)
    if reason is not None:
        return reason
    said = said_alike(script, module, loop, moves)
    sizes = [bytes_of(script, module, each) for each in tensors.values()]
    unknown = next((each for each in (said, *sizes) if isinstance(each, Reason)), None)
    size = sum(each for each in sizes if isinstance(each, int))
    return unknown or why_too_large(size) or Ahead(tuple(tensors), str(said), size)


def _why_a_view(script: Script, cut: Cut) -> Reason | None:
    """Why a batch may be a view of the tensor on the device, whose address kernels may choose another order by."""
    if copies(script.flow, cut.part.slice):
        return None
    text = f"'{ast.unparse(cut.part)}' may be no copy on the device ({HERE}), and sums over it may round otherwise:"
    remedy = "select its rows by a tensor of indices"
    return Reason("made-by-hand", text, (at(cut.move.module, cut.move.call),), remedy)


def _why_used_otherwise(module: Module, name: str, loop: ast.stmt, cuts: Sequence[Cut]) -> Reason | None:
    """Where what has the name is used after the loop has begun, but for the batches."""
    function = module.function(loop)
    if function is not None and name not in bound_names(function):
        text = f"'{name}' is a name of the module, which the function of the loop only reads ({HERE}):"
        return Reason("no-name", text, (at(module, loop),), "move it to the device where it is made if it fits there")
    cut = {each.tensor for each in cuts}
    for node in module.nodes(ast.Name):
        if node.id != name or node in cut or not _is_same(module, node, function):
            continue
        is_here = module.function(node) is function
        if not (is_here and (module.span(node) < module.span(loop) or _asks_for_size(module, node))):
            text = f"'{name}' is used in another way than to cut batches from it ({HERE})"
            return Reason("used-on-host", text, (at(module, node),))
    return None


def _is_same(module: Module, name: ast.Name, function: Callee | None) -> bool:
    """Whether the name may be that of the function, or of the module: no function on the way binds it."""
    inner = module.function(name)
    while inner is not function:
        if inner is None or name.id in bound_names(inner):
            return False
        inner = module.function(inner)
    return True


def _asks_for_size(module: Module, name: ast.Name) -> bool:
    """``len(x)``, ``x.shape``."""
    match module.parent(name):
        case ast.Attribute(_, attribute):
            return attribute in DESCRIBING
        case ast.Call(ast.Name("len")):
            return True
    return False
