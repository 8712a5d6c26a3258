"""The code that runs models without computing gradients: validation, which mixed precision speeds up as well."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.facts.loops import loop_around
from codemods.facts.precision.hazards import is_bce
from codemods.facts.reach import is_model_call, own, switches_gradients_off, written
from codemods.facts.training.loss_regions import read
from codemods.library.kinds import Kind, computes_loss, kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.facts.script import Script
    from codemods.facts.training.loss_regions import Block, Phases

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SWITCHES_ON = frozenset({"torch.enable_grad", "torch.set_grad_enabled"})


def validations(script: Script, phases: Phases) -> Iterator[Block]:
    """Neighbouring statements in a loop, from a call of a model to the last loss that is computed from its output.

    Where the next statement calls a model with that output, it is one of them.
    """
    module, flow = script.module, script.flow
    taken = {each for phase in phases.all for node in phase.code for each in walk(node)}
    open_calls = {call for region in script.evaluations if region.why_not is None for call in region.calls}
    validating = {
        call: None
        for call in module.nodes(ast.Call)
        if call not in taken
        and is_model_call(flow, call)
        and loop_around(flow, module, call) is not None
        and (call in open_calls or _without_gradients(script, call))
    }
    done: set[ast.stmt] = set()
    for call in validating:
        function = module.function(call)
        if isinstance(function, _FUNCTIONS) and _is_a_models(script, function):
            continue
        first = module.statement(call)
        if not isinstance(first, (ast.Assign, ast.AugAssign)) or first in done or module.statement(first) is not first:
            continue
        block = _with_losses(script, first, validating)
        if not any(
            is_bce(flow, each) or phases.is_step(each) for statement in block for each in own(statement, ast.Call)
        ):
            done.update(block)
            yield block


def _with_losses(script: Script, first: ast.stmt, validating: Collection[ast.Call]) -> Block:
    """The statement and those after it, up to the last that computes a loss from what the model returned.

    Another one of these calls at once, which is given that, goes along: ``score = critic(image)``.
    """
    suite = script.module.suite(first)
    index = suite.index(first)
    last = index
    bound = written(first)
    for at in range(index + 1, len(suite)):
        if isinstance(suite[at], (ast.Assign, ast.AugAssign)) and bound & read(suite[at]):
            calls = [*own(suite[at], ast.Call)]
            is_next = at == last + 1 and any(each in validating for each in calls)
            if is_next or any(computes_loss(script.flow, each) for each in calls):
                last = at
            bound |= written(suite[at])
    return tuple(suite[index : last + 1])


def _without_gradients(script: Script, node: ast.AST) -> bool:
    """Whether the node runs under ``torch.no_grad()``, by a ``with`` or a decorator of its function."""
    for above in script.module.ancestors(node):
        if switches_gradients_off(script.flow, above):
            return True
        if isinstance(above, ast.With) and any(_switches_on(script, each.context_expr) for each in above.items):
            return False
        if isinstance(above, _FUNCTIONS):
            return False
    return False


def _switches_on(script: Script, node: ast.expr) -> bool:
    """Whether it is ``torch.enable_grad()``, or may be, as ``torch.set_grad_enabled(train)`` may."""
    return any(each.name in _SWITCHES_ON for each in script.flow.values(node))


def _is_a_models(script: Script, function: ast.AST) -> bool:
    owner = script.module.parent(function)
    return isinstance(owner, ast.ClassDef) and kind(script.flow, script.instance_of(owner)) is Kind.MODEL
