"""The scaler of ``amp``: which calls it goes around, in which order, and where a training step does not allow it.

fp16 gradients underflow, so the loss is scaled before the backward, and the optimizer's step unscales the gradients and
is left out when they overflow. The order is strict: scale, then unscale (once for each optimizer, before anything else
looks at gradients), then step (once for each optimizer), then one update.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from codemods.amp.reasons import LeftError
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import walk
from codemods.dataflow.values import TENSOR_SORTS, Sort, without_none
from codemods.editing.values import Insert, Replace, Surround
from codemods.facts.autograd.double_backward import keeps_graph
from codemods.facts.models.layers import Model
from codemods.facts.precision.hazards import gradient_hook, located
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.optimizers import chosen
from codemods.library.kinds import Kind, kind
from codemods.library.packages import steps_no_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.dataflow.values import Value, Values
    from codemods.editing.values import Edit
    from codemods.facts.reason import Place
    from codemods.facts.script import Script
    from codemods.facts.training.iterations import Event
    from codemods.facts.training.loss_regions import Phase, Phases

_UNKNOWN = frozenset({Sort.UNKNOWN, Sort.MADE})
_OF_SCHEDULERS = "get_last_lr"
"""A method that schedulers have and optimizers have not."""
_SCHEDULER_TYPES = frozenset({"LRScheduler", "_LRScheduler"})
_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)


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

    # Why not.

    def why_not(self) -> Reason | None:
        """Why a scaler cannot be put in, or None where it can."""
        return (
            self._why_closure()
            or self._why_not_simple_steps()
            or self._why_double_backward()
            or self._why_order_unknown()
            or self._why_without_gradients()
            or self._why_several_optimizers()
            or self._why_gradients_read()
            or self._why_gradients_elsewhere()
            or self._why_gradients_kept()
        )

    def _why_closure(self) -> Reason | None:
        """A backward in a function that is handed to ``optimizer.step``, or a step that asks for one."""
        closures = {phase.function for phase in self.phases} - {None}
        for call in self._module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "step":
                handed = [value for each in _arguments(call) for value in self._flow.values(each)]
                is_lbfgs = any(each.name == "torch.optim.LBFGS" for each in self._flow.values(call.func.value))
                if is_lbfgs or any(each.site in closures for each in handed):
                    text = f"optimizer.step(closure) is not supported by GradScaler ({HERE})"
                    return Reason("step-closure", text, (at(self._module, call),))
        return None

    def _why_not_simple_steps(self) -> Reason | None:
        if any(each.kind is EventKind.STEP and each.module is not self._module for each in self.events):
            return Reason("unseen-step", "the optimizer steps in another file")
        if not self.steps:
            unknown = self._why_order_unknown()
            if unknown is not None:
                return unknown
            if self.applies_gradients:
                return Reason("gradients-read", "gradients are applied by hand, and nothing would unscale them")
            here = (at(self._module, self.phases[0].call),)
            return Reason("unseen-step", f"the step after the backward in {HERE} is not seen", here)
        for step in self.steps:
            here = (at(self._module, step.call),)
            kinds = {kind(self._flow, each) for each in step.values}
            if kinds - {Kind.OPTIMIZER, None}:
                return Reason("unknown-optimizer", f"what steps in {HERE} is not always an optimizer", here)
            if None in kinds:
                return Reason("unknown-optimizer", f"what steps in {HERE} is not known", here)
            if (
                _arguments(step.call)
                or not isinstance(step.statement, ast.Expr)
                or step.statement.value is not step.call
            ):
                return Reason("not-editable", f"optimizer.step() in {HERE} is more than a plain statement", here)
        return None

    @property
    def applies_gradients(self) -> bool:
        """Whether gradients are read, and no optimizer steps: an attack on images, an update by hand."""
        kinds = {each.kind for each in self.events}
        return EventKind.GRADIENT in kinds and EventKind.STEP not in kinds

    @property
    def differentiates_gradients(self) -> bool:
        """Whether gradients are differentiated again: a gradient penalty."""
        return self._why_double_backward() is not None

    def _why_double_backward(self) -> Reason | None:
        for event in self.events:
            if event.kind not in {EventKind.GRADIENT, EventKind.BACKWARD} or not isinstance(event.node, ast.Call):
                continue
            differentiates = any(each.name == "torch.autograd.grad" for each in self._flow.values(event.node.func))
            if differentiates or keeps_graph(self._flow, event.node):
                text = f"double backward ({HERE}): a gradient penalty would be scaled twice"
                return Reason("double-backward", text, (located(self.script, event.node),))
        return None

    def _why_order_unknown(self) -> Reason | None:
        """A step of something unknown, which may be an optimizer, in the code of this iteration."""
        code = {self.phases[0].iteration.owner, *(each.function for each in self.phases)} - {None}
        for call in self._module.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "step" or _arguments(call):
                continue
            values = without_none(self._flow.values(call.func.value))
            is_unknown = all(kind(self._flow, each) is None and each.sort in _UNKNOWN for each in values)
            is_here = any(each in code for each in self._module.ancestors(call))
            if is_unknown and is_here and not self._updates_no_parameters(call, call.func.value):
                return Reason("unknown-optimizer", f"what steps in {HERE} is not known", (at(self._module, call),))
        return None

    def _updates_no_parameters(self, step: ast.Call, stepped: ast.expr) -> bool:
        """Whether what steps is known to be no optimizer: by the package that made it, or by what else is done with it.

        A step of an optimizer returns a loss or None, of which nothing can be unpacked.
        """
        text = ast.unparse(stepped)
        if any(steps_no_parameters(name) for name in self._makers(stepped, text)):
            return True
        parent = self._module.parent(step)
        if isinstance(parent, ast.Subscript) or (
            isinstance(parent, ast.Assign) and any(isinstance(each, (ast.Tuple, ast.List)) for each in parent.targets)
        ):
            return True
        asked = (each for each in self._module.nodes(ast.Attribute) if each.attr == _OF_SCHEDULERS)
        return any(ast.unparse(each.value) == text for each in asked) or self._is_annotated(step, stepped)

    def _makers(self, stepped: ast.expr, text: str) -> Iterator[str]:
        """The libraries' classes and functions that make it, or a tuple that it is unpacked from."""
        values = self._flow.values(stepped)
        yield from (each.name for each in values if each.sort is Sort.MADE)
        for assignment in self._module.nodes(ast.Assign) if not values else ():
            parts = [part for each in assignment.targets if isinstance(each, ast.Tuple) for part in each.elts]
            if isinstance(assignment.value, ast.Call) and text in map(ast.unparse, parts):
                yield from (each.name for each in self._flow.values(assignment.value.func))

    def _is_annotated(self, step: ast.Call, stepped: ast.expr) -> bool:
        """``def train(model, scheduler: LRScheduler)``."""
        function = self._module.function(step)
        known = signature(function).named if function is not None and isinstance(stepped, ast.Name) else ()
        given = [each.annotation for each in known if each.arg == ast.unparse(stepped)]
        return any(each is not None and ast.unparse(each).rpartition(".")[2] in _SCHEDULER_TYPES for each in given)

    def _why_without_gradients(self) -> Reason | None:
        """A step for which no gradients may have been computed: the scaler has nothing to check, and raises."""
        for step in self.steps:
            backwards = [phase for phase in self.phases if self._runs_before(phase.event, step.event)]
            if not backwards:
                text = f"optimizer.step() in {HERE} may run without a backward before it"
                return Reason("step-without-backward", text, (at(self._module, step.call),))
        return None

    def _runs_before(self, backward: Event, step: Event) -> bool:
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

    def _which(self, step: Step) -> tuple[Values, str]:
        """Which optimizer steps; those that one function makes are told apart by their names."""
        is_one_of_many = any(self._is_made_again(each) for each in step.values)
        return step.values, ast.unparse(step.optimizer) if is_one_of_many else ""

    def _is_made_again(self, value: Value) -> bool:
        """Whether it is made in a function that is called at several places."""
        if value.site is None:
            return False
        function = next((each.function(value.site) for each in self.script.modules if each.holds(value.site)), None)
        return function is not None and len(self._flow.callers(function)) > 1

    def _why_several_optimizers(self) -> Reason | None:
        stepped: dict[tuple[Values, str], Step] = {}
        for step in self.steps:
            again = stepped.get(self._which(step))
            if again is not None and len(self._optimizers) > 1:
                text = f"an optimizer steps twice in an iteration ({HERE}), others with it"
                return Reason("several-optimizers", text, (self._both(again, step),))
            stepped[self._which(step)] = step
            inner = [each for each in step.event.loops if any(each in phase.event.loops for phase in self.phases)]
            if len(stepped) + len(self.steps) > 2 and inner:  # noqa: PLR2004 - more than one step
                text = f"optimizers step at different rates (the loop in {HERE})"
                return Reason("several-optimizers", text, (at(self._module, inner[0]),))
        if len(stepped) < 2:  # noqa: PLR2004 - one optimizer
            return None
        for anchor, step in self._updates():
            suite = self._module.suite(anchor)
            if not any(self._steps_surely(each) for each in suite[: suite.index(anchor) + 1]):
                text = f"an iteration may pass without a step ({HERE})"
                return Reason("several-optimizers", text, (at(self._module, step.call),))
        return self._why_parameters_mixed(list(stepped.values()))

    def _both(self, one: Step, other: Step) -> Place:
        return at(self._module, one.call, other.call, last=" and ")

    def _steps_surely(self, statement: ast.stmt) -> bool:
        """Whether one of the optimizers steps whenever the statement runs."""
        if any(each.statement is statement for each in self.steps):
            return True
        match statement:
            case ast.If(_, body, other):
                return any(map(self._steps_surely, body)) and any(map(self._steps_surely, other))
            case ast.With(_, body) | ast.For(_, _, body) | ast.Try(body):
                return any(map(self._steps_surely, body))
        return False

    def _why_parameters_mixed(self, steps: Sequence[Step]) -> Reason | None:
        seen: dict[Value, Step] = {}
        for step in steps:
            layers = {layer for value in step.values for layer in self._owned(value)}
            if not layers:
                text = f"the parameters of the optimizer in {HERE} are not known, and there are others"
                return Reason("several-optimizers", text, (at(self._module, step.call),))
            shared = next((each for each in layers if each in seen), None)
            if shared is not None:
                both = self._both(seen[shared], step)
                if any(map(self._is_made_again, (shared, *step.values))):
                    text = f"models or optimizers that one function makes are not told apart ({HERE})"
                    return Reason("several-optimizers", text, (both,))
                return Reason("several-optimizers", f"optimizers share parameters ({HERE})", (both,))
            seen |= dict.fromkeys(layers, step)
            feeding = [phase for phase in self.phases if self._runs_before(phase.event, step.event)]
            is_fed = any(layers & self._called(phase) and not self._chooses_model(phase) for phase in feeding)
            if not is_fed or layers & self._frozen:
                text = f"the optimizer in {HERE} may step without gradients"
                return Reason("step-without-backward", text, (at(self._module, step.call),))
        return None

    def _chooses_model(self, phase: Phase) -> bool:
        """Whether it depends on a condition which models the phase runs."""
        conditional = [each for part in phase.code for each in own(part, ast.If, ast.IfExp, ast.Try)]
        calls = [call for each in conditional for call in own(each, ast.Call)]
        return any(self.all_phases.calls_model(call) for call in calls)

    @cached_property
    def _frozen(self) -> set[Value]:
        """The layers all of whose parameters are told to need no gradients, and never told otherwise."""
        told: dict[bool, set[Value]] = {True: set(), False: set()}
        for module in self.script.modules:
            for call in module.nodes(ast.Call):
                match call:
                    case ast.Call(ast.Attribute(of, "requires_grad_"), [ast.Constant(bool() as needs)]):
                        told[needs] |= self._layers_of(self._flow.values(of))
            for assignment in module.nodes(ast.Assign):
                match assignment:
                    case ast.Assign([ast.Attribute(of, "requires_grad")], ast.Constant(False)) if not isinstance(
                        module.parent(assignment), ast.If
                    ):
                        told[False] |= self._layers_of(self._flow.values(of))
                    case ast.Assign([ast.Attribute(of, "requires_grad")]):
                        told[True] |= self._layers_of(self._flow.values(of))
        return told[False] - told[True]

    def _layers_of(self, values: Values) -> set[Value]:
        """The layers of the models among the values, and of those whose parameters are."""
        models = {each for each in values if kind(self._flow, each) is Kind.MODEL}
        models |= set(_models_of(self._flow, values))
        return {layer for each in models for layer in Model(self._flow, each).layers}

    def _owned(self, optimizer: Value) -> set[Value]:
        """The layers whose parameters the optimizer is made with."""
        given = _parameters_of(optimizer)
        if given is None:
            return set()
        models = set(_models_of(self._flow, self._flow.values(given)))
        for attribute in own(given, ast.Attribute):
            if attribute.attr in {"parameters", "named_parameters"}:
                models |= {each for each in self._flow.values(attribute.value) if kind(self._flow, each) is Kind.MODEL}
        return {layer for each in models for layer in Model(self._flow, self._as_made(each)).layers}

    def _as_made(self, model: Value) -> Value:
        """The one object that ``self`` is, where the iteration calls only one of its class."""
        if model.sort is not Sort.INSTANCE or model.site is not None:
            return model
        called = {each for phase in self.phases for each in self.all_phases.called(phase.code) if each.of == model.of}
        made = {each for each in called if each.site is not None}
        return made.pop() if len(made) == 1 else model

    def _called(self, phase: Phase) -> set[Value]:
        """The layers that the phase runs."""
        models = [each for each in self.all_phases.models(phase) if kind(self._flow, each) is Kind.MODEL]
        return {layer for each in models for layer in Model(self._flow, each).layers}

    # Gradients that are read or changed between backward and step.

    @cached_property
    def _readers(self) -> tuple[Event, ...]:
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

    def _why_gradients_read(self) -> Reason | None:
        for event in self._readers:
            here = (self._at(event),)
            place = self._unscale_place(event)
            if place is None and len(self._optimizers) > 1 and not any(self._is_of(event, each) for each in self.steps):
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
                for each in self.phases
            ):
                return Reason("gradients-read", f"gradients are read between two backwards ({HERE})", here)
        return None

    def _at(self, event: Event) -> Place:
        return located(self.script, event.module.statement(event.node))

    def _unscale_place(self, event: Event) -> tuple[Step, ast.stmt] | None:
        """The step whose gradients the event reads, and the statement beside it in whose course it does."""
        index = self.events.index(event)
        for step in self.steps:
            if self.events.index(step.event) < index or (len(self._optimizers) > 1 and not self._is_of(event, step)):
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

    def _is_of(self, event: Event, step: Step) -> bool:
        """Whether the gradients are those of parameters that the step's optimizer owns."""
        layers = {layer for value in step.values for layer in self._owned(value)}
        calls = [each for each in own(event.node, ast.Attribute) if each.attr in {"parameters", "named_parameters"}]
        models = {value for each in calls for value in self._flow.values(each.value)}
        return bool(models) and models <= layers

    @cached_property
    def _layers(self) -> set[Value]:
        """The layers whose parameters one of the optimizers owns."""
        return {layer for step in self.steps for value in step.values for layer in self._owned(value)}

    def _why_gradients_elsewhere(self) -> Reason | None:
        """Gradients that no optimizer unscales: of inputs, of other models, in hooks."""
        hook = gradient_hook(self.script)
        if hook is not None:
            text = f"a hook would see scaled gradients ({HERE})"
            return Reason("gradients-read", text, (located(self.script, hook),))
        for event in self.events:
            if event.kind is not EventKind.GRADIENT:
                continue
            of = event.subjects
            if isinstance(event.node, ast.Call) and event.node.args:
                of = self._flow.values(event.node.args[0])
            layers = self._layers_of(of) | {each.of for each in of if each.sort is Sort.METHOD and each.of is not None}
            is_tensor = any(each.sort in TENSOR_SORTS and each not in self._given for each in of)
            if is_tensor or (self._layers and not layers <= self._layers):
                text = f"gradients that no optimizer is seen to own are read in {HERE}"
                return Reason("gradients-read", text, (self._at(event),))
            if layers:
                for given in self._given_expressions:
                    choice = chosen(self._flow, given)
                    if choice is not None:
                        text = f"the optimizer may own only some of the gradients read in {HERE} ({HERE})"
                        return Reason("gradients-read", text, (self._at(event), located(self.script, choice)))
        return None

    @property
    def _given_expressions(self) -> Iterator[ast.expr]:
        """What the optimizers are made with."""
        found = (_parameters_of(each) for step in self.steps for each in step.values)
        return (each for each in found if each is not None)

    @cached_property
    def _given(self) -> set[Value]:
        """The tensors that the optimizers are made with."""
        calls = [value.site for step in self.steps for value in step.values if isinstance(value.site, ast.Call)]
        given = {value for call in calls for each in _arguments(call) for value in self._flow.values(each)}
        return given | {item for each in given if each.sort is Sort.CONTAINER for item in self._flow.items(each)}

    def _why_gradients_kept(self) -> Reason | None:
        """Gradients that are still there, unscaled or scaled otherwise, when a backward adds to them."""
        phases = {each.call: each for each in self.phases}
        for values, step in {each.values: each for each in reversed(self.steps)}.items():
            layers = {layer for value in values for layer in self._owned(value)}
            stale = waiting = polluted = False
            for event in (*self.events, None, *self.events):
                if event is not None and self._fills_with_zeros(event):
                    stale = waiting = polluted = False
                elif event is None:
                    # The scaler has been updated: what another optimizer's backward has left is scaled otherwise.
                    stale = stale or (waiting and len(self._optimizers) > 1)
                elif event.kind is EventKind.ZERO and self._zeroes(event, values, layers):
                    stale = waiting = polluted = False
                elif event.kind is EventKind.STEP and event.subjects & values:
                    if polluted:
                        return self._kept(step)
                    stale, waiting = True, False
                elif event.kind is EventKind.BACKWARD:
                    phase = phases.get(event.node) if isinstance(event.node, ast.Call) else None
                    if phase is None or len(self._optimizers) == 1 or layers & self._called(phase):
                        polluted = polluted or stale
                        waiting = True
        return None

    def _fills_with_zeros(self, event: Event) -> bool:
        """``parameter.grad.zero_()``, ``parameter.grad.data.zero_()``."""
        above = [*islice(event.module.ancestors(event.node), 3)]
        return event.kind is EventKind.GRADIENT and any(
            isinstance(each, ast.Attribute) and each.attr == "zero_" for each in above
        )

    @cached_property
    def _optimizers(self) -> set[tuple[Values, str]]:
        return {self._which(each) for each in self.steps}

    def _kept(self, step: Step) -> Reason:
        optimizer = self._module.code(step.optimizer)
        text = f"the gradients for {optimizer}.step() in {HERE} are added to others, scaled otherwise"
        return Reason("gradients-accumulated", text, (at(self._module, step.call),))

    def _zeroes(self, event: Event, optimizer: Values, layers: set[Value]) -> bool:
        """Whether the event zeroes gradients of the optimizer's parameters, for all that is known."""
        if event.subjects & optimizer:
            return True
        zeroed = self._layers_of(event.subjects)
        if not zeroed or not layers:
            return not any(kind(self._flow, each) is Kind.OPTIMIZER for each in event.subjects)
        return bool(zeroed & layers)

    # The edits.

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
        for event in self._readers:
            place = self._unscale_place(event)
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
        for anchor, step in self._updates():
            yield Insert(module, anchor, f"{names[step.statement]}.update()", "after")

    def _updates(self) -> Iterator[tuple[ast.stmt, Step]]:
        """The statements after which the scaler is updated: each step of one optimizer, or the last step of several."""
        by_function: dict[ast.AST | None, list[Step]] = {}
        for step in self.steps:
            by_function.setdefault(self._module.function(step.call), []).append(step)
        one_optimizer = len(self._optimizers) == 1
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


def _parameters_of(optimizer: Value) -> ast.expr | None:
    """The parameters that the optimizer is made with."""
    call = optimizer.site
    if not isinstance(call, ast.Call):
        return None
    return call.args[0] if call.args else next((each.value for each in call.keywords if each.arg == "params"), None)


def _models_of(flow: Flow, values: Iterable[Value], depth: int = 3) -> Iterator[Value]:
    for value in values:
        if value.sort is Sort.CONTAINER and depth:
            yield from _models_of(flow, flow.items(value), depth - 1)
        elif (
            value.name in {"torch.nn.Module.parameters", "torch.nn.Module.named_parameters", "torch.nn.Parameter"}
            and value.of is not None
        ):
            yield value.of


def _side(module: Module, branch: ast.If, node: ast.AST) -> bool | None:
    """On which side of the branch the node stands: True in its body, False in its else, None in neither."""
    above = {id(each) for each in (node, *module.ancestors(node))}
    if any(id(each) in above for each in branch.body):
        return True
    return False if any(id(each) in above for each in branch.orelse) else None


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]
