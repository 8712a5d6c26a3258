"""The code that only evaluates: a function, or some statements, with what keeps it from doing without gradients."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.recursion import closure
from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import Function, Method, without_none
from codemods.facts.models.layers import Model, calls_only_known
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Value
    from codemods.facts.reason import Reason


Kept: TypeAlias = "tuple[Module, Reason]"
"""A module that keeps tensors, and what does."""


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

    def beside(self, modules: Collection[Module]) -> EvaluationRegion:
        """The same region where only these modules run in one process with it, and train."""
        keeping = next((reason for module, reason in self.kept if module in modules), None)
        return self if self.why_not is not None or keeping is None else replace(self, why_not=keeping)

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
        return bool(self.calls) and all(map(self._is_exact, closure(self.calls, self._calls_inside)))

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
