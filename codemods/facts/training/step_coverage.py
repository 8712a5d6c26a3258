"""Does every parameter that is zeroed get a gradient before each step?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import owner_of, without_none
from codemods.facts.autograd.coverage import depends, why_gradients_may_miss
from codemods.facts.loops import place as place_of
from codemods.facts.models.layers import Model
from codemods.facts.overwritten import names_of, why_overwritten
from codemods.facts.reach import switches_gradients_off
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.gradient_uses import first_use, is_of_a_batch, reads, zeroes
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.zeroing import adds_parameters, models_of
from codemods.library.kinds import Kind, kind, may

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.facts.reason import Place
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration

MISSES = "parameters without gradient would no longer be updated by momentum or weight decay"


def why_not_alike(script: Script, place: ast.AST, owners: Values) -> Reason | None:
    """Why a training may go on otherwise if the gradients that ``place`` zeroes were dropped; None where it does not.

    Args:
        script: The script.
        place: What zeroes the gradients.
        owners: The optimizers or models whose gradients these are.
    """
    use = first_use(script, place)
    if use is not None:
        seen, module, node = use
        return Reason("gradients-read", f"{seen.value} ({HERE})", (at(module, node),))
    replaced = _why_steps_otherwise(script, owners)
    if replaced is not None:
        return replaced
    models = models_of(script, owners)
    if models is None:
        return _misses("its parameters are not known")
    other = _other_optimizer(script, owners, models)
    if other is not None:
        return _misses(f"another optimizer may update them, too ({HERE})", place_of(script.flow, other))
    added = adds_parameters(script)
    if added is not None:
        return _misses(f"parameters are added later ({HERE})", at(*added))
    unfrozen = _toggles_gradients(script, models)
    if unfrozen is not None:
        return _misses(f"parameters are frozen or unfrozen ({HERE})", at(*unfrozen))
    for model in models:
        missing = why_gradients_may_miss(model)
        if missing is not None:
            return missing.following(f"{MISSES}: ")
    return _why_not_every_time(script, place, models)


def _why_steps_otherwise(script: Script, owners: Values) -> Reason | None:
    """Why what zeroes the gradients, or steps by them, may not be torch's: the script replaces a part of it."""
    objects = {*owners, *(each.value for each in script.optimizers)}
    classes = frozenset().union(*(names_of(script.flow, each) for each in objects))
    return why_overwritten(script.flow, script.module, classes)


def _other_optimizer(script: Script, owners: Values, models: list[Model]) -> ast.AST | None:
    """Where a second optimizer is made that may update the models' parameters: in another loop, from other losses."""
    layers = {layer for model in models for layer in (model.value, *model.layers)}
    found = []
    for each in script.optimizers:
        others = models_of(script, frozenset({each.value}))
        held = {layer for other in others or () for layer in (other.value, *other.layers)}
        if each.value not in owners and (others is None or layers & held):
            found.append(each.call)
    own = any(each.value in owners for each in script.optimizers)
    return next(iter(found if own else found[1:]), None)


def _misses(why_: str, *places: Place) -> Reason:
    return Reason("gradients-may-miss", f"{MISSES}: {why_}", places)


def _why_not_every_time(script: Script, place: ast.AST, models: list[Model]) -> Reason | None:
    """Why there may be a step between this zeroing and the next backward through the models."""
    inside = set(walk(place))
    found = False
    for iteration in script.iterations:
        if not any(event.node in inside for event in iteration.events):
            continue
        found = True
        zeroed = False
        for event in (*iteration.events, *iteration.events):
            if zeroes(event, inside):
                zeroed = True
            elif event.kind is EventKind.BACKWARD and zeroed and _reaches(script, iteration, event, models):
                zeroed = False
            elif zeroed and (event.kind is EventKind.STEP or reads(event)):
                return _misses("no loss is seen that surely depends on the whole model before each step")
    return None if found else Reason("unseen-step", "it is not part of a training iteration that can be seen")


def _reaches(script: Script, iteration: TrainingIteration, event: Event, models: list[Model]) -> bool:
    """Whether the backward is computed in every pass, from a loss that depends on each of the models."""
    if not isinstance(event.node, ast.Call) or not isinstance(event.node.func, ast.Attribute):
        return False
    if event.frame is not iteration.module.function(iteration.owner):
        return False
    for above in iteration.module.ancestors(event.node):
        if above is iteration.owner:
            break
        if not isinstance(above, (ast.expr, ast.Expr, ast.With)):
            return False
    body = list(_straight(script, getattr(iteration.owner, "body", [])))
    return all(
        depends(script.flow, event.node.func.value, body, lambda call, model=model: _calls(script, call, model))  # type: ignore[misc]
        for model in models
    )


def _calls(script: Script, call: ast.Call, model: Model) -> bool:
    return model.value in script.flow.values(call.func)


def _straight(script: Script, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With) and not switches_gradients_off(script.flow, statement):
            yield from _straight(script, statement.body)
        else:
            yield statement


def _toggles_gradients(script: Script, models: list[Model]) -> tuple[Module, ast.Attribute] | None:
    """Where parameters are frozen or unfrozen that may be the models'."""
    for module in script.modules:
        for node in module.nodes(ast.Attribute):
            is_set = node.attr == "requires_grad" and isinstance(node.ctx, ast.Store)
            if is_set and is_of_a_batch(script, node.value):
                continue
            is_called = node.attr == "requires_grad_" and may(script.flow, script.flow.values(node.value), Kind.MODEL)
            if (is_set or is_called) and not _is_of_others(script, node.value, models):
                return module, node
    return None


def _is_of_others(script: Script, node: ast.expr, models: list[Model]) -> bool:
    """Whether it is surely a model, or a parameter of one, that shares no layer with these models."""
    values = without_none(script.flow.values(node))
    owners = [owner_of(each) if each.name == "torch.nn.Parameter" else each for each in values]
    own = {each for model in models for layer in model.layers for each in _kin(script, layer)}
    return bool(owners) and all(
        each is not None
        and kind(script.flow, each) is Kind.MODEL
        and own.isdisjoint(one for layer in Model(script.flow, each).layers for one in _kin(script, layer))
        for each in owners
    )


def _kin(script: Script, layer: Value) -> tuple[object, ...]:
    """The layer, if a library's; else its class, and all that ``self`` may be an object of where that is written."""
    class_ = Model(script.flow, layer).class_
    return (layer,) if class_ is None else script.flow.family(class_)
