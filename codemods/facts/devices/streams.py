"""CUDA streams beside the default one: where what is queued on one may not wait for a copy that another queues."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting, walk
from codemods.facts.loops import module_of
from codemods.facts.reason import HERE, Reason, at
from codemods.library.streams import CURRENT_STREAM, ENTERS_STREAM, SETS_STREAM, WAITS_FOR_STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module


def why_not_ordered(flow: Flow, here: Module, call: ast.Call) -> Reason | None:
    """Why what uses the copy may not wait for it, other than by the host, which waits now; None where it does.

    A blocking copy is over when the call returns, so that every stream may use it. One that does not block is only
    ordered before what is queued on the same stream, or on one that waits for that.
    """
    for module, around in _around(flow, here, call):
        if _enters(flow, around) and not _is_awaited(flow, module, around):
            text = f"the batch is copied on a stream of its own ({HERE}), and others may not wait for that"
            return Reason("other-stream", text, (at(module, around),))
    for module, node in _unordered(flow):
        if module in flow.beside(here):
            text = f"another stream than that of the copy runs kernels ({HERE}), and is not seen to wait for it"
            return Reason("other-stream", text, (at(module, node),))
    return None


def _around(flow: Flow, here: Module, call: ast.Call) -> Iterator[tuple[Module, ast.With]]:
    """The ``with`` statements around the call, and around the calls of its functions."""
    todo = [(here, call)]
    seen: set[ast.Call] = set()
    while todo:
        module, inside = todo.pop()
        if inside in seen:
            continue
        seen.add(inside)
        yield from ((module, each) for each in module.ancestors(inside) if isinstance(each, ast.With))
        function = module.function(inside)
        callers = flow.callers(function) if function is not None else ()
        todo.extend((module_of(flow, each), each) for each in callers)


@lasting
def _unordered(flow: Flow) -> tuple[tuple[Module, ast.AST], ...]:
    """Where code runs on another stream, in a function in which no stream waits for another."""
    return tuple(
        (module, node) for module in flow.modules for node in _leaving(flow, module) if not _waits(module, node)
    )


def _leaving(flow: Flow, module: Module) -> list[ast.AST]:
    """Where the module leaves the default stream."""
    blocks = [each for each in module.nodes(ast.With) if _enters(flow, each)]
    return [*blocks, *(each for each in module.nodes(ast.Call) if _names(flow, each.func) & SETS_STREAM)]


def _waits(module: Module, node: ast.AST) -> bool:
    """Whether a stream waits for another beside the node."""
    return any(each.attr in WAITS_FOR_STREAM for each in _methods_beside(module, node))


def _is_awaited(flow: Flow, module: Module, block: ast.With) -> bool:
    """Whether the current stream, or the host, waits for another beside the block.

    ``torch.cuda.current_stream().wait_stream(self.stream)`` in another method of a prefetcher.
    """
    return any(
        each.attr == "synchronize" or (each.attr in WAITS_FOR_STREAM and _names(flow, each.value) & CURRENT_STREAM)
        for each in _methods_beside(module, block)
    )


def _methods_beside(module: Module, node: ast.AST) -> Iterator[ast.Attribute]:
    """What is called with a dot in the class of the node, or in its function."""
    function = module.function(node)
    owner = module.parent(function) if function is not None else None
    calls = walk(owner if isinstance(owner, ast.ClassDef) else function or module.tree)
    return (each.func for each in calls if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute))


def _enters(flow: Flow, block: ast.With) -> bool:
    """``with torch.cuda.stream(s)``, ``with s`` of a stream."""
    return any(_names(flow, each.context_expr) & ENTERS_STREAM for each in block.items)


def _names(flow: Flow, node: ast.expr) -> set[str]:
    return {each.name for each in flow.values(node)}
