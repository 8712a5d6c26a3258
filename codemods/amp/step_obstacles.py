"""Where the steps of a training iteration do not allow a scaler: their order, their number, what steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import arguments_of, signature
from codemods.dataflow.values import Made, Unknown, without_none
from codemods.facts.autograd.double_backward import keeps_graph
from codemods.facts.devices.cuda_use import located
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.iterations import EventKind
from codemods.facts.training.momentum import is_fused, keeps_momentum
from codemods.library.kinds import Kind, kind
from codemods.library.packages import steps_no_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.amp.scaler import Scaling, Step
    from codemods.dataflow.values import Value, Values
    from codemods.facts.reason import Place

_UNKNOWN = (Unknown, Made)
_OF_SCHEDULERS = "get_last_lr"
"""A method that schedulers have and optimizers have not."""
_SCHEDULER_TYPES = frozenset({"LRScheduler", "_LRScheduler"})


class StepObstacles:
    """What in the steps of an iteration keeps a scaler out."""

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._owners = scaling.owners
        self._script = scaling.script
        self._module = scaling.script.module
        self._flow = scaling.script.flow

    def why_not(self) -> Reason | None:
        """Why a scaler cannot be put in, or None where it can."""
        return (
            self._why_closure()
            or self._why_not_simple_steps()
            or self._why_gradients_asked_for()
            or self._why_order_unknown()
            or self._why_without_gradients()
            or self._why_several_optimizers()
            or self._why_momentum_unset()
        )

    def _why_closure(self) -> Reason | None:
        """A backward in a function that is handed to ``optimizer.step``."""
        closures = {phase.function for phase in self._scaling.phases} - {None}
        for call in self._module.nodes(ast.Call):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "step":
                handed = [value for each in arguments_of(call) for value in self._flow.values(each)]
                if any(each.site in closures for each in handed):
                    text = f"optimizer.step(closure) is not supported by GradScaler ({HERE})"
                    return Reason("step-closure", text, (at(self._module, call),))
        return None

    def _why_not_simple_steps(self) -> Reason | None:
        if any(each.kind is EventKind.STEP and each.module is not self._module for each in self._scaling.events):
            return Reason("unseen-step", "the optimizer steps in another file")
        if not self._scaling.steps:
            unknown = self._why_order_unknown()
            if unknown is not None:
                return unknown
            if self._scaling.applies_gradients:
                return Reason("gradients-read", "gradients are applied by hand, and nothing would unscale them")
            here = (at(self._module, self._scaling.phases[0].call),)
            return Reason("unseen-step", f"the step after the backward in {HERE} is not seen", here)
        for step in self._scaling.steps:
            here = (at(self._module, step.call),)
            kinds = {kind(self._flow, each) for each in step.values}
            if kinds - {Kind.OPTIMIZER, None}:
                return Reason("unknown-optimizer", f"what steps in {HERE} is not always an optimizer", here)
            if None in kinds:
                return Reason("unknown-optimizer", f"what steps in {HERE} is not known", here)
            if (
                arguments_of(step.call)
                or not isinstance(step.statement, ast.Expr)
                or step.statement.value is not step.call
            ):
                return Reason("not-editable", f"optimizer.step() in {HERE} is more than a plain statement", here)
        return None

    @property
    def differentiates_gradients(self) -> bool:
        """Whether gradients are differentiated again, as by a gradient penalty, or asked for beside the step."""
        return self._why_gradients_asked_for() is not None

    def _why_gradients_asked_for(self) -> Reason | None:
        for event in self._scaling.events:
            if event.kind not in {EventKind.GRADIENT, EventKind.BACKWARD} or not isinstance(event.node, ast.Call):
                continue
            differentiates = any(each.name == "torch.autograd.grad" for each in self._flow.values(event.node.func))
            here = (located(self._script, event.node),)
            if keeps_graph(self._flow, event.node):
                text = f"double backward ({HERE}): a gradient penalty would be scaled twice"
                return Reason("double-backward", text, here)
            if differentiates:
                text = (
                    f"nothing scales what torch.autograd.grad differentiates ({HERE}): small gradients are zero in fp16"
                )
                return Reason("gradients-read", text, here)
        return None

    def _why_order_unknown(self) -> Reason | None:
        """A step of something unknown, which may be an optimizer, in the code of this iteration."""
        code = {self._scaling.phases[0].iteration.owner, *(each.function for each in self._scaling.phases)} - {None}
        for call in self._module.nodes(ast.Call):
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "step" or arguments_of(call):
                continue
            values = without_none(self._flow.values(call.func.value))
            is_unknown = all(kind(self._flow, each) is None and isinstance(each, _UNKNOWN) for each in values)
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
        yield from (each.name for each in values if isinstance(each, Made))
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
        for step in self._scaling.steps:
            backwards = [phase for phase in self._scaling.phases if self._scaling.runs_before(phase.event, step.event)]
            if not backwards:
                text = f"optimizer.step() in {HERE} may run without a backward before it"
                return Reason("step-without-backward", text, (at(self._module, step.call),))
        return None

    def _why_momentum_unset(self) -> Reason | None:
        """A fused step that a scaler skips before it has set the momentum."""
        for step in self._scaling.steps:
            if any(is_fused(each) and keeps_momentum(self._script, each) for each in step.values):
                text = f"a fused SGD ({HERE}) goes on with momentum from unset memory where its first step is skipped"
                return Reason("momentum-unset", text, (at(self._module, step.call),))
        return None

    def _why_several_optimizers(self) -> Reason | None:
        stepped: dict[tuple[Values, str], Step] = {}
        for step in self._scaling.steps:
            again = stepped.get(self._scaling.which(step))
            if again is not None and len(self._scaling.optimizers) > 1:
                text = f"an optimizer steps twice in an iteration ({HERE}), others with it"
                return Reason("several-optimizers", text, (self._both(again, step),))
            stepped[self._scaling.which(step)] = step
            inner = [
                each for each in step.event.loops if any(each in phase.event.loops for phase in self._scaling.phases)
            ]
            if len(stepped) + len(self._scaling.steps) > 2 and inner:  # noqa: PLR2004 - more than one step
                text = f"optimizers step at different rates (the loop in {HERE})"
                return Reason("several-optimizers", text, (at(self._module, inner[0]),))
        if len(stepped) < 2:  # noqa: PLR2004 - one optimizer
            return None
        for anchor, step in self._scaling.updates():
            suite = self._module.suite(anchor)
            if not any(self._steps_surely(each) for each in suite[: suite.index(anchor) + 1]):
                text = f"an iteration may pass without a step ({HERE})"
                return Reason("several-optimizers", text, (at(self._module, step.call),))
        return self._why_parameters_mixed(list(stepped.values()))

    def _both(self, one: Step, other: Step) -> Place:
        return at(self._module, one.call, other.call, last=" and ")

    def _steps_surely(self, statement: ast.stmt) -> bool:
        """Whether one of the optimizers steps whenever the statement runs."""
        if any(each.statement is statement for each in self._scaling.steps):
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
            layers = {layer for value in step.values for layer in self._owners.owned(value)}
            if not layers:
                text = f"the parameters of the optimizer in {HERE} are not known, and there are others"
                return Reason("several-optimizers", text, (at(self._module, step.call),))
            shared = next((each for each in layers if each in seen), None)
            if shared is not None:
                both = self._both(seen[shared], step)
                if any(map(self._owners.is_made_again, (shared, *step.values))):
                    text = f"models or optimizers that one function makes are not told apart ({HERE})"
                    return Reason("several-optimizers", text, (both,))
                return Reason("several-optimizers", f"optimizers share parameters ({HERE})", (both,))
            seen |= dict.fromkeys(layers, step)
            feeding = [phase for phase in self._scaling.phases if self._scaling.runs_before(phase.event, step.event)]
            is_fed = any(
                layers & self._owners.called(phase) and not self._owners.chooses_model(phase) for phase in feeding
            )
            if not is_fed or layers & self._owners.frozen:
                text = f"the optimizer in {HERE} may step without gradients"
                return Reason("step-without-backward", text, (at(self._module, step.call),))
        return None
