"""Where is what a model returns kept until after its next call?

A CUDA graph computes each call in the same memory, so that the next call overwrites what the last one returned.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, declared_outer
from codemods.dataflow.recursion import closure
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, walk
from codemods.dataflow.values import Container, Made, library_names
from codemods.facts.loops import module_of
from codemods.facts.models.placement import wrappings
from codemods.library.kinds import Kind, kind
from codemods.library.operators import Memory, attribute, function, operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.dataflow.values import Value
    from codemods.facts.script import Script

_IN_PLACE = frozenset({Memory.VIEW, Memory.EITHER, Memory.SELF})
_TO_HOST = "cpu"
_COMPUTES = frozenset(
    f"builtins.{name}"
    for name in (
        *("abs", "bool", "float", "format", "id", "int", "isinstance", "len", "print", "range", "round", "str", "sum"),
        "type",
    )
)
_SEEN = ("builtins.", "math.", "matplotlib.", "numpy.", "sklearn.", "torch.", "torchvision.")
"""Packages whose functions keep no tensor that they are given."""
_DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.GeneratorExp)


def calls_model(flow: Flow, call: ast.Call, model: Value) -> bool:
    """Whether the call runs the model, as it is or in a wrapper."""
    return any(
        model in layers
        for value in flow.values(call.func)
        if kind(flow, value) is Kind.MODEL
        for layers in wrappings(flow, value)
    )


def kept_outputs(script: Script, model: Value) -> tuple[Module, ast.AST] | None:
    """The first place where what the model returns, or a view of it, is kept, or may be; None where it never is."""
    uses = _Uses(script, model)
    starts: tuple[ast.AST, ...] = uses.calls
    for node in closure(starts, uses.handed_on):
        if uses.keeps(node):
            return module_of(script.flow, node), node
    return None


@dataclass(eq=False)
class _Uses:
    """What is done with the outputs: nodes are expressions that may be one, names that are given one, parameters."""

    script: Script
    model: Value

    @property
    def _flow(self) -> Flow:
        return self.script.flow

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls of the model."""
        calls = (call for module in self.script.modules for call in module.nodes(ast.Call))
        return tuple(each for each in calls if calls_model(self._flow, each, self.model))

    @cached_property
    def _running(self) -> frozenset[Callee]:
        """The functions that call the model, themselves or through others."""

        def above(node: ast.AST) -> Iterator[Callee]:
            around = module_of(self._flow, node).function(node)
            if around is not None:
                yield around

        starts = (each for call in self.calls for each in above(call))
        return frozenset(
            closure(starts, lambda each: [one for call in self._flow.callers(each) for one in above(call)])
        )

    # What may be the output, too.

    def handed_on(self, node: ast.AST) -> Iterator[ast.AST]:
        """Where else the output may be, from there."""
        module = module_of(self._flow, node)
        if isinstance(node, ast.arg):
            scope = module.parent(module.parent(node))  # type: ignore[arg-type]
            yield from (each for each in walk(scope) if _reads(each, node.arg))  # type: ignore[arg-type]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield from self._reads_of(module, node)
        else:
            yield from self._passed_on(module, node, module.parent(node))

    def _passed_on(self, module: Module, node: ast.AST, parent: ast.AST | None) -> Iterator[ast.AST]:
        match parent:
            case ast.Attribute(_, name):
                yield from self._attribute(module, parent, name)
            case ast.Subscript(value) if value is node:
                yield parent
            case ast.Call():
                yield from self._given(parent, node)
            case ast.keyword() if isinstance(call := module.parent(parent), ast.Call):
                yield from self._given(call, node)
            case ast.Return():
                around = module.function(parent)
                yield from self._flow.callers(around) if around is not None else ()
            case ast.expr() if _holds(parent, node):
                yield parent
        yield from _names(_targets(parent, node))

    def _attribute(self, module: Module, node: ast.Attribute, name: str) -> Iterator[ast.AST]:
        """``output.logits``, ``output.detach()``; not ``output.shape``, ``output.argmax(1)``."""
        call = module.parent(node)
        is_method = isinstance(call, ast.Call) and call.func is node
        found = operator(name) if is_method else attribute(name)
        is_kept = isinstance(call, ast.Call) and is_number(call) and _is_collected(module, call)
        if is_kept or (name != _TO_HOST and (found is None or found.memory in _IN_PLACE)):
            yield call if is_method and call is not None else node

    def _given(self, call: ast.Call, node: ast.AST) -> Iterator[ast.AST]:
        """What a call does with an argument."""
        functions = self._flow.called(call)
        for each in functions:
            filled = dict(self._flow.bind(each, call).filled())
            taken = signature(each)
            yield from (one for one in (*taken.named, *taken.stars) if node in filled.get(one.arg, ()))
        if not functions and self._may_return_it(call):
            yield call

    def _may_return_it(self, call: ast.Call) -> bool:
        values = self._flow.values(call.func)
        names = library_names(values)
        if any(kind(self._flow, each) is Kind.LOSS for each in values) or (names and names <= _COMPUTES):
            return False
        rows = [function(each) for each in names]
        return not rows or any(row is None or row.memory in _IN_PLACE for row in rows)

    def _reads_of(self, module: Module, name: ast.Name) -> Iterator[ast.AST]:
        """Where a name that is given the output is read, before it is given something else."""
        comprehension = _comprehension_of(module, name)
        if comprehension is not None:
            yield from (each for each in walk(comprehension) if _reads(each, name.id))
            return
        for read in self._all_reads(module, name):
            if self._is_of_this_pass(module, name, read):
                yield read

    def _all_reads(self, module: Module, name: ast.Name) -> Iterator[ast.Name]:
        """The reads of the variable, in functions inside its own, too."""
        scope = module.function(name) or module.tree
        for each in walk(scope):
            if isinstance(each, ast.Name) and _reads(each, name.id):
                around = module.function(each)
                if around is (None if scope is module.tree else scope) or _sees(module, around, name.id, scope):
                    yield each

    # What keeps it.

    def keeps(self, node: ast.AST) -> bool:
        """Whether the output is still there, where the node has it, after the next call of the model, or may be."""
        module = module_of(self._flow, node)
        if isinstance(node, ast.arg):
            return False
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            return _comprehension_of(module, node) is None and self._outlives(module, node)
        parent = module.parent(node)
        match parent:
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return any(self._is_run(each) for each in walk(parent) if isinstance(each, ast.Call))
            case ast.AugAssign(target, _, value) if value is node:
                held = self._flow.values(target)
                return isinstance(node, _DISPLAYS) or any(isinstance(each, Container) for each in held)
            case ast.Yield() | ast.YieldFrom() | ast.Lambda():
                return True
            case ast.Return():
                around = module.function(parent)
                return around is not None and self._flow.escapes(around)
            case ast.Call() if parent.func is not node:
                return self._is_kept_by(parent)
            case ast.keyword() | ast.Starred() if isinstance(call := module.parent(parent), ast.Call):
                return self._is_kept_by(call)
        return any(_is_kept_in(each) for each in _targets(parent, node))

    def _is_kept_by(self, call: ast.Call) -> bool:
        """Whether the call may keep what it is given: ``outputs.append(output)``, code that is not seen."""
        flow = self._flow
        values = flow.values(call.func)
        if flow.called(call) or any(kind(flow, each) in {Kind.LOSS, Kind.MODEL} for each in values):
            return False
        owners = flow.values(call.func.value) if isinstance(call.func, ast.Attribute) else frozenset()
        if any(isinstance(each, Container) for each in owners):
            return True
        if isinstance(call.func, ast.Attribute) and operator(call.func.attr) is not None:
            return False  # of tensors, which read what they are given
        known = [each.name for each in (*values, *owners) if each.name.startswith(_SEEN)]
        made = [each for each in owners if isinstance(each, Made)]
        return not known or (bool(made) and not all(each.name.startswith(_SEEN) for each in made))

    def _outlives(self, module: Module, name: ast.Name) -> bool:
        """Whether the variable may be read after the next call."""
        scope = module.function(name) or module.tree
        if name.id in declared_outer(scope):
            return True
        return any(not self._is_of_this_pass(module, name, each) for each in self._reached(module, name))

    def _reached(self, module: Module, name: ast.Name) -> Iterator[ast.Name]:
        """The reads that may find this output: after it, or before it in a loop around both."""
        for read in self._all_reads(module, name):
            if module.function(read) is not module.function(name):
                yield read
                continue
            is_after = module.span(read) > _end(module, name)
            together = [each for each in module.ancestors(name) if isinstance(each, LOOPS)]
            is_next = any(each in together for each in module.ancestors(read))
            if (is_after or is_next) and not self._is_set_anew(module, name, read):
                yield read

    def _is_of_this_pass(self, module: Module, name: ast.Name, read: ast.Name) -> bool:
        """Whether the read surely finds the output of the last call, and nothing older."""
        if module.function(read) is not module.function(name):
            return False
        end = _end(module, name)
        given = module.statement(name)
        if module.span(read) <= end or not _runs_before(module, given, read, name.id, is_last=True):
            return False
        return not any(end < module.span(each) < module.span(read) for each in self._runs(module, name))

    def _runs(self, module: Module, name: ast.Name) -> Iterator[ast.Call]:
        """Where the function of the name runs the model."""
        here = module.function(name)
        yield from (each for each in module.nodes(ast.Call) if module.function(each) is here and self._is_run(each))

    def _is_run(self, call: ast.Call) -> bool:
        return call in self.calls or any(each in self._running for each in self._flow.called(call))

    def _is_set_anew(self, module: Module, name: ast.Name, read: ast.Name) -> bool:
        """Whether another assignment surely stands between."""
        scope = module.function(name) or module.tree
        loops = [each for each in module.ancestors(name) if isinstance(each, LOOPS) and each in module.ancestors(read)]
        is_next = module.span(read) < module.span(name)
        for each in walk(scope):
            if not (isinstance(each, ast.Name) and each.id == name.id and isinstance(each.ctx, ast.Store)):
                continue
            other = module.statement(each)
            is_between = (
                bool(loops) and loops[0] in module.ancestors(each) if is_next else module.span(each) > module.span(name)
            )
            if other is module.statement(name) or not is_between or module.span(each) > module.span(read):
                continue
            if module.function(each) is module.function(name) and _runs_before(module, other, read, name.id):
                return True
        return False


