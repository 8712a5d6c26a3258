"""Which arm of a condition is the only code that trains: ``if config.train: Trainer(loader).train()``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.source import lasting
from codemods.dataflow.values import library_names
from codemods.facts.loops import module_of
from codemods.facts.training.iterations import is_backward

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module

_TRAIN = words("fit learn minimize")
"""Methods by which libraries train."""


def is_sole_training(flow: Flow, entries: Collection[Module], statement: ast.If, *, is_body: bool) -> bool:
    """Whether scripts train in one arm of the statement or not at all: all backwards are there, or in what it calls.

    Args:
        flow: What is known of the project.
        entries: The modules that are run as ``__main__``.
        statement: The condition.
        is_body: Whether the arm is its body, or else what stands behind its ``else``.
    """
    return _is_sole_training(flow, tuple(entries), statement, is_body)


@lasting  # each place that may fail below the same condition asks
def _is_sole_training(flow: Flow, entries: tuple[Module, ...], statement: ast.If, is_body: bool) -> bool:  # noqa: FBT001 - `lasting` takes no names
    arm = statement.body if is_body else statement.orelse
    todo: list[ast.AST] = list(_training(flow, entries))
    followed: set[ast.AST] = set()
    is_reached = False
    while todo:
        node = todo.pop()
        module = module_of(flow, node)
        function = module.function(node)
        if _is_in(module, node, arm):
            is_reached = True
        elif function is None:
            return False
        elif function not in followed:
            followed.add(function)
            calls = flow.callers(function)
            if flow.escapes(function) and not calls:
                return False
            todo += calls
    return is_reached


@lasting
def _training(flow: Flow, entries: tuple[Module, ...]) -> tuple[ast.Call, ...]:
    """The calls that train in what runs together with the scripts."""
    modules = dict.fromkeys(each for entry in entries for each in flow.together(entry, entries))
    return tuple(call for module in modules for call in module.nodes(ast.Call) if _trains(flow, call))


def _is_in(module: Module, node: ast.AST, arm: Sequence[ast.stmt]) -> bool:
    return any(each in arm for each in (node, *module.ancestors(node)) if isinstance(each, ast.stmt))


def _trains(flow: Flow, call: ast.Call) -> bool:
    """Whether it differentiates, or is a method of a library that does."""
    if is_backward(flow, call) or "torch.autograd.grad" in library_names(flow.values(call.func)):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _TRAIN and not flow.called(call)
