"""When may a sum of what the device computes stay there while a loop runs, and when would it be another one?"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import assigned
from codemods.dataflow.source import is_name, unparsed, walk
from codemods.dataflow.values import Choice, Literal
from codemods.facts.data.graph_batches import is_count
from codemods.facts.precision.floats import content
from codemods.facts.reach import switches_gradients_off
from codemods.facts.reaching import is_seen_elsewhere, reaching
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.step_loops import rare_suite
from codemods.facts.training.totals import Held, Total, added, decayed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.reason import Place

_SIZES = frozenset({"size", "numel", "nelement", "dim"})
_LARGEST = 10**6
"""Of a number that is written out: integers of a device have 64 bits, those of Python any number."""
_TWO = 2
_OF_DIVISIONS = frozenset({"ZeroDivisionError", "ArithmeticError"})
_EXACT = (ast.Add, ast.Sub, ast.Mult)
"""Operators that round one result, on the host and on a device alike."""
_COMPUTE = frozenset({"float", "int", "round", "str", "len", "dict", "min", "max"})
MANY = "do that every so many iterations"


@dataclass(frozen=True, eq=False)
class Deferral:
    """A sum of what the device computes, which can stay there while the loop runs."""

    flow: Flow
    total: Total
    readings: tuple[Reading, ...]
    named: Mapping[ast.Name, ast.expr] = field(default_factory=dict, kw_only=True)
    """What is added by a name that has no other use: where the name is read, and what it was given."""

    @cached_property
    def has_floats(self) -> bool:
        """Whether it is one of floats, which takes 64 bits as Python's do; else it is one of integers."""
        if any(map(decayed, self.total.additions)):
            return True
        return Held.INTEGER not in self.total.starts or not all(map(self._is_integral, self.readings))

    @property
    def rounds_otherwise(self) -> bool:
        """Whether a device may round what is added otherwise in the last bit: it is divided, or squared."""
        return any(isinstance(each, (ast.Div, ast.Pow)) for one in self.readings for each in self._operators(one))

    def _operators(self, one: Reading) -> Iterator[ast.operator]:
        """The operators that are applied to the number that is read, until it is added."""
        yield from _operators(one.module, one.node)
        for name, given in self.named.items():
            if one.node in walk(given):
                yield from _operators(one.module, name)

    def _is_integral(self, one: Reading) -> bool:
        if any(isinstance(each, ast.Div) for each in self._operators(one)):
            return False
        found = content(self.flow, one.module, one.tensor)
        return found is not None and not found.floats and not found.narrow

    def is_computed_with_truth(self, one: Reading) -> bool:
        """Whether Python computes with a truth value as with an integer, which a tensor of it does not."""
        found = content(self.flow, one.module, one.tensor)
        if found is None or not found.truth:
            return False
        match one.module.statement(one.node):
            case ast.AugAssign(op=ast.Add(), value=value) | ast.Assign([ast.Subscript()], value) if value is one.node:
                return False
        return True

    def carries_graph(self, one: Reading) -> bool:
        """Whether what is read may carry a graph, which the sum must not keep."""
        found = content(self.flow, one.module, one.tensor)
        if found is not None and not found.graph:
            return False
        return not any(switches_gradients_off(self.flow, each) for each in one.module.ancestors(one.node))

    def why_not(self) -> Reason | None:
        """Why the sum has to be one of Python's in each pass, or would not be the same; None where neither holds."""
        return (
            self.why_unknown()
            or self._why_other_sum()
            or self._why_read()
            or self.total.why_seen(self.flow)
            or self._why_other_start()
        )

    def why_unknown(self) -> Reason | None:
        """Why what is read may be no tensor."""
        for each in self.readings:
            if not each.is_sure:
                text = f"whether '{unparsed(each.tensor)}' is a tensor is not known ({HERE})"
                return Reason("unknown-number", text, (at(each.module, each.node),))
        return None

    def _why_other_sum(self) -> Reason | None:
        for statement in self.total.additions:
            parts = decayed(statement) or added(statement) or ()
            reason = next(filter(None, map(self._why_inexact, parts[1:])), None)
            if reason is not None:
                return reason
        return None

    def _why_inexact(self, node: ast.expr) -> Reason | None:
        """Why what is added would come out otherwise on a device; None where it would not."""
        module = self.total.module
        if any(each.node is node for each in self.readings):
            return None
        if isinstance(node, ast.Name) and node in self.named:
            return self._why_inexact(self.named[node])
        if not self._has_readings(node):
            if is_number(self.flow, module, node):
                return None
            text = f"whether '{unparsed(node)}' is a number of Python's is not known ({HERE})"
            return Reason("unknown-number", text, (at(module, node),))
        match node:
            case ast.BinOp(left, operator, right) if isinstance(operator, _EXACT):
                return self._why_inexact(left) or self._why_inexact(right)
            case ast.BinOp(left, ast.Div(), right) if not self._has_readings(right):
                caught = None if isinstance(right, ast.Constant) else zero_division(self.flow)
                if caught is not None:
                    text = f"a division by 0 raises on the host alone, and the script handles that ({HERE})"
                    return Reason("seen-elsewhere", text, (caught,))
                return self._why_inexact(left) or self._why_inexact(right)
            case ast.BinOp(left, ast.Pow(), right) if _is_two(self.flow, module, right):
                return self._why_inexact(left)
            case ast.UnaryOp(ast.USub(), inner):
                return self._why_inexact(inner)
        return needed(module, node, f"'{unparsed(node)}' is computed of it on the host")

    def _has_readings(self, node: ast.expr) -> bool:
        inside = walk(node)
        return any(each.node in inside for each in self.readings) or not self.named.keys().isdisjoint(inside)

    def _why_read(self) -> Reason | None:
        """Why the loop needs the sum in each pass."""
        for each in self.total.read_inside:
            if rare_suite(self.total.module, self.total.loop, each) is None:
                return self._why_read_for_few(each) or needed(
                    self.total.module, each, f"'{self.total.name}' is read in each iteration", MANY
                )
        return None

    def _why_read_for_few(self, read: ast.expr) -> Reason | None:
        """That the sum is read in each pass for a name that only few of them use, all in one suite."""
        module, loop = self.total.module, self.total.loop
        match module.statement(read):
            case ast.Assign([ast.Name(id=name) as target], value) if not (
                name == self.total.name or is_seen_elsewhere(module, target) or _may_act(value)
            ):
                users = reaching(module.function(value) or module.tree).readers(value)
                inside = walk(loop)
                suites = [rare_suite(module, loop, each) if each in inside else None for each in users]
                if not suites or any(each is None or each is not suites[0] for each in suites):
                    return None
                text = f"'{self.total.name}' is read in each iteration ({HERE}) for '{name}', which few use ({HERE}):"
                places = (at(module, read), at(module, users[0]))
                return Reason("needed-each-step", text, places, remedy=f"give '{name}' its value there")
        return None

    def _why_other_start(self) -> Reason | None:
        total, module = self.total, self.total.module
        if not total.starts <= {Held.INTEGER, Held.FLOAT}:
            text = f"'{total.name}' is not known to start from a number that is written out ({HERE})"
            return Reason("unknown-number", text, (at(module, total.additions[0]),))
        if Held.INTEGER not in total.starts:
            return self._why_cut()
        found = {self._is_integral(each) for each in self.readings}
        contents = [content(self.flow, each.module, each.tensor) for each in self.readings]
        is_known = all(each is not None and not each.narrow for each in contents)
        if any(map(decayed, total.additions)):
            return self._why_cut() or total.why_told_apart(self.flow)
        if not is_known or len(found) > 1 or (True in found and total.starts != {Held.INTEGER}):
            text = f"whether '{total.name}' is a sum of integers or of floats is not known ({HERE}):"
            return Reason("unknown-number", text, (at(module, total.additions[0]),), remedy="start it from 0.0")
        if True in found and not self._adds_integers():
            text = f"'{total.name}' is a sum of integers and floats, or of large integers ({HERE})"
            return Reason("unknown-number", text, (at(module, total.additions[0]),))
        return self._why_cut() or (total.why_told_apart(self.flow) if False in found else None)

    def _why_cut(self) -> Reason | None:
        """Why ``int(x)`` may cut what the device adds up."""
        for each in self.readings:
            found = content(self.flow, each.module, each.tensor)
            if each.cuts and (found is None or found.floats):
                return needed(each.module, each.node, "int() may cut it")
        return None

    def _adds_integers(self) -> bool:
        """Whether what is added besides the readings, or multiplies them, is integers."""
        readings: set[ast.expr] = {each.node for each in self.readings}
        readings |= {name for name, given in self.named.items() if is_integer(self.flow, given, readings)}
        pairs = [added(each) for each in self.total.additions]
        return all(is_integer(self.flow, pair[1], readings) for pair in pairs if pair is not None)


