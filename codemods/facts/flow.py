"""Where a value comes from and goes to, over all functions, classes and modules of the script.

An abstract interpretation to a fixpoint. Local names are followed in the order of the statements (``x = x.to(device)``);
attributes, items of containers, parameters and returns are joined over all places that write them. A *unit* (a module's
or a function's own code) is interpreted again whenever something that it read has grown.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from codemods.facts import names
from codemods.facts.source import FunctionNode, Module
from codemods.facts.values import (
    NONE,
    NOTHING,
    PLAIN,
    Sort,
    Value,
    Values,
    external,
    leading_text,
    text_starting,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Environment: TypeAlias = "dict[str, Values]"
Location: TypeAlias = "tuple[str, ast.AST, object]"
Callee: TypeAlias = "FunctionNode | ast.Lambda"

ANY = "*"
"""The key of a container under which all of its items are joined."""
UNKNOWN_KEY = None
"""The key of a container under which items of unknown position stand: appended ones, say."""
_UNBOUND = frozenset({Value(Sort.UNBOUND)})
_MAX_VISITS = 200
"""Of one unit; the sets are finite and small, so that real scripts need fewer than ten."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The evaluated arguments of one call."""

    positional: tuple[Values, ...]
    keywords: Mapping[str, Values]
    spread: bool
    """Whether there are more, from ``*`` or ``**`` of something whose items are not known one by one."""
    further: Values | None = None
    """What each of those may be, where that can be said: ``f(*batch)``."""

    def get(self, position: int, name: str) -> Values:
        """The argument given at that position (from 0) or by that name; nothing if it is not given."""
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[position] if 0 <= position < len(self.positional) else NOTHING

    def all(self) -> Values:
        """All arguments, joined."""
        return NOTHING.union(*self.positional, *self.keywords.values())


