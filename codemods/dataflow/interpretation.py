"""One pass over the own code of a module or function: what its expressions may be, statement by statement.

Local names are followed in the order of the statements (``x = x.to(device)``). Whatever other code can see, such as
attributes, items, parameters and returns, is read from and joined into the flow.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.environments import UNREACHABLE, Environment
from codemods.dataflow.expressions import Expressions
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import Callee, FunctionNode, is_main_guard, walk
from codemods.dataflow.values import (
    NONE,
    NOTHING,
    PLAIN,
    UNBOUND,
    UNKNOWN_KEY,
    Class,
    Container,
    External,
    Function,
    Tensor,
    instance,
    joined,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.units import Unit
    from codemods.dataflow.values import Values


class Interpretation(Expressions):
    """One visit of a unit.

    Each handler of a statement takes the environment before it to the one after it.
    """

    def __init__(self, flow: Flow, unit: Unit) -> None:
        super().__init__(flow, unit)
        self._breaks: list[list[Environment]] = []
        self._continues: list[list[Environment]] = []
        self._exits: list[Environment] = []

    def run(self) -> None:
        """Interprets the unit's code once."""
        node = self._unit.node
        if isinstance(node, ast.Module):
            self._block(node.body)
        else:
            self._enter(node)
            if isinstance(node, ast.Lambda):
                self._flow.write("return", node, "", self._evaluate(node.body))
            else:
                self._block(node.body)
                if self._env is not UNREACHABLE and not self._unit.scope.yields:
                    self._flow.write("return", node, "", frozenset({NONE}))
        self._leave()

    def _enter(self, function: Callee) -> None:
        taken = signature(function)
        parameters = taken.named
        for parameter in parameters:
            self._bind_name(parameter.arg, self._flow.read("parameter", function, parameter.arg))
        if self._unit.owner is not None and self._unit.binds_self and parameters:
            this = instance(self._unit.owner)
            is_class = "classmethod" in self._unit.decorators
            self._bind_name(parameters[0].arg, frozenset({this.of if is_class else this}))
        for star, kind in ((taken.vararg, "tuple"), (taken.kwarg, "dict")):
            if star is not None:
                self._bind_name(star.arg, self._flow.container(kind, star))

    def _leave(self) -> None:
        """Tells the rest of the script which choices of the user the unit leaves as they are on some way through it."""
        end = self._env
        for each in self._exits:
            end = end.join(each)
        for name, values in end.items():
            if "." in name and UNBOUND in values:
                self._flow.leave_choice(name)

    def _block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if self._env is UNREACHABLE:
                return
            self._flow.note_before(statement, self._env)
            self.handlers[type(statement)](self, statement)

    def _assign(self, statement: ast.Assign) -> None:
        values = self._evaluate(statement.value)
        for target in statement.targets:
            self._bind(target, values)

    def _annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._bind(statement.target, self._evaluate(statement.value))

    def _augassign(self, statement: ast.AugAssign) -> None:
        operand = self._evaluate(statement.value)
        old = self._value(statement.target)
        # `images /= 255` and `names += [name]` write into the same memory.
        kept = frozenset(each for each in old if isinstance(each, (Container, Tensor)))
        added = joined(*[self._flow.items(each) for each in operand if isinstance(each, Container)])
        for each in kept:
            if isinstance(each, Container):
                self._flow.put(each.site, UNKNOWN_KEY, added)
        made = self._flow.operation(statement, old - kept, operand) if old - kept else NOTHING
        self._bind(statement.target, joined(kept, made))

    def _for(self, statement: ast.For | ast.AsyncFor) -> None:
        elements = self._flow.elements(self._evaluate(statement.iter), statement.iter)
        self._loop(statement, lambda: self._bind(statement.target, elements))

    _asyncfor = _for

    def _while(self, statement: ast.While) -> None:
        self._loop(statement, lambda: self._evaluate(statement.test))

    def _loop(self, statement: ast.For | ast.AsyncFor | ast.While, start: Callable[[], object]) -> None:
        """Follows passes through the loop until none of them brings anything new to its start."""
        entry = self._env.join(self._unit.loops.get(statement, UNREACHABLE))
        while True:
            self._breaks.append([])
            self._continues.append([])
            self._env = entry
            start()
            self._block(statement.body)
            breaks = self._breaks.pop()
            again = entry
            for each in (self._env, *self._continues.pop()):
                again = again.join(each)
            if again is entry:
                break
            self._unit.loops[statement] = entry = again
        self._env = entry
        if isinstance(statement, ast.While):
            start()
            if isinstance(statement.test, ast.Constant) and statement.test.value:
                self._env = UNREACHABLE
        self._block(statement.orelse)
        for each in breaks:
            self._env = self._env.join(each)

    def _break(self, _: ast.Break) -> None:
        if self._breaks:
            self._breaks[-1].append(self._env)
        self._env = UNREACHABLE

    def _continue(self, _: ast.Continue) -> None:
        if self._continues:
            self._continues[-1].append(self._env)
        self._env = UNREACHABLE

    def _if(self, statement: ast.If) -> None:
        self._evaluate(statement.test)
        before = self._env
        self._block(statement.body)
        if not is_main_guard(statement):
            after, self._env = self._env, before
            self._block(statement.orelse)
            self._env = after.join(self._env)

    def _with(self, statement: ast.With | ast.AsyncWith) -> None:
        for item in statement.items:
            entered = self._flow.entered(self._evaluate(item.context_expr))
            if item.optional_vars is not None:
                self._bind(item.optional_vars, entered)
        self._block(statement.body)

    _asyncwith = _with

    def _try(self, statement: ast.Try) -> None:
        before = self._env
        self._block(statement.body)
        # A handler starts from any point of the body: from before it or from after it is near enough.
        start = before.join(self._env)
        self._block(statement.orelse)
        end = self._env
        for handler in statement.handlers:
            self._env = start
            if handler.type is not None:
                self._evaluate(handler.type)
            if handler.name is not None:
                self._bind_name(handler.name, PLAIN)
            self._block(handler.body)
            end = end.join(self._env)
        self._env = start if end is UNREACHABLE else end
        self._block(statement.finalbody)
        if end is UNREACHABLE:
            self._env = UNREACHABLE

    _trystar = _try

    def _match(self, statement: ast.Match) -> None:
        subject = self._evaluate(statement.subject)
        before = end = self._env
        for case in statement.cases:
            self._env = before
            for node in walk(case.pattern):
                name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
                if isinstance(node, ast.expr):
                    self._evaluate(node)
                if isinstance(name, str):
                    whole = node is case.pattern
                    self._bind_name(name, subject if whole else unknown(f"'{name}' is a part of what is matched"))
            if case.guard is not None:
                self._evaluate(case.guard)
            self._block(case.body)
            end = end.join(self._env)
        self._env = end

    def _return(self, statement: ast.Return) -> None:
        values = self._evaluate(statement.value) if statement.value is not None else frozenset({NONE})
        if not self._unit.scope.yields:
            self._flow.write("return", self._unit.node, "", values)
        self._exits.append(self._env)
        self._env = UNREACHABLE

    def _raise(self, statement: ast.Raise) -> None:
        self._look_through(statement)
        self._env = UNREACHABLE

    def _functiondef(self, statement: FunctionNode) -> None:
        self._flow.add_unit(statement, self._unit, self._class)
        this = Function(statement.name, statement)
        for decorator in statement.decorator_list:
            self._flow.decorate(this, self._evaluate(decorator))
        self._take_defaults(statement)
        self._bind_name(statement.name, frozenset({this}))

    _asyncfunctiondef = _functiondef

    def _classdef(self, statement: ast.ClassDef) -> None:
        for base in statement.bases:
            self._flow.derive(statement, base, self._base(base))
        this = Class(statement.name, statement)
        decorators = [self._evaluate(each) for each in statement.decorator_list]
        for keyword in statement.keywords:
            self._evaluate(keyword.value)
        around, env, self._class = self._class, self._env, statement
        self._block(statement.body)
        self._class, self._env = around, env
        for each in decorators:
            self._flow.decorate(this, each)
        self._bind_name(statement.name, frozenset({this}))

    def _base(self, base: ast.expr) -> Values:
        """What a base of a class is: of one that is told of types, ``Dataset[Tensor]``, what it is without them."""
        values = self._evaluate(base)
        generic = self._evaluate(base.value) if isinstance(base, ast.Subscript) else values
        return generic if all(isinstance(each, (External, Class)) for each in generic) else values

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        module = self._unit.module
        for name, target in names.imported(statement, module.package):
            self._bind_name(name, self._flow.imported(module.resolved(target)))
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            for name, values in self._flow.star(module.resolved(names.source(statement, module.package))):
                self._bind_name(name, values)

    _importfrom = _import

    def _delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Name):
                self._env = self._env.unbind(target.id)
            else:
                self._look_through(target)
