"""Whether a backward may keep a model's graph (``retain_graph=True``) where another one before it has not.

What compiles a model's backward reuses the memory of the graph, unless the first backward through it keeps that.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting
from codemods.facts.autograd.double_backward import differentiated, retains, surely_retains
from codemods.facts.training.iterations import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.training.iterations import Event, TrainingIteration


def retained_at_times(
    flow: Flow,
    modules: Iterable[Module],
    iterations: Sequence[TrainingIteration],
    model: Value,
    may_run: Callable[[Module, ast.AST], bool] = lambda *_: True,
) -> ast.Call | None:
    """Where the model's graph is kept; None where it never is, or where the first backward always keeps it.

    ``may_run`` says which code runs at all.
    """
    keeping = [
        call
        for module in modules
        for call in _keeping(flow, module)
        if may_run(module, call) and (model in (reached := differentiated(flow, module, call)) or not reached)
    ]
    if not keeping:
        return None
    seen = {event.node for each in iterations for event in each.events}
    is_always = seen.issuperset(keeping) and all(
        _starts_with_keeping(flow, each, model) for each in _outermost(iterations)
    )
    return None if is_always else keeping[0]


@lasting  # each model asks
def _keeping(flow: Flow, module: Module) -> tuple[ast.Call, ...]:
    return tuple(call for call in module.nodes(ast.Call) if retains(flow, call))


def _outermost(iterations: Sequence[TrainingIteration]) -> Iterator[TrainingIteration]:
    """Those that are not part of another one's pass."""
    nodes = [{event.node for event in each.of(EventKind.BACKWARD)} for each in iterations]
    for each, own in zip(iterations, nodes, strict=True):
        if not any(own < other for other in nodes):
            yield each


def _starts_with_keeping(flow: Flow, iteration: TrainingIteration, model: Value) -> bool:
    """Whether the first backward through the model in each pass surely keeps the graph, if there is any."""
    for event in iteration.of(EventKind.BACKWARD, EventKind.GRADIENT):
        if not _goes_through(flow, event, model) or not isinstance(event.node, ast.Call):
            continue
        if not surely_retains(flow, event.node):
            return False
        if not event.conditions:
            return True
    return True


def _goes_through(flow: Flow, event: Event, model: Value) -> bool:
    if not isinstance(event.node, ast.Call):
        return False
    is_grad = any(each.name == "torch.autograd.grad" for each in flow.values(event.node.func))
    if event.kind is EventKind.GRADIENT and not is_grad:
        return False
    reached = differentiated(flow, event.module, event.node)
    return model in reached or not reached
