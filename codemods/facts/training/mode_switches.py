"""Which training loops set a model to training mode in each iteration, and to no other mode in any?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import FUNCTIONS, LOOPS, walk
from codemods.dataflow.values import External, Instance, Made, instance, without_none
from codemods.facts.reach import Reach, own
from codemods.facts.training.constant_values import ConstantValues
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_TRAIN, _MODE = "train", "training"
_SWITCHES = frozenset({_TRAIN, "eval"})


@dataclass(frozen=True, eq=False)
class ModeSwitch:
    """``model.train()`` of a training loop, which goes through all layers each time."""

    module: Module
    statement: ast.Expr
    loop: ast.For | ast.AsyncFor | ast.While


def mode_switches(script: Script) -> Iterator[ModeSwitch]:
    """The switches in the training loops of the module that could stand above the loop."""
    module = script.module
    if script.framework is not None:
        return
    for loop in dict.fromkeys(each.owner for each in script.iterations):
        if not isinstance(loop, LOOPS) or not module.holds(loop):
            continue
        for index, statement in enumerate(loop.body):
            match statement:
                case ast.Expr(ast.Call(ast.Attribute(model, name), [], [])) if name == _TRAIN:
                    if _is_first(script, loop.body[:index], model) and _stays(script, module, loop, model):
                        yield ModeSwitch(module, statement, loop)


def _is_first(script: Script, above: list[ast.stmt], model: ast.expr) -> bool:
    """Whether nothing above it in the loop may run the model, or do anything with it."""
    for each in (inner for statement in above for inner in walk(statement)):
        if isinstance(each, (ast.Continue, ast.Break, ast.Return)) or ast.unparse(each) == ast.unparse(model):
            return False
        if isinstance(each, ast.Call):
            is_model = any(kind(script.flow, value) is Kind.MODEL for value in script.flow.values(each.func))
            if is_model or script.flow.called(each):
                return False
    return True


def _stays(script: Script, module: Module, loop: ast.For | ast.AsyncFor | ast.While, model: ast.expr) -> bool:
    """Whether it is one model, of which all that the loop runs is seen, and sets no model to another mode."""
    flow = script.flow
    values = without_none(flow.values(model))
    if not values or any(kind(flow, each) is not Kind.MODEL for each in values):
        return False
    if _has_own_modes(script) or ConstantValues(script, module, loop).why_varies(model) is not None:
        return False
    for _, code in Reach(flow).code(module, [loop]):
        for each in own(code, ast.Attribute, ast.Call):
            if isinstance(each, ast.Call) and _may_switch(script, each):
                return False
            is_stored = isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
            if isinstance(each, ast.Attribute) and (each.attr == "eval" or (each.attr == _MODE and is_stored)):
                return False
    return True


def _has_own_modes(script: Script) -> bool:
    """Whether a model of the project does something of its own where its mode is set."""
    classes = (each for module in script.modules for each in module.nodes(ast.ClassDef))
    return any(
        isinstance(each, FUNCTIONS) and each.name in _SWITCHES
        for class_ in classes
        if kind(script.flow, instance(class_)) is Kind.MODEL
        for each in class_.body
    )


def _may_switch(script: Script, call: ast.Call) -> bool:
    """Whether it sets a mode that it is told, or is not seen and is given a model, or an object that may have one."""
    flow = script.flow
    if isinstance(call.func, ast.Attribute) and call.func.attr == _TRAIN:
        return bool(call.args or call.keywords)
    if flow.called(call):
        return False
    values = flow.values(call.func)
    is_torchs = bool(values) and all(isinstance(each, External) and each.name.startswith("torch.") for each in values)
    return not is_torchs and (_has_model(script, call) or _belongs_to_holder(script, call.func))


def _has_model(script: Script, call: ast.Call) -> bool:
    given = [*call.args, *(each.value for each in call.keywords)]
    return any(kind(script.flow, value) is Kind.MODEL for each in given for value in script.flow.values(each))


def _belongs_to_holder(script: Script, function: ast.expr) -> bool:
    """Whether it is a method that is not seen, of an object that was given a model, or of one of the project."""
    if not isinstance(function, ast.Attribute):
        return False
    values = script.flow.values(function)
    is_own = isinstance(function.value, ast.Name) and function.value.id == "self"
    if is_own and not (values and all(isinstance(each, (Made, External, Instance)) for each in values)):
        return True  # a method of what it derives from
    owners = [each for each in script.flow.values(function.value) if isinstance(each, Made)]
    return any(
        isinstance(each.site, ast.Call) and not each.name.startswith("torch.") and _has_model(script, each.site)
        for each in owners
    )
