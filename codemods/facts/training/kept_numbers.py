"""Which attributes of models only ever hold numbers without a graph: a queue of keys, a running mean."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import External, Literal, Plain
from codemods.facts.attribute_access import written_by_name
from codemods.facts.autograd.carriers import may_carry
from codemods.library.operators import attribute as attribute_row
from codemods.library.operators import operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

_CUTTING = frozenset({"data", "detach"})


def holds_numbers_alone(flow: Flow, modules: Sequence[Module], name: str) -> bool:
    """Whether all that the project gives attributes of that name has no graph.

    What is detached has none, nor what is computed from that and from the attribute itself:
    ``self.queue = torch.cat([self.queue[n:], keys.detach()])``.
    """
    given = [pair for module in modules for pair in _given(flow, module, name)]
    return bool(given) and all(
        value is not None and _is_without(flow, value, name, _names(flow, module.function(value), name))
        for module, value in given
    )


def _given(flow: Flow, module: Module, name: str) -> Iterator[tuple[Module, ast.expr | None]]:
    """What attributes of the name are given, or have written into them; None where that is not seen."""
    for node in module.nodes(ast.Attribute):
        if node.attr != name:
            continue
        if not isinstance(node.ctx, ast.Load):
            yield module, _assigned(module, node)
            continue
        part = _part(module, node)
        above = module.parent(part)
        if isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            yield module, _assigned(module, part)
        elif isinstance(above, ast.Attribute):
            yield from ((module, each) for each in _written(module, above))
        elif _is_handed_on(flow, module, part):
            yield module, None
    for each in written_by_name(flow, module):
        if each.name in {name, None}:
            yield module, each.given


def _written(module: Module, method: ast.AST | None) -> Iterator[ast.expr | None]:
    """What methods write into a tensor: ``queue.mul_(0.9).add_(keys)``; None where that is not seen."""
    while isinstance(method, ast.Attribute) and method.attr.endswith("_") and not method.attr.endswith("__"):
        call = module.parent(method)
        if not isinstance(call, ast.Call) or call.keywords:
            yield None
            return
        yield from call.args
        method = module.parent(call)


def _is_handed_on(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether other code gets the tensor itself, and may write into it: a function, or a name by which that is done."""
    above = module.parent(node)
    if isinstance(above, ast.Call) and node in above.args:
        callees = flow.values(above.func)
        return not callees or not all(isinstance(each, External) and _is_torchs(each.name) for each in callees)
    targets = above.targets if isinstance(above, ast.Assign) and above.value is node else []
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    function = module.function(node)
    return bool(names) and (function is None or not names.isdisjoint(_changed(function)))


def _changed(function: Callee) -> Iterator[str]:
    """The names by which a function changes something in place."""
    for node in walk(function):
        match node:
            case ast.AugAssign(ast.Name(name)) | ast.Subscript(ast.Name(name), _, ast.Store()):
                yield name
            case ast.Call(ast.Attribute(ast.Name(name), method)) if method.endswith("_"):
                yield name


def _is_torchs(name: str) -> bool:
    """Whether it is a function of torch that computes something new."""
    return name.startswith("torch.") and name.rpartition(".")[2].islower() and not name.endswith("_")


def _part(module: Module, node: ast.expr) -> ast.expr:
    """``self.queue[a:b]`` of ``self.queue``, where a part of that is meant."""
    above = module.parent(node)
    while isinstance(above, ast.Subscript) and above.value is node:
        node, above = above, module.parent(above)
    return node


def _assigned(module: Module, target: ast.expr) -> ast.expr | None:
    match module.parent(target):
        case ast.Assign([_], value) | ast.AugAssign(_, _, value) | ast.AnnAssign(_, _, ast.expr() as value):
            return value
    return None


def _names(flow: Flow, function: Callee | None, attribute: str) -> frozenset[str]:
    """The names that only ever hold what has no graph in a function."""
    if function is None:
        return frozenset()
    stores: dict[str, list[ast.expr | None]] = {}
    for node in walk(function):
        match node:
            case ast.Assign([ast.Name(name)], value):
                stores.setdefault(name, []).append(value)
            case ast.Name(name, ast.Store()):
                stores.setdefault(name, []).append(None)
            case ast.Call(ast.Attribute(ast.Name(name), method)) if method.endswith("_"):
                stores.setdefault(name, []).append(None)
    # Each plain assignment is met twice: as a statement, and as the name in it.
    plain = {name: [each for each in given if each is not None] for name, given in stores.items()}
    plain = {name: given for name, given in plain.items() if 2 * len(given) == len(stores[name])}
    found: frozenset[str] = frozenset()
    while True:
        more = {
            name for name, given in plain.items() if all(_is_without(flow, each, attribute, found) for each in given)
        }
        if more <= found:
            return found
        found |= more


def _is_without(flow: Flow, node: ast.expr, name: str, names: frozenset[str]) -> bool:
    """Whether an expression has no graph, as these names have none, nor what is held so far."""
    values = flow.values(node)
    if values and all(isinstance(each, (Literal, Plain)) for each in values):
        return True
    match node:
        case ast.Name(each):
            return each in names or (bool(values) and not may_carry(flow, values))
        case ast.Attribute(value, attribute):
            row = attribute_row(attribute)
            is_cut = attribute in _CUTTING or (row is not None and not row.carries_graph)
            return (attribute == name and is_name(value, "self")) or is_cut or _is_without(flow, value, name, names)
        case ast.Subscript(value) | ast.UnaryOp(_, value) | ast.Starred(value):
            return _is_without(flow, value, name, names)
        case ast.Tuple(elements) | ast.List(elements):
            return all(_is_without(flow, each, name, names) for each in elements)
        case ast.BinOp(left, _, right):
            return _is_without(flow, left, name, names) and _is_without(flow, right, name, names)
        case ast.Call():
            return _call_is_without(flow, node, name, names)
    return isinstance(node, ast.Constant)


def _call_is_without(flow: Flow, call: ast.Call, name: str, names: frozenset[str]) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    callees = flow.values(call.func)
    if callees and all(isinstance(each, External) for each in callees):
        if any(each.arg == "requires_grad" for each in call.keywords):
            return False
        is_torchs = all(_is_torchs(each.name) for each in callees)
        return is_torchs and all(_is_without(flow, each, name, names) for each in given)
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _CUTTING:
        return True
    row = operator(call.func.attr)
    if row is None and call.func.attr not in {"to", "cuda", "cpu", "type", "type_as"}:
        return False
    if row is not None and not row.carries_graph:
        return True
    return all(_is_without(flow, each, name, names) for each in (call.func.value, *given))
