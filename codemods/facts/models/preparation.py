"""What a careful colleague looks at before writing a line after the one that moves a model to its device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.placement import bound_for, dominates
from codemods.dataflow.values import without_none
from codemods.facts.devices.devices import DeviceKind
from codemods.facts.models.placement import twins
from codemods.library.kinds import SELF_METHODS, Kind, kind

if TYPE_CHECKING:
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.models.placement import Home
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script

_PREPARES = SELF_METHODS | {"load_state_dict"}


def last_preparation(script: Script, home: Home) -> ast.stmt:
    """The last of the statements right after the home that move models, give them weights or add hooks to them.

    Losses and optimizers may be made among them.
    """
    suite = home.module.suite(home.anchor)
    index = next(i for i, each in enumerate(suite) if each is home.anchor)
    last = home.anchor
    for following in suite[index + 1 :]:
        subject = _prepared(script, following)
        if subject is None:
            break
        last = following if subject is Kind.MODEL else last
    return last


def _prepared(script: Script, statement: ast.stmt) -> Kind | None:
    """The kind of thing that the statement prepares and does nothing else: a model or a loss."""
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return None
    method = call.func.attr
    if method not in _PREPARES and not (method.startswith("register_") and method.endswith("_hook")):
        return None
    kinds = {kind(script.flow, each) for each in without_none(script.flow.values(call.func.value))}
    (only,) = kinds if len(kinds) == 1 else (None,)
    return only if only in {Kind.MODEL, Kind.LOSS} else None


def condition(script: Script, home: Home, anchor: ast.stmt) -> str | None:
    """The expression that says whether the model is on CUDA; None where it is for certain."""
    module, move = home.module, home.move
    around = [each for each in move.branches if not _inside(module, each.test, home.anchor)]
    inside = [each for each in move.branches if each not in around]
    at_home = move.module is module and module.statement(move.call) is home.anchor
    certain = move.device.kind is DeviceKind.CUDA or any(each in around for each in move.cuda_branches)
    if certain and not inside and (at_home or (not around and (move.is_certain or move.cuda_branches))):
        return None
    said = script.condition_of(move, module, anchor)
    return said or f"next({module.code(home.name)}.parameters()).is_cuda"


def _inside(module: Module, node: ast.AST, statement: ast.stmt) -> bool:
    return statement in module.ancestors(node)


def all_read(script: Script, trained: TrainedModel, home: Home) -> bool:
    """Whether all training iterations call the model by its home's name, and no other model has that name's place."""
    is_read = all(where is home.module and _reads(script, call.func, home) for where, call in trained.calls)
    return is_read and next(twins(script.flow, script.modules, trained.model.value, home), None) is None


def _reads(script: Script, func: ast.expr, home: Home) -> bool:
    """Whether what is called is the home's own name: in its function, or as a name of the module."""
    name, module = home.name, home.module
    if not (isinstance(func, ast.Name) and isinstance(name, ast.Name) and func.id == name.id):
        return False
    here, there = module.function(home.anchor), module.function(func)
    only = set(script.flow.values(func)) <= set(script.flow.values(name))
    if here is there:
        return only and dominates(module, home.anchor, module.statement(func))
    return (
        only
        and here is None
        and there is not None
        and bound_for(module, name.id, there)
        and _runs_after(script, home.anchor, there)
    )


def _runs_after(script: Script, anchor: ast.stmt, function: Callee) -> bool:
    """Whether a function is only called where the statement at module level has run."""
    module, callers = script.module, script.flow.callers(function)
    if not callers or script.flow.escapes(function):
        return False
    for call in callers:
        if not module.holds(call):
            return False
        around = module.function(call)
        if around is function:
            continue
        if not (
            dominates(module, anchor, module.statement(call)) if around is None else _runs_after(script, anchor, around)
        ):
            return False
    return True
