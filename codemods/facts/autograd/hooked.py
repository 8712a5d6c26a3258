"""Where hooks keep what modules compute: ``acts[name] = output`` in a function given to ``register_forward_hook``."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import declared_outer
from codemods.dataflow.signatures import argument_of, arguments_of
from codemods.dataflow.source import children, lasting, walk
from codemods.dataflow.values import Class, Instance
from codemods.library.hooks import is_given_inputs_alone, is_given_outputs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Values

_DETACHES = frozenset({"detach", "data", "item"})
_PUTS = frozenset({"add", "append", "appendleft", "extend", "insert", "setdefault", "update"})


@dataclass(frozen=True, eq=False)
class Kept:
    """Something that a hook keeps."""

    place: ast.expr
    """The name or attribute that holds it, or the container that it is put into."""
    owners: Values
    """What the hook hangs on."""

    def is_named(self, flow: Flow, node: ast.AST) -> bool:
        """Whether the expression may be the place."""
        if isinstance(node, ast.Attribute):
            if not isinstance(self.place, ast.Attribute) or node.attr != self.place.attr:
                return False
            holders = [_classes(flow, each.value) for each in (node, self.place)]
            return not all(holders) or not holders[0].isdisjoint(holders[1])
        if not isinstance(node, ast.Name) or not isinstance(self.place, ast.Name) or node.id != self.place.id:
            return False
        here, there = flow.values(node), flow.values(self.place)
        return not here or not there or bool(here & there)


def _classes(flow: Flow, node: ast.expr) -> set[Class]:
    """The classes of the project that the expression may be an object of, where it is known to be nothing else."""
    values = flow.values(node)
    classes = {each.of for each in values if isinstance(each, Instance)}
    return classes if all(isinstance(each, Instance) for each in values) else set()


@lasting  # each model asks
def kept_by_hooks(flow: Flow, module: Module) -> tuple[Kept, ...]:
    """What the hooks that a module hangs up keep of what they are given, with its graph."""
    found = []
    for call in module.nodes(ast.Call):
        if not isinstance(call.func, ast.Attribute) or not is_given_outputs(call.func.attr):
            continue
        owners = flow.values(call.func.value)
        given = argument_of(call, "hook", 0)
        hooks = [flow.run_by(value) for value in flow.values(given)] if given is not None else []
        for hook in hooks:
            if hook is not None:
                count = 1 if is_given_inputs_alone(call.func.attr) else 2
                found += [Kept(place, owners) for place in _places(hook, count)]
    return tuple(found)


def _places(hook: Callee, count: int) -> Iterator[ast.expr]:
    """Where a hook keeps something of its last parameters."""
    carrying = {each.arg for each in [*hook.args.posonlyargs, *hook.args.args][-count:]}
    assigned = [each for each in walk(hook) if isinstance(each, ast.Assign)]
    outer = declared_outer(hook)
    for each in assigned:  # in the order of the text
        names = [target.id for target in each.targets if isinstance(target, ast.Name) and target.id not in outer]
        if names and _carries(each.value, carrying):
            carrying.update(names)
    for node in walk(hook):
        match node:
            case ast.Assign(targets, given) if _carries(given, carrying):
                yield from (
                    _without_items(each) for each in targets if not isinstance(each, ast.Name) or each.id in outer
                )
            case ast.Call(ast.Attribute(place, name)) if name in _PUTS:
                if any(_carries(each, carrying) for each in arguments_of(node)):
                    yield _without_items(place)


def _without_items(place: ast.expr) -> ast.expr:
    """The name or attribute whose items they are."""
    while isinstance(place, ast.Subscript):
        place = place.value
    return place


def _carries(node: ast.AST, carrying: set[str]) -> bool:
    """Whether the expression has one of the names in it that is not detached."""
    if isinstance(node, ast.Attribute) and node.attr in _DETACHES:
        return False
    if isinstance(node, ast.Name):
        return node.id in carrying
    return any(_carries(each, carrying) for each in children(node))
