"""When may a list of what the device computes hold tensors while a loop runs?"""

from __future__ import annotations

import ast

from codemods.dataflow.source import last_name, unparsed, walk
from codemods.dataflow.values import Literal, library_names
from codemods.facts.models.local_steps import writes_into
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.sums import Deferral, needed
from codemods.facts.training.totals import appended

_STATIC = frozenset({"reduce-overhead", "max-autotune"})
"""Modes in which code that torch compiles writes its results into the same memory each time."""

_COUNTING = frozenset({"builtins.range", "tqdm.trange", "tqdm.auto.trange", "itertools.count", "itertools.cycle"})
_LENGTHS = frozenset({"len", "size"})
_FAR = 10**5
"""Tensors of which each takes a block of 512 bytes: 51 MB."""


class DeferredList(Deferral):
    """A list of what the device computes, which can hold tensors while the loop runs."""

    def why_not(self) -> Reason | None:
        """Why the list has to hold numbers of Python's in each pass, or would not hold the same."""
        return (
            self.why_unknown()
            or self._why_no_items()
            or self._why_used()
            or self.total.why_seen(self.flow)
            or self._why_long()
        )

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
            item = pair[1] if pair is not None else None
            item = self.named.get(item) if isinstance(item, ast.Name) else item
            tensor = readings.get(item) if isinstance(item, ast.Call) else None
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

    def _why_long(self) -> Reason | None:
        """Why the tensors may take much memory of the device: a loop that counts far, or that ends by a condition."""
        loop = self.total.loop
        calls = [each for each in walk(loop.iter) if isinstance(each, ast.Call)] if isinstance(loop, ast.For) else []
        counting = [each for each in calls if library_names(self.flow.values(each.func)) & _COUNTING]
        if isinstance(loop, ast.For) and all(map(self._is_short, counting)):
            return None
        text = f"the loop may have very many passes ({HERE}), and each tensor takes 512 bytes of the device:"
        return Reason("grows-long", text, (at(self.total.module, loop),), remedy="append every so many iterations")

    def _is_short(self, counting: ast.Call) -> bool:
        """Whether a loop surely counts not far: to a small number, or to the length of data."""
        return bool(counting.args) and all(map(self._is_small, counting.args))

    def _is_small(self, node: ast.expr) -> bool:
        measured = (each for each in walk(node) if isinstance(each, ast.Call))
        if any(last_name(each.func) in _LENGTHS for each in measured):
            return True
        values = self.flow.values(node)
        numbers = [each.value for each in values if isinstance(each, Literal)]
        return (
            bool(values)
            and len(numbers) == len(values)
            and all(isinstance(each, int) and each <= _FAR for each in numbers)
        )