def is_integer(flow: Flow, node: ast.expr, readings: set[ast.expr]) -> bool:
    """Whether an expression is an integer for certain, where these are."""
    if node in readings:
        return True
    match node:
        case ast.Constant(value):
            return type(value) is int and value <= _LARGEST
        case ast.BinOp(left, operator, right) if isinstance(operator, _EXACT):
            return is_integer(flow, left, readings) and is_integer(flow, right, readings)
        case ast.UnaryOp(ast.USub(), inner):
            return is_integer(flow, inner, readings)
        case ast.Call(ast.Attribute(attr=name)):
            return name in _SIZES
        case ast.Call(ast.Name("len")):
            return True
    values = flow.values(node)
    return bool(values) and all(
        isinstance(each, Literal) and type(each.value) is int and abs(each.value) <= _LARGEST for each in values
    )


def _may_act(node: ast.expr) -> bool:
    """Whether an expression may do more than compute, so that it matters how often it does: a call of a function."""
    for each in walk(node):
        match each:
            case ast.Call(ast.Name(name)) if name in _COMPUTE:
                continue
            case ast.Call(ast.Attribute(attr="item"), [], []):
                continue
            case ast.Call() | ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                return True
    return False


def _operators(module: Module, node: ast.expr) -> Iterator[ast.operator]:
    """The operators of the statement that are applied to a number."""
    around = itertools.takewhile(lambda each: not isinstance(each, ast.stmt), module.ancestors(node))
    return (each.op for each in around if isinstance(each, ast.BinOp))


