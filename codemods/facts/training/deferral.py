"""Which numbers does a loop read from the device in each pass only to add them up, and could add up there?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from codemods.dataflow.names import assigned, decorators
from codemods.dataflow.source import is_name, last_name, unparsed, walk
from codemods.dataflow.values import Choice, HostTensor, Literal
from codemods.facts.devices.cuda_use import capture, no_cuda
from codemods.facts.devices.readings import is_copy_to_host, reading, waits
from codemods.facts.precision.floats import content
from codemods.facts.reach import own, switches_gradients_off
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.apart import other_device, why_apart
from codemods.facts.training.step_loops import clocks, rare_suite, step_loop
from codemods.facts.training.totals import Held, Total, added
from codemods.library.streams import ENTERS_STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Loop

_SIZES = frozenset({"size", "numel", "nelement", "dim"})
_LARGEST = 10**6
"""Of a number that is written out: integers of a device have 64 bits, those of Python any number."""
_EXACT = (ast.Add, ast.Sub, ast.Mult)
"""Operators that round one result, on the host and on a device alike."""
_KEEPING = frozenset({"append", "extend", "insert", "add", "update", "put", "appendleft"})
_MANY = "do that every so many iterations"
_COMPILERS = frozenset({"compile", "script", "jit"})


@dataclass(frozen=True, eq=False)
class Deferral:
    """A sum of what the device computes, which can stay there while the loop runs."""

    flow: Flow
    total: Total
    readings: tuple[Reading, ...]

    @cached_property
    def has_floats(self) -> bool:
        """Whether it is one of floats, which takes 64 bits as Python's do; else it is one of integers."""
        return Held.INTEGER not in self.total.starts or not all(map(self._is_integral, self.readings))

    def _is_integral(self, one: Reading) -> bool:
        found = content(self.flow, one.module, one.tensor)
        return found is not None and not found.floats and not found.narrow

    def carries_graph(self, one: Reading) -> bool:
        """Whether what is read may carry a graph, which the sum must not keep."""
        found = content(self.flow, one.module, one.tensor)
        if found is not None and not found.graph:
            return False
        return not any(switches_gradients_off(self.flow, each) for each in one.module.ancestors(one.node))

    def why_not(self) -> Reason | None:
        """Why the sum has to be one of Python's in each pass, or would not be the same; None where neither holds."""
        return (
            self._why_unknown()
            or self._why_other_sum()
            or self._why_read()
            or self.total.why_seen(self.flow)
            or self._why_other_start()
        )

    def _why_unknown(self) -> Reason | None:
        for each in self.readings:
            if not each.is_sure:
                text = f"whether '{unparsed(each.tensor)}' is a tensor is not known ({HERE})"
                return Reason("unknown-number", text, (at(each.module, each.node),))
        return None

    def _why_other_sum(self) -> Reason | None:
        for statement in self.total.additions:
            pair = added(statement)
            reason = self._why_inexact(pair[1]) if pair is not None else None
            if reason is not None:
                return reason
        return None

    def _why_inexact(self, node: ast.expr) -> Reason | None:
        """Why what is added would come out otherwise on a device; None where it would not."""
        module = self.total.module
        if any(each.node is node for each in self.readings):
            return None
        if not any(each.node in walk(node) for each in self.readings):
            if is_number(self.flow, module, node):
                return None
            text = f"whether '{unparsed(node)}' is a number of Python's is not known ({HERE})"
            return Reason("unknown-number", text, (at(module, node),))
        match node:
            case ast.BinOp(left, operator, right) if isinstance(operator, _EXACT):
                return self._why_inexact(left) or self._why_inexact(right)
            case ast.BinOp(op=ast.Div()):
                text = (
                    f"CUDA multiplies by the reciprocal where it divides by a number, which rounds otherwise ({HERE}):"
                )
                return Reason("rounds-otherwise", text, (at(module, node),), remedy="divide the sum after the loop")
            case ast.UnaryOp(ast.USub(), inner):
                return self._why_inexact(inner)
        return _needed(module, node, f"'{unparsed(node)}' is computed of it on the host")

    def _why_read(self) -> Reason | None:
        """Why the loop needs the sum in each pass."""
        for each in self.total.read_inside:
            if rare_suite(self.total.module, self.total.loop, each) is None:
                return _needed(self.total.module, each, f"'{self.total.name}' is read in each iteration", _MANY)
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
        if not is_known or len(found) > 1 or (True in found and total.starts != {Held.INTEGER}):
            text = f"whether '{total.name}' is a sum of integers or of floats is not known ({HERE}):"
            return Reason("unknown-number", text, (at(module, total.additions[0]),), remedy="start it from 0.0")
        if True in found and not self._adds_integers():
            text = f"'{total.name}' is a sum of integers and floats, or of large integers ({HERE})"
            return Reason("unknown-number", text, (at(module, total.additions[0]),))
        return self._why_cut() or (total.why_told_apart() if False in found else None)

    def _why_cut(self) -> Reason | None:
        """Why ``int(x)`` may cut what the device adds up."""
        for each in self.readings:
            found = content(self.flow, each.module, each.tensor)
            if each.cuts and (found is None or found.floats):
                return _needed(each.module, each.node, "int() may cut it")
        return None

    def _adds_integers(self) -> bool:
        """Whether what is added besides the readings, or multiplies them, is integers."""
        readings = {each.node for each in self.readings}
        pairs = [added(each) for each in self.total.additions]
        return all(_is_integer(self.flow, pair[1], readings) for pair in pairs if pair is not None)


