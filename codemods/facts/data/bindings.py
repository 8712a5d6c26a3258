"""What names, attributes and lists are given, by every place that binds or fills them."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import is_name, walk
from codemods.dataflow.values import Literal
from codemods.facts.attribute_access import are_kin
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module


class Bindings:
    """What is given, as expressions of the script.

    ``a, b = call()`` gives ``call()[1]``, which the script does not write: a part.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._lengths: dict[ast.expr, int] = {}
        self._parts: dict[tuple[ast.expr, int], ast.Subscript] = {}

    def is_part(self, node: ast.expr) -> bool:
        """Whether the expression is such a part."""
        return any(each is node for each in self._parts.values())

    def items_taken(self, call: ast.Call, otherwise: int) -> int:
        """How many items an assignment takes what the call returns apart into."""
        return self._lengths.get(call, otherwise)

    def assignments(self, module: Module, node: ast.Name | ast.Attribute) -> Iterator[tuple[Module, ast.expr | None]]:
        """What the name is given wherever it is bound; None where that is not an expression of its own."""
        if isinstance(node, ast.Attribute):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield module, None
                return
            yield from self._attribute(node.attr, module, node)
            return
        if node.id in self._written_from_inside(module):
            yield module, None
            return
        target = _stored_before(module, node, self._is_run)
        before = self.given(module, target) if target is not None else None
        if before is not None:
            yield module, before
            return
        scope = module.function(node)
        stores = self._stores(module, node.id)
        is_parameter = scope is not None and node.id in signature(scope).names
        if scope is not None and is_parameter:
            yield from self._parameter(scope, node.id)
        own = [each for each in stores if module.function(each) is scope]
        # A name that the function does not bind is the module's, or that of a function around it.
        for name in sorted(own or ([] if is_parameter else stores), key=lambda each: _distance(module, node, each)):
            if isinstance(module.parent(name), ast.AugAssign):
                continue  # in place: it stays what it is
            yield module, self.given(module, name) if own or module.function(name) is None else None

    @cached_property
    def _stored(self) -> dict[tuple[Module, str], list[ast.Name]]:
        found: dict[tuple[Module, str], list[ast.Name]] = {}
        for module in self._flow.modules:
            for name in module.nodes(ast.Name):
                if isinstance(name.ctx, ast.Store):
                    found.setdefault((module, name.id), []).append(name)
        return found

    def _stores(self, module: Module, name: str) -> list[ast.Name]:
        return self._stored.get((module, name), [])

    @staticmethod
    def _written_from_inside(module: Module) -> set[str]:
        """The names that functions may write outside of themselves."""
        return {name for each in module.nodes(ast.Global, ast.Nonlocal) for name in each.names}

    def _attribute(self, attribute: str, module: Module, node: ast.AST) -> Iterator[tuple[Module, ast.expr | None]]:
        """What ``self.x`` is given in the class; where another class or function writes it, nothing is certain."""
        class_ = _class_around(module, node)
        for where, store in self._stored_attributes.get(attribute, ()):
            is_self = isinstance(store.value, ast.Name) and store.value.id == "self"
            other = _class_around(where, store)
            if is_self and class_ is not None and other is not None and not are_kin(self._flow, class_, other):
                continue
            own = is_self and other is class_
            yield where, self.given(where, store) if own else None

    @cached_property
    def _stored_attributes(self) -> dict[str, list[tuple[Module, ast.Attribute]]]:
        found: dict[str, list[tuple[Module, ast.Attribute]]] = {}
        for module in self._flow.modules:
            for store in module.nodes(ast.Attribute):
                if isinstance(store.ctx, ast.Store):
                    found.setdefault(store.attr, []).append((module, store))
        return found

    def given(self, module: Module, target: ast.expr) -> ast.expr | None:
        """The expression that an assignment gives to the target, alone or as an item of a tuple."""
        statement = module.statement(target)
        if isinstance(statement, ast.AnnAssign) and statement.target is target:
            return statement.value
        if not isinstance(statement, ast.Assign):
            return None
        for each in statement.targets:
            if each is target:
                return statement.value
            if isinstance(each, ast.Tuple) and target in each.elts:
                return self._item_given(each, target, statement.value)
        return None

    def _item_given(self, targets: ast.Tuple, target: ast.expr, value: ast.expr) -> ast.expr | None:
        index = targets.elts.index(target)
        if any(isinstance(each, ast.Starred) for each in targets.elts):
            return None
        if isinstance(value, ast.Tuple) and len(value.elts) == len(targets.elts):
            return value.elts[index]
        if not isinstance(value, ast.Call):
            return None
        self._lengths[value] = len(targets.elts)
        if (value, index) not in self._parts:
            item = ast.Subscript(value, ast.Constant(index), ast.Load())
            self._parts[value, index] = ast.copy_location(item, value)
        return self._parts[value, index]

    def _parameter(self, function: Callee, name: str) -> Iterator[tuple[Module, ast.expr | None]]:
        calls = self._flow.callers(function)
        if not calls or self._flow.escapes(function):
            yield self._flow.module_of(function), None
            return
        for call in calls:
            where = module_of(self._flow, call)
            yield where, self._flow.bind(function, call).get(name)

    def is_filled(self, module: Module, node: ast.expr) -> bool:
        """Whether a list has at least one item for certain."""
        match node:
            case ast.List(items) | ast.Tuple(items):
                return bool(items)
            case ast.ListComp(_, [part]):
                return not part.ifs and self._runs(part.iter)
            case ast.Name():
                return any(
                    self._is_reached(module, node, each.elts[0])
                    for _, each in self.filled(module, node)
                    if isinstance(each, ast.List)
                )
        return False

    def _is_reached(self, module: Module, name: ast.Name, item: ast.expr) -> bool:
        """Whether the item comes into the list each time that the list is made anew, before it is read by ``name``."""
        stores = [each for each in self._stores(module, name.id) if module.function(each) is module.function(name)]
        emptied = any(
            each.attr in {"clear", "pop"} and isinstance(each.value, ast.Name) and each.value.id == name.id
            for each in module.nodes(ast.Attribute)
        )
        if len(stores) != 1 or emptied:
            return False
        made, suite = module.statement(stores[0]), module.suite(module.statement(stores[0]))
        for above in (module.statement(item), *module.ancestors(module.statement(item))):
            if above is made:
                return True
            if isinstance(above, ast.stmt) and not (isinstance(above, ast.Expr) or self._is_run(above)):
                return False
            if above in suite:
                return getattr(above, "lineno", 0) < name.lineno
        return False

    def _is_run(self, loop: ast.stmt) -> bool:
        skips = any(isinstance(each, (ast.Break, ast.Continue)) for each in walk(loop))
        return isinstance(loop, ast.For) and self._runs(loop.iter) and not skips

    def _runs(self, iterated: ast.expr) -> bool:
        """Whether a loop over this has at least one pass."""
        if isinstance(iterated, (ast.List, ast.Tuple)):
            return bool(iterated.elts)
        if not (isinstance(iterated, ast.Call) and len(iterated.args) == 1):
            return False
        counts = self._flow.values(iterated.args[0])
        return (
            any(each.name == "builtins.range" for each in self._flow.values(iterated.func))
            and bool(counts)
            and all(isinstance(each, Literal) and isinstance(each.value, int) and each.value > 0 for each in counts)
        )

    def filled(self, module: Module, name: ast.Name) -> Iterator[tuple[Module, ast.expr | None]]:
        """What a list in a function is made of: its literals, and what is put into it; None for any other use."""
        scope = module.function(name)
        for each in module.nodes(ast.Name):
            if each.id != name.id or module.function(each) is not scope:
                continue
            parent = module.parent(each)
            if isinstance(each.ctx, ast.Store):
                given = self.given(module, each)
                if given is None or not is_empty(given):
                    yield module, given
            elif isinstance(parent, ast.Subscript) and parent.value is each and isinstance(parent.ctx, ast.Store):
                given = self.given(module, parent)
                is_one = given is not None and not isinstance(parent.slice, ast.Slice)
                yield module, ast.List(elts=[given], ctx=ast.Load()) if is_one and given is not None else None
            elif isinstance(parent, ast.Attribute):
                call = module.parent(parent)
                if (
                    isinstance(call, ast.Call)
                    and call.func is parent
                    and parent.attr == "append"
                    and len(call.args) == 1
                ):
                    yield module, ast.List(elts=[call.args[0]], ctx=ast.Load())
                elif parent.attr not in {"copy", "count", "index", "clear", "pop"}:
                    yield module, None

    def listed(self, module: Module, name: ast.Name) -> Iterator[tuple[Module, ast.expr | None]]:
        """What a list is made of, as ``filled`` says; that of a parameter begins with what all calls give."""
        scope = module.function(name)
        if scope is not None and name.id in signature(scope).names:
            yield from self._parameter(scope, name.id)
        yield from self.filled(module, name)