def _comprehension_of(module: Module, name: ast.Name) -> ast.AST | None:
    """The comprehension whose variable the name is."""
    parent = module.parent(name)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Starred)):
        parent = module.parent(parent)
    return module.parent(parent) if isinstance(parent, ast.comprehension) else None


def is_number(node: ast.AST) -> bool:
    """``output.item()``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"


def _is_collected(module: Module, number: ast.Call) -> bool:
    """``losses.append(output.item())``, which may be kept on the device until the loop ends."""
    match module.parent(number):
        case ast.Call(ast.Attribute(_, "append")):
            return True
    return False


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _sees(module: Module, around: ast.AST | None, name: str, scope: ast.AST) -> bool:
    """Whether a function inside the scope reads the scope's variable of that name."""
    while around is not None and around is not scope:
        if name in bound_names(around) or name in signature(around).names:  # type: ignore[arg-type]
            return False
        around = module.function(module.parent(around) or around)
    return True


def _holds(parent: ast.expr, node: ast.AST) -> bool:
    """Whether the value of an expression is what one of its parts is, or holds it."""
    match parent:
        case ast.BinOp():
            return isinstance(node, _DISPLAYS)
        case ast.IfExp(test):
            return test is not node
    return isinstance(parent, (*_DISPLAYS, ast.DictComp, ast.Starred, ast.BoolOp, ast.Await, ast.NamedExpr))


