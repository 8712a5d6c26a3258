"""When may what each pass tells a meter of the project wait until the loop is over?"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, LOOPS, walk
from codemods.dataflow.values import Instance, class_of
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.deferred_lists import DeferredList
from codemods.facts.training.plain_meters import class_of_plain_meter, holds_containers
from codemods.facts.training.sums import is_number, needed
from codemods.facts.training.totals import Total, told
from codemods.facts.training.totals_of_items import is_bound_otherwise, read_where_it_failed, surely_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.training.totals import Loop

_COMPUTING = frozenset({"float", "int", "len", "min", "max", "abs", "isinstance"})
_ACTING = (
    *(ast.Global, ast.Nonlocal, ast.Yield, ast.YieldFrom, ast.Await, ast.Raise, ast.Delete, ast.With, ast.Try),
    *(ast.Import, ast.ImportFrom, ast.ClassDef, ast.Assert),
)
EACH = "each"
"""The name of what a meter is told, one after the other, after the loop, where its method has no names for it."""


def given(call: ast.Call) -> list[ast.expr]:
    """What a call is given, in the order of the text."""
    return [*call.args, *(each.value for each in call.keywords)]


def own_meter(flow: Flow, module: Module, loop: Loop, statement: ast.stmt) -> tuple[ast.stmt, ast.ClassDef] | None:
    """The statement that makes the meter which a statement tells something, and its class, if the meter only computes.

    None where it may be anything else than an object of the project with one name in the loop's function.
    """
    found = told(statement)
    if found is None:
        return None
    name, call = found
    function = module.function(loop)
    stores = [each for each in module.stores.get(name, ()) if module.function(each) is function]
    if len(stores) != 1 or is_bound_otherwise(module, loop, name):
        return None
    made = module.statement(stores[0])
    match made:
        case ast.Assign([ast.Name()], ast.Call() as making) if surely_before(module, made, loop):
            values = flow.values(making)
        case _:
            return None
    classes = [class_of(each) for each in values if isinstance(each, Instance)]
    called = list(flow.called(call))
    if len(classes) != 1 or len(values) != 1 or len(called) != 1 or not _only_computes(called[0]):
        return None
    (class_,), (method,) = classes, called
    is_plain = isinstance(method, ast.FunctionDef) and class_of_plain_meter(flow, making, method) is class_
    return (made, class_) if is_plain and class_ is not None else None


def _only_computes(function: Callee) -> bool:
    """Whether a method changes numbers of its object, and asks nothing but them and what it is given."""
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or not signature(function).named:
        return False
    mine = signature(function).named[0].arg
    known = bound_names(function) | _COMPUTING
    inside = list(own(function, ast.AST))
    if any(isinstance(each, (*_ACTING, *FUNCTIONS)) and each is not function for each in inside):
        return False
    return not any(_does_more(each, mine, known) for each in inside)


def _does_more(node: ast.AST, mine: str, known: frozenset[str]) -> bool:
    """Whether it calls what may do anything, changes anything but the object, or reads what others change."""
    match node:
        case ast.Call(ast.Name(name)):
            return name not in _COMPUTING
        case ast.Call(ast.Attribute(ast.Attribute(ast.Name(name)), "append")):
            return name != mine
        case ast.Call():
            return True
        case ast.Attribute(value, ctx=ast.Store()) | ast.Subscript(ast.Attribute(value), ctx=ast.Store()):
            return not (isinstance(value, ast.Name) and value.id == mine)
        case ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Name(name, ast.Load()):
            return name not in known
    return False


@dataclass(frozen=True, eq=False)
class Meter(Total):
    """An object of the project that the passes of a loop tell numbers, which nothing asks before the loop is over."""

    bound: ast.stmt = field(kw_only=True)
    """The statement that makes it."""
    class_: ast.ClassDef = field(kw_only=True)

    @cached_property
    def used_inside(self) -> tuple[ast.expr, ...]:
        """Where the loop does anything else with it."""
        return tuple(each for each in self.uses if each in self.inside)

    @cached_property
    def read_inside(self) -> tuple[ast.expr, ...]:
        """The same."""
        return self.used_inside

    @property
    def read_after_exceptions(self) -> Iterator[ast.expr]:
        """Where it may be asked although it was not told all, because an exception has left the loop."""
        return read_where_it_failed(self, goes_on=True)

    def why_shared(self, held: object = None) -> Reason | None:  # noqa: ARG002 - it is no list
        """Why other code may have the meter while the loop runs."""
        around = {one for each in self.module.ancestors(self.loop) if isinstance(each, LOOPS) for one in walk(each)}
        for each in self.uses:
            is_after = self._is_below(each) and each not in around
            if each not in self.inside and not is_after and not self._is_asked_only(each):
                return self.seen(each, f"other code may have '{self.name}' already")
        return None

    def _is_below(self, node: ast.expr) -> bool:
        return self.module.span(node)[0] >= self.module.span(self.loop)[1]

    def _is_asked_only(self, name: ast.expr) -> bool:
        """Whether a method is called and its result dropped, or a number is read after the loop."""
        attribute = self.module.parent(name)
        if not isinstance(attribute, ast.Attribute) or not isinstance(attribute.ctx, ast.Load):
            return False
        above = self.module.parent(attribute)
        if isinstance(above, ast.Call) and above.func is attribute:
            is_dropped = isinstance(self.module.parent(above), ast.Expr)
            return is_dropped or (self._is_below(name) and not holds_containers(self.class_))
        is_method = any(isinstance(each, ast.FunctionDef) and each.name == attribute.attr for each in self.class_.body)
        return not is_method and self._is_below(name) and not holds_containers(self.class_)


@dataclass(frozen=True, eq=False)
class DeferredUpdates(DeferredList):
    """What the passes of a loop tell a meter, which may be told after the loop."""

    @property
    def call(self) -> ast.Call:
        """The call that tells it."""
        return self.total.additions[0].value  # type: ignore[attr-defined, no-any-return]

    @property
    def told(self) -> ast.expr:
        """Which of the arguments is read from the device, be it by name."""
        nodes = {each.node for each in self.readings}
        return next(each for each in given(self.call) if each in nodes or each in self.named)

    @property
    def beside(self) -> list[ast.expr]:
        """The other arguments that a pass has to keep for it."""
        return [each for each in given(self.call) if each is not self.told and not isinstance(each, ast.Constant)]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the method calls the arguments that are kept for it; none where the script has these names already."""
        call = self.call
        (method, *_) = self.flow.called(call)
        parameters = [each.arg for each in signature(method).named[1:]]
        by_argument = dict(zip(call.args, parameters, strict=False)) | {each.value: each.arg for each in call.keywords}
        found = [by_argument.get(each) for each in (self.told, *self.beside)]
        scope = self.total.function or self.total.module.tree
        taken = bound_names(scope) | {each.id for each in walk(scope) if isinstance(each, ast.Name)}
        names = tuple(each for each in found if each is not None and each not in taken)
        return names if len(set(names)) == len(found) else ()

    @property
    def joins(self) -> bool:
        """Nothing is computed of it before the meter is told."""
        return False

    def widens(self, one: Reading) -> bool:  # noqa: ARG002 - whatever it is
        """The number itself is asked for, as the script does."""
        return False

    @property
    def pending(self) -> str:
        """A name for what it is still to be told."""
        return f"{self.total.name}_updates"

    def why_not(self) -> Reason | None:
        """Why the meter has to be told in each pass."""
        return (
            self.why_unknown()
            or self._why_other_call()
            or self._why_used()
            or self.total.why_seen(self.flow)
            or self._why_long()
            or self._why_no_name()
        )

    def _why_other_call(self) -> Reason | None:
        total, module = self.total, self.total.module
        if len(total.additions) != 1:
            return needed(module, total.additions[1], f"'{total.name}' is told more than one thing in the loop")
        nodes = {each.node for each in self.readings}
        if len(self.readings) != 1 or not any(each in nodes or each in self.named for each in given(self.call)):
            return needed(module, self.call, f"'{total.name}' is told what is computed of a number")
        (one,) = self.readings
        if not isinstance(one.node.func, ast.Attribute) or self.named.get(self.told, one.node) is not one.node:  # type: ignore[call-overload]
            return needed(module, self.call, f"'{total.name}' is told what is computed of a number")
        for each in self.beside:
            if not is_number(self.flow, module, each):
                text = f"whether '{ast.unparse(each)}' is a number of Python's is not known ({HERE})"
                return Reason("unknown-number", text, (at(module, each),))
        return self._why_captured() or self._why_no_tensor(one)

    def _why_used(self) -> Reason | None:
        total = self.total
        for each in total.used_inside:
            return needed(total.module, each, f"'{total.name}' is used in the loop", "use it after the loop")
        return total.why_shared()

    def _why_no_name(self) -> Reason | None:
        scope = self.total.function or self.total.module.tree
        if self.pending in self.total.module.text or EACH in bound_names(scope):
            return Reason("no-name", f"the script gives the name '{self.pending}' or '{EACH}' to something else")
        return None
