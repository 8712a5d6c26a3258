"""Whether a compiled model can be run as CUDA graphs: ``mode="reduce-overhead"`` of ``torch.compile``.

A CUDA graph has memory of its own for all that it computes: for what the model returns, and for its gradients. The next
iteration writes there again.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import argument_of
from codemods.facts.data.padding import pads_to_the_longest
from codemods.facts.loops import module_of
from codemods.facts.models.compilability import code_of
from codemods.facts.models.image_sizes import why_size_varies
from codemods.facts.models.outputs import calls_model, is_number, kept_outputs
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.gradient_uses import GradientUse, first_use
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.kept_states import KeptStates
from codemods.facts.training.zeroing import adds_parameters, models_of

if TYPE_CHECKING:
    from codemods.dataflow.values import Value
    from codemods.facts.models.trained import TrainedModel
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event, TrainingIteration

_OTHERWISE = "compile it in the default mode"


def why_not_replayed(script: Script, trained: TrainedModel) -> Reason | None:
    """Why CUDA graphs would not compute what the model does, or not faster; None where nothing stands against them."""
    reason = (
        _why_wrapped(trained)
        or _why_sizes_differ(script, trained)
        or next(filter(None, (_why_not_in(script, trained, each) for each in script.iterations)), None)
        or _why_kept(script, trained)
    )
    if reason is None:
        return None
    remedy = f"{reason.remedy}, or {_OTHERWISE}" if reason.remedy else _OTHERWISE
    return reason._replace(text=f"no CUDA graphs (reduce-overhead): {reason.text}:", remedy=remedy)


def _why_wrapped(trained: TrainedModel) -> Reason | None:
    if not trained.wrappers:
        return None
    name = trained.wrappers[0].name.rpartition(".")[2]
    return Reason("unseen-replay", f"{name} around the model reads its gradients where they may be overwritten")


def _why_sizes_differ(script: Script, trained: TrainedModel) -> Reason | None:
    """Each size of a batch is a graph of its own, with memory of its own."""
    if pads_to_the_longest(script):
        return Reason("dynamic-shapes", "batches are padded to lengths of their own, each of which is captured anew")
    varies = why_size_varies(script, trained.model) if script.loaders else None
    if varies is None:
        return None
    text = f"batches may differ in size, and each size is captured anew: {varies.text}"
    return Reason("size-not-fixed", text, varies.places)


def _why_not_in(script: Script, trained: TrainedModel, iteration: TrainingIteration) -> Reason | None:
    """What a training iteration does that the next run of a graph would spoil."""
    model = trained.model.value
    calls = [each for each in iteration.of(EventKind.FORWARD) if not _is_inside(trained, each)]
    if not any(isinstance(each.node, ast.Call) and calls_model(script.flow, each.node, model) for each in calls):
        return None
    if len(calls) > 1:
        text = f"an iteration calls several models, or one several times ({HERE})"
        return Reason("called-again", text, (at(calls[1].module, calls[1].node),))
    backwards, steps = iteration.of(EventKind.BACKWARD), iteration.of(EventKind.STEP)
    if len(backwards) != 1 or len(steps) != 1 or steps[0].conditions != backwards[0].conditions:
        return Reason("gradients-added", "not each backward is seen to be followed by one step with its gradients")
    return _why_gradients_stay(script, model, iteration, backwards[0])


def _is_inside(trained: TrainedModel, event: Event) -> bool:
    """Whether the event is a part of the model's own computation, or of its methods."""
    class_ = trained.model.class_
    return class_ is not None and event.module.holds(class_) and class_ in event.module.ancestors(event.node)


def _why_gradients_stay(script: Script, model: Value, iteration: TrainingIteration, backward: Event) -> Reason | None:
    """Gradients lie in the memory of the graph: they have to be dropped before the next ones are computed there."""
    zeros = [
        each
        for each in iteration.of(EventKind.ZERO)
        if not each.loops and each.conditions == backward.conditions[: len(each.conditions)]
    ]
    if not zeros or backward.loops:
        return Reason("gradients-added", "gradients are added up, or not seen to be dropped in each iteration")
    for zero in zeros:
        if not _drops(zero.node):
            text = f"gradients are filled with zeros, not dropped ({HERE})"
            return Reason("gradients-added", text, (at(zero.module, zero.node),), "drop them")
        models = models_of(script, zero.subjects)
        if models is None or adds_parameters(script) or all(each.value != model for each in models):
            text = f"it is not known whether all gradients of the model are dropped ({HERE})"
            remedy = "call zero_grad() of the model"
            return Reason("gradients-added", text, (at(zero.module, zero.node),), remedy)
        use = first_use(script, zero.node)
        if use is not None and use[0] is not GradientUse.READ_OUTSIDE:
            seen, module, node = use
            return Reason("gradients-read", f"{seen.value} ({HERE})", (at(module, node),))
    return None


def _drops(node: ast.AST) -> bool:
    """``optimizer.zero_grad()``, which drops gradients since torch 2.0."""
    if not isinstance(node, ast.Call) or any(each.arg is None for each in node.keywords):
        return False
    given = argument_of(node, "set_to_none", 0)
    return given is None or (isinstance(given, ast.Constant) and bool(given.value))


def _why_kept(script: Script, trained: TrainedModel) -> Reason | None:
    """What the model computes is kept, by itself or by others."""
    states = KeptStates(script.flow, script.modules, with_memory=True)
    kept = next(iter(states.inside), None)
    if kept is not None:
        return Reason("outputs-kept", kept.reason.text, kept.reason.places)
    for function in code_of(trained.model):
        carried = states.carried_on(function)
        if carried is not None:
            text = f"the model keeps a tensor for its next call ({HERE})"
            return Reason("outputs-kept", text, (at(module_of(script.flow, carried.node), carried.node),))
    place = kept_outputs(script, trained.model.value)
    if place is None:
        return None
    if is_number(place[1]):
        text = f"numbers of what the model returns are collected, on the device where they are read later ({HERE})"
        return Reason("outputs-kept", text, (at(*place),))
    text = f"what the model returns is kept, or may be, until after its next call, which overwrites it ({HERE})"
    return Reason("outputs-kept", text, (at(*place),), "keep a copy of it (clone())")
