"""The code that only evaluates: a function, or some statements, with what keeps it from doing without gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.values import Sort, without_none
from codemods.facts.models.layers import Model
from codemods.library.kinds import Kind, kind

if TYPE_CHECKING:
    import ast
    from collections.abc import Collection

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
                owner = value.of if value.sort is Sort.METHOD else value
                if owner is not None and kind(self.flow, owner) is Kind.MODEL:
                    found[owner] = None
        return tuple(Model(self.flow, each) for each in found)

    @property
    def is_exact(self) -> bool:
        """Whether every model it calls is known to compute the same bits with gradients and without."""
        if not self.calls and self.function is not None:
            return True
        values = {value for call in self.calls for value in without_none(self.flow.values(call.func))}
        owners = {value.of if value.sort is Sort.METHOD else value for value in values}
        known = {model.value for model in self.models}
        return bool(owners) and owners <= known and all(model.is_exact_without_gradients for model in self.models)
