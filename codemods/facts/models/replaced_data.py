"""Whether a model's forward replaces the data of a tensor that a backward may read later.

``u.data = new`` of power iterations, as spectral norms are written out: autograd keeps the tensor ``u`` itself, so that
after a second call of the model the backward of the first one reads what the second one left. A compiled model keeps
what each call computed. Their gradients differ, where several calls go before one backward.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.loops import module_of
from codemods.facts.models.compilability import code_of
from codemods.facts.reach import own
from codemods.facts.training.iterations import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codemods.dataflow.source import Module
    from codemods.facts.models.layers import Model
    from codemods.facts.training.iterations import Event, TrainingIteration

_OVERWRITES = frozenset({"copy_", "set_"})


def replaced_data(model: Model) -> tuple[Module, ast.stmt] | None:
    """The first statement of the model's forward that gives a tensor other data, unseen by autograd; None without one.

    What is multiplied or filled in place, as weights by their mask, is mostly the same after each call, and passes.
    """
    for function in code_of(model):
        for statement in own(function, ast.Assign, ast.Expr):
            if _replaces(statement):
                return module_of(model.flow, function), statement
    return None


def _replaces(statement: ast.AST) -> bool:
    match statement:
        case ast.Assign(targets):
            parts = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
            return any(isinstance(each, ast.Attribute) and each.attr == "data" for each in parts)
        case ast.Expr(ast.Call(ast.Attribute(ast.Attribute(_, "data"), called))):
            return called in _OVERWRITES
    return False


def is_called_again(iterations: Iterable[TrainingIteration], calls: Iterable[ast.Call]) -> bool:
    """Whether an iteration may call a model several times before a backward that surely follows the first call."""
    known = set(calls)
    return any(_is_called_again(each.events, known) for each in iterations)


def _is_called_again(events: Sequence[Event], calls: set[ast.Call]) -> bool:
    backwards = [each for each in events if each.kind is EventKind.BACKWARD]
    is_waiting = False
    for event in events:
        if event.kind is EventKind.BACKWARD and not event.conditions:
            is_waiting = False
        elif event.kind is EventKind.FORWARD and event.node in calls:
            is_repeated = event.loops and not any(event.loops == each.loops for each in backwards)
            if is_waiting or is_repeated:
                return True
            is_waiting = True
    return False
