"""What expressions come to as the script stands: numbers, texts, lists of them, and the layers of models."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from codemods.facts.cost.amounts import UNKNOWN, Built, Layer, is_exact
from codemods.facts.cost.definitions import binding
from codemods.facts.cost.execution import Execution
from codemods.facts.cost.statements import NotKnownError

if TYPE_CHECKING:
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script


class Constants:
    """What expressions of a script come to."""

    def __init__(self, script: Script) -> None:
        self._flow = script.flow
        self._execution = Execution(script)

    def of(self, node: ast.expr) -> Any:  # noqa: ANN401 - whatever it is
        """What an expression comes to, wherever it stands; ``UNKNOWN`` where that is not known."""
        try:
            return self._execution.of(node)
        except (NotKnownError, RecursionError):
            return UNKNOWN

    def number(self, node: ast.expr | None) -> int | None:
        """The whole number that an expression comes to."""
        amount = self.of(node) if node is not None else None
        return amount if is_exact(amount) and not isinstance(amount, bool) else None

    def definition(self, node: ast.expr) -> ast.expr | None:
        """The expression itself, or what the one statement that binds its name gives it."""
        return binding(self._flow, node) if isinstance(node, ast.Name) else node

    def built(self, value: Value) -> Built | Layer | None:
        """The model that a value is, with all of its layers; None where what it is made of is not known."""
        if not isinstance(value.site, ast.Call):
            return None
        model = self.of(value.site)
        return model if isinstance(model, (Built, Layer)) else None