class Semantics(Protocol):
    """What the libraries do: the part of the interpretation that knows PyTorch."""

    def call(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        """What a call of a library's function, class, object or method returns."""

    def attribute(self, flow: Flow, owner: Value, node: ast.Attribute) -> Values:
        """What an attribute of a library's thing is, or one that the project's class does not define."""

    def item(self, flow: Flow, owner: Value, node: ast.AST) -> Values:
        """What a subscript of a library's thing is."""

    def iterate(self, flow: Flow, owner: Value, node: ast.AST) -> Values:
        """What the elements are that iterating over a library's thing yields."""


@dataclass(eq=False)
class Unit:
    """The own code of a module or function."""

    node: ast.Module | FunctionNode | ast.Lambda
    module: Module
    outer: Unit | None
    owner: ast.ClassDef | None = None
    """The class of which it is a method."""
    bound: frozenset[str] = field(init=False)
    shared: frozenset[str] = field(init=False)
    """Names that are read and written elsewhere too (``global``, ``nonlocal``): joined, not followed."""
    visits: int = 0

    def __post_init__(self) -> None:
        self.bound = names.bound_names(self.node)
        self.shared = NOTHING_SHARED if isinstance(self.node, ast.Lambda) else names.declared_outer(self.node)


NOTHING_SHARED: frozenset[str] = frozenset()
_TENSORS = frozenset({Sort.BATCH, Sort.HOST, Sort.MOVED, Sort.TENSOR})


class Flow:
    """The values of every expression of some modules, once they no longer grow."""

    def __init__(self, modules: Sequence[Module], semantics: Semantics) -> None:
        self.modules = tuple(modules)
        self._semantics = semantics
        self._heap: defaultdict[Location, Values] = defaultdict(lambda: NOTHING)
        self._readers: defaultdict[Location, set[Unit]] = defaultdict(set)
        self._keys: defaultdict[ast.AST, set[object]] = defaultdict(set)
        self._seen: dict[ast.AST, Values] = {}
        self._before: dict[ast.stmt, Environment] = {}
        self._loops: dict[ast.AST, Environment] = {}
        self._units: dict[ast.AST, Unit] = {}
        self._unit_of_class: dict[ast.ClassDef, Unit] = {}
        self._callers: defaultdict[Callee, list[ast.Call]] = defaultdict(list)
        self._escaped: set[Callee] = set()
        self._subclasses: defaultdict[ast.ClassDef, set[ast.ClassDef]] = defaultdict(set)
        self._dirty: dict[Unit, None] = {}
        self._by_name = {module.name: module for module in modules}
        self._stars = {module.tree: names.star_names(module) for module in modules}
        self._written = frozenset(text for module in modules for text in _written_attributes(module))
        for module in modules:
            self._add_unit(Unit(module.tree, module, None))
        self._settle()
        self._open_the_uncalled()
        self._settle()

    # What is known, once settled.

    def values(self, node: ast.AST) -> Values:
        """What the expression may be; nothing where it is never evaluated."""
        return self._seen.get(node, NOTHING)

    def before(self, statement: ast.stmt) -> Mapping[str, Values]:
        """The local names of the statement's unit, as they are when it starts; a name that is not there is not bound."""
        return self._before.get(statement, {})

    def read_module_name(self, module: Module, name: str) -> Values:
        """What a module's own name may be, over all places that bind it."""
        return self._heap["name", module.tree, name]

    def callers(self, function: Callee) -> Sequence[ast.Call]:
        """The calls of the project's function, in the order in which they were found."""
        return self._callers[function]

    def escapes(self, function: Callee) -> bool:
        """Whether the function is handed to code that cannot be seen, which may call it too."""
        return function in self._escaped

    def functions(self) -> Iterator[tuple[FunctionNode, Module, ast.ClassDef | None]]:
        """Every function and method of the project, with its module and class."""
        for unit in self._units.values():
            if isinstance(unit.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield unit.node, unit.module, unit.owner

    def module_of(self, function: Callee) -> Module:
        """The module in which the project's function stands."""
        return self._units[function].module

    def owner(self, function: Callee) -> ast.ClassDef | None:
        """The class of which the function is a method."""
        return self._units[function].owner

    def returned(self, function: Callee) -> Values:
        """What the project's function may return."""
        return self._heap["return", function, ""]

    def items(self, container: Value, key: object = ANY) -> Values:
        """The items of a container under a key (an index, a text), or all of them."""
        if container.site is None:
            return NOTHING
        if key == ANY:
            return self._heap["item", container.site, ANY]
        return self._heap["item", container.site, key] | self._heap["item", container.site, UNKNOWN_KEY]

    def keys(self, container: Value) -> frozenset[object]:
        """The known keys of a container; ``UNKNOWN_KEY`` among them where there may be others."""
        return frozenset(self._keys.get(container.site, ())) if container.site is not None else frozenset()

    def attributes(self, class_: ast.ClassDef) -> dict[str, Values]:
        """Attributes of the class's objects and of the class, by name, over its bases and subclasses in the project."""
        family = self._family(class_)
        found: dict[str, Values] = {}
        for (kind, node, name), values in self._heap.items():
            if kind == "attribute" and node in family and isinstance(name, str):
                found[name] = found.get(name, NOTHING) | values
        return found

    def bases(self, class_: ast.ClassDef) -> Iterator[ast.ClassDef | str]:
        """The class's bases, from near to far: definitions of the project, or qualified names of a library's."""
        seen: set[ast.ClassDef] = set()
        todo = [class_]
        while todo:
            here = todo.pop(0)
            if here in seen:
                continue
            seen.add(here)
            if here is not class_:
                yield here
            for base in here.bases:
                for value in self._heap["base", here, base]:
                    if value.sort is Sort.CLASS and isinstance(value.site, ast.ClassDef):
                        todo.append(value.site)
                    elif value.sort in {Sort.EXTERNAL, Sort.UNKNOWN}:
                        yield value.name

    def method(self, class_: ast.ClassDef, name: str) -> FunctionNode | None:
        """The method of that name that the class's objects have, its own or one of a base in the project."""
        found = (self.defines(here, name) for here in (class_, *self.bases(class_)) if isinstance(here, ast.ClassDef))
        return next((method for method in found if method is not None), None)

    @staticmethod
    def defines(class_: ast.ClassDef, name: str) -> FunctionNode | None:
        """The method of that name in the class's own body."""
        for statement in class_.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == name:
                return statement
        return None

    # For the semantics, while the interpretation runs.

    def read(self, kind: str, node: ast.AST, key: object = "") -> Values:
        """What stands at a place that many units share; the unit is interpreted again when it grows."""
        location = (kind, node, key)
        self._readers[location].add(self._unit)
        return self._heap[location]

    def write(self, kind: str, node: ast.AST, key: object, values: Values) -> None:
        """Joins values into a place that many units share."""
        location = (kind, node, key)
        old = self._heap[location]
        if not values <= old:
            self._heap[location] = old | values
            for unit in self._readers[location]:
                self._dirty[unit] = None

    def container(self, kind: str, site: ast.AST, items: Mapping[object, Values] | None = None) -> Values:
        """A container made at ``site``, with these items."""
        for key, values in (items or {}).items():
            self.put(site, key, values)
        return frozenset({Value(Sort.CONTAINER, kind, site)})

    def put(self, site: ast.AST, key: object, values: Values) -> None:
        """Joins values into an item of the container made at ``site``."""
        self._keys[site].add(key)
        self.write("item", site, key, values)
        self.write("item", site, ANY, values)

    def take(self, container: Value, key: object = ANY) -> Values:
        """Reads an item of a container."""
        if container.site is None:
            return NOTHING
        if key == ANY:
            return self.read("item", container.site, ANY)
        return self.read("item", container.site, key) | self.read("item", container.site, UNKNOWN_KEY)

    def elements(self, values: Values, node: ast.AST) -> Values:
        """What iterating over any of the values yields."""
        found = NOTHING
        for value in values:
            if value.sort is Sort.CONTAINER:
                found |= PLAIN if value.name == "dict" else self.take(value)
            elif value.sort is Sort.INSTANCE and self._class_method(value, "__iter__"):
                found |= self._iterated(value, node)
            elif value.sort in {Sort.UNKNOWN, Sort.CHOICE}:
                found |= {value}
            elif value.sort in {Sort.LITERAL, Sort.PLAIN}:
                found |= PLAIN
            else:
                found |= self._semantics.iterate(self, value, node)
        return found

    def _iterated(self, instance: Value, node: ast.AST) -> Values:
        """What an object of the project's class with an ``__iter__`` of its own yields; often ``__iter__`` returns itself."""
        found = NOTHING
        for iterator in self._call_method(instance, "__iter__", None):
            if iterator.sort is not Sort.INSTANCE:
                found |= self.elements(frozenset({iterator}), node)
            elif self._class_method(iterator, "__next__"):
                found |= self._call_method(iterator, "__next__", None)
        return found

    def apply(self, values: Values, node: ast.Call, arguments: Arguments) -> Values:
        """What calling any of the values returns."""
        found = NOTHING
        for value in values:
            found |= self._apply(value, node, arguments)
        return found

    def escape(self, values: Values) -> None:
        """Notes that code that cannot be seen may call these functions."""
        for value in values:
            if value.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(value.site, Callee_types):
                self._escaped.add(value.site)

    def current_self(self) -> Value | None:
        """The object whose method is being interpreted."""
        unit: Unit | None = self._unit
        while unit is not None:
            if unit.owner is not None:
                return Value(Sort.INSTANCE, of=Value(Sort.CLASS, unit.owner.name, unit.owner))
            unit = unit.outer
        return None

    # The fixpoint.

    def _add_unit(self, unit: Unit) -> None:
        self._units[unit.node] = unit
        self._dirty[unit] = None

    def _settle(self) -> None:
        while self._dirty:
            unit = next(iter(self._dirty))
            del self._dirty[unit]
            unit.visits += 1
            if unit.visits > _MAX_VISITS:
                msg = f"the values of {unit.module.path} do not settle"
                raise RecursionError(msg)
            self._interpret(unit)

    def _open_the_uncalled(self) -> None:
        """Says of the parameters of functions that nothing here calls that they are unknown."""
        for unit in self._units.values():
            node = unit.node
            if isinstance(node, ast.Module) or (self._callers[node] and node not in self._escaped):
                continue
            name = "a lambda" if isinstance(node, ast.Lambda) else f"{node.name}()"
            how = "which code outside this file calls" if node in self._escaped else "which nothing in this file calls"
            for argument in _parameters(node)[1 if self._binds_self(unit) else 0 :]:
                self.write("parameter", node, argument.arg, unknown(f"'{argument.arg}' is a parameter of {name}, {how}"))
            for star in (node.args.vararg, node.args.kwarg):
                if star is not None:
                    self.put(star, UNKNOWN_KEY, unknown(f"'{star.arg}' is a parameter of {name}, {how}"))

    def _binds_self(self, unit: Unit) -> bool:
        return unit.owner is not None and "staticmethod" not in _decorator_names(unit.node)

    def _interpret(self, unit: Unit) -> None:
        self._unit = unit
        self._breaks: list[list[Environment]] = []
        self._continues: list[list[Environment]] = []
        self._class: ast.ClassDef | None = None
        node = unit.node
        env: Environment = {}
        if isinstance(node, ast.Module):
            self._block(node.body, env)
            return
        parameters = _parameters(node)
        for argument in parameters:
            env[argument.arg] = self.read("parameter", node, argument.arg)
        if self._binds_self(unit) and parameters and unit.owner is not None:
            owner = Value(Sort.CLASS, unit.owner.name, unit.owner)
            is_class_method = "classmethod" in _decorator_names(node)
            env[parameters[0].arg] = frozenset({owner if is_class_method else Value(Sort.INSTANCE, of=owner)})
        for star, kind in ((node.args.vararg, "tuple"), (node.args.kwarg, "dict")):
            if star is not None:
                env[star.arg] = self.container(kind, star)
        for name, values in env.items():
            self.write("name", node, name, values)
        if isinstance(node, ast.Lambda):
            self.write("return", node, "", self._evaluate(node.body, env))
        elif self._block(node.body, env) is not None:
            self.write("return", node, "", frozenset({NONE}))

    # Statements. Each handler returns the environment after the statement, or None where control does not get there.

    def _block(self, statements: Iterable[ast.stmt], env: Environment | None) -> Environment | None:
        for statement in statements:
            if env is None:
                return None
            self._before[statement] = env
            handler = _STATEMENTS.get(type(statement))
            env = handler(self, statement, env) if handler else self._other(statement, env)
        return env

    def _other(self, statement: ast.stmt, env: Environment) -> Environment:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                env = self._walrus(child, env)
        return env

    def _walrus(self, expression: ast.expr, env: Environment) -> Environment:
        """Evaluates an expression that may bind names itself."""
        self._bound_inside: Environment = {}
        self._evaluate(expression, env)
        return {**env, **self._bound_inside} if self._bound_inside else env

    def _assign(self, statement: ast.Assign, env: Environment) -> Environment:
        env = self._walrus(statement.value, env)
        for target in statement.targets:
            env = self._bind(target, self._seen[statement.value], env)
        return env

    def _annotated(self, statement: ast.AnnAssign, env: Environment) -> Environment:
        if statement.value is None:
            return env
        env = self._walrus(statement.value, env)
        return self._bind(statement.target, self._seen[statement.value], env)

    def _augmented(self, statement: ast.AugAssign, env: Environment) -> Environment:
        operand = self._evaluate(statement.value, env)
        load = self._load(statement.target, env)
        self._seen[statement.target] = load
        for value in load:
            if value.sort is Sort.CONTAINER and value.site is not None:
                for each in operand:
                    if each.sort is Sort.CONTAINER:
                        self.put(value.site, UNKNOWN_KEY, self.take(each))
        # `images /= 255` writes into the same memory.
        kept = frozenset(each for each in load if each.sort in {Sort.CONTAINER, *_TENSORS})
        return self._bind(statement.target, kept | _combined(load - kept | operand if load - kept else NOTHING), env)

    def _load(self, target: ast.expr, env: Environment) -> Values:
        if isinstance(target, ast.Name):
            return self._name(target.id, env)
        return self._evaluate(target, env)

    def _bind(self, target: ast.AST, values: Values, env: Environment) -> Environment:
        """The environment after ``target = values``."""
        if isinstance(target, ast.Name):
            self._seen[target] = values
            return self._bind_name(target.id, values, env)
        if isinstance(target, ast.Starred):
            return self._bind(target.value, self.container("list", target, {UNKNOWN_KEY: values}), env)
        if isinstance(target, (ast.Tuple, ast.List)):
            starred = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), len(target.elts))
            for index, element in enumerate(target.elts):
                env = self._bind(element, self._unpacked(values, index if index < starred else ANY, target), env)
            return env
        if isinstance(target, ast.Attribute):
            owners = self._evaluate(target.value, env)
            self._seen[target] = values
            for owner in owners:
                self._set_attribute(owner, target.attr, values)
        elif isinstance(target, ast.Subscript):
            owners = self._evaluate(target.value, env)
            key = self._key(self._evaluate(target.slice, env))
            self._seen[target] = values
            for owner in owners:
                if owner.sort is Sort.CONTAINER and owner.site is not None:
                    self.put(owner.site, key, values)
        return env

    def _bind_name(self, name: str, values: Values, env: Environment) -> Environment:
        if self._class is not None:
            self.write("attribute", self._class, name, values)
        elif name in self._unit.shared:
            self.write("name", self._scope_of(name) or self._unit.module.tree, name, values)
            return env
        else:
            self.write("name", self._unit.node, name, values)
        return {**env, name: values}

    def _set_attribute(self, owner: Value, name: str, values: Values) -> None:
        if owner.sort is Sort.INSTANCE and owner.of is not None and owner.of.site is not None:
            self.write("attribute", owner.of.site, name, values)
        elif owner.sort is Sort.CLASS and owner.site is not None:
            self.write("attribute", owner.site, name, values)
        elif owner.sort is Sort.CHOICE:
            self.write("chosen attribute", self.modules[0].tree, f"{owner.name}.{name}", values)
        elif owner.site is not None:
            self.write("extra attribute", owner.site, name, values)

    def _unpacked(self, values: Values, index: object, node: ast.AST) -> Values:
        found = NOTHING
        for value in values:
            if value.sort is Sort.CONTAINER and value.name != "dict":
                found |= self.take(value, index)
            else:
                found |= self.elements(frozenset({value}), node)
        return found

    def _key(self, values: Values) -> object:
        """The one constant that an index is, or ``UNKNOWN_KEY``."""
        if len(values) == 1:
            (value,) = values
            if value.sort is Sort.LITERAL:
                key = value.literal
                return key if isinstance(key, (str, int)) and key != ANY else UNKNOWN_KEY
        return UNKNOWN_KEY

    def _for(self, statement: ast.For | ast.AsyncFor, env: Environment) -> Environment | None:
        env = self._walrus(statement.iter, env)
        elements = self.elements(self._seen[statement.iter], statement.iter)
        return self._loop(statement, env, lambda inside: self._bind(statement.target, elements, inside))

    def _while(self, statement: ast.While, env: Environment) -> Environment | None:
        def test(inside: Environment) -> Environment:
            return self._walrus(statement.test, inside)

        endless = isinstance(statement.test, ast.Constant) and bool(statement.test.value)
        return self._loop(statement, env, test, endless=endless)

    def _loop(
        self,
        statement: ast.For | ast.AsyncFor | ast.While,
        env: Environment,
        start: Callable[[Environment], Environment],
        *,
        endless: bool = False,
    ) -> Environment | None:
        entry = _join(env, self._loops.get(statement))
        self._breaks.append([])
        self._continues.append([])
        inside = start(entry or {})
        end = self._block(statement.body, inside)
        for again in (end, *self._continues.pop()):
            entry = _join(entry, again)
        if entry is not None and entry != self._loops.get(statement):
            self._loops[statement] = entry
            self._dirty[self._unit] = None
        after: Environment | None = None if endless else entry
        if after is not None and isinstance(statement, ast.While):
            after = start(after)
        after = self._block(statement.orelse, after) if after is not None else None
        for left in self._breaks.pop():
            after = _join(after, left)
        return after

    def _break(self, _: ast.Break, env: Environment) -> None:
        if self._breaks:
            self._breaks[-1].append(env)

    def _continue(self, _: ast.Continue, env: Environment) -> None:
        if self._continues:
            self._continues[-1].append(env)

    def _if(self, statement: ast.If, env: Environment) -> Environment | None:
        env = self._walrus(statement.test, env)
        yes = self._block(statement.body, env)
        if is_main_guard(statement):
            return yes
        return _join(yes, self._block(statement.orelse, env))

    def _with(self, statement: ast.With | ast.AsyncWith, env: Environment) -> Environment | None:
        for item in statement.items:
            values = self._evaluate(item.context_expr, env)
            if item.optional_vars is not None:
                env = self._bind(item.optional_vars, values, env)
        return self._block(statement.body, env)

    def _try(self, statement: ast.Try, env: Environment) -> Environment | None:
        end = self._block(statement.body, env)
        # A handler starts from any point of the body: from before it or from after it is near enough.
        start = _join(env, end) or env
        end = self._block(statement.orelse, end) if end is not None else None
        for handler in statement.handlers:
            inside = start
            if handler.type is not None:
                self._evaluate(handler.type, env)
            if handler.name is not None:
                inside = self._bind_name(handler.name, PLAIN, inside)
            end = _join(end, self._block(handler.body, inside))
        if statement.finalbody:
            last = self._block(statement.finalbody, end if end is not None else start)
            return last if end is not None else None
        return end

    def _match(self, statement: ast.Match, env: Environment) -> Environment | None:
        env = self._walrus(statement.subject, env)
        subject = self._seen[statement.subject]
        end: Environment | None = env
        for case in statement.cases:
            inside = env
            for node in ast.walk(case.pattern):
                name = node.rest if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
                if isinstance(name, str):
                    inside = self._bind_name(name, subject if node is case.pattern else unknown(f"'{name}' is matched"), inside)
            if case.guard is not None:
                self._evaluate(case.guard, inside)
            end = _join(end, self._block(case.body, inside))
        return end

    def _return(self, statement: ast.Return, env: Environment) -> None:
        values = self._evaluate(statement.value, env) if statement.value is not None else frozenset({NONE})
        self.write("return", self._unit.node, "", values)

    def _raise(self, statement: ast.Raise, env: Environment) -> None:
        self._other(statement, env)

    def _function(self, statement: FunctionNode, env: Environment) -> Environment:
        for decorator in statement.decorator_list:
            self._evaluate(decorator, env)
        if statement not in self._units:
            self._add_unit(Unit(statement, self._unit.module, self._unit, self._class))
        for argument, default in _defaults(statement):
            self.write("parameter", statement, argument.arg, self._evaluate(default, env))
        return self._bind_name(statement.name, frozenset({Value(Sort.FUNCTION, statement.name, statement)}), env)

    def _class_definition(self, statement: ast.ClassDef, env: Environment) -> Environment:
        for base in statement.bases:
            values = self._evaluate(base, env)
            self.write("base", statement, base, values)
            for value in values:
                if value.sort is Sort.CLASS and isinstance(value.site, ast.ClassDef):
                    self._subclasses[value.site].add(statement)
        for other in (*statement.decorator_list, *(each.value for each in statement.keywords)):
            self._evaluate(other, env)
        around, self._class = self._class, statement
        self._block(statement.body, env)
        self._class = around
        return self._bind_name(statement.name, frozenset({Value(Sort.CLASS, statement.name, statement)}), env)

    def _import(self, statement: ast.Import | ast.ImportFrom, env: Environment) -> Environment:
        package = self._unit.module.name.rpartition(".")[0]
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            return self._star(names.source(statement, package), env)
        for name, target in names.imported(statement, package):
            env = self._bind_name(name, self._resolve(target), env)
        return env

    def _star(self, source: str, env: Environment) -> Environment:
        module = self._by_name.get(source)
        if module is not None:
            for name in names.bound_names(module.tree):
                if not name.startswith("_"):
                    env = self._bind_name(name, self.read("name", module.tree, name), env)
        return env

    def _resolve(self, target: str) -> Values:
        """What a dotted name of an import is: a thing of another module of the project, or a library's."""
        module_name, _, name = target.rpartition(".")
        module = self._by_name.get(module_name)
        if module is not None and name:
            return self.read("name", module.tree, name)
        return external(names.canonical(target))

    def _delete(self, statement: ast.Delete, env: Environment) -> Environment:
        for target in statement.targets:
            if isinstance(target, ast.Name):
                env = {name: values for name, values in env.items() if name != target.id}
            else:
                self._other(statement, env)
        return env

    # Expressions.

    def _evaluate(self, node: ast.expr, env: Environment) -> Values:
        handler = _EXPRESSIONS.get(type(node))
        values = handler(self, node, env) if handler else self._parts(node, env)
        self._seen[node] = values
        return values

    def _parts(self, node: ast.AST, env: Environment) -> Values:
        """Any other expression: its parts are evaluated, and it is a plain object."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._evaluate(child, env)
        return PLAIN

    def _constant(self, node: ast.Constant, _: Environment) -> Values:
        if isinstance(node.value, (str, int, bool, type(None))):
            return frozenset({Value(Sort.LITERAL, repr(node.value))})
        return PLAIN

    def _formatted(self, node: ast.JoinedStr, env: Environment) -> Values:
        self._parts(node, env)
        first = node.values[0] if node.values else None
        return text_starting(first.value) if isinstance(first, ast.Constant) and isinstance(first.value, str) else PLAIN

    def _named(self, node: ast.Name, env: Environment) -> Values:
        return self._name(node.id, env)

    def _name(self, name: str, env: Environment) -> Values:
        if name in env:
            return env[name] - _UNBOUND
        if name in self._unit.bound and name not in self._unit.shared and self._class is None:
            return NOTHING  # bound in this unit, but not on the way here
        scope = self._scope_of(name)
        if scope is not None:
            return self.read("name", scope, name)
        star = self._stars[self._unit.module.tree].get(name)
        if star is not None:
            return external(star)
        if name in names.BUILTINS:
            return external(f"builtins.{name}")
        if name in {"__name__", "__file__", "__doc__"}:
            return PLAIN
        return unknown(f"'{name}' is defined in no place that can be seen")

    def _scope_of(self, name: str) -> ast.AST | None:
        """The function or module around the unit in which a name that the unit does not bind is bound."""
        unit = self._unit.outer if self._class is None or self._unit.outer is None else self._unit
        while unit is not None:
            if name in unit.bound and (unit.outer is None or name not in unit.shared):
                return unit.node
            unit = unit.outer
        return self._unit.module.tree if name in self._unit.shared else None

    def _attribute(self, node: ast.Attribute, env: Environment) -> Values:
        found = NOTHING
        for owner in self._evaluate(node.value, env):
            found |= self._attribute_of(owner, node)
        return found

    def _attribute_of(self, owner: Value, node: ast.Attribute) -> Values:
        if owner.sort is Sort.UNKNOWN:
            return frozenset({owner})
        if owner.sort is Sort.CHOICE:
            if ast.unparse(node) in self._written:
                return self.read("chosen attribute", self.modules[0].tree, f"{owner.name}.{node.attr}")
            return self._semantics.attribute(self, owner, node)
        class_ = owner.of.site if owner.sort is Sort.INSTANCE and owner.of else owner.site if owner.sort is Sort.CLASS else None
        if isinstance(class_, ast.ClassDef):
            return self._member(owner, class_, node)
        if owner.sort is Sort.EXTERNAL:
            resolved = self._module_member(owner.name, node.attr)
            if resolved is not None:
                return resolved
        if owner.site is not None and owner.sort is not Sort.CONTAINER:
            return self.read("extra attribute", owner.site, node.attr) | self._semantics.attribute(self, owner, node)
        return self._semantics.attribute(self, owner, node)

    def _module_member(self, module_name: str, attribute: str) -> Values | None:
        module = self._by_name.get(module_name)
        return None if module is None else self.read("name", module.tree, attribute)

    def _member(self, owner: Value, class_: ast.ClassDef, node: ast.Attribute) -> Values:
        found = NOTHING
        method = self.method(class_, node.attr)
        if method is not None:
            if "property" in _decorator_names(method) or "cached_property" in _decorator_names(method):
                return self._call_method(owner, node.attr, None)
            found = frozenset({Value(Sort.METHOD, node.attr, method, owner)})
        for relative in self._family(class_):
            values = self.read("attribute", relative, node.attr)
            found |= frozenset(each for each in values if each.site is not method or method is None)
        # What is written somewhere is not the base class's, even where it is not known yet what it is.
        return found if method is not None or node.attr in self._written else self._semantics.attribute(self, owner, node)

    def _family(self, class_: ast.ClassDef) -> tuple[ast.ClassDef, ...]:
        """The class, its bases and its subclasses in the project: ``self`` may be an object of any of them."""
        family = {class_: None}
        family.update({base: None for base in self.bases(class_) if isinstance(base, ast.ClassDef)})
        todo = [class_]
        while todo:
            for sub in self._subclasses[todo.pop()]:
                if sub not in family:
                    family[sub] = None
                    todo.append(sub)
        return tuple(family)

    def _class_method(self, instance: Value, name: str) -> FunctionNode | None:
        class_ = instance.of.site if instance.of is not None else None
        return self.method(class_, name) if isinstance(class_, ast.ClassDef) else None

    def _call_method(self, instance: Value, name: str, node: ast.Call | None, arguments: Arguments | None = None) -> Values:
        method = self._class_method(instance, name)
        if method is None:
            return NOTHING
        return self._call_function(method, node, arguments or Arguments((), {}, spread=False), skip=1)

    def _subscript(self, node: ast.Subscript, env: Environment) -> Values:
        key = self._key(self._evaluate(node.slice, env))
        found = NOTHING
        for owner in self._evaluate(node.value, env):
            if owner.sort is Sort.CONTAINER:
                if isinstance(node.slice, ast.Slice):
                    found |= {owner}
                else:
                    found |= self.take(owner, ANY if key is UNKNOWN_KEY else key)
            elif owner.sort is Sort.UNKNOWN:
                found |= {owner}
            elif owner.sort in {Sort.LITERAL, Sort.PLAIN}:
                found |= PLAIN
            elif owner.sort is Sort.INSTANCE and self._class_method(owner, "__getitem__"):
                found |= self._call_method(owner, "__getitem__", None)
            else:
                found |= self._semantics.item(self, owner, node)
        return found

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set, env: Environment) -> Values:
        kind = type(node).__name__.lower()
        items: dict[object, Values] = {}
        for index, element in enumerate(node.elts):
            if isinstance(element, ast.Starred):
                values = self.elements(self._evaluate(element.value, env), element)
                items[UNKNOWN_KEY] = items.get(UNKNOWN_KEY, NOTHING) | values
            else:
                items[UNKNOWN_KEY if UNKNOWN_KEY in items else index] = self._evaluate(element, env)
        return self.container(kind, node, items)

    def _dict(self, node: ast.Dict, env: Environment) -> Values:
        for key, value in zip(node.keys, node.values, strict=True):
            values = self._evaluate(value, env)
            if key is None:
                self._merge(node, values)
            else:
                self.put(node, self._key(self._evaluate(key, env)), values)
        return self.container("dict", node)

    def _merge(self, site: ast.AST, dictionaries: Values) -> None:
        """Joins the items of dictionaries into the dictionary made at ``site``."""
        for each in dictionaries:
            if each.sort is Sort.CONTAINER and each.site is not None:
                self.take(each)
                for key in self.keys(each):
                    self.put(site, key, self.take(each, key))
            elif each != NONE:
                self.put(site, UNKNOWN_KEY, unknown("an item comes from a dictionary that is not known"))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Environment) -> Values:
        for generator in node.generators:
            elements = self.elements(self._evaluate(generator.iter, env), generator.iter)
            env = self._bind_local(generator.target, elements, env)
            for condition in generator.ifs:
                self._evaluate(condition, env)
        if isinstance(node, ast.DictComp):
            self._evaluate(node.key, env)
            return self.container("dict", node, {UNKNOWN_KEY: self._evaluate(node.value, env)})
        kind = "iterator" if isinstance(node, ast.GeneratorExp) else "list"
        return self.container(kind, node, {UNKNOWN_KEY: self._evaluate(node.elt, env)})

    def _bind_local(self, target: ast.AST, values: Values, env: Environment) -> Environment:
        """Binds a comprehension's target, which no other scope sees."""
        if isinstance(target, ast.Name):
            self._seen[target] = values
            return {**env, target.id: values}
        if isinstance(target, (ast.Tuple, ast.List)):
            for index, element in enumerate(target.elts):
                env = self._bind_local(element, self._unpacked(values, index, target), env)
        return env

    def _lambda(self, node: ast.Lambda, env: Environment) -> Values:
        if node not in self._units:
            self._add_unit(Unit(node, self._unit.module, self._unit))
        for argument, default in _defaults(node):
            self.write("parameter", node, argument.arg, self._evaluate(default, env))
        return frozenset({Value(Sort.FUNCTION, "a lambda", node)})

    def _conditional(self, node: ast.IfExp, env: Environment) -> Values:
        self._evaluate(node.test, env)
        return self._evaluate(node.body, env) | self._evaluate(node.orelse, env)

    def _boolean(self, node: ast.BoolOp, env: Environment) -> Values:
        return NOTHING.union(*[self._evaluate(each, env) for each in node.values])

    def _unary(self, node: ast.UnaryOp, env: Environment) -> Values:
        operand = self._evaluate(node.operand, env)
        if isinstance(node.op, ast.Not):
            # `not args.no_cuda` is as much the user's choice as `args.no_cuda`.
            return frozenset(each for each in operand if each.sort in {Sort.CHOICE, Sort.UNKNOWN}) or PLAIN
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, int):
            return frozenset({Value(Sort.LITERAL, repr(-node.operand.value))})
        return _combined(operand)

    def _binary(self, node: ast.BinOp, env: Environment) -> Values:
        left, right = self._evaluate(node.left, env), self._evaluate(node.right, env)
        lists = [each for each in left | right if each.sort is Sort.CONTAINER]
        if lists and isinstance(node.op, ast.BitOr) and all(each.name == "dict" for each in lists):
            self._merge(node, left | right)
            return self.container("dict", node)
        if isinstance(node.op, (ast.Add, ast.Mod)) and (start := leading_text(left)) is not None:
            return text_starting(start)
        if lists and isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            joined = NOTHING.union(*[self.take(each) for each in lists])
            return self.container(lists[0].name, node, {UNKNOWN_KEY: joined})
        return _combined(left | right)

    def _compare(self, node: ast.Compare, env: Environment) -> Values:
        parts = self._evaluate(node.left, env).union(*[self._evaluate(each, env) for each in node.comparators])
        return frozenset(each for each in _combined(parts) if each.sort is not Sort.LITERAL) or PLAIN

    def _assigned_inside(self, node: ast.NamedExpr, env: Environment) -> Values:
        values = self._evaluate(node.value, env)
        self._seen[node.target] = values
        self._bound_inside = {**self._bound_inside, **self._bind_name(node.target.id, values, {})}
        return values

    def _starred(self, node: ast.Starred, env: Environment) -> Values:
        return self.elements(self._evaluate(node.value, env), node)

    def _awaited(self, node: ast.Await | ast.YieldFrom, env: Environment) -> Values:
        values = self._evaluate(node.value, env)
        if isinstance(node, ast.YieldFrom):
            self.put(self._unit.node, UNKNOWN_KEY, self.elements(values, node))
        return values

    def _yield(self, node: ast.Yield, env: Environment) -> Values:
        values = self._evaluate(node.value, env) if node.value is not None else frozenset({NONE})
        self.put(self._unit.node, UNKNOWN_KEY, values)
        self.write("return", self._unit.node, "", self.container("iterator", self._unit.node))
        return PLAIN

    def _call(self, node: ast.Call, env: Environment) -> Values:
        callees = self._evaluate(node.func, env)
        arguments = self._arguments(node, env)
        return self.apply(callees, node, arguments)

    def _arguments(self, node: ast.Call, env: Environment) -> Arguments:
        positional: list[Values] = []
        keywords: dict[str, Values] = {}
        spread = False
        further: Values | None = None
        for argument in node.args:
            if not isinstance(argument, ast.Starred):
                positional.append(self._evaluate(argument, env))
                continue
            elements = self._evaluate(argument, env)
            fixed = self._fixed_items(self._seen[argument.value])
            if fixed is None:
                spread = True
                is_known = argument is node.args[-1] and not any(each.sort is Sort.UNKNOWN for each in elements)
                further = elements if is_known else None
            positional.extend(fixed or ())
        for keyword in node.keywords:
            values = self._evaluate(keyword.value, env)
            if keyword.arg is not None:
                keywords[keyword.arg] = values
                continue
            for each in values:
                self.take(each)
                known = self.keys(each) if each.sort is Sort.CONTAINER else {UNKNOWN_KEY}
                if UNKNOWN_KEY in known:
                    spread, further = True, None
                for key in known:
                    if isinstance(key, str):
                        keywords[key] = keywords.get(key, NOTHING) | self.take(each, key)
        return Arguments(tuple(positional), keywords, spread, further)

    def _fixed_items(self, values: Values) -> list[Values] | None:
        """The items, in order, of what is spread into a call, where it is one sequence of known length."""
        if len(values) != 1:
            return None
        (value,) = values
        if value.sort is not Sort.CONTAINER or value.name == "dict":
            return None
        self.take(value)
        keys = self.keys(value)
        if not all(isinstance(key, int) for key in keys):
            return None
        return [self.take(value, index) for index in range(len(keys))]

    def _apply(self, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        if callee.sort is Sort.UNKNOWN:
            self.escape(arguments.all())
            return frozenset({callee})
        if callee.sort is Sort.FUNCTION and isinstance(callee.site, Callee_types):
            return self._call_function(callee.site, node, arguments)
        if callee.sort is Sort.METHOD and isinstance(callee.site, Callee_types):
            # Called on the class itself, `Base.method(self, x)`, the object is the first argument.
            unbound = callee.of is not None and callee.of.sort is Sort.CLASS and "classmethod" not in _decorator_names(callee.site)
            static = "staticmethod" in _decorator_names(callee.site)
            return self._call_function(callee.site, node, arguments, skip=0 if unbound or static else 1)
        if callee.sort is Sort.CLASS and isinstance(callee.site, ast.ClassDef):
            return self._construct(callee.site, node, arguments)
        if callee.sort is Sort.INSTANCE:
            for name in ("__call__", "forward"):
                if self._class_method(callee, name):
                    return self._call_method(callee, name, node, arguments)
        return self._semantics.call(self, callee, node, arguments)

    def _construct(self, class_: ast.ClassDef, node: ast.Call, arguments: Arguments) -> Values:
        instance = Value(Sort.INSTANCE, class_.name, node, Value(Sort.CLASS, class_.name, class_))
        if self.method(class_, "__init__"):
            self._call_method(instance, "__init__", node, arguments)
        else:
            fields = [each.target.id for each in class_.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
            for name, values in (*zip(fields, arguments.positional, strict=False), *arguments.keywords.items()):
                if name in fields:
                    self.write("attribute", class_, name, values)
        return frozenset({instance})

    def _call_function(self, function: Callee, node: ast.Call | None, arguments: Arguments, skip: int = 0) -> Values:
        if node is not None and node not in self._callers[function]:
            self._callers[function].append(node)
        parameters = [*function.args.posonlyargs, *function.args.args][skip:]
        for parameter, values in zip(parameters, arguments.positional, strict=False):
            self.write("parameter", function, parameter.arg, values)
        if function.args.vararg is not None:
            for index, values in enumerate(arguments.positional[len(parameters) :]):
                self.put(function.args.vararg, index, values)
        named = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
        for name, values in arguments.keywords.items():
            if name in named:
                self.write("parameter", function, name, values)
            elif function.args.kwarg is not None:
                self.put(function.args.kwarg, name, values)
        if arguments.spread:
            for parameter in _parameters(function)[skip:]:
                reason = f"'{parameter.arg}' may be filled by a * or ** argument"
                self.write("parameter", function, parameter.arg, unknown(reason) if arguments.further is None else arguments.further)
        return self.read("return", function)


Callee_types = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def is_main_guard(statement: ast.stmt) -> bool:
    """Whether the statement is ``if __name__ == "__main__":``."""
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.test, ast.Compare)
        and isinstance(statement.test.left, ast.Name)
        and statement.test.left.id == "__name__"
    )


