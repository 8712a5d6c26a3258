"""Which layers optimizers step, and which layers the backwards of an iteration reach."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.values import Container, Instance, owner_of
from codemods.facts.models.layers import Model
from codemods.facts.models.optimized import given_parameters
from codemods.facts.reach import own
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.values import Value, Values
    from codemods.facts.script import Script
    from codemods.facts.training.loss_regions import Phase, Phases

_PARAMETERS = frozenset({"torch.nn.Module.parameters", "torch.nn.Module.named_parameters", "torch.nn.Parameter"})


@dataclass(frozen=True, eq=False)
class Owners:
    """Says whose parameters are trained by what, in one training iteration."""

    script: Script
    all_phases: Phases
    phases: tuple[Phase, ...]

    @property
    def _flow(self) -> Flow:
        return self.script.flow

    @cached_property
    def frozen(self) -> set[Value]:
        """The layers all of whose parameters are told to need no gradients, and never told otherwise."""
        told: dict[bool, set[Value]] = {True: set(), False: set()}
        for module in self.script.modules:
            for call in module.nodes(ast.Call):
                match call:
                    case ast.Call(ast.Attribute(of, "requires_grad_"), [ast.Constant(bool() as needs)]):
                        told[needs] |= self.layers_of(self._flow.values(of))
            for assignment in module.nodes(ast.Assign):
                match assignment:
                    case ast.Assign([ast.Attribute(of, "requires_grad")], ast.Constant(False)) if not isinstance(
                        module.parent(assignment), ast.If
                    ):
                        told[False] |= self.layers_of(self._flow.values(of))
                    case ast.Assign([ast.Attribute(of, "requires_grad")]):
                        told[True] |= self.layers_of(self._flow.values(of))
        return told[False] - told[True]

    def layers_of(self, values: Values) -> set[Value]:
        """The layers of the models among the values, and of those whose parameters are."""
        models = {each for each in values if kind(self._flow, each) is Kind.MODEL}
        models |= set(_models_of(self._flow, values))
        return {layer for each in models for layer in Model(self._flow, each).layers}

    def owned(self, optimizer: Value) -> set[Value]:
        """The layers whose parameters the optimizer is made with."""
        given = parameters_of(optimizer)
        if given is None:
            return set()
        models = set(_models_of(self._flow, self._flow.values(given)))
        for attribute in own(given, ast.Attribute):
            if attribute.attr in {"parameters", "named_parameters"}:
                models |= {each for each in self._flow.values(attribute.value) if kind(self._flow, each) is Kind.MODEL}
        return {layer for each in models for layer in Model(self._flow, self._as_made(each)).layers}

    def _as_made(self, model: Value) -> Value:
        """The one object that ``self`` is, where the iteration calls only one of its class."""
        if not isinstance(model, Instance) or model.site is not None:
            return model
        called = {
            each for phase in self.phases for each in self.all_phases.called(phase.code) if owner_of(each) == model.of
        }
        made = {each for each in called if each.site is not None}
        return made.pop() if len(made) == 1 else model

    def called(self, phase: Phase) -> set[Value]:
        """The layers that the phase runs."""
        models = [each for each in self.all_phases.models(phase) if kind(self._flow, each) is Kind.MODEL]
        return {layer for each in models for layer in Model(self._flow, each).layers}

    def chooses_model(self, phase: Phase) -> bool:
        """Whether it depends on a condition which models the phase runs."""
        conditional = [each for part in phase.code for each in own(part, ast.If, ast.IfExp, ast.Try)]
        calls = [call for each in conditional for call in own(each, ast.Call)]
        return any(self.all_phases.calls_model(call) for call in calls)

    def is_made_again(self, value: Value) -> bool:
        """Whether it is made in a function that is called at several places."""
        if value.site is None:
            return False
        function = next((each.function(value.site) for each in self.script.modules if each.holds(value.site)), None)
        return function is not None and len(self._flow.callers(function)) > 1


def parameters_of(optimizer: Value) -> ast.expr | None:
    """The parameters that the optimizer is made with."""
    return given_parameters(optimizer.site) if isinstance(optimizer.site, ast.Call) else None


def _models_of(flow: Flow, values: Iterable[Value]) -> Iterator[Value]:
    for value in closure(values, lambda each: flow.items(each) if isinstance(each, Container) else ()):
        owner = owner_of(value)
        if owner is not None and value.name in _PARAMETERS:
            yield owner
