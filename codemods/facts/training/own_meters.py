"""The meters of the project that a loop tells numbers: what they are, and who asks them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from codemods.dataflow.names import assigned
from codemods.dataflow.source import LOOPS, walk
from codemods.facts.training.meter_holders import Holder, holder
from codemods.facts.training.plain_meters import class_of_plain_meter, holds_containers, is_method
from codemods.facts.training.totals import Total, told
from codemods.facts.training.totals_of_items import is_bound_otherwise, read_where_it_failed, surely_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.reason import Reason
    from codemods.facts.training.totals import Loop

_Node = TypeVar("_Node")


class OwnMeter(NamedTuple):
    """A meter with one name of a function, whose numbers are its own alone."""

    class_: ast.ClassDef
    stores: tuple[ast.Name, ...]
    """Where the name is given one: before a loop, or anew by passes of it."""
    holders: tuple[Holder, ...]
    """What shows it: ``progress = ProgressMeter(n, [losses, top1])``."""


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
    names = tuple(each for each in stores if isinstance(each, ast.Name))
    # Of several meters that one name has after the other, what shows the first would go on showing that.
    uses = (
        [each for each in here if module.span(names[0]) < module.span(each)] if len(stores) == len(names) == 1 else []
    )
    holders = (holder(flow, module, loop, each, class_) for each in uses)
    return OwnMeter(class_, names, tuple(each for each in holders if each is not None))


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
    def uses(self) -> tuple[ast.Name, ...]:
        """Where its function reads it, or what shows it, but to tell it something and to give it to that."""
        holders = {each.name for each in self.own.holders}
        given = {each.given for each in self.own.holders}
        return tuple(
            each
            for each in self.module.nodes(ast.Name)
            if (each.id == self.name or each.id in holders)
            and isinstance(each.ctx, ast.Load)
            and self.module.function(each) is self.function
            and each not in given
            and self.module.statement(each) not in self.additions
        )

    @cached_property
    def used_inside(self) -> tuple[ast.Name, ...]:
        """Where the loop does anything else with it."""
        return tuple(each for each in self.uses if each in self.inside)

    @cached_property
    def read_inside(self) -> tuple[ast.Name, ...]:
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
        if not self.used_inside or self.function is None or any(map(self._may_follow, self.uses)):
            return True
        around = next((each for each in self.module.ancestors(self.loop) if isinstance(each, LOOPS)), None)
        return around is not None and self.is_there and not any(each in walk(around) for each in self._made_before)

    @property
    def read_after_exceptions(self) -> Iterator[ast.expr]:
        """Where it may be asked although it was not told all, because an exception has left the loop."""
        return read_where_it_failed(self, goes_on=True)

    def why_shared(self, held: object = None) -> Reason | None:  # noqa: ARG002 - it is no list
        """Why other code may have the meter while the loop runs."""
        for each in self.uses:
            is_after = self._is_below(each) and each not in self._repeated
            if each not in self.inside and not is_after and not self._is_asked_only(each):
                return self.seen(each, f"other code may have '{each.id}' already")
        return None

    def why_seen(self, flow: Flow) -> Reason | None:
        """Why other code may see the meter, or what shows it."""
        shown = (Total(self.module, self.loop, each.name, ()).why_seen(flow) for each in self.own.holders)
        return super().why_seen(flow) or next(filter(None, shown), None)

    @cached_property
    def _repeated(self) -> frozenset[ast.AST]:
        """What the loops around are made of."""
        around = (each for each in self.module.ancestors(self.loop) if isinstance(each, LOOPS))
        return frozenset(one for each in around for one in walk(each))

    def _may_follow(self, node: ast.expr) -> bool:
        """Whether a node, which is none of the loop, may come after it."""
        return node not in self.inside and (self._is_below(node) or node in self._repeated)

    def _is_below(self, node: ast.expr) -> bool:
        return self.module.span(node)[0] >= self.module.span(self.loop)[1]

    def _is_asked_only(self, name: ast.Name) -> bool:
        """Whether a method is called and its result dropped, or a number is read after the loop."""
        attribute = self.module.parent(name)
        if not isinstance(attribute, ast.Attribute) or not isinstance(attribute.ctx, ast.Load):
            return False
        above, is_number = self.module.parent(attribute), self._is_below(name) and not self.has_parts(name)
        if isinstance(above, ast.Call) and above.func is attribute:
            return isinstance(self.module.parent(above), ast.Expr) or is_number
        return is_number and not is_method(self.class_of(name), attribute.attr)

    def class_of(self, name: ast.Name) -> ast.ClassDef:
        """The class of what a name holds: of the meter, or of what shows it."""
        return next((each.class_ for each in self.own.holders if each.name == name.id), self.own.class_)

    def has_parts(self, name: ast.Name) -> bool:
        """Whether an attribute of what a name holds may be a list, a meter or the like."""
        return name.id != self.name or holds_containers(self.own.class_)