def _is_integer(flow: Flow, node: ast.expr, readings: set[ast.Call]) -> bool:
    if node in readings:
        return True
    match node:
        case ast.Constant(value):
            return type(value) is int and value <= _LARGEST
        case ast.BinOp(left, operator, right) if isinstance(operator, _EXACT):
            return _is_integer(flow, left, readings) and _is_integer(flow, right, readings)
        case ast.UnaryOp(ast.USub(), inner):
            return _is_integer(flow, inner, readings)
        case ast.Call(ast.Attribute(attr=name)):
            return name in _SIZES
        case ast.Call(ast.Name("len")):
            return True
    values = flow.values(node)
    return bool(values) and all(
        isinstance(each, Literal) and type(each.value) is int and abs(each.value) <= _LARGEST for each in values
    )


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
    return bool(values) and all(
        isinstance(each, Choice) or (isinstance(each, Literal) and type(each.value) in {int, float}) for each in values
    )


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _needed(module: Module, node: ast.AST, text: str, remedy: str = "") -> Reason:
    return Reason("needed-each-step", f"{text} ({HERE}){':' if remedy else ''}", (at(module, node),), remedy)


Outcome: TypeAlias = "tuple[ast.AST, Deferral | Reason]"


def outcomes(script: Script) -> Iterator[Outcome]:
    """What the module reads from the device in each iteration: sums that can stay there, and why the others cannot."""
    found: dict[Loop, list[Reading]] = {}
    for call in script.module.nodes(ast.Call):
        one = reading(script.flow, script.module, call)
        loop = step_loop(script.flow, script.module, call) if one is not None else None
        if one is not None and loop is not None and rare_suite(script.module, loop, call) is None:
            found.setdefault(loop, []).append(one)
    for loop, readings in found.items():
        yield from _Iteration(script, loop, _outermost(readings)).outcomes()


def _outermost(readings: list[Reading]) -> list[Reading]:
    """The readings that are no part of others: ``float(loss.item())`` is one."""
    inner = {each for one in readings for each in walk(one.node) if each is not one.node}
    return [each for each in readings if each.node not in inner]


