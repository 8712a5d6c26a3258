"""The code that only evaluates: a function, or some statements, with what keeps it from doing without gradients."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import Function, Method, Unknown, without_none
from codemods.facts.models.compilability import code_of
from codemods.facts.models.layers import Model, calls_only_known, holds_only_known
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Value
    from codemods.facts.reason import Reason

_GIVEN_MODELS = ("torch.nn.Transformer", "torch.nn.DataParallel", "torch.nn.parallel.", "torch.nn.utils.")
"""Layers of torch that are given others, and run them."""


@dataclass(frozen=True, eq=False)
class Kept:
    """What may keep tensors from inside a model's forward."""

    module: Module
    reason: Reason
    forward: FunctionNode | None
    """The forward that keeps them, as it runs; None for a hook, of which the model is not known."""


@dataclass(frozen=True, eq=False)
class EvaluationRegion:
    """A function, or neighbouring statements, that call models and compute no gradients."""

    flow: Flow
    module: Module
    function: FunctionNode | None
    """The function, where all of it evaluates."""
    statements: tuple[ast.stmt, ...]
    """The statements from the first to the last call of a model, where only a region evaluates."""
    calls: tuple[ast.Call, ...]
    """The calls of models in it that compute a graph that nobody uses."""
    kept: tuple[Kept, ...]
    """Where the project may keep tensors from inside a model's forward, which training may read."""
    why_not: Reason | None
    """Why it cannot do without gradients, or None where it can."""
    flag: str = ""
    """The parameter of its function that says whether it is to have gradients, as it trains then."""
    is_target: bool = False
    """Whether it computes what others are trained on: its graph leads to parameters that no optimizer steps."""

    def is_followed_by(self, other: EvaluationRegion) -> bool:
        """Whether the statements of another region are those directly behind this one's, and one block serves both."""
        if self.module is not other.module or not self.statements or not other.statements:
            return False
        is_open = self.why_not is None is other.why_not and not self.flag and not other.flag
        suite = self.module.suite(self.statements[-1])
        behind = suite[next(at for at, each in enumerate(suite) if each is self.statements[-1]) + 1 :]
        return is_open and bool(behind) and behind[0] is other.statements[0]

    def followed_by(self, other: EvaluationRegion) -> EvaluationRegion:
        """Both regions as one."""
        together = (*self.statements, *other.statements)
        return replace(self, statements=together, calls=(*self.calls, *other.calls))

    def beside(self, modules: Collection[Module]) -> EvaluationRegion:
        """The same region where only these modules run in one process with it, and train."""
        keeping = [each for each in self.kept if each.module in modules] if self.why_not is None else []
        reason = next((each.reason for each in keeping if self._may_run(each.forward)), None)
        return self if reason is None else replace(self, why_not=reason)

    def _may_run(self, forward: FunctionNode | None) -> bool:
        """Whether the code may run a model's forward, for all that is known of the models it calls."""
        if forward is None or not self.calls or self._is_put_in_later(forward):
            return True
        inside = (each for node in self.statements or (self.function,) if node is not None for each in walk(node))
        direct = (each for each in inside if isinstance(each, ast.Call) and self._runs_project(each))
        called = closure((*self.calls, *direct), self._calls_inside)
        return any(self._may_lead(value, forward) for call in called for value in self._callees(call))

    def _is_put_in_later(self, forward: FunctionNode) -> bool:
        """Whether a model that runs the forward takes the place of a layer of another one: ``net[1] = keep``."""
        return any(
            self._model(value) is not None and self._may_lead(value, forward)
            for module in self.flow.modules
            for statement in module.nodes(ast.Assign)
            if any(map(_is_part, statement.targets))
            for value in without_none(self.flow.values(statement.value))
        )

    def _callees(self, call: ast.Call) -> Collection[Value]:
        return without_none(self.flow.values(call.func)) or (Unknown("nothing is known of it"),)

    def _may_lead(self, value: Value, forward: FunctionNode) -> bool:
        found = self._model(value)
        if found is None:
            return not (isinstance(value, Function) and calls_only_known(self.flow, value.site))
        model = Model(self.flow, found)
        return forward in code_of(model) or not all(map(self._is_seen_through, model.layers))

    def _is_seen_through(self, layer: Value) -> bool:
        """Whether all that a call of the layer runs is known: it was given no layers that are not."""
        class_ = Model(self.flow, layer).class_
        if class_ is not None:
            return calls_only_known(self.flow, class_)
        if not layer.name.startswith(("torch.nn.", "torchvision.models.")) or not isinstance(layer.site, ast.Call):
            return False
        return not layer.name.startswith(_GIVEN_MODELS) and holds_only_known(self.flow, layer)

    @property
    def node(self) -> ast.stmt:
        """The function, or the first statement."""
        return self.function if self.function is not None else self.statements[0]

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The models it calls, as far as they are known."""
        found: dict[Value, None] = {}
        for call in self.calls:
            for value in self.flow.values(call.func):
                owner = value.of if isinstance(value, Method) else value
                if kind(self.flow, owner) is Kind.MODEL:
                    found[owner] = None
        return tuple(Model(self.flow, each) for each in found)

    @property
    def is_exact(self) -> bool:
        """Whether every model it calls is known to compute the same bits with gradients and without."""
        if not self.calls and self.function is not None:
            return True
        if self.is_target and self._may_be_compiled:
            return False
        return bool(self.calls) and all(map(self._is_exact, closure(self.calls, self._calls_inside)))

    @property
    def _may_be_compiled(self) -> bool:
        """Whether its code may be compiled together with what trains, and be fused otherwise then."""
        return any(
            each.attr == "compile" and any(value.name == "torch.compile" for value in self.flow.values(each))
            for module in self.flow.modules
            for each in module.nodes(ast.Attribute)
        )

    def _is_exact(self, call: ast.Call) -> bool:
        """Whether all models that the call runs are known to be exact, but for those that calls in its code run."""
        values = without_none(self.flow.values(call.func))
        return bool(values) and all(map(self._runs_exact, values))

    def _runs_exact(self, value: Value) -> bool:
        model = self._model(value)
        if model is not None:
            return Model(self.flow, model).is_exact_without_gradients
        return isinstance(value, Function) and calls_only_known(self.flow, value.site)

    def _calls_inside(self, call: ast.Call) -> Iterator[ast.Call]:
        """The calls in the code of the functions that the call runs."""
        for value in without_none(self.flow.values(call.func)):
            if isinstance(value, Function) and self._model(value) is None:
                inner = (each for each in walk(value.site) if isinstance(each, ast.Call))
                yield from (each for each in inner if self._runs_project(each))

    def _model(self, value: Value) -> Value | None:
        """The model that is called, itself or by a method."""
        owner = value.of if isinstance(value, Method) else value
        return owner if kind(self.flow, owner) is Kind.MODEL else None

    def _runs_project(self, call: ast.Call) -> bool:
        """Whether the call may run a model or a function of the project."""
        values = self.flow.values(call.func)
        return any(isinstance(each.site, FUNCTIONS) or kind(self.flow, each) is Kind.MODEL for each in values)


def _is_part(target: ast.expr) -> bool:
    """``net[1]``, ``net.head``: what the constructor of the model itself binds is followed as its layer."""
    match target:
        case ast.Attribute(ast.Name("self")):
            return False
    return isinstance(target, (ast.Attribute, ast.Subscript))
