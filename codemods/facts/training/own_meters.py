"""The meters of the project that a loop tells numbers: what they are, and who asks them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from codemods.dataflow.names import assigned
from codemods.dataflow.source import LOOPS, walk
from codemods.facts.training.plain_meters import class_of_plain_meter, holds_containers
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
