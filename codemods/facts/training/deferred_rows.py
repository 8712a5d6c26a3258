"""When may a list of rows, ``append([loss.item(), error.item()])``, hold rows of tensors while a loop runs?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.facts.training.deferred_lists import NUMBERS, DeferredList
from codemods.facts.training.sums import needed
from codemods.facts.training.totals import appended

if TYPE_CHECKING:
    from codemods.facts.devices.readings import Reading
    from codemods.facts.reason import Reason

ROWS = (ast.List, ast.Tuple)
"""What writes out a row."""


@dataclass(frozen=True, eq=False)
class DeferredRows(DeferredList):
    """A list of rows of what the device computes, which can hold rows of tensors while the loop runs."""

    @property
    def as_numbers(self) -> tuple[str, str]:
        """What stands around the list to make rows of numbers of it."""
        numbers = "[one.item() for one in each]" if self._rows()[0] is ast.List else "tuple(one.item() for one in each)"
        return f"[{numbers} for each in ", "]"

    def _rows(self) -> list[type[ast.expr]]:
        return [type(pair[1]) for pair in map(appended, self.total.additions) if pair is not None]

    @property
    def joins(self) -> bool:
        """Nothing is computed of it."""
        return False

    def widens(self, one: Reading) -> bool:  # noqa: ARG002 - whatever it is
        """The number itself is asked for, as the script does."""
        return False

    def is_computed_with_truth(self, one: Reading) -> bool:  # noqa: ARG002 - whatever it is
        """Nothing is computed with it."""
        return False

    def _why_no_items(self) -> Reason | None:
        """Why an item of a row would be no tensor of the same number."""
        captured = self._why_captured()
        if captured is not None:
            return captured
        by_method = {each.node for each in self.readings if isinstance(each.node.func, ast.Attribute)}
        if len(set(self._rows())) > 1:
            return needed(self.total.module, self.total.additions[1], f"'{self.total.name}' has rows of several sorts")
        for statement in self.total.additions:
            pair = appended(statement)
            if pair is None or not isinstance(pair[1], ROWS) or not by_method.issuperset(pair[1].elts):
                return needed(self.total.module, statement, "append() keeps its value in each iteration", NUMBERS)
        return next(filter(None, map(self._why_no_tensor, self.readings)), None)
