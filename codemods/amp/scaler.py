"""The scaler of ``amp``: which calls it goes around, and in which order.

fp16 gradients underflow, so the loss is scaled before the backward, and the optimizer's step unscales the gradients and
is left out when they overflow. The order is strict: scale, then unscale (once for each optimizer, before anything else
looks at gradients), then step (once for each optimizer), then one update.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.amp.owners import Owners
from codemods.amp.reasons import LeftError
from codemods.dataflow.source import walk
from codemods.dataflow.values import without_none
from codemods.editing.values import Insert, Replace, Surround
from codemods.facts.reach import own
from codemods.facts.reason import HERE, at
from codemods.facts.training.iterations import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Values
    from codemods.editing.values import Edit
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event
    from codemods.facts.training.loss_regions import Phase, Phases


@dataclass(frozen=True, eq=False)
class Step:
    """One ``optimizer.step()``."""

    event: Event
    call: ast.Call
    statement: ast.stmt
    optimizer: ast.expr

    @property
    def values(self) -> Values:
        """The optimizers that may step there."""
        return without_none(self.event.subjects)


@dataclass(frozen=True, eq=False)
class Scaling:
    """The scaler's part of one training iteration: its backwards and its steps."""

    script: Script
    all_phases: Phases
    phases: tuple[Phase, ...]
    events: tuple[Event, ...]
    """All events of the iteration, in their order."""

    @property
    def _module(self) -> Module:
        return self.script.module

    @property
    def _flow(self) -> Flow:
        return self.script.flow

    @cached_property
    def owners(self) -> Owners:
        """Whose parameters are trained."""
        return Owners(self.script, self.all_phases, self.phases)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps, in their order."""
        found: dict[ast.AST, Step] = {}
        for event in self.events:
            call = event.node
            if (
                event.kind is EventKind.STEP
                and isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and event.module is self._module
            ):
                found.setdefault(call, Step(event, call, self._module.statement(call), call.func.value))
        return tuple(found.values())

    @property
    def uses(self) -> tuple[ast.stmt, ...]:
        """The statements in which the scaler, or what is made beside it, is used."""
        blocks = (each.region[0] for each in self.phases if each.region)
        return (*blocks, *(each.statement for each in self.phases), *(each.statement for each in self.steps))

    @property
    def applies_gradients(self) -> bool:
        """Whether gradients are read, and no optimizer steps: an attack on images, an update by hand."""
        kinds = {each.kind for each in self.events}
        return EventKind.GRADIENT in kinds and EventKind.STEP not in kinds

    def which(self, step: Step) -> tuple[Values, str]:
        """Which optimizer steps; those that one function makes are told apart by their names."""
        is_one_of_many = any(self.owners.is_made_again(each) for each in step.values)
        return step.values, ast.unparse(step.optimizer) if is_one_of_many else ""

    @cached_property
    def optimizers(self) -> set[tuple[Values, str]]:
        """The optimizers that step."""
        return {self.which(each) for each in self.steps}

    def runs_before(self, backward: Event, step: Event) -> bool:
        """Whether the backward has surely run in this iteration when the step runs."""
        if self.events.index(backward) > self.events.index(step) or len(backward.conditions) > len(step.conditions):
            return False
        return all(
            one is other and self._same_side(one, backward, step)
            for one, other in zip(backward.conditions, step.conditions, strict=False)
        )

    def _same_side(self, test: ast.expr, one: Event, other: Event) -> bool:
        branch = self._module.parent(test)
        if not isinstance(branch, ast.If):
            return False
        sides = [_side(self._module, branch, each.node) for each in (one, other)]
        return sides[0] is sides[1] and (sides[0] is not None or one.frame is other.frame)

    def edits(self, scaler_at: Callable[[ast.stmt], str | None]) -> Iterator[Edit]:
        """What scales, unscales, steps and updates.

        Raises:
            LeftError: when the scaler is not seen at one of the places.
        """
        names: dict[ast.stmt, str] = {}
        for use in self.uses:
            name = scaler_at(use)
            if name is None:
                text = f"the scaler would not be seen in {HERE}"
                raise LeftError("no-place-for-scaler", text, at(self._module, use))
            names[use] = name
        module = self._module
        for phase in self.phases:
            if not phase.is_inline:
                yield Surround(module, phase.loss, f"{names[phase.statement]}.scale(", ")")
        unscaled: set[Step] = set()
        for event in self.readers:
            place = self.unscale_place(event)
            if place is not None and place[0] not in unscaled:
                step, statement = place
                unscaled.add(step)
                yield Insert(
                    module, statement, f"{names[step.statement]}.unscale_({module.code(step.optimizer)})", "before"
                )
        for step in self.steps:
            yield Replace(
                module, step.call, f"{names[step.statement]}.step({{optimizer}})", (("optimizer", step.optimizer),)
            )
        for anchor, step in self.updates():
            yield Insert(module, anchor, f"{names[step.statement]}.update()", "after")

    @cached_property
    def readers(self) -> tuple[Event, ...]:
        """What touches gradients after a backward and before the step that follows it."""
        found: list[Event] = []
        scaled = False
        for event in self.events:
            if event.kind is EventKind.BACKWARD:
                scaled = True
            elif event.kind is EventKind.STEP:
                scaled = False
            elif event.kind is EventKind.GRADIENT and scaled:
                found.append(event)
        return tuple(found)

    def unscale_place(self, event: Event) -> tuple[Step, ast.stmt] | None:
        """The step whose gradients the event reads, and the statement beside it in whose course it does."""
        index = self.events.index(event)
        for step in self.steps:
            if self.events.index(step.event) < index or (len(self.optimizers) > 1 and not self.is_of(event, step)):
                continue
            suite = self._module.suite(step.statement)
            for statement in suite[: suite.index(step.statement)]:
                parts = (statement, *self.all_phases.reach.functions([statement]))
                if statement.lineno > self._last_backward(step) and any(event.node in walk(part) for part in parts):
                    return step, statement
            return None
        return None

    def _last_backward(self, step: Step) -> int:
        """The line of the last backward before the step in its function."""
        lines = [each.statement.lineno for each in self.phases if each.function is self._module.function(step.call)]
        return max((each for each in lines if each < step.statement.lineno), default=0)

    def is_of(self, event: Event, step: Step) -> bool:
        """Whether the gradients are those of parameters that the step's optimizer owns."""
        layers = {layer for value in step.values for layer in self.owners.owned(value)}
        calls = [each for each in own(event.node, ast.Attribute) if each.attr in {"parameters", "named_parameters"}]
        models = {value for each in calls for value in self._flow.values(each.value)}
        return bool(models) and models <= layers

    def updates(self) -> Iterator[tuple[ast.stmt, Step]]:
        """The statements after which the scaler is updated: each step of one optimizer, or the last step of several."""
        by_function: dict[ast.AST | None, list[Step]] = {}
        for step in self.steps:
            by_function.setdefault(self._module.function(step.call), []).append(step)
        one_optimizer = len(self.optimizers) == 1
        for steps in by_function.values():
            for group in [[each] for each in steps] if one_optimizer else [steps]:
                anchor = self._common_last([each.statement for each in group])
                yield anchor, group[-1]

    def _common_last(self, statements: Sequence[ast.stmt]) -> ast.stmt:
        """The statement that holds the last of them, in the innermost suite that has all of them in it."""
        here = statements[-1]
        while True:
            suite = self._module.suite(here)
            inside = [
                each for each in statements if any(above in suite for above in (each, *self._module.ancestors(each)))
            ]
            parent = self._module.parent(here)
            is_loop_of_steps = isinstance(parent, ast.For) and not any(
                each.statement in walk(parent) for each in self.phases
            )
            if (len(inside) == len(statements) and not is_loop_of_steps) or not isinstance(parent, ast.stmt):
                return here
            here = parent


def _side(module: Module, branch: ast.If, node: ast.AST) -> bool | None:
    """On which side of the branch the node stands: True in its body, False in its else, None in neither."""
    above = {id(each) for each in (node, *module.ancestors(node))}
    if any(id(each) in above for each in branch.body):
        return True
    return False if any(id(each) in above for each in branch.orelse) else None