def _join(one: Environment | None, other: Environment | None) -> Environment | None:
    """The environment where two ways meet; a name that only one of them binds may be unbound."""
    if one is None or other is None or one is other:
        return other if one is None else one
    joined: Environment = {}
    for name in (*one, *(each for each in other if each not in one)):
        joined[name] = one.get(name, _UNBOUND) | other.get(name, _UNBOUND)
    return joined


def _combined(operands: Values) -> Values:
    """What an operation on these yields: a tensor where one of them is, unknown where one of them is, else plain."""
    found = {each for each in operands if each.sort in {Sort.UNKNOWN, Sort.CHOICE}}
    if any(each.sort is Sort.MOVED for each in operands):
        return frozenset({*found, Value(Sort.MOVED)})
    on_host = {Value(Sort.HOST, of=each.of) for each in operands if each.sort in {Sort.BATCH, Sort.HOST} and each.of is not None}
    if on_host:
        return frozenset({*found, *on_host})
    if any(each.sort in _TENSORS for each in operands):
        return frozenset({*found, Value(Sort.TENSOR)})
    return frozenset(found) or (PLAIN if operands else NOTHING)


def _written_attributes(module: Module) -> Iterator[str]:
    """The attributes that the module assigns, each by its name (``device``) and as it is written (``args.device``)."""
    for node in module.nodes(ast.Attribute):
        if isinstance(node.ctx, ast.Store) and not isinstance(module.parent(node), ast.AugAssign):
            yield node.attr
            yield ast.unparse(node)
    for class_ in module.nodes(ast.ClassDef):
        yield from names.bound_names(class_)


