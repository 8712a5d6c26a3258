"""Which sums and lists does a loop keep in a dictionary of its function, and who would see tensors in it?"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.placement import is_pythons_own
from codemods.dataflow.source import LOOPS, walk
from codemods.facts.reach import own
from codemods.facts.reason import HERE, Reason, at
from codemods.facts.training.totals import Held, Total, added, appended, is_alike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.training.totals import Loop, States

_ONLY_READ = frozenset({"print", "len", "str", "repr", "dict"})
_VIEWS = frozenset({"items", "values", "keys"})
_OTHER_BINDINGS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.alias),
    *(ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)


class OwnDictionary(NamedTuple):
    """A dictionary that is written out before a loop, under one name of its function."""

    made: ast.stmt
    """The statement that makes it."""
    started: ast.stmt
    """The last statement that surely gives the item a value before the loop."""
    value: ast.expr
    """The value."""


def item_of(statement: ast.stmt) -> ast.Subscript | None:
    """The item to which a statement adds or appends; None where that is no item."""
    if added(statement) is None and appended(statement) is None:
        return None
    match statement:
        case (
            ast.AugAssign(ast.Subscript() as item)
            | ast.Assign([ast.Subscript() as item])
            | ast.Expr(ast.Call(ast.Attribute(ast.Subscript() as item)))
        ):
            return item
    return None


def own_dictionary(module: Module, loop: Loop, item: ast.Subscript) -> OwnDictionary | None:
    """The dictionary that an item is of, whose key is written out; None where it may be any other object."""
    function, key = module.function(loop), item.slice
    if not (isinstance(item.value, ast.Name) and isinstance(key, ast.Constant)):
        return None
    name = item.value.id
    stores = [each for each in module.stores.get(name, ()) if module.function(each) is function]
    if len(stores) != 1 or is_bound_otherwise(module, loop, name):
        return None
    made = module.statement(stores[0])
    match made:
        case ast.Assign([ast.Name()], value) | ast.AnnAssign(ast.Name(), value=ast.expr() as value):
            items = _items(module, value, loop)
        case _:
            return None
    if items is None or not surely_before(module, made, loop):
        return None
    started, start = made, items.get(key.value)
    for each in own(module.tree if function is None else function, ast.Assign):
        match each:
            case ast.Assign([ast.Subscript(ast.Name(id=root), ast.Constant(value=of))], given):
                if root == name and of == key.value and added(each) is None and surely_before(module, each, loop):
                    started, start = max((started, start), (each, given), key=lambda pair: module.span(pair[0]))
    return None if start is None else OwnDictionary(made, started, start)


def is_bound_otherwise(module: Module, loop: Loop, name: str) -> bool:
    """Whether something else than an assignment may give a name a meaning where the loop stands."""
    function = module.function(loop)
    if any(isinstance(each, ast.ClassDef) and module.function(each) is function for each in module.ancestors(loop)):
        return True
    arguments = () if function is None else own(function.args, ast.arg)
    if any(each.arg == name for each in arguments):
        return True
    scope = module.tree if function is None else function
    found = (each for each in own(scope, *_OTHER_BINDINGS) if each is not scope)
    return any(name in {getattr(each, one, None) for one in ("name", "asname", "rest")} for each in found)


def _items(module: Module, node: ast.expr, place: ast.stmt) -> dict[object, ast.expr] | None:
    """What a dictionary holds that is written out: ``{"loss": 0.0}``, ``dict(loss=0.0)``; None of all else."""
    match node:
        case ast.Dict(keys, values) if all(isinstance(each, ast.Constant) for each in keys):
            return {each.value: value for each, value in zip(keys, values, strict=True)}  # type: ignore[union-attr]
        case ast.Call(ast.Name("dict"), [], keywords) if is_pythons_own(module, "dict", place):
            named: dict[object, ast.expr] = {each.arg: each.value for each in keywords}
            return None if None in named else named
    return None


def surely_before(module: Module, statement: ast.stmt, loop: Loop) -> bool:
    """Whether a statement runs each time before the loop does, beside it or beside what is around it."""
    suite = module.suite(statement)
    around = [loop, *module.ancestors(loop)]
    position = next((number for number, each in enumerate(suite) if any(each is one for one in around)), None)
    return position is not None and any(each is statement for each in suite[:position])


@dataclass(frozen=True, eq=False)
class ItemTotal(Total):
    """An item of a dictionary to which the passes of a loop add, or a list in one to which they append."""

    item: ast.Subscript = field(kw_only=True)
    """The item, at one of the places that write it."""
    dictionary: OwnDictionary = field(kw_only=True)

    @property
    def root(self) -> str:
        """The name of the dictionary."""
        return self.item.value.id  # type: ignore[attr-defined, no-any-return]

    @property
    def written(self) -> str:
        """The item as the script writes it."""
        return self.module.code(self.item)

    @cached_property
    def _here(self) -> tuple[ast.Name, ...]:
        return tuple(
            each
            for each in self.named
            if self.module.function(each) is self.function and not isinstance(each.ctx, ast.Store)
        )

    @cached_property
    def _items(self) -> tuple[ast.Subscript, ...]:
        """Where the function writes this item."""
        return tuple(each for each in map(self._as_item, self._here) if each is not None and self._is_this(each))

    @cached_property
    def _whole(self) -> tuple[ast.Name, ...]:
        """Where the function writes the dictionary, and no item of it that is written out."""
        return tuple(each for each in self._here if self._as_item(each) is None)

    def _as_item(self, name: ast.Name) -> ast.Subscript | None:
        parent = self.module.parent(name)
        is_item = isinstance(parent, ast.Subscript) and parent.value is name and isinstance(parent.slice, ast.Constant)
        return parent if is_item and not isinstance(parent.ctx, ast.Del) else None  # type: ignore[return-value, union-attr]

    def _is_this(self, item: ast.Subscript) -> bool:
        return bool(item.slice.value == self.item.slice.value)  # type: ignore[attr-defined]

    @cached_property
    def uses(self) -> tuple[ast.expr, ...]:
        """Where its function reads the item, but to add to it, or does anything with the dictionary."""
        read = (each for each in self._items if self._is_read(each))
        return tuple(sorted((*read, *self._whole), key=self.module.span))

    def _is_read(self, item: ast.Subscript) -> bool:
        statement = self.module.statement(item)
        if statement in self.additions:
            pair = added(statement) or appended(statement)
            return pair is not None and item in walk(pair[1])
        return isinstance(item.ctx, ast.Load) or isinstance(self.module.parent(item), ast.AugAssign)

    def _outermost(self, since: ast.stmt) -> ast.AST:
        """The outermost loop around that runs this one again and again after a statement: by default itself."""
        around = (each for each in self.module.ancestors(self.loop) if isinstance(each, LOOPS))
        return [self.loop, *(each for each in around if since not in walk(each))][-1]

    def _is_before(self, node: ast.AST, since: ast.stmt) -> bool:
        """Whether it runs between a statement and the loop, and never after the loop."""
        span = self.module.span
        is_between = span(since)[1] <= span(node)[0] < span(self.loop)[0]
        return is_between and node not in walk(self._outermost(since))

    def _is_there(self, node: ast.AST, since: ast.stmt) -> bool:
        """Whether it may run after a statement and before a pass of the loop."""
        return self._is_before(node, since) or node in walk(self._outermost(since))

    @cached_property
    def starts(self) -> States:
        """What it may hold where something is added, besides the sum itself."""
        found = {_held(self.dictionary.value)}
        for each in self._items:
            statement = self.module.statement(each)
            is_set = isinstance(each.ctx, ast.Store) and statement not in (*self.additions, self.dictionary.started)
            if is_set and self._is_there(each, self.dictionary.started):
                found.add(_given(statement, each))
        return frozenset(found)

    @cached_property
    def read_inside(self) -> tuple[ast.expr, ...]:
        """Where the loop reads the item itself."""
        return tuple(each for each in self.uses if each in self.inside and each not in self._whole)

    @cached_property
    def used_inside(self) -> tuple[ast.expr, ...]:
        """The same."""
        return self.read_inside

    @cached_property
    def read_after(self) -> tuple[ast.expr, ...]:
        """Where the item, or the dictionary, is read after the loop."""
        since = self.dictionary.started
        return tuple(each for each in self.uses if each not in self.inside and not self._is_before(each, since))

    def why_no_list(self) -> Reason | None:
        """Why it is not known to be a list that is made for each run of the loop, and that nothing else has yet."""
        since = self.dictionary.started
        if self.starts != {Held.LIST} or self._outermost(since) is not self.loop:
            text = f"'{self.name}' is not known to be a new list before each run of the loop ({HERE}):"
            remedy = "append to one, and extend this by it"
            return Reason("unknown-number", text, (at(self.module, self.loop),), remedy)
        return self.why_shared()

    @property
    def goes_on(self) -> bool:
        """Whether it is a list that is new before the first run of the loop, and to which each run appends."""
        return self.starts == {Held.LIST} and self._outermost(self.dictionary.started) is not self.loop

    def why_shared(self, held: Held = Held.LIST) -> Reason | None:  # noqa: ARG002 - no tensor is one of an item
        """Why other code may have the new list before the loop does anything with it."""
        for each in self.uses:
            if self._is_before(each, self.dictionary.started):
                return self.seen(each, f"other code may have '{self.name}' already")
        return None

    def why_seen(self, flow: Flow) -> Reason | None:
        """Why other code may see the tensor: whoever has the dictionary while the loop runs, besides all else."""
        for each in self._whole:
            if each in self.inside:
                text = f"'{self.root}' is used in the loop ({HERE}):"
                return Reason("seen-elsewhere", text, (at(self.module, each),), remedy="use it after the loop")
            if self._is_there(each, self.dictionary.made) and not self._is_only_read(each):
                return self.seen(each, f"other code may have '{self.root}' already")
        return super().why_seen(flow)

    def _is_only_read(self, name: ast.Name) -> bool:
        """Whether nothing keeps the dictionary: it is printed or copied, or its items are gone through."""
        match self.module.parent(name):
            case ast.Call(ast.Name(called), arguments):
                return called in _ONLY_READ and name in arguments
            case ast.FormattedValue():
                return True
            case ast.Attribute(attr=attr) as method if attr in _VIEWS:
                call = self.module.parent(method)
                around = self.module.parent(call) if isinstance(call, ast.Call) and call.func is method else None
                return isinstance(around, (ast.For, ast.comprehension)) and around.iter is call
        return False

    @property
    def read_after_exceptions(self) -> Iterator[ast.expr]:
        """Where the tensor may be read because an exception has left the loop before its number was asked for."""
        return read_where_it_failed(self, goes_on=self.goes_on)

    def why_told_apart(self, flow: Flow) -> Reason | None:
        """Why it would show that a sum of floats, to which nothing was added yet, is 0.0 and no longer 0."""
        for each in (*self.read_inside, *self.read_after):
            if each in self._whole or not is_alike(flow, self.module, each):
                return self.told_apart(each)
        return None


def read_where_it_failed(total: Total, *, goes_on: bool) -> Iterator[ast.expr]:
    """Where something is read after an exception has left the loop: in or after a ``try`` around it.

    Where the next run of the loop goes on with it, what stands in the ``try`` may read it, too.
    """
    for above in total.module.ancestors(total.loop):
        if isinstance(above, ast.Try) and any(total.loop in walk(each) for each in above.body):
            fine = {one for each in (*above.body, *above.orelse) for one in walk(each)} if not goes_on else ()
            last = {one for each in above.finalbody for one in walk(each)}
            yield from (
                each
                for each in total.uses
                if each in last or (above.handlers and each not in fine and each not in total.inside)
            )


def _held(node: ast.expr) -> Held:
    match node:
        case ast.Constant(bool()):
            return Held.OTHER
        case ast.Constant(int()) | ast.UnaryOp(ast.USub(), ast.Constant(int())):
            return Held.INTEGER
        case ast.Constant(float()) | ast.UnaryOp(ast.USub(), ast.Constant(float())):
            return Held.FLOAT
        case ast.List([]) | ast.Call(ast.Name("list"), [], []):
            return Held.LIST
    return Held.OTHER


def _given(statement: ast.stmt, item: ast.Subscript) -> Held:
    """What a statement gives an item."""
    match statement:
        case ast.Assign([target], value) if target is item:
            return _held(value)
        case ast.AugAssign(target, ast.Div()) if target is item:
            return Held.FLOAT
    return Held.OTHER
