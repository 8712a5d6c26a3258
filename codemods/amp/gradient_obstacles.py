"""Where what else a training iteration does with gradients does not allow a scaler: they are read, changed, kept."""

from __future__ import annotations

import ast
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from codemods.amp.owners import parameters_of
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import walk
from codemods.dataflow.values import Container, Method, Tensor
from codemods.facts.devices.cuda_use import located
from codemods.facts.precision.script_hazards import gradient_hook
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.optimizers import chosen
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.amp.scaler import Scaling, Step
    from codemods.dataflow.values import Value, Values
    from codemods.facts.reason import Place
    from codemods.facts.training.iterations import Event

_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)


class GradientObstacles:
    """What is done with gradients in an iteration that a scaler would disturb."""

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._owners = scaling.owners
        self._script = scaling.script
        self._module = scaling.script.module
        self._flow = scaling.script.flow

    def why_not(self) -> Reason | None:
        """Why a scaler cannot be put in, or None where it can."""
        return self._why_gradients_read() or self._why_gradients_elsewhere() or self._why_gradients_kept()

    def _why_gradients_read(self) -> Reason | None:
        for event in self._scaling.readers:
            here = (self._at(event),)
            place = self._scaling.unscale_place(event)
            if (
                place is None
                and len(self._scaling.optimizers) > 1
                and not any(self._scaling.is_of(event, each) for each in self._scaling.steps)
            ):
                return Reason("gradients-read", f"it is not known whose gradients are read in {HERE}", here)
            if place is None:
                text = f"gradients are read or changed outside the branch of the step ({HERE})"
                return Reason("gradients-read", text, here)
            step, statement = place
            suite = self._module.suite(statement)
            between = suite[suite.index(statement) : suite.index(step.statement)]
            if any(isinstance(node, _LEAVES) for each in between for node in walk(each)):
                return Reason("gradients-read", f"the step may be skipped after gradients were read ({HERE})", here)
            if any(
                each.statement in between or any(inner in between for inner in self._module.ancestors(each.statement))
                for each in self._scaling.phases
            ):
                return Reason("gradients-read", f"gradients are read between two backwards ({HERE})", here)
        return None

    def _at(self, event: Event) -> Place:
        return located(self._script, event.module.statement(event.node))

    @cached_property
    def _layers(self) -> set[Value]:
        """The layers whose parameters one of the optimizers owns."""
        return {layer for step in self._scaling.steps for value in step.values for layer in self._owners.owned(value)}

    def _why_gradients_elsewhere(self) -> Reason | None:
        """Gradients that no optimizer unscales: of inputs, of other models, in hooks."""
        hook = gradient_hook(self._script)
        if hook is not None:
            text = f"a hook would see scaled gradients ({HERE})"
            return Reason("gradients-read", text, (located(self._script, hook),))
        for event in self._scaling.events:
            if event.kind is not EventKind.GRADIENT:
                continue
            of = event.subjects
            if isinstance(event.node, ast.Call) and event.node.args:
                of = self._flow.values(event.node.args[0])
            layers = self._owners.layers_of(of) | {
                each.of for each in of if isinstance(each, Method) and each.of is not None
            }
            is_tensor = any(isinstance(each, Tensor) and each not in self._given for each in of)
            if is_tensor or (self._layers and not layers <= self._layers):
                text = f"gradients that no optimizer is seen to own are read in {HERE}"
                return Reason("gradients-read", text, (self._at(event),))
            if layers:
                for given in self._given_expressions:
                    choice = chosen(self._flow, given)
                    if choice is not None:
                        text = f"the optimizer may own only some of the gradients read in {HERE} ({HERE})"
                        return Reason("gradients-read", text, (self._at(event), located(self._script, choice)))
        return None

    @property
    def _given_expressions(self) -> Iterator[ast.expr]:
        """What the optimizers are made with."""
        found = (parameters_of(each) for step in self._scaling.steps for each in step.values)
        return (each for each in found if each is not None)

    @cached_property
    def _given(self) -> set[Value]:
        """The tensors that the optimizers are made with."""
        calls = [
            value.site for step in self._scaling.steps for value in step.values if isinstance(value.site, ast.Call)
        ]
        given = {value for call in calls for each in arguments_of(call) for value in self._flow.values(each)}
        return given | {item for each in given if isinstance(each, Container) for item in self._flow.items(each)}

    def _why_gradients_kept(self) -> Reason | None:
        """Gradients that are still there, unscaled or scaled otherwise, when a backward adds to them."""
        phases = {each.call: each for each in self._scaling.phases}
        for values, step in {each.values: each for each in reversed(self._scaling.steps)}.items():
            layers = {layer for value in values for layer in self._owners.owned(value)}
            stale = waiting = polluted = False
            for event in (*self._scaling.events, None, *self._scaling.events):
                if event is not None and self._fills_with_zeros(event):
                    stale = waiting = polluted = False
                elif event is None:
                    # The scaler has been updated: what another optimizer's backward has left is scaled otherwise.
                    stale = stale or (waiting and len(self._scaling.optimizers) > 1)
                elif event.kind is EventKind.ZERO and self._zeroes(event, values, layers):
                    stale = waiting = polluted = False
                elif event.kind is EventKind.STEP and event.subjects & values:
                    if polluted:
                        return self._kept(step)
                    stale, waiting = True, False
                elif event.kind is EventKind.BACKWARD:
                    phase = phases.get(event.node) if isinstance(event.node, ast.Call) else None
                    if phase is None or len(self._scaling.optimizers) == 1 or layers & self._owners.called(phase):
                        polluted = polluted or stale
                        waiting = True
        return None

    def _fills_with_zeros(self, event: Event) -> bool:
        """``parameter.grad.zero_()``, ``parameter.grad.data.zero_()``."""
        chain = takewhile(_is_link, event.module.ancestors(event.node))
        return event.kind is EventKind.GRADIENT and any(
            isinstance(each, ast.Attribute) and each.attr == "zero_" for each in chain
        )

    def _kept(self, step: Step) -> Reason:
        optimizer = self._module.code(step.optimizer)
        text = f"the gradients for {optimizer}.step() in {HERE} are added to others, scaled otherwise"
        return Reason("gradients-accumulated", text, (at(self._module, step.call),))

    def _zeroes(self, event: Event, optimizer: Values, layers: set[Value]) -> bool:
        """Whether the event zeroes gradients of the optimizer's parameters, for all that is known."""
        if event.subjects & optimizer:
            return True
        zeroed = self._owners.layers_of(event.subjects)
        if not zeroed or not layers:
            return not any(kind(self._flow, each) is Kind.OPTIMIZER for each in event.subjects)
        return bool(zeroed & layers)


def _is_link(node: ast.AST) -> bool:
    """Whether it is a part of a chain: ``gradient.data``, ``gradient.detach()``."""
    return isinstance(node, (ast.Attribute, ast.Call))