def set_before(module: Module, name: ast.Name) -> ast.expr | None:
    """What a statement before this one, of the same suite, gives to the name, where none in between may do so too."""
    target = _stored_before(module, name)
    statement = module.parent(target) if target is not None else None
    is_plain = isinstance(statement, ast.Assign) and len(statement.targets) == 1
    return statement.value if is_plain and isinstance(statement, ast.Assign) else None


def _stored_before(module: Module, name: ast.Name, runs: Callable[[ast.For], bool] | None = None) -> ast.Name | None:
    """The name as the last statement before this one, of the same suite, binds it, alone or in a tuple.

    Args:
        module: The module.
        name: The name, where it is read.
        runs: Tells of which loops each statement is run at least once: what they bind counts as well.
    """
    statement = module.statement(name)
    # What these bind, or run later, is another matter.
    other = (ast.NamedExpr, ast.comprehension, ast.Lambda)
    if hasattr(statement, "body") or any(isinstance(each, other) for each in walk(statement)):
        return None
    suite = module.suite(statement)
    index = next((i for i, each in enumerate(suite) if each is statement), 0)
    return _last_store(suite[:index], name.id, runs)


def _last_store(statements: Sequence[ast.stmt], name: str, runs: Callable[[ast.For], bool] | None) -> ast.Name | None:
    """The name as the statements leave it, where one of them surely binds it last."""
    for each in reversed(statements):
        stores = [part for part in walk(each) if is_name(part, name)]
        if isinstance(each, ast.AugAssign) and each.target in stores:
            continue  # in place: it stays what it is
        bound = [part for part in stores if isinstance(part.ctx, ast.Store)]
        if runs is not None and isinstance(each, ast.For) and bound and runs(each):
            return None if each.orelse else _last_store(each.body, name, runs)
        if any(not isinstance(part.ctx, ast.Load) for part in stores):
            return bound[0] if isinstance(each, ast.Assign) and len(bound) == 1 else None
    return None


def _distance(module: Module, name: ast.Name, store: ast.Name) -> tuple[bool, int]:
    """Sorts what binds the name by how likely it is to be what is read: the last one before it is likeliest."""
    is_later = store.lineno >= name.lineno and not isinstance(module.parent(store), ast.comprehension)
    return is_later, -store.lineno


def _class_around(module: Module, node: ast.AST) -> ast.ClassDef | None:
    return next((each for each in module.ancestors(node) if isinstance(each, ast.ClassDef)), None)


def is_empty(node: ast.expr) -> bool:
    """Whether it is ``[]`` or ``list()``."""
    match node:
        case ast.Call(ast.Name("list"), [], []):
            return True
    return isinstance(node, ast.List) and not node.elts


def item_of(value: ast.expr | None, index: int) -> ast.expr | None:
    """The item of a tuple that is written out."""
    is_plain = isinstance(value, ast.Tuple) and not any(isinstance(each, ast.Starred) for each in value.elts)
    return value.elts[index] if is_plain and index < len(value.elts) else None  # type: ignore[union-attr]
