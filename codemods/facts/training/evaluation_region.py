"""The code that only evaluates: a function, or some statements, with what keeps it from doing without gradients."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.source import FUNCTIONS, walk
from codemods.dataflow.values import Sort, without_none
from codemods.facts.models.layers import Model, calls_only_known
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.values import Value
    from codemods.facts.reason import Reason

_DEEPEST = 4
"""Functions that call functions are followed so far."""

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
                owner = value.of if value.sort is Sort.METHOD else value
                if owner is not None and kind(self.flow, owner) is Kind.MODEL:
                    found[owner] = None
        return tuple(Model(self.flow, each) for each in found)

    @property
    def is_exact(self) -> bool:
        """Whether every model it calls is known to compute the same bits with gradients and without."""
        if not self.calls and self.function is not None:
            return True
        return bool(self.calls) and all(self._is_exact(call, _DEEPEST) for call in self.calls)

    def _is_exact(self, call: ast.Call, depth: int) -> bool:
        values = without_none(self.flow.values(call.func))
        return bool(values) and all(self._runs_exact(each, depth) for each in values)

    def _runs_exact(self, value: Value, depth: int) -> bool:
        """Whether all models that the value runs when it is called are known to be exact: itself, or in its code."""
        owner = value.of if value.sort is Sort.METHOD else value
        if owner is not None and kind(self.flow, owner) is Kind.MODEL:
            return Model(self.flow, owner).is_exact_without_gradients
        function = value.site
        if value.sort is not Sort.FUNCTION or not isinstance(function, FUNCTIONS) or not depth:
            return False
        inner = (each for each in walk(function) if isinstance(each, ast.Call))
        return calls_only_known(self.flow, function) and all(
            self._is_exact(each, depth - 1) for each in inner if self._runs_project(each)
        )

    def _runs_project(self, call: ast.Call) -> bool:
        """Whether the call may run a model or a function of the project."""
        values = self.flow.values(call.func)
        return any(isinstance(each.site, FUNCTIONS) or kind(self.flow, each) is Kind.MODEL for each in values)