def _targets(parent: ast.AST | None, node: ast.AST) -> list[ast.expr]:
    """What is given the value of an expression, or its items."""
    match parent:
        case ast.Assign(targets):
            return targets
        case ast.AnnAssign(target) | ast.NamedExpr(target):
            return [target]
        case ast.For(target, iter_) | ast.comprehension(target, iter_) if iter_ is node:
            return [target]
    return []


def _names(targets: list[ast.expr]) -> Iterator[ast.Name]:
    for target in targets:
        yield from (each for each in walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


def _is_kept_in(target: ast.expr) -> bool:
    """Whether a target is a part of something: ``self.last``, ``outputs[i]``."""
    return any(isinstance(each, (ast.Attribute, ast.Subscript)) for each in walk(target))


def _end(module: Module, name: ast.Name) -> tuple[int, int]:
    """The place from which on the name has what it is given."""
    statement = module.statement(name)
    is_simple = isinstance(statement, (ast.Assign, ast.AnnAssign))
    end = module.span(statement if is_simple else name)[1]
    return end, end


def _runs_before(module: Module, first: ast.stmt, read: ast.AST, name: str, *, is_last: bool = False) -> bool:
    """Whether the statement has surely run in each pass in which the read runs after it.

    Args:
        module: Where they stand.
        first: What gives the name a value; so may the other branch of an ``if``.
        read: Where the name is read.
        name: The name.
        is_last: Whether the last pass of a loop that has ended will do.
    """
    chain = {module.statement(read), *(each for each in module.ancestors(read) if isinstance(each, ast.stmt))}
    here: ast.AST = first
    while isinstance(here, ast.stmt):
        suite = module.suite(here)
        later = next((index for index, each in enumerate(suite) if each in chain), None)
        if later is not None:
            return suite.index(here) <= later
        parent = module.parent(here)
        if isinstance(parent, ast.If) and not (_stores(parent.body, name) and _stores(parent.orelse, name)):
            return False
        if isinstance(parent, FUNCTIONS if is_last else (*LOOPS, *FUNCTIONS)) or parent is None:
            return False
        here = parent
    return False


def _stores(suite: list[ast.stmt], name: str) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        for statement in suite
        for each in walk(statement)
    )