@dataclass(frozen=True, eq=False)
class _Iteration:
    """A loop that runs a model, and what it reads from the device in each pass."""

    script: Script
    loop: Loop
    readings: Sequence[Reading]

    @property
    def _flow(self) -> Flow:
        return self.script.flow

    @property
    def _module(self) -> Module:
        return self.script.module

    def outcomes(self) -> Iterator[Outcome]:
        """For each sum, and each other reading, what can be done about it."""
        obstacle = self._obstacle()
        sums, others = self._sorted()
        deferrals = [Deferral(self._flow, total, tuple(readings)) for total, readings in sums]
        reasons = {
            each: obstacle or each.why_not() or why_apart(self.script, each.total, each.readings) for each in deferrals
        }
        if obstacle is None:
            deferred = [each for each, reason in reasons.items() if reason is None]
            anyway = self._waits_anyway(deferred) or self._times(deferred)
            reasons.update(dict.fromkeys(deferred, anyway))
        for deferral, reason in reasons.items():
            yield deferral.readings[0].node, reason or deferral
        for one in others:
            yield one.node, obstacle or self._why_needed(one)

    def _sorted(self) -> tuple[list[tuple[Total, list[Reading]]], list[Reading]]:
        """The sums that the loop keeps, each with what it reads for them; and what it reads for something else."""
        by_name: dict[str, list[Reading]] = {}
        others: list[Reading] = []
        for one in self.readings:
            pair = added(self._module.statement(one.node))
            if pair is not None and one.node in walk(pair[1]) and not isinstance(pair[1], ast.List):
                by_name.setdefault(pair[0], []).append(one)
            else:
                others.append(one)
        totals = [(Total(self._module, self.loop, name, self._additions(name)), by_name[name]) for name in by_name]
        return totals, others

    def _additions(self, name: str) -> tuple[ast.stmt, ...]:
        statements = own(self.loop, ast.stmt)
        return tuple(each for each in statements if (pair := added(each)) is not None and pair[0] == name)

    def _obstacle(self) -> Reason | None:
        """What speaks against all of it."""
        script = self.script
        if not script.may_use_cuda:
            return no_cuda(script)
        if script.framework is not None and not script.is_accelerated:
            return Reason("framework", f"{script.framework} runs the training loop")
        return other_device(script) or capture(script) or self._why_unordered() or self._why_compiled()

    def _why_unordered(self) -> Reason | None:
        """Where the wait in each iteration keeps an order that nothing else does: of streams, and of copies."""
        for module in self.script.modules:
            for block in module.nodes(ast.With):
                entered = (value.name for each in block.items for value in self._flow.values(each.context_expr))
                if not ENTERS_STREAM.isdisjoint(entered):
                    text = f"the script runs kernels on streams of its own ({HERE}), which may wait for each other here"
                    return Reason("other-stream", text, (at(module, block),))
        for move in self.script.transfers:
            is_free = move.non_blocking is not None and not self._flow.values(move.non_blocking) <= {Literal("False")}
            is_here = move.module is self._module and move.call in walk(self.loop)
            if is_free and is_here and not move.loaders and any(isinstance(each, HostTensor) for each in move.sources):
                text = f"a copy in the loop does not block ({HERE}), and the host may write to its memory while it runs"
                return Reason("written-while-copied", text, (at(self._module, move.call),))
        for call in own(self.loop, ast.Call):
            is_free = any(each.arg == "non_blocking" for each in call.keywords)
            if is_free and isinstance(call.func, ast.Attribute) and is_copy_to_host(self._flow, call):
                text = f"a copy to the host does not block ({HERE}), and is over once the iteration waits"
                return Reason("written-while-copied", text, (at(self._module, call),))
        return None

    def _why_compiled(self) -> Reason | None:
        function = self._module.function(self.loop)
        if function is not None and decorators(function) & _COMPILERS:
            text = f"the function of the loop is compiled ({HERE}), and its sums may then be fused with what they add"
            return Reason("rounds-otherwise", text, (at(self._module, function),))
        return None

    def _waits_anyway(self, deferred: list[Deferral]) -> Reason | None:
        """Where each iteration waits for the device even if these sums stay there."""
        stays = {each for one in deferred for reading in one.readings for each in walk(reading.node)}
        statements = [self.loop.test, *self.loop.body] if isinstance(self.loop, ast.While) else self.loop.body
        for module, node in waits(self._flow, self._module, statements):
            if node not in stays:
                text = f"each iteration waits for the device anyway ({HERE})"
                return Reason("waits-anyway", text, (at(module, node),))
        return None

    def _times(self, deferred: list[Deferral]) -> Reason | None:
        """Where the loop reads a clock that would show when work was queued, no longer when it was done."""
        for clock in clocks(self._flow, self.loop):
            suite = rare_suite(self._module, self.loop, clock)
            reads = [each for one in deferred for each in one.total.read_inside if suite is not None]
            statement = self._module.statement(clock)
            before = [each for each in reads if suite is rare_suite(self._module, self.loop, each)]
            if not any(
                self._module.span(self._module.statement(each)) < self._module.span(statement) for each in before
            ):
                text = (
                    f"the loop reads a clock, which shows how long the device took as long as the host waits ({HERE})"
                )
                return Reason("times-steps", text, (at(self._module, clock),))
        return None

    def _why_needed(self, one: Reading) -> Reason:
        """What the number is needed for in each pass."""
        module, node = self._module, one.node
        match module.statement(node):
            case ast.If() | ast.While():
                return _needed(module, node, "the iteration goes on by its value", _MANY)
            case ast.Return():
                return _needed(module, node, "its value is returned in each iteration")
            case ast.Expr(ast.Call(func)) if last_name(func) in _KEEPING:
                return _needed(module, node, f"{last_name(func)}() keeps its value in each iteration")
            case ast.Expr(ast.Call(func)):
                name = last_name(func) or unparsed(func)
                return _needed(module, node, f"{name}() is given its value in each iteration", _MANY)
            case ast.AugAssign(ast.Attribute() | ast.Subscript() as target, ast.Add() | ast.Sub()):
                text = f"other code may read '{unparsed(target)}' while the loop runs ({HERE}):"
                return Reason("seen-elsewhere", text, (at(module, node),), remedy="add up under a name of the function")
            case ast.AugAssign(target) | ast.Assign([target]):
                return _needed(module, node, f"its value is kept in '{unparsed(target)}' in each iteration")
        return _needed(module, node, "its value is used on the host in each iteration")
