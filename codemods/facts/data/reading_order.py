"""What runs before all readings of a loader, and what between two batches of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.facts.data.reads import runs_meanwhile
from codemods.facts.loops import may_give, module_of, places_that_run

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.data.loaders import Loader


def is_between_batches(flow: Flow, loader: Loader, module: Module, node: ast.AST) -> bool:
    """Whether the node may run between two batches of a reading of the loader."""
    return runs_meanwhile(flow, loader.passes, module, node) and not is_before_reading(flow, loader, module, node)


def is_before_reading(
    flow: Flow, loader: Loader, module: Module, node: ast.AST, seen: frozenset[ast.AST] = frozenset()
) -> bool:
    """Whether the node, which stands in no loop with a reading, is seen to run before all of them.

    ``for name in names: data.samples.append(name)``, and then the loader and its epochs.
    """
    scope = module.function(node)
    found = [list(ways(flow, each.module, each.node, module, scope, loader.value)) for each in loader.passes]
    line = getattr(node, "lineno", 0)
    if any(way is not node and getattr(way, "lineno", 0) <= line for some in found for way in some):
        return False
    are_all_seen = bool(found) and all(found)
    is_made_here = loader.module is module and loader.module.function(loader.call) is scope
    if scope is None or (are_all_seen and is_made_here):
        return are_all_seen
    places = [(module_of(flow, each), each) for each in places_that_run(flow, scope)]
    return (
        bool(places)
        and scope not in seen
        and all(is_before_reading(flow, loader, where, each, seen | {scope}) for where, each in places)
    )


def ways(  # noqa: PLR0913, PLR0917 - where it is, where it is seen from, and with what
    flow: Flow,
    module: Module,
    node: ast.AST,
    home: Module,
    scope: Callee | None,
    loader: Value,
    seen: frozenset[ast.AST] = frozenset(),
) -> Iterator[ast.AST]:
    """What in the scope leads to the reading of the loader."""
    function = module.function(node)
    if module is home and function is scope:
        yield node
    elif function is not None and function not in seen:
        for place in places_that_run(flow, function):
            if may_give(flow, function, node, place, loader):
                yield from ways(flow, module_of(flow, place), place, home, scope, loader, seen | {function})
