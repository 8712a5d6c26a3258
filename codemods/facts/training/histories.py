"""Which tensors with a graph does a training loop add up or collect, so that the graphs of all passes stay alive?"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import unparsed
from codemods.dataflow.values import Container, Made, Tensor
from codemods.facts.autograd.courses import Course
from codemods.facts.loops import place
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.precision.floats import unscaled
from codemods.facts.reach import own, stores
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.collecting import collected
from codemods.facts.training.graph_keeping import History, KeptGraph
from codemods.facts.training.graph_obstacles import GraphObstacles
from codemods.facts.training.histories_of_objects import of_object, through_method
from codemods.facts.training.iterations import EventKind, is_backward
from codemods.facts.training.shown_graphs import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.autograd.graphs import Graphs
    from codemods.facts.script import Script
    from codemods.facts.training.totals import Loop

_NEW = frozenset({"builtins.list", "builtins.float", "builtins.int", "collections.deque", "collections.defaultdict"})


def histories(script: Script) -> Iterator[History]:
    """The statements of the module that keep graphs from one pass of a training loop to the next.

    What is differentiated later is no history, but a part of the loss.
    """
    module, seen = script.module, set()
    for iteration in script.iterations:
        loop = iteration.owner
        if not isinstance(loop, (ast.For, ast.While)) or not module.holds(loop):
            continue
        is_here = any(event.frame is module.function(loop) for event in iteration.of(EventKind.BACKWARD))
        for statement in own(loop, ast.stmt):
            found = None if statement in seen else _found(script, loop, statement)
            seen.add(statement)
            # What code that is not seen returns, as an environment's reward, is no loss where none is computed.
            if found is not None and (is_here or found.why_not is None or found.why_not.code != "unknown-number"):
                yield found


def _found(script: Script, loop: Loop, statement: ast.stmt) -> History | None:
    found = collected(statement, loop)
    if found is None:
        return through_method(script, loop, statement)
    if isinstance(found.owner, ast.Subscript) and _is_array(script, found.root):
        return None
    if isinstance(found.root, ast.Name):
        return _History(script, loop, statement, found).outcome()
    return of_object(script, loop, statement, found)


def _is_array(script: Script, node: ast.expr) -> bool:
    """Whether it is an array of NumPy, whose items are numbers."""
    values = script.flow.values(node)
    return bool(values) and all(isinstance(each, Made) and each.name.startswith("numpy.") for each in values)


@dataclass(frozen=True, eq=False)
class _History(KeptGraph):
    """A statement that may keep a graph in a sum or list that a name leads to."""

    @property
    def _later(self) -> Graphs:
        """Follows what was kept; code that is not seen may train on it."""
        return self.script.whole.graph_uses.strictly_outside

    def outcome(self) -> History | None:
        """What is kept, with the reason against it; None where it is nothing with a graph, or a part of the loss."""
        if self.is_without_gradients() or not self.carries() or not self._lasts():
            return None
        after = self._later.after(self.module, self.statement, self._start())
        if isinstance(after.trained, ast.Call) and is_backward(self.script.flow, after.trained):
            return None
        why_not = self._why_unsure() or self._why_escapes(after) or self._why_named_twice() or self._why_shown(after)
        return History(self.module, self.statement, self.written, self.innermost(), why_not)

    def _start(self) -> Course:
        return Course(at_end=frozenset({self.root}), ever=frozenset({self.root}))

    def _lasts(self) -> bool:
        """Whether the next pass still has what one has kept where it comes to the statement."""
        start = frozenset({self.root})
        before = self._later.before_each(self.module, self.loop.body, start).get(self.statement, frozenset())
        return self.root in before & self._later.statements(self.module, self.loop.body, start).names

    def _why_unsure(self) -> Reason | None:
        node = self.innermost()
        values = self.script.flow.values(node)
        is_tensor = bool(values) and all(isinstance(each, Tensor) for each in values)
        if not is_tensor and not self._is_differentiated(node):
            text = f"whether '{unparsed(node)}' is a tensor is not known ({HERE})"
            return Reason("unknown-number", text, (at(self.module, node),))
        return None

    def _is_differentiated(self, node: ast.expr) -> bool:
        """Whether a statement that always runs with this one calls ``backward`` of it: it is a tensor."""
        written, suite = unparsed(node), self.module.suite(self.statement)
        index = next(at for at, each in enumerate(suite) if each is self.statement)
        for around in (reversed(suite[:index]), itertools.takewhile(_is_simple, suite[index + 1 :])):
            for each in around:
                if isinstance(each, ast.Expr) and _differentiates(each.value, written):
                    return True
                if any(unparsed(one) == written for one in stores(each)):
                    break
        return False

    def _why_escapes(self, after: Course) -> Reason | None:
        """Why code that is not followed, or that trains, may find it."""
        flow, module = self.script.flow, self.module
        function = module.function(self.statement)
        if function is not None and (
            self.root in signature(function).names
            or self.root in declared_outer(function)
            or self.root not in bound_names(function)
        ):
            text = f"'{self.root}' is not of this function alone, and other code may train on it"
            return Reason("graph-escapes", text)
        found = after.trained or after.kept
        if found is None:
            found = self.script.whole.graph_uses.used_after(self._later, module, self.statement, self._start())
            if found is after.returned and found is not None and function is not None:
                obstacles = GraphObstacles(flow, self.script.modules, self.script.whole.graph_uses)
                return obstacles.of_result(function)
        if found is None:
            return None
        text = f"'{self.written}' leaves the loop's code, and may be trained on ({HERE})"
        return Reason("graph-escapes", text, (place(flow, found),))

    def _why_shown(self, after: Course) -> Reason | None:
        """Why a reader would see that it has no graph."""
        is_sum = isinstance(self.found.owner, ast.Name) and not isinstance(self.statement, ast.Expr)
        is_number = is_sum and is_without_dimensions(self.script.flow, self.module, self.innermost())
        names, function = after.ever | {self.root}, self.module.function(self.statement)
        shown = Shown(self.script.whole.graph_uses, is_number)
        found = shown.find(self.module, function, names)
        if found is None and after.returned is not None and function is not None:
            found = shown.of_result(function, names)
        if found is None:
            return None
        text = f"what becomes of '{self.root}' may show whether it has a graph ({HERE}):"
        return Reason("graph-shown", text, (place(self.script.flow, found),), remedy="use its item() there")

    def _is_alone(self, name: ast.Name) -> bool:
        """Whether what a statement gives the name is new, and of this name alone."""
        match self.module.statement(name):
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
        items = node.values if isinstance(node, ast.Dict) else [node.value] if isinstance(node, ast.DictComp) else None
        if items is not None:
            return None not in getattr(node, "keys", ()) and all(map(self._is_new, items))
        return bool(is_made) or isinstance(node, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.List))

    def _is_list(self, node: ast.expr) -> bool:
        values = self.script.flow.values(node)
        return bool(values) and all(
            isinstance(each, Container) or (isinstance(each, Made) and each.name == "collections.deque")
            for each in values
        )

    def _why_named_twice(self) -> Reason | None:
        """Why other code may hold the list: something reads it before the loop, or it may be an object of its own."""
        owner, is_sum = self.found.owner, isinstance(self.found.owner, ast.Name)
        if isinstance(self.statement, ast.Expr):
            is_sum = False
            if not self._is_list(owner):
                text = f"'{self.written}' is not known to be a list, and may train on it ({HERE})"
                return Reason("graph-escapes", text, (at(self.module, owner),))
        for each in own(self.module.function(self.loop) or self.module.tree, ast.Name):
            if each.id == self.root and isinstance(each.ctx, ast.Store) and not self._is_alone(each):
                text = f"'{self.root}' may have another name ({HERE})"
                return Reason("graph-escapes", text, (at(self.module, each),))
            is_before = each.id == self.root and isinstance(each.ctx, ast.Load) and each.lineno < self.loop.lineno
            if is_before and not is_sum:
                text = f"'{self.root}' may have another name, or be read before the loop ({HERE})"
                return Reason("graph-escapes", text, (at(self.module, each),))
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
