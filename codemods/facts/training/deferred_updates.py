"""When may what each pass tells a meter of the project wait until few passes ask it, or until the loop is over?"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from codemods.dataflow.names import assigned, bound_names
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import LOOPS, walk
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.deferred_lists import DeferredList
from codemods.facts.training.meter_reads import tellings
from codemods.facts.training.plain_meters import class_of_plain_meter, holds_containers
from codemods.facts.training.sums import is_number, needed
from codemods.facts.training.totals import Total, told
from codemods.facts.training.totals_of_items import is_bound_otherwise, read_where_it_failed, surely_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.devices.readings import Reading
    from codemods.facts.training.meter_reads import Telling
    from codemods.facts.training.totals import Loop

_Node = TypeVar("_Node")
EACH = "each"
"""The name of what a meter is told, one after the other, after the loop, where its method has no names for it."""


class OwnMeter(NamedTuple):
    """A meter with one name of a function, whose numbers are its own alone."""

    class_: ast.ClassDef
    stores: tuple[ast.Name, ...]
    """Where the name is given one: before a loop, or anew by passes of it."""


def own_meter(flow: Flow, module: Module, loop: Loop, statement: ast.stmt) -> OwnMeter | None:
    """The meter that a statement tells something, where its numbers are its own alone.

    None where it may be anything else than an object of the project with one name in the loop's function.
    """
    found = told(statement)
    if found is None:
        return None
    name, call = found
    function, method = module.function(loop), _only({*flow.called(call)})
    stores = [each for each in module.stores.get(name, ()) if module.function(each) is function]
    if not isinstance(method, ast.FunctionDef) or is_bound_otherwise(module, loop, name):
        return None
    class_ = _only({_class_of(flow, module, each, method) for each in stores})
    if class_ is None:
        return None
    is_made = any(surely_before(module, module.statement(each), loop) for each in stores)
    here = [each for each in module.nodes(ast.Name) if each.id == name and module.function(each) is function]
    if any(isinstance(each.ctx, ast.Del) or not (is_made or each in walk(loop)) for each in here):
        return None
    return OwnMeter(class_, tuple(each for each in stores if isinstance(each, ast.Name)))


def _only(found: set[_Node]) -> _Node | None:
    return next(iter(found)) if len(found) == 1 else None


def _class_of(flow: Flow, module: Module, store: ast.AST, telling: ast.FunctionDef) -> ast.ClassDef | None:
    """The class of what an assignment gives a name alone, where its numbers are its own."""
    match module.statement(store):
        case ast.Assign([_]) as made:
            values = (value for target, value in assigned(made) if target is store)
            return next((class_of_plain_meter(flow, each, telling) for each in values), None)
    return None


@dataclass(frozen=True, eq=False)
class Meter(Total):
    """An object of the project that the passes of a loop tell numbers, which few of them ask."""

    own: OwnMeter = field(kw_only=True)

    @cached_property
    def used_inside(self) -> tuple[ast.expr, ...]:
        """Where the loop does anything else with it."""
        return tuple(each for each in self.uses if each in self.inside)

    @cached_property
    def read_inside(self) -> tuple[ast.expr, ...]:
        """The same."""
        return self.used_inside

    @cached_property
    def made_inside(self) -> tuple[ast.Name, ...]:
        """Where the loop makes a new one."""
        return tuple(each for each in self.own.stores if each in self.inside)

    @cached_property
    def _made_before(self) -> tuple[ast.stmt, ...]:
        made = (self.module.statement(each) for each in self.own.stores)
        return tuple(each for each in made if surely_before(self.module, each, self.loop))

    @property
    def is_there(self) -> bool:
        """Whether it is made before the loop."""
        return bool(self._made_before)

    @property
    def is_read_after(self) -> bool:
        """Whether it may be asked after the loop, as far as is known, or in the next run of it."""
        if not self.used_inside or self.function is None or any(each not in self.inside for each in self.uses):
            return True
        around = next((each for each in self.module.ancestors(self.loop) if isinstance(each, LOOPS)), None)
        return around is not None and self.is_there and not any(each in walk(around) for each in self._made_before)

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
            return is_dropped or (self._is_below(name) and not self.holds_containers)
        return not self.is_method(attribute.attr) and self._is_below(name) and not self.holds_containers

    @cached_property
    def holds_containers(self) -> bool:
        """Whether an attribute of it may be a list or the like."""
        return holds_containers(self.own.class_)

    def is_method(self, name: str) -> bool:
        """Whether an attribute of it is a method; a property is none."""
        methods = (each for each in self.own.class_.body if isinstance(each, ast.FunctionDef))
        return any(each.name == name and not each.decorator_list for each in methods)


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
        return next(each for each in arguments_of(self.call) if each in nodes or each in self.named)

    @property
    def beside(self) -> list[ast.expr]:
        """The other arguments that a pass has to keep for it."""
        return [
            each for each in arguments_of(self.call) if each is not self.told and not isinstance(each, ast.Constant)
        ]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What the method calls the arguments that are kept for it; none where the script has these names already."""
        (method,) = {*self.flow.called(self.call)}
        by_argument = {argument: name for name, argument in self.flow.bind(method, self.call).given.items()}
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
        return f"{self.meter.name}_updates"

    @property
    def meter(self) -> Meter:
        """The meter."""
        return self.total  # type: ignore[return-value]

    @cached_property
    def tellings(self) -> Sequence[Telling]:
        """Where the loop itself tells it, or makes it anew."""
        return () if isinstance(self._told_inside, Reason) else self._told_inside

    @cached_property
    def _told_inside(self) -> Sequence[Telling] | Reason:
        return tellings(self.flow, self.meter)

    def waits_for(self, node: ast.AST) -> bool:
        """Whether few passes of the loop come to a node, and these tell the meter first, so that the host waits."""
        span = self.meter.module.span
        return any(
            not each.is_new and span(each.anchor)[0] <= span(one)[0] and node in walk(one)
            for each in self.tellings
            for one in each.suite
        )

    @property
    def repeated(self) -> str:
        """The loop that tells the meter all that its passes have kept for it."""
        module, call = self.meter.module, self.call
        places = range(1 + len(self.beside))
        names = self.names or tuple(f"{EACH}[{place}]" if self.beside else EACH for place in places)
        later = {**dict(zip(self.beside, names[1:], strict=True)), self.told: f"{names[0]}.item()"}
        arguments = [later.get(each) or module.code(each) for each in call.args]
        arguments += [f"{each.arg}={later.get(each.value) or module.code(each.value)}" for each in call.keywords]
        told = f"{module.code(call.func)}({', '.join(arguments)})"
        return f"for {', '.join(self.names) or EACH} in {self.pending}:\n    {told}"

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
        if len(self.readings) != 1 or not any(each in nodes or each in self.named for each in arguments_of(self.call)):
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
        found = self._told_inside
        return found if isinstance(found, Reason) else self.meter.why_shared()

    def _why_no_name(self) -> Reason | None:
        scope = self.total.function or self.total.module.tree
        if self.pending in self.total.module.text or EACH in bound_names(scope):
            return Reason("no-name", f"the script gives the name '{self.pending}' or '{EACH}' to something else")
        return None
