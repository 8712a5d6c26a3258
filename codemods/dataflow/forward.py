"""Forward analyses: what the names of one function or module hold at each point, on every way that leads there.

An analysis says what an expression holds, in a lattice of its own; the walk knows the statements of Python. Branches
are joined, loops are followed until nothing new comes to their start, and code that is never reached is not followed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from codemods.dataflow.effects import COMPREHENSIONS, DOING, always_run, doing, is_flat
from codemods.dataflow.names import imported
from codemods.dataflow.source import FUNCTIONS, LOOPS, children, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.effects import Comprehension, Doing
    from codemods.dataflow.source import Module

Held = TypeVar("Held")

_HANDLERS = {
    type_: f"_{type_.__name__.lower()}"
    for type_ in vars(ast).values()
    if isinstance(type_, type) and issubclass(type_, ast.stmt)
}
"""The methods that follow the statements; where there is none, only what the expressions do is to be known."""
# ``TryStar`` came with Python 3.11.
_TRIES: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))


@dataclass(eq=False)
class _Loop(Generic[Held]):
    """What the names hold where a loop is left, and where its next pass is begun, from within its body."""

    breaks: dict[str, Held] | None = None
    continues: dict[str, Held] | None = None


class ForwardAnalysis(Generic[Held]):
    """One walk over the code of a function or module.

    An analysis is a subclass: it defines ``join`` and ``of``, and what it needs of the other methods after them.

    Args:
        names: What the names hold at the start.
        bottom: What a name holds that is bound to something of no interest.
    """

    def __init__(self, names: Mapping[str, Held], bottom: Held) -> None:
        self._bottom = bottom
        self._names: dict[str, Held] | None = dict(names)
        self._loops: list[_Loop[Held]] = []
        self._tries: list[dict[str, Held] | None] = []
        """For each ``try`` around: what the names may hold where an exception leaves its body."""
        self._jumped: dict[str, Held] | None = None
        """What they may hold where ``break`` or ``continue`` leaves the statements for a loop around all of them."""

    # What an analysis defines.

    def join(self, one: Held, other: Held) -> Held:
        """What holds both; as it is applied again and again, it must come to an end."""
        raise NotImplementedError

    def of(self, node: ast.expr) -> Held:
        """What the expression holds by what the names hold now."""
        raise NotImplementedError

    def element(self, node: ast.expr) -> Held:
        """What the elements of an expression hold that is iterated over, or unpacked."""
        return self.of(node)

    def iterated(self, target: ast.expr, node: ast.expr) -> None:
        """The target of a loop is bound to each element of what is iterated over."""
        self.bind(target, self.element(node))

    def unpacked(self, node: ast.expr, count: int) -> Sequence[Held]:
        """What that many elements of an expression hold, where it is not written out as so many."""
        return [self.element(node)] * count

    def collected(self, held: Held) -> Held:
        """What the list holds that ``*rest`` is bound to, where each of its items holds this."""
        return held

    def entered(self, node: ast.expr) -> Held:
        """What ``with node as name`` binds the name to."""
        return self.of(node)

    def captured(self, node: ast.expr) -> Held:
        """What a name holds in a pattern that an expression is matched with: that, or a part of it."""
        return self.of(node)

    def augmented(self, statement: ast.AugAssign) -> Held:
        """What the target holds after ``target += value``."""
        return self.join(self.of(statement.target), self.of(statement.value))

    def bound(self, target: ast.Name, held: Held) -> None:
        """A name is bound to what holds this."""

    def stored(self, target: ast.Attribute | ast.Subscript, held: Held) -> None:
        """An attribute or item is given what holds this."""

    def defined(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Held:
        """What the name of a function or class holds that is defined here."""
        del statement
        return self._bottom

    def done(self, node: Doing, *, is_statement: bool) -> None:
        """A call or ``yield`` is carried out; the names hold what they do then.

        Args:
            node: The call or ``yield``.
            is_statement: Whether it is all of a statement, so that its value is dropped.
        """

    def tested(self, test: ast.expr, *, holds: bool) -> None:
        """A branch of an ``if`` is taken, as its test holds or does not."""

    def reached(self, statement: ast.stmt) -> None:
        """A statement is about to be run; in loops this happens more than once, with names that hold more."""

    def returned(self, statement: ast.Return) -> None:
        """The function returns here."""

    # What the names hold.

    @property
    def is_reached(self) -> bool:
        """Whether the code can be run up to here."""
        return self._names is not None

    @property
    def names(self) -> Mapping[str, Held]:
        """What the names hold that were bound on some way to here."""
        return self._names if self._names is not None else {}

    @property
    def jumped(self) -> Mapping[str, Held] | None:
        """What the names hold where the statements are left by a jump to a loop around them; None where none is."""
        return self._jumped

    def put(self, name: str, held: Held, *, certain: bool = True) -> None:
        """Binds a name; where that is not certain, it may hold what it held before, too."""
        if self._names is not None:
            is_joined = not certain and name in self._names
            self._names[name] = self.join(self._names[name], held) if is_joined else held

    def _joined(self, *several: dict[str, Held] | None) -> dict[str, Held] | None:
        """What the names hold where several ways meet: none of those that are never gone."""
        ways = [each for each in several if each is not None]
        if not ways:
            return None
        found = dict(ways[0])
        for way in ways[1:]:
            for name, held in way.items():
                found[name] = self.join(found[name], held) if name in found and found[name] != held else held
        return found

    def _copy(self) -> dict[str, Held] | None:
        return None if self._names is None else dict(self._names)

    # Statements.

    def run(self, statements: Iterable[ast.stmt]) -> None:
        """Follows neighbouring statements."""
        for statement in statements:
            if self._names is None:
                return
            self.reached(statement)
            self._may_raise()
            getattr(self, _HANDLERS[type(statement)], self._plain)(statement)

    def run_after(self, module: Module, last: ast.stmt, jumped: Mapping[str, Held] | None = None) -> None:
        """Follows whatever may run in the function after one of its statements: later passes of loops around it, too.

        Args:
            module: Where the statement stands.
            last: The statement; what the names hold now, they hold after it.
            jumped: What they hold where a jump in the statements up to it has left these for the loop around.
        """
        around = list(_around(module, last))
        for statement, suite in reversed(around):
            if isinstance(statement, LOOPS) and suite is statement.body:
                self._loops.append(_Loop())
            elif isinstance(statement, _TRIES) and suite is not statement.finalbody:
                self._tries.append(None)
        if self._loops and jumped is not None:
            self._loops[-1].breaks = self._loops[-1].continues = dict(jumped)
        self.run(_rest_of(module, last))
        for statement, suite in around:
            if isinstance(statement, LOOPS) and suite is statement.body:
                self._go_on_after_pass(statement)
            elif isinstance(statement, _TRIES) and suite is statement.body:
                self._after_body(statement, self._tries.pop())
            elif isinstance(statement, _TRIES) and suite is not statement.finalbody:
                self._finally(statement, self._tries.pop())
            self.run(_rest_of(module, statement))

    def _go_on_after_pass(self, statement: ast.For | ast.AsyncFor | ast.While) -> None:
        loop = self._loops.pop()
        self._names = self._joined(self._names, loop.continues)
        if self._names is not None:
            self._passes(statement)
        self._names = self._joined(self._names, loop.breaks)

    def _plain(self, statement: ast.stmt) -> None:
        """A statement that binds nothing but by ``:=``."""
        for child in children(statement):
            if isinstance(child, ast.expr):
                self._carry_out(child, is_statement=isinstance(statement, ast.Expr))

    def _assign(self, statement: ast.Assign | ast.AnnAssign) -> None:
        if statement.value is None:
            return
        self._carry_out(statement.value)
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        # `a, b = b, a`: all values are known before a name is bound.
        for target, held in [pair for each in targets for pair in self._pairs(each, statement.value)]:
            self.bind(target, held)

    _annassign = _assign

    def _pairs(self, target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, Held]]:
        """The targets of an assignment, each with what it is given."""
        if not isinstance(target, (ast.Tuple, ast.List)):
            yield target, self.of(value)
            return
        parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
        is_starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *parts))
        if len(parts) == len(target.elts) and not is_starred:
            for one, other in zip(target.elts, parts, strict=True):
                yield from self._pairs(one, other)
            return
        yield from zip(target.elts, self.unpacked(value, len(target.elts)), strict=True)

    def bind(self, target: ast.expr, held: Held) -> None:
        """Follows ``target = …``, where what is given holds this; so does each of several targets."""
        match target:
            case ast.Name(name):
                self.put(name, held)
                self.bound(target, held)
            case ast.Tuple(elements) | ast.List(elements):
                for each in elements:
                    self.bind(each, held)
            case ast.Starred(value):
                self.bind(value, self.collected(held))
            case ast.Attribute(value):
                self._carry_out(value)
                self.stored(target, held)
            case ast.Subscript(value, index):
                self._carry_out(value)
                self._carry_out(index)
                self.stored(target, held)

    def _augassign(self, statement: ast.AugAssign) -> None:
        self._carry_out(statement.value)
        self.bind(statement.target, self.augmented(statement))

    def _delete(self, statement: ast.Delete) -> None:
        for target in statement.targets:
            for each in walk(target) if isinstance(target, (ast.Tuple, ast.List)) else (target,):
                if isinstance(each, ast.Name):
                    self.put(each.id, self._bottom)
                elif isinstance(each, (ast.Attribute, ast.Subscript)):
                    self._carry_out(each)

    def _functiondef(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.put(statement.name, self.defined(statement))

    _asyncfunctiondef = _classdef = _functiondef

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for name, _ in imported(statement):
            self.put(name, self._bottom)

    _importfrom = _import

    def _if(self, statement: ast.If) -> None:
        self._carry_out(statement.test)
        self.branches(
            lambda: self._branch(statement, statement.body, holds=True),
            lambda: self._branch(statement, statement.orelse, holds=False),
        )

    def _branch(self, statement: ast.If, suite: Sequence[ast.stmt], *, holds: bool) -> None:
        if self.is_reached:
            self.tested(statement.test, holds=holds)
        self.run(suite)

    def branches(self, *branches: Callable[[], object]) -> None:
        """Follows several ways, of which one is taken."""
        before, ends = self._names, []
        for branch in branches:
            self._names = None if before is None else dict(before)
            branch()
            ends.append(self._names)
        self._names = self._joined(*ends)

    def _match(self, statement: ast.Match) -> None:
        self._carry_out(statement.subject)
        subject = self.captured(statement.subject)

        def follow(case: ast.match_case) -> None:
            for node in walk(case.pattern):
                name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
                if isinstance(name, str):
                    self.put(name, subject)
            if case.guard is not None:
                self._carry_out(case.guard)
            self.run(case.body)

        last = statement.cases[-1]
        takes_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        ways = [lambda case=case: follow(case) for case in statement.cases]
        self.branches(*ways, *([] if takes_all else [lambda: None]))

    def _for(self, statement: ast.For | ast.AsyncFor) -> None:
        self._carry_out(statement.iter)
        self._passes(statement)

    _asyncfor = _for

    def _while(self, statement: ast.While) -> None:
        self._passes(statement)

    def _passes(self, statement: ast.For | ast.AsyncFor | ast.While) -> None:
        """Follows passes through a loop until none of them brings anything new to its start, and what is after them."""
        start = self._copy()
        while True:
            loop: _Loop[Held] = _Loop()
            self._loops.append(loop)
            self._names = None if start is None else dict(start)
            self._may_raise()
            if isinstance(statement, ast.While):
                self._carry_out(statement.test)
            else:
                self.iterated(statement.target, statement.iter)
            self.run(statement.body)
            self._loops.pop()
            again = self._joined(start, self._names, loop.continues)
            if again == start:
                break
            start = again
        self._names = start
        if isinstance(statement, ast.While):
            self._carry_out(statement.test)
            if isinstance(statement.test, ast.Constant) and statement.test.value:
                self._names = None
        self.run(statement.orelse)
        self._names = self._joined(self._names, loop.breaks)

    def _break(self, _: ast.Break) -> None:
        if self._loops:
            self._loops[-1].breaks = self._joined(self._loops[-1].breaks, self._names)
        else:
            self._jumped = self._joined(self._jumped, self._names)
        self._names = None

    def _continue(self, _: ast.Continue) -> None:
        if self._loops:
            self._loops[-1].continues = self._joined(self._loops[-1].continues, self._names)
        else:
            self._jumped = self._joined(self._jumped, self._names)
        self._names = None

    def _with(self, statement: ast.With | ast.AsyncWith) -> None:
        for item in statement.items:
            self._carry_out(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, self.entered(item.context_expr))
        self.run(statement.body)
        self._may_raise()

    _asyncwith = _with

    def _try(self, statement: ast.Try) -> None:
        self._tries.append(self._copy())
        self.run(statement.body)
        self._after_body(statement, self._tries.pop())

    _trystar = _try

    def _after_body(self, statement: ast.Try, raising: dict[str, Held] | None) -> None:
        """Follows a ``try`` after its body; its handlers start where an exception may have left that."""
        self._tries.append(raising)
        self.run(statement.orelse)
        ends = [self._names]
        for handler in statement.handlers:
            self._names = None if raising is None else dict(raising)
            if handler.type is not None:
                self._carry_out(handler.type)
            if handler.name is not None:
                self.put(handler.name, self._bottom)
            self.run(handler.body)
            ends.append(self._names)
        self._names = self._joined(*ends)
        self._finally(statement, self._tries.pop())

    def _finally(self, statement: ast.Try, raising: dict[str, Held] | None) -> None:
        """Follows ``finally``, which also runs on every way out of the statement."""
        if not statement.finalbody:
            return
        goes_on = self.is_reached
        self._names = self._joined(self._names, raising)
        self.run(statement.finalbody)
        if self._jumped is not None:
            self._jumped = self._joined(self._jumped, self._names)
        for loop in self._loops[-1:]:
            loop.breaks = self._joined(loop.breaks, self._names) if loop.breaks is not None else None
            loop.continues = self._joined(loop.continues, self._names) if loop.continues is not None else None
        if not goes_on:
            self._names = None

    def _may_raise(self) -> None:
        if self._tries and self._names is not None:
            self._tries = [self._joined(each, self._names) for each in self._tries]

    def _return(self, statement: ast.Return) -> None:
        self._plain(statement)
        self.returned(statement)
        self._names = None

    def _raise(self, statement: ast.Raise) -> None:
        self._plain(statement)
        self._names = None

    # Expressions.

    def comprehended(self, node: Comprehension) -> Held:
        """What the items hold that a comprehension makes: of a dictionary, its values."""
        around = self._copy()
        for generator in node.generators:
            self.iterated(generator.target, generator.iter)
        held = self.of(node.value if isinstance(node, ast.DictComp) else node.elt)
        self._names = around
        return held

    def _carry_out(self, node: ast.expr, *, is_statement: bool = False) -> None:
        """Follows what evaluating an expression does besides its value, from the inside out."""
        if is_flat(node):
            for each in doing(node):
                self.done(each, is_statement=is_statement and each is node)
        else:
            self._carry_out_parts(node, is_statement=is_statement, certain=True)

    def _carry_out_parts(self, node: ast.AST, *, certain: bool, is_statement: bool = False) -> None:
        if isinstance(node, FUNCTIONS):
            return  # what it does, it does when it is called
        if isinstance(node, COMPREHENSIONS):
            self._carry_out_comprehension(node)
            return
        for part in children(node):
            is_certain = part is always_run(node) or not isinstance(node, (ast.BoolOp, ast.IfExp))
            self._carry_out_parts(part, certain=certain and is_certain)
        if isinstance(node, ast.NamedExpr):
            held = self.of(node.value)
            self.put(node.target.id, held, certain=certain)
            self.bound(node.target, held)
        elif isinstance(node, DOING):
            self.done(node, is_statement=is_statement)

    def _carry_out_comprehension(self, node: Comprehension) -> None:
        around = self._copy()
        for generator in node.generators:
            self._carry_out_parts(generator.iter, certain=False)
            self.iterated(generator.target, generator.iter)
            for condition in generator.ifs:
                self._carry_out_parts(condition, certain=False)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._carry_out_parts(part, certain=False)
        inside, self._names = self.names, around
        # Its targets are names of its own; what `:=` binds in it, or a call in it changes, are names of the function.
        targets = {
            each.id for generator in node.generators for each in walk(generator.target) if isinstance(each, ast.Name)
        }
        for name, held in inside.items():
            if name not in targets:
                self.put(name, held, certain=False)


def _around(module: Module, statement: ast.stmt) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """The statements around one in its function, from the inside out, each with the suite of it that leads there."""
    suite, parent = module.suite(statement), module.parent(statement)
    while parent is not None and not isinstance(parent, (*FUNCTIONS, ast.ClassDef, ast.Module)):
        above = module.statement(parent)
        yield above, suite
        suite, parent = module.suite(above), module.parent(above)


def _rest_of(module: Module, statement: ast.stmt) -> list[ast.stmt]:
    """The statements after this one in its suite."""
    suite = module.suite(statement)
    return suite[next(at for at, each in enumerate(suite) if each is statement) + 1 :]
