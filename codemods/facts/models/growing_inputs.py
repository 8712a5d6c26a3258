"""Where is a model called with an input that a loop makes longer in each pass, as text is generated?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import LOOPS, is_name, lasting, unparsed, walk
from codemods.dataflow.values import Instance, class_of, library_names
from codemods.facts.models.placement import unwrapped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value

_CONCATENATES = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.hstack"})


def grown(flow: Flow, model: Value) -> tuple[Module, ast.Call] | None:
    """The first call of a model with an input that grows, whether it is called by a name or calls itself."""
    return next(
        (
            (module, call)
            for module, call in _growing(flow)
            if any(model in unwrapped(flow, each) or _is_its_own(each, model) for each in flow.values(call.func))
        ),
        None,
    )


def _is_its_own(called: Value, model: Value) -> bool:
    """Whether it is the ``self`` of the model's class."""
    is_self = isinstance(called, Instance) and called.site is None
    return is_self and isinstance(model, Instance) and class_of(called) is class_of(model)


@lasting  # each model asks
def _growing(flow: Flow) -> tuple[tuple[Module, ast.Call], ...]:
    """The calls in loops that are given what the loop concatenates with something: ``model(text[:, -size:])``."""
    return tuple(
        (module, call) for module in flow.modules for loop in module.nodes(*LOOPS) for call in _calls(flow, loop)
    )


def _calls(flow: Flow, loop: ast.AST) -> Iterator[ast.Call]:
    assigned = [each for each in walk(loop) if isinstance(each, ast.Assign)]
    target = loop.target if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    fresh = {each.id for each in walk(target) if isinstance(each, ast.Name)} if target is not None else set()
    longer = {name for each in assigned for name in _concatenated(flow, each)} - fresh
    # `window = text[:, -size:]`: a part of it grows, too, until it is as long as it may be.
    longer |= {
        each.targets[0].id
        for each in assigned
        if longer and isinstance(each.targets[0], ast.Name) and _is_part(each.value, longer)
    }
    for each in walk(loop) if longer else ():
        if isinstance(each, ast.Call) and any(_is_part(given, longer) for given in each.args):
            yield each


def _is_part(node: ast.expr, names: Collection[str]) -> bool:
    """Whether it is one of the names, a slice of it, or one of both as a condition says."""
    match node:
        case ast.Name(name):
            return name in names
        case ast.Subscript(whole, index):
            slices = index.elts if isinstance(index, ast.Tuple) else [index]
            return _is_part(whole, names) and not any(map(_is_one, slices))
        case ast.IfExp(_, body, orelse):
            return _is_part(body, names) and _is_part(orelse, names)
    return False


def _is_one(index: ast.expr) -> bool:
    """Whether it is an item, or the last one: ``text[:, 0]``, ``text[:, -1:]``."""
    return not isinstance(index, ast.Slice) or unparsed(index) == "-1:"


def _concatenated(flow: Flow, statement: ast.Assign) -> Iterator[str]:
    """``text = torch.cat([text, token], dim=1)``: what is given itself and more."""
    match statement:
        case ast.Assign([ast.Name(name)], ast.Call(func, [ast.Tuple(parts) | ast.List(parts), *_])):
            if library_names(flow.values(func)) & _CONCATENATES and any(is_name(each, name) for each in parts):
                yield name
