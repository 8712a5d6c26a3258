"""Where a loop of each training iteration asks for gradients of what a model is given, and of none of its weights.

Attacks of adversarial training do, and Langevin dynamics. Autograd then computes what is asked for alone. To it, a
compiled model is one operation, whose backward computes the gradients of all weights that need any.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Container, library_names, owner_of
from codemods.facts.autograd.double_backward import asked_for, differentiated
from codemods.facts.training.graphless import may_be_frozen
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.loop_constants import asks_for_gradients
from codemods.facts.training.options import runs_by_default
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration


def of_inputs_alone(script: Script, model: Value) -> ast.Call | None:
    """The first call in a loop of an iteration that asks for gradients of the model's input alone, if there is one.

    There is none where the loop trains, too, where only an option leads to it that is off by default, and where
    something switches gradients of the model's weights off or on: it may do so around the loop.
    """
    for iteration in script.iterations:
        for event in iteration.of(EventKind.GRADIENT, EventKind.BACKWARD):
            call = event.node
            if (
                isinstance(call, ast.Call)
                and _is_of_inputs(script.flow, event)
                and model in differentiated(script.flow, event.module, call)
                and not _may_train_beside(script.flow, iteration, event)
                and not may_be_frozen(script.flow, model)
                and runs_by_default(script, event.module, call)
            ):
                return call
    return None


def _may_train_beside(flow: Flow, iteration: TrainingIteration, event: Event) -> bool:
    """Whether the innermost loop around the event may compute gradients of weights, or is the iteration itself."""
    return not event.loops or any(
        event.loops[-1] in each.loops and _computes(flow, each) and not _is_of_inputs(flow, each)
        for each in iteration.of(EventKind.GRADIENT, EventKind.BACKWARD)
    )


def _computes(flow: Flow, event: Event) -> bool:
    """Whether the event computes gradients, where others read them."""
    node = event.node
    is_grad = isinstance(node, ast.Call) and "torch.autograd.grad" in library_names(flow.values(node.func))
    return is_grad or event.kind is EventKind.BACKWARD


def _is_of_inputs(flow: Flow, event: Event) -> bool:
    """Whether all that the event computes gradients of are tensors that the function has asked to have some."""
    if not isinstance(event.node, ast.Call) or not _computes(flow, event):
        return False
    given = asked_for(flow, event.node)
    parts = [part for each in given for part in (getattr(each, "elts", None) or [each])]
    return bool(parts) and all(_is_told(flow, event.module, each) for each in parts)


def _is_told(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether the function asks for gradients of a tensor by its name, which is that of no weight of a model."""
    values = flow.values(node)
    owners = (owner_of(each) for each in values)
    is_weight = any(each is not None and kind(flow, each) is Kind.MODEL for each in owners)
    if not isinstance(node, ast.Name) or is_weight or any(isinstance(each, Container) for each in values):
        return False
    given = (part for each in module.assignments(node) for part in walk(each.value))
    asked = (
        each
        for each in module.nodes(ast.Attribute)
        if isinstance(each.value, ast.Name)
        and each.value.id == node.id
        and module.function(each) is module.function(node)
    )
    return any(asks_for_gradients(flow, each) for part in (given, asked) for each in part)
