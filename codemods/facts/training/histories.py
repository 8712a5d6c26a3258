"""Which tensors with a graph does a training loop add up or collect, so that the graphs of all passes stay alive?"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import unparsed
from codemods.dataflow.values import Choice, Container, Literal, Made, Plain, Tensor
from codemods.facts.autograd.courses import Course
from codemods.facts.loops import place
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.precision.floats import unscaled
from codemods.facts.reach import own, stores, switches_gradients_off
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.graph_obstacles import GraphObstacles
from codemods.facts.training.iterations import EventKind, is_backward
from codemods.facts.training.shown_graphs import Shown
from codemods.facts.training.totals import added

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.autograd.graphs import Graphs
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Loop

_NEW = frozenset({"builtins.list", "builtins.float", "builtins.int", "collections.deque"})


@dataclass(frozen=True, eq=False)
class History:
    """A statement of a training loop that adds a tensor with a graph to a sum, or puts it into a list."""

    module: Module
    statement: ast.stmt
    name: str
    """Of the sum or list."""
    tensor: ast.expr
    """What is to be detached."""
    why_not: Reason | None


def histories(script: Script) -> Iterator[History]:
    """The statements of the module that keep graphs from one pass of a training loop to the next.

    What is differentiated later is no history, but a part of the loss.
    """
    module, seen = script.module, set()
    for iteration in script.iterations:
        loop = iteration.owner
        if not isinstance(loop, (ast.For, ast.While)) or not module.holds(loop):
            continue
        if not any(event.frame is module.function(loop) for event in iteration.of(EventKind.BACKWARD)):
            continue
        for statement in own(loop, ast.stmt):
            pair = _kept(statement)
            if pair is not None and statement not in seen:
                seen.add(statement)
                found = _History(script, loop, statement, *pair).outcome()
                if found is not None:
                    yield found


def _kept(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name of a sum or list, and what the statement adds to it or puts into it."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "append"), [value], [])):
            return name, value
        case ast.AugAssign(ast.Name(name), ast.Add(), ast.List([value])):
            return name, value
        case ast.AugAssign(value=ast.List() | ast.ListComp()):
            return None
    return added(statement)


@dataclass(frozen=True, eq=False)
class _History:
    """A statement that may keep a graph."""

    script: Script
    loop: Loop
    statement: ast.stmt
    name: str
    value: ast.expr

    @property
    def _module(self) -> Module:
        return self.script.module

    @property
    def _later(self) -> Graphs:
        """Follows what was kept; code that is not seen may train on it."""
        return self.script.whole.graph_uses.strictly_outside

    def outcome(self) -> History | None:
        """What is kept, with the reason against it; None where it is nothing with a graph, or a part of the loss."""
        if self._is_without_gradients() or not self._carries() or not self._lasts():
            return None
        after = self._later.after(self._module, self.statement, self._start())
        if isinstance(after.trained, ast.Call) and is_backward(self.script.flow, after.trained):
            return None
        why_not = self._why_unsure() or self._why_escapes(after) or self._why_named_twice() or self._why_shown(after)
        return History(self._module, self.statement, self.name, self._innermost(), why_not)

    def _start(self) -> Course:
        return Course(at_end=frozenset({self.name}), ever=frozenset({self.name}))

    def _is_without_gradients(self) -> bool:
        flow = self.script.flow
        return any(switches_gradients_off(flow, each) for each in self._module.ancestors(self.statement))

    def _carries(self) -> bool:
        """Whether what is kept may carry a graph."""
        graphs = self.script.whole.graph_uses.of_models
        names = graphs.before_each(self._module, self.loop.body).get(self.statement)
        if names is None:
            return False
        course = graphs.statements(self._module, [self.statement], names - {self.name})
        return self.name in course.at_end or course.kept is not None

    def _lasts(self) -> bool:
        """Whether the next pass still has what one has kept where it comes to the statement."""
        start = frozenset({self.name})
        before = self._later.before_each(self._module, self.loop.body, start).get(self.statement, frozenset())
        return self.name in before & self._later.statements(self._module, self.loop.body, start).names

    def _why_unsure(self) -> Reason | None:
        node = self._innermost()
        values = self.script.flow.values(node)
        is_tensor = bool(values) and all(isinstance(each, Tensor) for each in values)
        if not is_tensor and not self._is_differentiated(node):
            text = f"whether '{unparsed(node)}' is a tensor is not known ({HERE})"
            return Reason("unknown-number", text, (at(self._module, node),))
        return None

    def _is_differentiated(self, node: ast.expr) -> bool:
        """Whether a statement that always runs with this one calls ``backward`` of it: it is a tensor."""
        written, suite = unparsed(node), self._module.suite(self.statement)
        index = next(at for at, each in enumerate(suite) if each is self.statement)
        for around in (reversed(suite[:index]), itertools.takewhile(_is_simple, suite[index + 1 :])):
            for each in around:
                if isinstance(each, ast.Expr) and _differentiates(each.value, written):
                    return True
                if any(unparsed(one) == written for one in stores(each)):
                    break
        return False

    def _innermost(self) -> ast.expr:
        """The one tensor of a product, or else all of what is kept."""
        node = self.value
        while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            tensors = [each for each in (node.left, node.right) if not self._is_number(each)]
            if len(tensors) != 1:
                break
            node = tensors[0]
        return node

    def _is_number(self, node: ast.expr) -> bool:
        values = self.script.flow.values(node)
        return bool(values) and all(isinstance(each, (Literal, Plain, Choice)) for each in values)

    def _why_escapes(self, after: Course) -> Reason | None:
        """Why code that is not followed, or that trains, may find it."""
        flow, module = self.script.flow, self._module
        function = module.function(self.statement)
        if function is not None and (
            self.name in signature(function).names
            or self.name in declared_outer(function)
            or self.name not in bound_names(function)
        ):
            text = f"'{self.name}' is not of this function alone, and other code may train on it"
            return Reason("graph-escapes", text)
        found = after.trained or after.kept
        if found is None:
            found = self.script.whole.graph_uses.used_after(self._later, module, self.statement, self._start())
            if found is after.returned and found is not None and function is not None:
                obstacles = GraphObstacles(flow, self.script.modules, self.script.whole.graph_uses)
                return obstacles.of_result(function)
        if found is None:
            return None
        text = f"'{self.name}' leaves the loop's code, and may be trained on ({HERE})"
        return Reason("graph-escapes", text, (place(flow, found),))

    def _why_shown(self, after: Course) -> Reason | None:
        """Why a reader would see that it has no graph."""
        is_sum = not isinstance(self.statement, ast.Expr)
        is_number = is_sum and is_without_dimensions(self.script.flow, self._module, self._innermost())
        names, function = after.ever | {self.name}, self._module.function(self.statement)
        shown = Shown(self.script.whole.graph_uses, is_number)
        found = shown.find(self._module, function, names)
        if found is None and after.returned is not None and function is not None:
            found = shown.of_result(function, names)
        if found is None:
            return None
        text = f"what becomes of '{self.name}' may show whether it has a graph ({HERE}):"
        return Reason("graph-shown", text, (place(self.script.flow, found),), remedy="use its item() there")

    def _is_alone(self, name: ast.Name) -> bool:
        """Whether what a statement gives the name is new, and of this name alone."""
        match self._module.statement(name):
            case ast.AugAssign():
                return True
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
                given = next((each for target, each in zip(targets, values, strict=True) if target is name), None)
                return given is not None and self._is_new(given)
            case ast.Assign([ast.Name()], value) | ast.AnnAssign(ast.Name(), value=ast.expr() as value):
                return self._is_new(value)
            case ast.Assign(_, ast.Constant()):
                return True
        return False

    def _is_new(self, node: ast.expr) -> bool:
        called = {each.name for each in self.script.flow.values(node.func)} if isinstance(node, ast.Call) else set()
        is_made = called and all(each.startswith("torch.") or each in _NEW for each in called)
        return bool(is_made) or isinstance(node, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.List))

    def _is_list(self, node: ast.expr) -> bool:
        values = self.script.flow.values(node)
        return bool(values) and all(
            isinstance(each, Container) or (isinstance(each, Made) and each.name == "collections.deque")
            for each in values
        )

    def _why_named_twice(self) -> Reason | None:
        """Why other code may hold the list: something reads it before the loop, or it may be an object of its own."""
        match self.statement:
            case ast.Expr(ast.Call(ast.Attribute(owner))) if not self._is_list(owner):
                text = f"'{self.name}' is not known to be a list, and may train on it ({HERE})"
                return Reason("graph-escapes", text, (at(self._module, owner),))
        for each in own(self._module.function(self.loop) or self._module.tree, ast.Name):
            if each.id == self.name and isinstance(each.ctx, ast.Store) and not self._is_alone(each):
                text = f"'{self.name}' may have another name ({HERE})"
                return Reason("graph-escapes", text, (at(self._module, each),))
            is_before = each.id == self.name and isinstance(each.ctx, ast.Load) and each.lineno < self.loop.lineno
            if is_before and isinstance(self.statement, ast.Expr):
                text = f"'{self.name}' may have another name, or be read before the loop ({HERE})"
                return Reason("graph-escapes", text, (at(self._module, each),))
        return None


def _is_simple(statement: ast.stmt) -> bool:
    """Whether the statement after it runs whenever it does."""
    return isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign))


def _differentiates(node: ast.expr, written: str) -> bool:
    """Whether it is ``loss.backward()``, ``scaler.scale(loss).backward()`` or ``accelerator.backward(loss)``."""
    match node:
        case ast.Call(ast.Attribute(owner, "backward"), arguments):
            return written in {unparsed(unscaled(owner)), *(unparsed(each) for each in arguments[:1])}
    return False