def _parameters(function: Callee) -> list[ast.arg]:
    """The parameters that have a name of their own, without ``*args`` and ``**kwargs``."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _defaults(function: Callee) -> Iterator[tuple[ast.arg, ast.expr]]:
    positional = [*function.args.posonlyargs, *function.args.args]
    yield from zip(positional[len(positional) - len(function.args.defaults) :], function.args.defaults, strict=True)
    for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if default is not None:
            yield argument, default


def _decorator_names(function: ast.AST) -> frozenset[str]:
    """The last part of the name of each decorator: ``functools.cached_property`` → ``cached_property``."""
    found = set()
    for decorator in getattr(function, "decorator_list", ()):
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        found.add(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", ""))
    return frozenset(found)


_STATEMENTS: dict[type, Callable[[Flow, ast.stmt, Environment], Environment | None]] = {
    ast.Assign: Flow._assign,
    ast.AnnAssign: Flow._annotated,
    ast.AugAssign: Flow._augmented,
    ast.For: Flow._for,
    ast.AsyncFor: Flow._for,
    ast.While: Flow._while,
    ast.If: Flow._if,
    ast.With: Flow._with,
    ast.AsyncWith: Flow._with,
    ast.Try: Flow._try,
    ast.Match: Flow._match,
    ast.Return: Flow._return,
    ast.Raise: Flow._raise,
    ast.Break: Flow._break,
    ast.Continue: Flow._continue,
    ast.FunctionDef: Flow._function,
    ast.AsyncFunctionDef: Flow._function,
    ast.ClassDef: Flow._class_definition,
    ast.Import: Flow._import,
    ast.ImportFrom: Flow._import,
    ast.Delete: Flow._delete,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Flow._try

_EXPRESSIONS: dict[type, Callable[[Flow, ast.expr, Environment], Values]] = {
    ast.Constant: Flow._constant,
    ast.JoinedStr: Flow._formatted,
    ast.Name: Flow._named,
    ast.Attribute: Flow._attribute,
    ast.Subscript: Flow._subscript,
    ast.Tuple: Flow._sequence,
    ast.List: Flow._sequence,
    ast.Set: Flow._sequence,
    ast.Dict: Flow._dict,
    ast.ListComp: Flow._comprehension,
    ast.SetComp: Flow._comprehension,
    ast.GeneratorExp: Flow._comprehension,
    ast.DictComp: Flow._comprehension,
    ast.Lambda: Flow._lambda,
    ast.IfExp: Flow._conditional,
    ast.BoolOp: Flow._boolean,
    ast.UnaryOp: Flow._unary,
    ast.BinOp: Flow._binary,
    ast.Compare: Flow._compare,
    ast.NamedExpr: Flow._assigned_inside,
    ast.Starred: Flow._starred,
    ast.Await: Flow._awaited,
    ast.YieldFrom: Flow._awaited,
    ast.Yield: Flow._yield,
    ast.Call: Flow._call,
}
