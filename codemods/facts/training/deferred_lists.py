"""When may a list of what the device computes hold tensors while a loop runs?"""

from __future__ import annotations

import ast

from codemods.dataflow.source import unparsed, walk
from codemods.facts.models.local_steps import writes_into
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.sums import Deferral, needed
from codemods.facts.training.totals import appended

_STATIC = frozenset({"reduce-overhead", "max-autotune"})
"""Modes in which code that torch compiles writes its results into the same memory each time."""


class DeferredList(Deferral):
    """A list of what the device computes, which can hold tensors while the loop runs."""

    def why_not(self) -> Reason | None:
        """Why the list has to hold numbers of Python's in each pass, or would not hold the same."""
        return self.why_unknown() or self._why_no_items() or self._why_used() or self.total.why_seen(self.flow)

    def _why_no_items(self) -> Reason | None:
        """Why an item would be no new tensor without dimensions, or be written to later."""
        for where in self.flow.modules:
            for each in where.nodes(ast.Constant):
                if isinstance(each.value, str) and each.value in _STATIC:
                    text = f"compiled code may write over its results ({HERE})"
                    return Reason("captured", text, (at(where, each),))
        module = self.total.module
        readings = {each.node: each.tensor for each in self.readings if isinstance(each.node.func, ast.Attribute)}
        for statement in self.total.additions:
            pair = appended(statement)
            tensor = readings.get(pair[1]) if pair is not None and isinstance(pair[1], ast.Call) else None
            if pair is None or tensor is None:
                return needed(module, statement, "append() keeps its value in each iteration")
            is_new = isinstance(tensor, (ast.Name, ast.Call, ast.BinOp))
            if not is_new or not is_without_dimensions(self.flow, module, tensor):
                text = f"whether '{unparsed(tensor)}' is a new tensor without dimensions is not known ({HERE})"
                return Reason("unknown-number", text, (at(module, tensor),))
            for node in walk(self.total.loop) if isinstance(tensor, ast.Name) else ():
                if writes_into(node, unparsed(tensor)):
                    return needed(module, node, f"'{unparsed(tensor)}' is written to in each iteration")
        return None

    def _why_used(self) -> Reason | None:
        """Why the list is not one of this loop alone, which nothing reads until that is over."""
        for each in self.total.read_inside:
            text = f"'{self.total.name}' is used in the loop"
            return needed(self.total.module, each, text, "use it after the loop")
        return self.total.why_no_list()
