"""When may a list of what the device computes hold tensors while a loop runs?"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.source import LOOPS, unparsed, walk
from codemods.dataflow.values import library_names
from codemods.facts.models.local_steps import held_by, names_of_one, writes_into
from codemods.facts.numbers import is_number_alone
from codemods.facts.precision.floats import content
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.pass_counts import is_short
from codemods.facts.training.step_loops import rare_suite
from codemods.facts.training.sums import Deferral, is_integer, needed
from codemods.facts.training.totals import Held, appended
from codemods.facts.training.written_by_calls import writes_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.script import Script

_STATIC = frozenset({"reduce-overhead", "max-autotune"})
"""Modes in which code that torch compiles writes its results into the same memory each time."""

_READING = frozenset(
    {
        *(f"builtins.{each}" for each in ("len", "sum", "min", "max", "print", "sorted", "str", "list", "tuple")),
        *(f"numpy.{each}" for each in ("mean", "average", "median", "std", "sum", "min", "max", "array", "save")),
    }
)
"""What only looks at a list."""
NUMBERS = "keep the tensor, detached, and make numbers of all of them after the loop"
"""What to do about what is only kept, in another form than a list of numbers."""
_COMPUTED = (ast.BinOp, ast.UnaryOp)
_FAR = 10**5
"""Tensors of which each takes a block of 512 bytes: 51 MB."""


@dataclass(frozen=True, eq=False)
class DeferredList(Deferral):
    """A list of what the device computes, which can hold tensors while the loop runs."""

    script: Script = field(kw_only=True)

    @property
    def as_numbers(self) -> tuple[str, str]:
        """What stands around a list of tensors to make one of numbers of it."""
        return "[each.item() for each in ", "]"

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
        """Why an item would be no tensor of the same number."""
        captured = self._why_captured()
        if captured is not None:
            return captured
        for statement in self.total.additions:
            item = self._item(statement)
            one = next((each for each in self.readings if each.node is item), None)
            if item is None or (not isinstance(item, _COMPUTED) if one is None else one.cuts):
                return needed(self.total.module, statement, "append() keeps its value in each iteration")
            reason = self._why_no_tensor(one) if one is not None else self._why_computed(item)
            if reason is not None:
                return reason
        return None

    def _why_captured(self) -> Reason | None:
        """Why what the device computes may be written over by the next pass."""
        for where in self.flow.modules:
            for each in where.nodes(ast.Constant):
                if isinstance(each.value, str) and each.value in _STATIC:
                    text = f"compiled code may write over its results ({HERE})"
                    return Reason("captured", text, (at(where, each),))
        return None

    def _item(self, statement: ast.stmt) -> ast.expr | None:
        """What a statement appends: of a name that has no other use, what that is given."""
        pair = appended(statement)
        item = pair[1] if pair is not None else None
        return self.named.get(item) if isinstance(item, ast.Name) else item

    def _why_no_tensor(self, one: Reading) -> Reason | None:
        """Why what is read may be no new tensor without dimensions, or be written to later."""
        module, tensor = one.module, one.tensor
        root = held_by(tensor)
        is_of_pass = root is None or any(each in self.total.inside for each in module.stores.get(root, ()))
        if not is_of_pass or not is_number_alone(self.flow, module, tensor):
            text = f"whether '{unparsed(tensor)}' is a new tensor without dimensions is not known ({HERE})"
            return Reason("unknown-number", text, (at(module, tensor),))
        for name in names_of_one(self.total.loop, root) if root is not None else ():
            written = (each for each in walk(self.total.loop) if writes_into(each, name))
            for node in (*written, *writes_after(self.flow, self.total.loop, one.node, name)):
                return needed(module, node, f"'{name}' is written to in each iteration")
        return None

    def _why_computed(self, item: ast.expr) -> Reason | None:
        """Why what is computed of numbers that are read would come out otherwise on the device, or as another type."""
        if not self._has_readings(item):
            return needed(self.total.module, item, "append() keeps its value in each iteration")
        reason = self._why_inexact(item)
        if reason is not None:
            return reason
        read = self._read_for(item)
        for one in read:
            if one.cuts:
                return needed(one.module, one.node, "int() may cut it")
        if any(map(self._is_float, read)) or self._is_integer(item):
            return None
        text = f"whether '{unparsed(item)}' is an integer or a float is not known ({HERE})"
        return Reason("unknown-number", text, (at(self.total.module, item),))

    def _is_float(self, one: Reading) -> bool:
        """Whether a float is read, or what is read becomes one, and all that is computed of it."""
        found = content(self.flow, one.module, one.tensor)
        is_divided = any(isinstance(each, ast.Div) for each in self._operators(one))
        return is_divided or makes_float(one) or (found is not None and found.floats)

    def _read_for(self, item: ast.expr) -> Sequence[Reading]:
        """What is read from the device to compute an item, also by names that it is given."""
        parts = {
            *walk(item),
            *(each for name, given in self.named.items() if name in walk(item) for each in walk(given)),
        }
        return [each for each in self.readings if each.node in parts]

    def _is_integer(self, item: ast.expr) -> bool:
        """Whether an item is computed of integers alone."""
        readings: set[ast.expr] = {each.node for each in self.readings if self._is_integral(each)}
        readings |= {name for name, given in self.named.items() if is_integer(self.flow, given, readings)}
        return is_integer(self.flow, item, readings)

    def widens(self, one: Reading) -> bool:
        """Whether what is read is made a float of 64 bits on the device, as Python makes it one on the host."""
        items = [each for each in map(self._item, self.total.additions) if each is not None]
        if any(each is one.node for each in items):
            found = content(self.flow, one.module, one.tensor)
            return makes_float(one) and (found is None or not found.floats)
        return makes_float(one) or not any(one in self._read_for(each) and self._is_integer(each) for each in items)

    def is_computed_with_truth(self, one: Reading) -> bool:
        """Whether more is done with a truth value than to keep it."""
        items = map(self._item, self.total.additions)
        return not any(each is one.node for each in items) and super().is_computed_with_truth(one)

    @property
    def joins(self) -> bool:
        """Whether an item is computed of several tensors, which have to lie on one device."""
        items = [each for each in map(self._item, self.total.additions) if each is not None]
        return any(len(self._read_for(each)) > 1 for each in items)

    def _why_used(self) -> Reason | None:
        """Why the list is not one of this loop alone, which nothing reads until that is over, or it is emptied."""
        total = self.total
        for each in total.used_inside:
            if not self._is_emptied_after(each):
                return needed(total.module, each, f"'{total.name}' is used in the loop", "use it after the loop")
        new = self._why_shared_by_runs() if total.goes_on else total.why_no_list()
        return new or self._why_other_list()

    @cached_property
    def goes_on(self) -> bool:
        """Whether several runs of the loop append to one list: what the earlier ones appended is numbers already."""
        return self.total.goes_on and self.total.is_read_after

    @cached_property
    def mark(self) -> str:
        """A name for how long the list is before a run of the loop."""
        return "len_" + re.sub(r"\W+", "_", self.total.name).strip("_")

    def _why_shared_by_runs(self) -> Reason | None:
        """Why several runs of the loop may not append to one list, where each makes numbers of what it has appended."""
        total, module = self.total, self.total.module
        shared = total.why_shared()
        if shared is not None or not self.goes_on:
            return shared
        if total.used_inside:
            return total.why_no_list()
        if self.mark in module.text or not is_pythons_own(module, "len", total.loop):
            text = (
                f"'{total.name}' goes on from one run of the loop to the next, and 'len' or '{self.mark}' has a meaning"
            )
            return Reason("no-name", text)
        repeated = {one for each in module.ancestors(total.loop) if isinstance(each, LOOPS) for one in walk(each)}
        for each in total.uses:
            if each not in total.inside and each in repeated and not _is_only_read(self.flow, module, each):
                return total.seen(each, f"other code may have '{total.name}' already")
        return None

    def _why_other_list(self) -> Reason | None:
        """Why what the loop appends to may hold numbers already: another list that it goes on with."""
        total = self.total
        if total.starts <= {Held.LIST}:
            return None
        text = f"'{total.name}' is not known to be a new list where the loop appends to it ({HERE})"
        return Reason("unknown-number", text, (at(total.module, total.additions[0]),))

    def _is_emptied_after(self, read: ast.expr) -> bool:
        """Whether few passes read the list, and each of these goes on with a new one: ``losses = []`` below it.

        Nothing is appended in between, and no way leads around that.
        """
        module, total = self.total.module, self.total
        suite = rare_suite(module, total.loop, read)
        if suite is None or not (isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load)):
            return False
        emptied = next((number for number, each in enumerate(suite) if _empties(each, total.name)), None)
        if emptied is None or not any(read in walk(each) for each in suite[:emptied]):
            return False
        inside = [node for each in suite[:emptied] for node in walk(each)]
        return not any(
            isinstance(each, (ast.Break, ast.Continue, ast.Return)) or each in total.additions for each in inside
        )

    def _why_long(self) -> Reason | None:
        """Why the tensors may take much memory of the device: a loop that counts far, or that ends by a condition."""
        loop = self.total.loop
        if is_short(self.script, self.total.module, loop, _FAR):
            return None
        text = f"the loop may have very many passes ({HERE}), and each tensor takes 512 bytes of the device:"
        return Reason("grows-long", text, (at(self.total.module, loop),), remedy="append every so many iterations")


def _is_only_read(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether nothing keeps a list: items are taken of it, it is shown, or one number is computed of all."""
    match module.parent(node):
        case ast.Subscript(value, ctx=ast.Load()):
            return value is node
        case ast.Call(func, arguments) if node in arguments:
            called = library_names(flow.values(func))
            return bool(called) and called <= _READING
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
            return iterated is node
        case ast.If(test) | ast.IfExp(test):
            return test is node
        case ast.FormattedValue() | ast.UnaryOp(ast.Not()):
            return True
    return False


def _empties(statement: ast.stmt, name: str) -> bool:
    """``losses = []``."""
    match statement:
        case ast.Assign([ast.Name(each)], ast.List([]) | ast.Call(ast.Name("list"), [], [])):
            return each == name
    return False


def makes_float(one: Reading) -> bool:
    """``float(x)``, which makes a float of integers, too."""
    return isinstance(one.node.func, ast.Name) and not one.cuts