def zero_division(flow: Flow) -> Place | None:
    """Where the project names the exception that Python's numbers raise, and those of a device do not."""
    for module in flow.modules:
        for node in module.nodes(ast.Name):
            if node.id in _OF_DIVISIONS:
                return at(module, node)
    return None


def _is_two(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether it is 2 or 2.0, also by the name of what ``float()`` made of it: a square is rounded once."""
    if isinstance(node, ast.Name):
        match reaching(module.function(node) or module.tree).given(node):
            case [ast.Call(ast.Name("float" | "int"), [given], [])]:
                node = given
    values = flow.values(node)
    return bool(values) and all(isinstance(each, Literal) and each.value == _TWO for each in values)


def is_number(flow: Flow, module: Module, node: ast.expr) -> bool:
    """Whether an expression is surely a number of Python's: written out, chosen by the user, or a size."""
    match node:
        case ast.Constant(value):
            return type(value) in {int, float}
        case ast.BinOp(left, _, right):
            return is_number(flow, module, left) and is_number(flow, module, right)
        case ast.UnaryOp(operand=inner):
            return is_number(flow, module, inner)
        case ast.Call(ast.Name("len")):
            return True
        case ast.Call(ast.Name("float" | "int"), [inner], []):
            return is_number(flow, module, inner)
        case ast.Call(ast.Attribute(attr=name)) | ast.Subscript(ast.Call(ast.Attribute(attr=name)), ast.Constant()):
            return name in _SIZES
        case ast.Subscript(ast.Attribute(attr="shape"), ast.Constant() | ast.UnaryOp()):
            return True
        case ast.Name():
            pairs = [pair for each in module.assignments(node) for pair in assigned(each)]
            given = [value for target, value in pairs if is_name(target, node.id)]
            stores = [each for each in module.stores.get(node.id, ()) if module.function(each) is module.function(node)]
            if given and len(given) == len(stores):
                return all(is_number(flow, module, each) for each in given if node.id not in _names(each))
    values = flow.values(node)
    is_known = bool(values) and all(
        isinstance(each, Choice) or (isinstance(each, Literal) and type(each.value) in {int, float}) for each in values
    )
    return is_known or is_count(flow, node)


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def needed(module: Module, node: ast.AST, text: str, remedy: str = "") -> Reason:
    """A number is needed on the host in each pass."""
    return Reason("needed-each-step", f"{text} ({HERE}){':' if remedy else ''}", (at(module, node),), remedy)
