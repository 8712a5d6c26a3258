"""What may still refer to an object when the interpreter ends.

Locals of a function are gone when it has returned, and what only they referred to is gone with them. Names of modules
stay, and so does what they refer to: through attributes, containers, functions and iterators. What cannot be followed
counts as staying.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from codemods.dataflow.names import bound_names, declared_outer, decorators, scope_of, words
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS, is_name, lasting, walk
from codemods.dataflow.values import (
    Class,
    Container,
    External,
    Function,
    Instance,
    Made,
    Method,
    Partial,
    Value,
    class_of,
    in_order,
)
from codemods.facts.loops import makings, module_of
from codemods.library.kinds import PROGRESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module

# These keep nothing of what they are given.
_LOOKING = words(
    """
    builtins.all builtins.any builtins.callable builtins.getattr builtins.hasattr builtins.id builtins.isinstance
    builtins.len builtins.max builtins.min builtins.next builtins.print builtins.repr builtins.setattr builtins.str
    builtins.sum builtins.super builtins.type torch.optim.swa_utils.update_bn
    """
)
# What these return refers to what they are given; they keep nothing themselves.
_PASSING_ON = PROGRESS | words(
    """
    builtins.dict builtins.enumerate builtins.filter builtins.iter builtins.list builtins.map builtins.reversed
    builtins.set builtins.sorted builtins.tuple builtins.zip functools.partial itertools.chain itertools.cycle
    itertools.islice types.SimpleNamespace
    """
)
_CACHES = words("cache lru_cache")
# Bases of a library whose objects are not kept by it.
_OBJECTS = words("abc.ABC builtins.object torch.nn.Module torch.utils.data.Dataset torch.utils.data.IterableDataset")
_DISPLAYS = (
    *(ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.BinOp),
)
_TRANSPARENT = (ast.BoolOp, ast.IfExp, ast.NamedExpr, ast.Await, ast.Starred, ast.keyword)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Holder(NamedTuple):
    """What may still refer to an object when the interpreter ends."""

    module: Module
    node: ast.AST
    is_certain: bool
    """Whether it does; it may else, as it is not followed."""

    @property
    def name(self) -> str:
        """What it is called in the script."""
        return str(getattr(self.node, "name", "")) or ast.unparse(self.node)


def holder(flow: Flow, value: Value) -> Holder | None:
    """What may still refer to the value when the interpreter ends; None where nothing does.

    A notebook refers to all that its cells name, but its interpreter is ended from outside.
    """
    found = list(_Search(flow).holders(value))
    return next((each for each in found if each.is_certain), found[0] if found else None)


@dataclass(eq=False)
class _Search:
    flow: Flow
    seen: set[Value] = field(default_factory=set)

    def holders(self, value: Value) -> Iterator[Holder]:
        """What may refer to the value then."""
        if value in self.seen:
            return
        self.seen.add(value)
        if isinstance(value, Instance):
            class_ = class_of(value)
            kept = _refers_to_itself(self.flow, class_) if class_ is not None else None
            if kept is not None:
                yield Holder(module_of(self.flow, kept), kept, is_certain=False)
        site = value.site
        if isinstance(site, (*_DISPLAYS, ast.Lambda)):  # the other expressions are among the places
            yield from self._use(module_of(self.flow, site), site)
        for module, node in self.flow.places(value):
            yield from self._place(module, node)

    def _place(self, module: Module, node: ast.expr) -> Iterator[Holder]:
        """What an expression that is the value makes refer to it."""
        function = module.function(node)
        if function is not None and scope_of(function).yields:
            # As long as a generator is there, its locals are.
            yield from self.holders(Container("iterator", function))
        if isinstance(getattr(node, "ctx", None), ast.Store):
            yield from self._target(module, node)
            return
        if isinstance(node, ast.Name):
            yield from self._captured(module, node)
        yield from self._use(module, node)

    def _target(self, module: Module, node: ast.AST) -> Iterator[Holder]:
        """What an assignment to the node makes refer to the value."""
        match node:
            case ast.Name():
                yield from self._name(module, node)
            case ast.Attribute(value=owner):
                for each in in_order(self.flow.values(owner)):
                    yield from self._object(module, node, each)
            case ast.Subscript(value=owner):
                for each in in_order(self.flow.values(owner)):
                    yield from self.holders(each) if isinstance(each, Container) else (_unknown(module, node),)
            case _:  # the parts of a tuple, each of which has its own value
                return

    def _name(self, module: Module, node: ast.Name) -> Iterator[Holder]:
        """The name of a module, or of what a function says is one."""
        scope = next(each for each in module.ancestors(node) if isinstance(each, _SCOPES))
        if isinstance(scope, _COMPREHENSIONS):
            return
        if isinstance(scope, ast.Module):
            if not module.notebook and not _is_deleted(module, node.id):
                yield Holder(module, node, is_certain=True)
        elif isinstance(scope, ast.ClassDef) or node.id in declared_outer(scope):
            yield Holder(module, node, is_certain=node.id not in scope_of(scope).nonlocal_)

    def _object(self, module: Module, node: ast.Attribute, owner: Value) -> Iterator[Holder]:
        """An object that has the value in an attribute."""
        if isinstance(owner, Instance) and owner.site is None:
            class_ = class_of(owner)
            made = makings(self.flow, class_) if class_ is not None else ()
            for call in made:
                for each in in_order(self.flow.values(call)):
                    if isinstance(each, Instance):
                        yield from self.holders(each)
            if not made:
                yield _unknown(module, node)
        elif isinstance(owner, (Instance, Made, Function)) and owner.site is not None:
            yield from self.holders(owner)
        else:
            yield Holder(module, node, is_certain=isinstance(owner, (Class, External)))

    def _captured(self, module: Module, node: ast.Name) -> Iterator[Holder]:
        """A function that reads a name of the function around it, and refers to it as long as it is there."""
        for above in module.ancestors(node):
            if not isinstance(above, FUNCTIONS):
                continue
            if node.id in scope_of(above).bound | scope_of(above).local:
                return
            if module.function(above) is None:
                return  # a name of the module
            name = "a lambda" if isinstance(above, ast.Lambda) else above.name
            is_named = any(is_name(each, name) for each in walk(above))
            if self.flow.owner(above) is not None or is_named:
                yield _unknown(module, above)  # a method, or a function that refers to itself
            yield from self.holders(Function(name, above))

    def _use(self, module: Module, node: ast.expr) -> Iterator[Holder]:
        """What the code around an expression makes refer to it."""
        below: ast.AST = node
        above = module.parent(below)
        while isinstance(above, _TRANSPARENT):
            below, above = above, module.parent(above)
        if isinstance(above, _DISPLAYS):
            for each in in_order(self.flow.values(above)):
                if isinstance(each, Container):
                    yield from self.holders(each)
        elif isinstance(above, ast.Call) and below is not above.func:
            yield from self._argument(module, above)
        elif isinstance(above, ast.Attribute) and above.attr == "__iter__":
            called = module.parent(above)
            yield from self._result(module, called) if isinstance(called, ast.Call) else ()
        elif isinstance(above, (ast.Return, ast.Yield, ast.Lambda)):
            yield from self._returned(module, above)
        elif isinstance(above, ast.arguments):
            yield from self._default(module, above)

    def _argument(self, module: Module, call: ast.Call) -> Iterator[Holder]:
        """What a call refers to of its arguments, or makes refer to them."""
        for callee in in_order(self.flow.values(call.func)):
            if isinstance(callee, Method) and isinstance(callee.of, Container):
                yield from self.holders(callee.of)
            elif isinstance(callee, Class) and isinstance(callee.site, ast.ClassDef):
                if self.flow.method(callee.site, "__init__") is None:  # else what it does with them is followed
                    for each in in_order(self.flow.values(call)):
                        yield from self.holders(each)
            elif callee.name in _PASSING_ON:
                yield from self._result(module, call)
            elif callee.name not in _LOOKING and not isinstance(callee.site, FUNCTIONS):
                followed = isinstance(callee, (Instance, Partial))
                yield from () if followed else (_unknown(module, call),)

    def _result(self, module: Module, call: ast.Call) -> Iterator[Holder]:
        """What refers to the result of a call that refers to its arguments: the flow may know it by another value."""
        for each in in_order(self.flow.values(call)):
            if isinstance(each, (Container, Partial)) or (isinstance(each, Made) and each.site is call):
                yield from self.holders(each)
        below: ast.AST = call
        above = module.parent(below)
        while isinstance(above, _TRANSPARENT):
            below, above = above, module.parent(above)
        if isinstance(above, (ast.Assign, ast.AnnAssign)):
            for target in above.targets if isinstance(above, ast.Assign) else (above.target,):
                yield from self._target(module, target)
        elif isinstance(above, ast.Call) and below is not above.func:
            yield from self._argument(module, above)
        elif isinstance(above, (ast.Return, ast.Yield, ast.Lambda, ast.arguments)):
            yield _unknown(module, call)

    def _returned(self, module: Module, node: ast.AST) -> Iterator[Holder]:
        """Who gets what the node returns, unless the calls are seen: these are places of their own."""
        function = node if isinstance(node, ast.Lambda) else module.function(node)
        if function is None:
            return
        if decorators(function) & _CACHES:
            yield Holder(module, function, is_certain=True)
        is_read = "property" in decorators(function)
        if self.flow.escapes(function) or not (is_read or self.flow.callers(function)):
            yield _unknown(module, node)

    def _default(self, module: Module, arguments: ast.arguments) -> Iterator[Holder]:
        """The function whose parameter has the value as its default."""
        function = module.parent(arguments)
        if isinstance(function, FUNCTIONS):
            yield Holder(module, function, is_certain=module.function(function) is None)


_SCOPES = (*FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef, ast.Module)


def _unknown(module: Module, node: ast.AST) -> Holder:
    return Holder(module, node, is_certain=False)


def _is_deleted(module: Module, name: str) -> bool:
    """``del loader`` outside of functions."""
    deleted = (each for statement in module.nodes(ast.Delete) for each in statement.targets)
    return any(is_name(each, name) and module.function(each) is None for each in deleted)


@lasting
def _refers_to_itself(flow: Flow, class_: ast.ClassDef) -> ast.AST | None:
    """What may make the class's objects refer to themselves, so that they stay until they are collected."""
    family = flow.family(class_)
    bases = {base for each in family for base in flow.bases(each) if isinstance(base, str)}
    if not bases <= _OBJECTS:
        return class_
    for method in (each for here in family for each in here.body if isinstance(each, FUNCTIONS)):
        module, this = flow.module_of(method), next(iter(signature(method).positional_names), "")
        for node in walk(method):
            if is_name(node, this) and _is_kept(flow, module, method, node):
                return node
    return None


def _is_kept(flow: Flow, module: Module, method: Callee, this: ast.Name) -> bool:
    """Whether ``self`` is more than the owner of an attribute, or of a method that is called at once."""
    above = module.parent(this)
    if module.function(this) is not method:
        return this.id not in bound_names(module.function(this) or method)
    if isinstance(above, ast.Attribute):
        called = module.parent(above)
        is_called = isinstance(called, ast.Call) and called.func is above
        return not is_called and any(isinstance(each, Method) for each in flow.values(above))
    names = {each.name for each in flow.values(above.func)} if isinstance(above, ast.Call) else set()
    return not names or not names <= _LOOKING
