"""Where a value comes from and goes to, over all functions, classes and modules of the script.

An abstract interpretation to a fixpoint. Attributes, items of containers, parameters and returns are joined over all
places that write them. A *unit* (a module's or a function's own code, see ``interpretation``) is interpreted where it
is called first, and again whenever something that it read has grown, in rounds whose order is that of the text: one
script has one set of facts.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

from codemods.dataflow import names
from codemods.dataflow.collected import collected
from codemods.dataflow.environments import Environment
from codemods.dataflow.interpretation import Interpretation, Unit
from codemods.dataflow.namespaces import Namespaces
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import children, is_main_guard, kept, lasting
from codemods.dataflow.values import (
    ANY,
    CONFIGURATION,
    NO_ARGUMENTS,
    NONE,
    NOTHING,
    PLAIN,
    UNKNOWN_KEY,
    Arguments,
    Sort,
    Value,
    Values,
    external,
    instance,
    is_configuration,
    joined,
    keys_of,
    path,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.signatures import Binding, Signature
    from codemods.dataflow.source import Callee, FunctionNode, Module

Location = tuple[str, ast.AST, object]
"""What kind of place, whose, and its name or key there."""

CALLEES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Semantics(Protocol):
    """What the libraries do: the part of the interpretation that knows PyTorch."""

    def call(self, flow: Flow, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        """What a call of a library's function, class, object or method returns."""

    def attribute(self, flow: Flow, owner: Value, name: str) -> Values:
        """What an attribute of a library's thing is, or one that the project's class does not define."""

    def item(self, flow: Flow, owner: Value, node: ast.Subscript) -> Values:
        """What a subscript of a library's thing is."""

    def iterate(self, flow: Flow, owner: Value, node: ast.AST) -> Values:
        """What the elements are that iterating over a library's thing yields."""

    def fills_parameters(self, decorator: Value) -> bool:
        """Whether a decorator fills the function's parameters with what the user chooses."""

    def may_be_called(self, value: Value) -> bool:
        """Whether the value may take the place of a method."""

    def is_configuration(self, base: str) -> bool:
        """Whether objects of the library's class hold what the user chooses."""


@dataclass(eq=False)
class _Lineage:
    """A class and its bases in the project, as far as they are known by now."""

    classes: tuple[ast.ClassDef, ...]
    """From near to far."""
    is_derived: bool
    """Whether it is known what the bases of each of them are."""
    readers: set[Unit] = field(default_factory=set)
    """The units that asked."""


class _Seen(dict[ast.AST, Values]):
    """What expressions may be."""

    def __missing__(self, node: ast.AST) -> Values:
        return NOTHING


class Flow:
    """The values of every expression of some modules, once they no longer grow."""

    values: Callable[[ast.AST], Values]
    """What an expression may be; nothing where it is never evaluated.

    While the interpretation runs, reading it here is a reason to run again; after it, this is but a look-up: a million
    are asked for.
    """

    def __init__(self, modules: Sequence[Module], semantics: Semantics) -> None:
        self.modules = tuple(modules)
        self._semantics = semantics
        self._heap: dict[Location, Values] = {}
        self._readers: defaultdict[Location, set[Unit]] = defaultdict(set)
        self._attributes: defaultdict[ast.AST, dict[str, None]] = defaultdict(dict)
        self._written = frozenset(name for module in modules for name in _written_attributes(module))
        self._seen = _Seen()
        self._watchers: defaultdict[ast.AST, set[Unit]] = defaultdict(set)
        self._before: dict[ast.stmt, Environment] = {}
        self._units: dict[ast.AST, Unit] = {}
        self._callers: defaultdict[Callee, list[ast.Call]] = defaultdict(list)
        self._escaped: set[Callee] = set()
        self._dirty: set[Unit] = set()
        self._begun: set[Unit] = set()
        """The units that were interpreted once, or are being."""
        self._depth = 0
        """How many units are being interpreted, each at a call in the one before."""
        self._unit: Unit | None = None
        """The unit that is being interpreted: whatever is read then is a reason to interpret it again."""
        self._filled: set[Callee] = set()
        """The functions whose parameters a decorator fills."""
        self._applied: list[Value] = []
        """The ``functools.partial`` objects that are being called."""
        self._handed: set[Callee] = set()
        """The functions that decorators call with what they decorate."""
        self._is_settled = False
        """Whether the values no longer grow: what follows from them is worked out only once then."""
        self._lineages: dict[ast.ClassDef, _Lineage] = {}
        """Of the classes that were asked for since a base became known last."""
        self._known_bases: dict[ast.ClassDef, tuple[ast.ClassDef | str, ...]] = {}
        self._known_methods: dict[tuple[ast.ClassDef, str], FunctionNode | None] = {}
        self._namespaces = Namespaces(modules)
        self._by_name = self._namespaces.modules
        self._collected = collected(modules)
        self._packages = frozenset(each for name in self._by_name for each in _with_parents(name))
        """The names of the modules, and of the directories they are in, which may be imported, too."""
        self._stars = {module: tuple(dict.fromkeys(self._star_imports(module))) for module in modules}
        self.values = self._watched
        # What the entry imports is defined before it is used.
        for module in reversed(self.modules):
            self._add(Unit(module.tree, module, None))
        self._settle()
        self._uncover()
        self._open()
        self._settle()
        self._uncover()
        self._is_settled = True
        self.values = self._seen.__getitem__
        self._readers.clear()
        self._watchers.clear()

    # What is known, once settled; while the interpretation runs, reading it here is a reason to run again.

    def _watched(self, node: ast.AST) -> Values:
        if self._unit is not None:
            self._watchers[node].add(self._unit)
        return self._seen[node]

    def places(self, value: Value) -> Sequence[tuple[Module, ast.expr]]:
        """The expressions, but for displays and operations, that may be the value, in the order of the text."""
        return self._places.get(value, ())

    @cached_property
    def _places(self) -> Mapping[Value, Sequence[tuple[Module, ast.expr]]]:
        found: defaultdict[Value, list[tuple[Module, ast.expr]]] = defaultdict(list)
        for module in self.modules:
            for node in module.nodes(ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.IfExp):
                for value in self.values(node):
                    found[value].append((module, node))
        return found

    def calls_of(self, module: Module, names: Collection[str]) -> Sequence[ast.Call]:
        """The calls of a library's functions, classes or objects of these qualified names, in the order of the text."""
        found = {call: None for name in names for call in self._calls_by_name(module).get(name, ())}
        return sorted(found, key=lambda each: (each.lineno, each.col_offset)) if len(found) > 1 else list(found)

    @lasting
    def _calls_by_name(self, module: Module) -> Mapping[str, Sequence[ast.Call]]:
        """The calls of a module, by the names of the library's things that they may call."""
        found: defaultdict[str, list[ast.Call]] = defaultdict(list)
        for call in module.nodes(ast.Call):
            for name in {each.name for each in self.values(call.func) if each.sort in {Sort.EXTERNAL, Sort.MADE}}:
                found[name].append(call)
        return found

    def before(self, statement: ast.stmt) -> Mapping[str, Values]:
        """The local names of the statement's unit as they are when it starts; one that is not there is not bound."""
        return self._before.get(statement, _NO_NAMES)

    def read_module_name(self, module: Module, name: str) -> Values:
        """What a module's own name may be, over all places that bind it."""
        return self.read("name", module.tree, name)

    def callers(self, function: Callee) -> Sequence[ast.Call]:
        """The calls of the project's function, in the order in which they were found."""
        return self._callers.get(function, ())

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

    def run_by(self, callee: Value) -> Callee | None:
        """The project's function that a call of the value runs first: of an object its ``__call__``, or ``forward``."""
        if callee.sort is Sort.INSTANCE and callee.of is not None and isinstance(callee.of.site, ast.ClassDef):
            return self.method(callee.of.site, "__call__") or self.method(callee.of.site, "forward")
        if callee.sort in {Sort.FUNCTION, Sort.METHOD} and isinstance(callee.site, CALLEES):
            return callee.site
        class_ = _called_through_base(callee)
        return self.method(class_, "forward") if class_ is not None else None

    def called(self, call: ast.Call) -> Sequence[Callee]:
        """The project's functions that a call runs first, one for each value that is called, as far as it has one."""
        functions = (self.run_by(each) for each in self.values(call.func))
        return [each for each in functions if each is not None]

    def owner(self, function: Callee) -> ast.ClassDef | None:
        """The class of which the function is a method; None of one whose definition is never reached."""
        return self._units[function].owner if function in self._units else None

    def signature(self, function: Callee) -> Signature:
        """What the calls of a function give it: of a method, what its object does not fill by itself."""
        unit = self._units.get(function)
        taken = signature(function)
        return taken.bound() if unit is not None and unit.binds_self else taken

    def bind(self, function: Callee, call: ast.Call) -> Binding:
        """Which argument of a call of the function each of its parameters is given.

        ``Base.run(this, x)`` gives the object, too. Nothing is known of ``mp.spawn(run, args=(x,))`` and of what
        ``functools.partial(run, x)`` made: they call the function with other arguments than their own.
        """
        filled = {self._filled_by(each, function) for each in self.values(call.func)} - {None}
        taken = signature(function)
        if len(filled) != 1:
            return taken.bind_none(call)
        return (taken.bound() if filled == {1} else taken).bind(call)

    def _filled_by(self, callee: Value, function: Callee) -> int | None:
        """How many parameters are filled before the arguments of a call that runs the function; None if it does not."""
        if callee.sort in {Sort.FUNCTION, Sort.METHOD} and callee.site is function:
            return _filled_by_owner(callee)
        class_ = callee.site if callee.sort is Sort.CLASS else None
        makes = isinstance(class_, ast.ClassDef) and self.method(class_, "__init__") is function
        return 1 if makes or self.run_by(callee) is function else None

    def returned(self, function: Callee) -> Values:
        """What the project's function may return."""
        return self.read("return", function)

    def items(self, container: Value, key: object = ANY) -> Values:
        """The items of a container, or a library's model's layers, under a key (an index, a text), or all of them."""
        if container.site is None:
            return NOTHING
        if key == ANY:
            return self.read("item", container.site, ANY)
        return joined(self.read("item", container.site, key), self.read("item", container.site, UNKNOWN_KEY))

    def keys(self, container: Value) -> frozenset[object]:
        """The known keys of a container; ``UNKNOWN_KEY`` among them where there may be others."""
        return keys_of(self._key_values(container))

    def _key_values(self, container: Value) -> Values:
        return self.read("keys", container.site) if container.site is not None else NOTHING

    def attributes(self, thing: ast.AST) -> dict[str, Values]:
        """Attributes that the project writes, by name.

        Args:
            thing: a class of the project, for those of its objects and of the class, over its bases and subclasses
                here; or the call that made a library's object.
        """
        found: dict[str, Values] = {}
        for relative in self.family(thing) if isinstance(thing, ast.ClassDef) else (thing,):
            for name in self._attributes.get(relative, ()):
                found[name] = joined(found.get(name, NOTHING), self.read("attribute", relative, name))
        return found

    def bases(self, class_: ast.ClassDef) -> Iterable[ast.ClassDef | str]:
        """The class's bases, from near to far: definitions of the project, or qualified names of a library's."""
        if not self._is_settled:
            return self._bases(class_)
        known = self._known_bases.get(class_)
        if known is None:
            known = self._known_bases[class_] = tuple(self._bases(class_))
        return known

    def _bases(self, class_: ast.ClassDef) -> Iterator[ast.ClassDef | str]:
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
                values = self.read("base", here, base)
                for value in values if len(values) == 1 else sorted(values, key=lambda each: (each.sort, each.name)):
                    if value.sort is Sort.CLASS and isinstance(value.site, ast.ClassDef):
                        todo.append(value.site)
                    elif value.sort in {Sort.EXTERNAL, Sort.UNKNOWN}:
                        yield value.name

    def project_bases(self, class_: ast.ClassDef) -> tuple[ast.ClassDef, ...]:
        """The class and those of its bases that are the project's, from near to far."""
        return self._lineage(class_).classes

    def _lineage(self, class_: ast.ClassDef) -> _Lineage:
        known = self._lineages.get(class_)
        if known is None:
            classes = (class_, *(each for each in self.bases(class_) if isinstance(each, ast.ClassDef)))
            is_derived = all(self._heap.get(("base", here, base)) for here in classes for base in here.bases)
            known = self._lineages[class_] = _Lineage(classes, is_derived)
        if self._unit is not None and self._unit not in known.readers:
            known.readers.add(self._unit)
            for here in known.classes:
                for base in here.bases:
                    self.read("base", here, base)
        return known

    def family(self, class_: ast.ClassDef) -> tuple[ast.ClassDef, ...]:
        """The class, its bases and its subclasses in the project: ``self`` may be an object of any of them."""
        found = dict.fromkeys(self.project_bases(class_))
        todo = [class_]
        while todo:
            subclasses = [
                each.site for each in self.read("subclass", todo.pop()) if isinstance(each.site, ast.ClassDef)
            ]
            for sub in sorted(subclasses, key=lambda each: (each.lineno, each.name)):
                if sub not in found:
                    found[sub] = None
                    todo.append(sub)
        return tuple(found)

    def method(self, class_: ast.ClassDef, name: str) -> FunctionNode | None:
        """The method of that name that the class's objects have, its own or one of a base in the project."""
        if not self._is_settled:
            return next(self._methods(class_, name), None)
        key = (class_, name)
        if key not in self._known_methods:
            self._known_methods[key] = next(self._methods(class_, name), None)
        return self._known_methods[key]

    def _methods(self, class_: ast.ClassDef, name: str) -> Iterator[FunctionNode]:
        """The methods of that name of the class and its bases, from near to far."""
        found = (self.defines(here, name) for here in self.project_bases(class_))
        return (method for method in found if method is not None)

    @staticmethod
    def defines(class_: ast.ClassDef, name: str) -> FunctionNode | None:
        """The method of that name in the class's own body."""
        return _methods(class_).get(name)

    def together(self, module: Module, scripts: Sequence[Module]) -> tuple[Module, ...]:
        """The modules that may run in one process with this one: of each script that imports it, all that it imports.

        Args:
            module: The module.
            scripts: The modules that are run.
        """
        reached = (self._imported_by(each) for each in scripts)
        found = set().union(*(each for each in reached if module in each)) or self._imported_by(module)
        return tuple(each for each in self.modules if each in found)

    @lasting
    def beside(self, module: Module) -> tuple[Module, ...]:
        """The modules that may run in one process with this one, whatever is run."""
        return self.together(module, self.modules)

    @lasting
    def _imported_by(self, module: Module) -> frozenset[Module]:
        """The module and all that is imported with it."""
        found: set[Module] = set()
        todo = [module]
        while todo:
            here = todo.pop()
            if here not in found:
                found.add(here)
                todo += self._imports(here, runs=here is module)
        return frozenset(found)

    def _imports(self, module: Module, *, runs: bool) -> Iterator[Module]:
        """The modules of the project that a module's import statements load, those under its main guard if it runs."""
        for node in module.nodes(ast.Import, ast.ImportFrom):
            if runs or not any(is_main_guard(each) for each in module.ancestors(node)):
                yield from self.loaded(module, node)

    def loaded(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[Module]:
        """The modules of the project that an import statement of the module loads, packages around them too."""
        yield from (self._by_name[each] for each in self.imported_names(module, node) if each in self._by_name)

    def imported_names(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """The dotted names of what an import statement may load, packages around them too."""
        source = names.source(node, module.package) if isinstance(node, ast.ImportFrom) else ""
        targets = [f"{source}.{each.name}" if source else each.name for each in node.names]
        for target in (*targets, source):
            yield from _with_parents(module.resolved(target))

    # For the interpretation and the semantics, while they run.

    def read(self, kind: str, node: ast.AST, key: object = "") -> Values:
        """What stands at a place that many units share."""
        location = (kind, node, key)
        if self._unit is not None:
            self._readers[location].add(self._unit)
        return self._heap.get(location, NOTHING)

    def write(self, kind: str, node: ast.AST, key: object, values: Values) -> None:
        """Joins values into a place that many units share."""
        location = (kind, node, key)
        old = self._heap.get(location, NOTHING)
        if not values <= old:
            new = joined(old, values)
            if new != old:
                self._heap[location] = new
                self._dirty.update(self._readers.get(location, ()))
                if kind == "base":
                    self._lineages.clear()

    def write_attribute(self, thing: ast.AST, name: str, values: Values) -> None:
        """Joins values into an attribute of a class's objects, or of the object that a call made."""
        self._attributes[thing][name] = None
        self.write("attribute", thing, name, values)
        self.write("attribute", thing, ANY, values)
        if name == ANY:
            self.write("attribute", thing, UNKNOWN_KEY, values)

    def see(self, node: ast.AST, values: Values) -> None:
        """Notes what an expression is."""
        old = self._seen.get(node)
        if old is not values and old != values:
            watchers = self._watchers.get(node)
            if watchers is None:
                self._seen[node] = values
            elif not values <= (old or NOTHING):
                # What others were told can only grow, or there might be no end to it.
                self._seen[node] = joined(old or NOTHING, values)
                self._dirty.update(watchers)

    def note_before(self, statement: ast.stmt, env: Environment) -> None:
        """Notes the local names with which a statement starts."""
        self._before[statement] = env

    def add_unit(self, function: Callee, outer: Unit, owner: ast.ClassDef | None = None) -> None:
        """Makes the code of a function that was met known to the fixpoint."""
        if function not in self._units:
            self._add(Unit(function, outer.module, outer, owner))

    def derive(self, class_: ast.ClassDef, base: ast.expr, values: Values) -> None:
        """Notes what a base of a class is."""
        self.write("base", class_, base, values)
        for value in values:
            if value.sort is Sort.CLASS and value.site is not None:
                self.write("subclass", value.site, "", frozenset({Value(Sort.CLASS, class_.name, class_)}))

    def container(self, kind: str, site: ast.AST, items: Mapping[object, Values] | None = None) -> Values:
        """A container made at ``site``, with these items."""
        if items:
            self.put_all(site, items)
        return frozenset({Value(Sort.CONTAINER, kind, site)})

    def put(self, site: ast.AST | None, key: object, values: Values) -> None:
        """Joins values into an item of the container made at ``site``."""
        if site is not None:
            self.put_all(site, {key: values})

    def put_all(self, site: ast.AST, items: Mapping[object, Values]) -> None:
        """Joins values into the items of the container made at ``site``."""
        for key, values in items.items():
            self.write("item", site, key, values)
        self.write("item", site, ANY, joined(*items.values()))
        keys = frozenset([_key(key) for key in items])
        old = self._heap.get(("keys", site, ""), NOTHING)
        if not keys <= old:
            self._heap["keys", site, ""] = old | keys
            self._dirty.update(self._readers.get(("keys", site, ""), ()))

    def merge(self, site: ast.AST, dictionaries: Values) -> None:
        """Joins the items of dictionaries into the dictionary made at ``site``."""
        for each in dictionaries - {NONE}:
            if each.sort is Sort.CONTAINER:
                for key in self.keys(each):
                    self.put(site, key, self.items(each, key))
            else:
                self.put(site, UNKNOWN_KEY, unknown("an item comes from a dictionary that is not known"))

    def escape(self, values: Values) -> None:
        """Notes that code that cannot be seen may call these functions."""
        self._escaped.update(
            each.site for each in values if isinstance(each.site, CALLEES) and each.sort is not Sort.CONTAINER
        )

    def super_(self) -> Values:
        """What ``super()`` is in the method that is being interpreted."""
        unit = self._unit
        while unit is not None:
            if unit.owner is not None:
                return frozenset({Value(Sort.SUPER, "super()", unit.owner, instance(unit.owner))})
            unit = unit.outer
        return PLAIN

    # Imports.

    def imported(self, target: str) -> Values:
        """What a dotted name of an import is: a module of the project, a thing in one, or a library's."""
        module, _, name = target.rpartition(".")
        own = self.read("name", self._by_name[module].tree, name) if module in self._by_name else NOTHING
        if target in self._packages and not self._namespaces.hides_submodule(module, name):
            return joined(own, external(target))
        return own if module in self._by_name else external(names.canonical(target))

    def defined_in(self, name: str) -> Values | None:
        """The classes and functions of the project that its module of that name offers; None for a library's."""
        if name not in self._by_name:
            return None
        module = self._by_name[name]
        bound = self._namespaces.bound(module)
        own = joined(*[self.read("name", module.tree, each) for each in sorted(bound)])
        found = frozenset(each for each in own if each.sort in {Sort.CLASS, Sort.FUNCTION})
        libraries = (each for each in names.star_imports(module) if each not in self._by_name)
        nothing = NOTHING if bound else unknown(f"{module.path} binds no name")
        return joined(found, nothing, *[external(f"{each}.?") for each in libraries])

    def import_module(self, name: str) -> Values:
        """What ``importlib.import_module(name)`` returns in the code that is being interpreted."""
        return self.imported(self._unit.module.resolved(name)) if self._unit is not None else NOTHING

    def modules_below(self, start: str) -> Values:
        """The modules of the project whose names start so in the code that is being interpreted: ``models.``."""
        if self._unit is None:
            return NOTHING
        resolved = self._unit.module.resolved(start)
        return joined(*[self.imported(each) for each in sorted(self._by_name) if each.startswith(resolved)])

    def star(self, source: str) -> Iterator[tuple[str, Values]]:
        """What ``from source import *`` binds, where the source is a module of the project."""
        if source in self._by_name:
            for name in sorted(self._namespaces.exported(self._by_name[source])):
                yield name, self.imported(f"{source}.{name}")

    def from_star(self, module: Module, name: str) -> Values:
        """What a name is that a star import of another module of the project binds in this one; nothing elsewhere."""
        return joined(*[self.imported(f"{each}.{name}") for each in self._namespaces.starred(module, name)])

    def _star_imports(self, module: Module) -> Iterator[str]:
        """The modules of which a module imports ``*``, those of the project and, through them, those of libraries."""
        for source in names.star_imports(module):
            yield source
            yield from (far for each in self._starred(source) for far in names.star_imports(each))

    def _starred(self, source: str) -> list[Module]:
        """The modules of the project of which ``from source import *`` binds the names."""
        found: dict[Module, None] = {}
        todo = [source]
        while todo:
            module = self._by_name.get(todo.pop(0))
            if module is not None and module not in found:
                found[module] = None
                todo += names.star_imports(module)
        return list(found)

    def star_sources(self, module: Module) -> Sequence[str]:
        """The libraries' modules of which a module imports ``*``, itself or through modules of the project."""
        return [each for each in self._stars[module] if each not in self._by_name]

    # What can be done with a value.

    def attribute(self, owner: Value, name: str) -> Values:
        """What an attribute of the value is."""
        class_ = class_of(owner)
        if owner.sort is Sort.UNKNOWN:
            found = frozenset({owner})
        elif class_ is not None:
            found = self._member(owner, class_, name)
        elif owner.sort is Sort.CHOICE and name in self._written:
            found = self.read("choice", self.modules[0].tree, path(owner, name))
        elif owner.sort is Sort.EXTERNAL and owner.name in self._packages and name != "__dict__":
            found = self.imported(f"{owner.name}.{name}")
        elif owner.sort is Sort.SUPER and owner.of is not None and isinstance(owner.site, ast.ClassDef):
            found = self._inherited(owner.site, owner.of, name)
        else:
            found = self._semantics.attribute(self, owner, name)
        if owner.sort in {Sort.MADE, Sort.FUNCTION, Sort.CONTAINER} and owner.site is not None:
            # What has no attributes of its own is a namespace, of which a computed name may be any.
            computed = NOTHING if found else self.read("attribute", owner.site, UNKNOWN_KEY)
            found = joined(found, computed, self.read("attribute", owner.site, name))
        return found

    def any_attribute(self, owner: Value) -> Values:
        """What the project writes into attributes of the value, whatever their names; nothing where it writes none."""
        class_ = class_of(owner)
        if class_ is not None:
            return joined(*[self.read("attribute", each, ANY) for each in self.family(class_)])
        return self.read("attribute", owner.site, ANY) if owner.site is not None else NOTHING

    def leave_choice(self, name: str) -> None:
        """Notes that what the user chose may stay as it is though the project overwrites it somewhere."""
        self.write("choice", self.modules[0].tree, name, frozenset({Value(Sort.CHOICE, name)}))

    def set_attribute(self, owner: Value, name: str, values: Values) -> Values:
        """Joins values into an attribute of the value; ``ANY`` stands for a name that is not known.

        Returns:
            What the attribute is then: what a script writes into a configuration is a default, unless it is an object.
        """
        place = class_of(owner) or owner.site
        if is_configuration(owner):
            objects = (each for each in values if each.sort not in _CHOSEN_SORTS)
            values = frozenset({*objects, Value(Sort.CHOICE, path(owner, name))})
        if owner.sort is Sort.CHOICE:
            self.write("choice", self.modules[0].tree, path(owner, name), values)
        elif place is not None:
            self.write_attribute(place, name, values)
        elif owner.sort is Sort.UNKNOWN:
            methods = frozenset(each for each in values if self._semantics.may_be_called(each))
            self.write("anywhere", self.modules[0].tree, name, methods)
        return values

    def _member(self, owner: Value, class_: ast.ClassDef, name: str) -> Values:
        """An attribute or method of an object of the project's class, or of the class itself."""
        if not self._is_derived(class_):
            return NOTHING
        method = self.method(class_, name)
        if method is not None and names.decorators(method) & {"property", "cached_property"}:
            return self._call_method(owner, name)
        found = NOTHING if method is None else frozenset({Value(Sort.METHOD, name, method, owner)})
        own = self.project_bases(class_)
        # An object whose making is seen is of no subclass.
        is_exact = owner.site is not None
        for relative in own if is_exact else self.family(class_):
            for value in self.read("attribute", relative, name):
                if value.sort is not Sort.FUNCTION or value.site not in relative.body:
                    found = joined(found, frozenset({value}))
                elif relative not in own:
                    found = joined(found, frozenset({Value(Sort.METHOD, name, value.site, owner)}))
        computed = NOTHING if found else self._written_by_computed_names(class_)
        if computed:
            return computed
        # Where the name is written in some object, it is the library's once it is known that it is not in this one.
        hidden = name in self._written and not self.read("uncovered", class_, (name, is_exact))
        return found if method is not None or hidden else joined(found, self._semantics.attribute(self, owner, name))

    def _written_by_computed_names(self, class_: ast.ClassDef) -> Values:
        """What the project writes by ``setattr(self, key, value)`` into objects of a class of its own alone."""
        if any(isinstance(each, str) for each in self.bases(class_)):
            return NOTHING
        return joined(*[self.read("attribute", each, UNKNOWN_KEY) for each in self.family(class_)])

    def _inherited(self, class_: ast.ClassDef, this: Value, name: str) -> Values:
        """``super().name`` in a method of ``class_``: the next method of that name among its bases."""
        if not self._is_derived(class_):
            return NOTHING
        method = next((each for each in self._methods(class_, name) if each not in class_.body), None)
        if method is None:
            return self._semantics.attribute(self, this, name)
        return frozenset({Value(Sort.METHOD, name, method, this)})

    def _is_derived(self, class_: ast.ClassDef) -> bool:
        """Whether it is known what the bases of the class are, and theirs."""
        return self._lineage(class_).is_derived

    def item(self, owner: Value, key: Values, node: ast.Subscript) -> Values:
        """What ``owner[key]`` is."""
        if owner.sort is Sort.UNKNOWN:
            return frozenset({owner})
        if owner.sort in {Sort.LITERAL, Sort.PLAIN}:
            return PLAIN
        if owner.sort is Sort.INSTANCE and self._has_method(owner, "__getitem__"):
            return self._call_method(owner, "__getitem__", None, Arguments((key,)))
        if owner.sort is not Sort.CONTAINER:
            return self._semantics.item(self, owner, node)
        if not isinstance(node.slice, ast.Slice):
            return joined(*[self.items(owner, ANY if each is UNKNOWN_KEY else each) for each in keys_of(key)])
        if node.slice.lower is None:
            return frozenset({owner})
        return self.container(owner.name, node, {UNKNOWN_KEY: self.items(owner)})

    def elements(self, values: Values, node: ast.AST) -> Values:
        """What iterating over any of the values yields."""
        return joined(*[self._elements(each, node) for each in values])

    def _elements(self, value: Value, node: ast.AST) -> Values:
        if value.sort is Sort.CONTAINER:
            return joined(self._key_values(value)) if value.name == "dict" else self.items(value)
        if value.sort is Sort.INSTANCE and self._has_method(value, "__iter__"):
            # Often __iter__ returns the object itself, which has a __next__.
            iterators = self._call_method(value, "__iter__")
            own = [self._call_method(each, "__next__") for each in iterators if each.sort is Sort.INSTANCE]
            others = frozenset(each for each in iterators if each.sort is not Sort.INSTANCE)
            return _seen_as(value, joined(*own, self.elements(others, node)))
        if value.sort in {Sort.UNKNOWN, Sort.CHOICE}:
            return frozenset({value})
        if value.sort in {Sort.LITERAL, Sort.PLAIN}:
            # `for x in None` never runs: `def train(loader=None)` is given another one.
            return NOTHING if value == NONE else PLAIN
        return self._semantics.iterate(self, value, node)

    def entered(self, values: Values) -> Values:
        """What ``with value as name`` binds."""
        found = NOTHING
        for value in values:
            if value.sort is Sort.INSTANCE and self._has_method(value, "__enter__"):
                found = joined(found, self._call_method(value, "__enter__"))
            elif value.sort is Sort.CONTAINER and value.name == "iterator" and isinstance(value.site, CALLEES):
                # A generator, which a decorator has made a context manager.
                found = joined(found, self.items(value))
            else:
                found = joined(found, frozenset({value}))
        return found

    # Calls.

    def apply(self, values: Values, node: ast.Call, arguments: Arguments) -> Values:
        """What calling any of the values returns."""
        return joined(*[self._apply(each, node, arguments) for each in values])

    def _apply(self, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        if callee.sort is Sort.UNKNOWN:
            self.escape(arguments.all())
            return frozenset({callee})
        if callee.sort is Sort.PARTIAL:
            return self._apply_partial(callee, node, arguments)
        if callee.sort is Sort.FUNCTION and isinstance(callee.site, CALLEES):
            return self._call_function(callee.site, node, arguments)
        if callee.sort is Sort.METHOD and isinstance(callee.site, CALLEES):
            return self._call_function(callee.site, node, arguments, _filled_by_owner(callee))
        if callee.sort is Sort.CLASS and isinstance(callee.site, ast.ClassDef):
            return self._construct(callee.site, node, arguments)
        if callee.sort is Sort.INSTANCE:
            for name in ("__call__", "forward"):
                if self._has_method(callee, name):
                    return self._call_method(callee, name, node, arguments)
        class_ = _called_through_base(callee)
        if class_ is not None and callee.of is not None and self._has_method(callee.of, "forward"):
            return self._call_method(callee.of, "forward", node, arguments)
        return self._semantics.call(self, callee, node, arguments)

    def partial(self, functions: Values, node: ast.Call, arguments: Arguments) -> Values:
        """What ``functools.partial(function, …)`` returns: its arguments are its items."""
        self.write("partial", node, "", functions)
        for key, values in (*enumerate(arguments.positional), *arguments.keywords.items()):
            self.put(node, key, values)
        return frozenset({Value(Sort.PARTIAL, "functools.partial()", node)})

    def _apply_partial(self, partial: Value, node: ast.Call, arguments: Arguments) -> Values:
        if partial.site is None or partial in self._applied:
            return NOTHING
        held = {key: self.items(partial, key) for key in self.keys(partial)}
        positional = [held[index] for index in range(len(held)) if index in held]
        keywords = {key: values for key, values in held.items() if isinstance(key, str)}
        self._applied.append(partial)
        found = self.apply(self.read("partial", partial.site), node, arguments.after(positional, keywords))
        self._applied.pop()
        return found

    def _construct(self, class_: ast.ClassDef, node: ast.Call, arguments: Arguments) -> Values:
        made = instance(class_, node)
        if not self._is_derived(class_):
            return NOTHING
        if any(isinstance(base, str) and self._semantics.is_configuration(base) for base in self.bases(class_)):
            self.escape(arguments.all())
            return CONFIGURATION
        if self.method(class_, "__init__"):
            self._call_method(made, "__init__", node, arguments)
            return frozenset({made})
        fields = self._fields(class_)
        for name, values in (*zip(fields, arguments.positional, strict=False), *arguments.keywords.items()):
            if name in fields:
                self.write_attribute(class_, name, values)
        if not fields:
            self.escape(arguments.all())
        return frozenset({made})

    def tuple_fields(self, value: Value) -> list[str]:
        """The names of the items of an object of the project's ``NamedTuple``; none for other objects."""
        class_ = class_of(value)
        if class_ is None or "typing.NamedTuple" not in self.bases(class_):
            return []
        return self._fields(class_)

    def _fields(self, class_: ast.ClassDef) -> list[str]:
        """The annotated names of a data class, a named tuple or the like, those of its bases first."""
        return [
            statement.target.id
            for here in reversed(self.project_bases(class_))
            for statement in here.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]

    def _has_method(self, value: Value, name: str) -> bool:
        class_ = class_of(value)
        return class_ is not None and self.method(class_, name) is not None

    def _call_method(
        self, value: Value, name: str, node: ast.Call | None = None, arguments: Arguments = NO_ARGUMENTS
    ) -> Values:
        class_ = class_of(value)
        method = self.method(class_, name) if class_ is not None else None
        return NOTHING if method is None else self._call_function(method, node, arguments, skip=1)

    def _call_function(self, function: Callee, node: ast.Call | None, arguments: Arguments, skip: int = 0) -> Values:
        """Passes arguments to a function's parameters, of which the first ``skip`` are filled already."""
        if self._is_tried_out(function):
            return self.read("return", function)
        if node is not None and node not in self._callers[function]:
            self._callers[function].append(node)
        taken = signature(function)
        positional = taken.positional_names[skip:]
        named = {each.arg for each in taken.named} - {each.arg for each in function.args.posonlyargs}
        given = dict(zip(positional, arguments.positional, strict=False))
        given.update({name: values for name, values in arguments.keywords.items() if name in named})
        for name, values in given.items():
            self.write("parameter", function, name, values)
        for name in positional:
            if name not in given:
                self.write("parameter", function, name, arguments.rest)
        if arguments.unknown_keywords:
            for name in named - given.keys() - set(taken.positional_names[:skip]):
                self.write("parameter", function, name, unknown(f"'{name}' may be filled by a ** argument"))
        self._fill_stars(taken, arguments, arguments.positional[len(positional) :], named)
        unit = self._units.get(function)
        if unit is not None and unit not in self._begun and self._depth < _DEEPEST:
            # Otherwise the caller would have to be interpreted again, for what this returns and writes.
            self._interpret(unit)
        return self.read("return", function)

    def _fill_stars(
        self, stars: Signature, arguments: Arguments, others: Sequence[Values], named: Collection[str]
    ) -> None:
        """Passes what has no parameter of its own to ``*args`` and ``**kwargs``."""
        if stars.vararg is not None:
            for index, values in enumerate(others):
                self.put(stars.vararg, index, values)
            if arguments.rest:
                self.put(stars.vararg, UNKNOWN_KEY, arguments.rest)
        if stars.kwarg is not None:
            for name, values in arguments.keywords.items():
                if name not in named:
                    self.put(stars.kwarg, name, values)
            if arguments.unknown_keywords:
                self.put(stars.kwarg, UNKNOWN_KEY, unknown("an argument comes from a dictionary that is not known"))

    def decorate(self, thing: Value, decorators: Values) -> None:
        """Notes what decorators do: a library's may fill a function's parameters, the project's may register it."""
        if any(self._semantics.fills_parameters(each) for each in decorators):
            self.fill(frozenset({thing}))
        for each in decorators:
            function = each.site
            skip = _filled_by_owner(each)
            # What hands out another function calls the one that it is given: that is followed as if it stood alone.
            if (
                each.sort in {Sort.FUNCTION, Sort.METHOD}
                and isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
                and names.hands_back(function, skip)
            ):
                self._handed.add(function)
                self._call_function(function, None, Arguments((frozenset({thing}),)), skip)

    def fill_all(self, node: ast.AST) -> None:
        """Notes that the user chooses which function of the module is called, and with what: ``fire.Fire()``."""
        module = next(each for each in self.modules if each.holds(node))
        for function in module.tree.body:
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.fill(frozenset({Value(Sort.FUNCTION, function.name, function)}))

    def fill(self, functions: Values) -> None:
        """Notes that the user chooses what functions, and classes, are called with when the script is started."""
        for value in functions:
            if value.sort is Sort.CLASS and isinstance(value.site, ast.ClassDef):
                method = self.method(value.site, "__init__")
                if method is not None:
                    self._fill(method, skip=1)
            elif value.sort is Sort.FUNCTION and isinstance(value.site, CALLEES):
                self._fill(value.site)

    def _fill(self, function: Callee, skip: int = 0) -> None:
        self._filled.add(function)
        for parameter in signature(function).named[skip:]:
            self.write("parameter", function, parameter.arg, frozenset({Value(Sort.CHOICE, parameter.arg)}))

    def _is_tried_out(self, function: Callee) -> bool:
        """Whether code that only a test runner runs calls, by now, a function of the program."""
        caller, called = self._unit, self._units.get(function)
        is_test = caller is not None and caller.module in self._collected
        return is_test and called is not None and called.module not in self._collected

    # The fixpoint.

    def _add(self, unit: Unit) -> None:
        unit.index = len(self._units)
        self._units[unit.node] = unit
        self._dirty.add(unit)

    def _settle(self) -> None:
        while self._dirty:
            called = [each for each in self._dirty if self._is_called(each)]
            for unit in sorted(called or self._dirty, key=lambda each: each.index):
                if unit in self._dirty:
                    self._interpret(unit)

    def _is_called(self, unit: Unit) -> bool:
        """Whether it is known to be run: what its parameters are may be learned from those that are."""
        return (
            isinstance(unit.node, ast.Module)
            or bool(self._callers.get(unit.node))
            or unit.node in self._escaped
            or unit.node in self._handed
        )

    def _interpret(self, unit: Unit) -> None:
        """Interprets a unit once, maybe in the middle of another one."""
        around, self._unit = self._unit, unit
        applied, self._applied = self._applied, []
        self._depth += 1
        self._dirty.discard(unit)
        self._begun.add(unit)
        Interpretation(self, unit).run()
        self._depth -= 1
        self._unit, self._applied = around, applied

    def _uncover(self) -> None:
        """Shows the library's attributes that were hidden for their names alone: the class's objects have no others."""
        while True:
            for kind, class_, key in [*self._readers]:
                if kind == "uncovered" and isinstance(class_, ast.ClassDef) and isinstance(key, tuple):
                    name, is_exact = key
                    relatives = self.project_bases(class_) if is_exact else self.family(class_)
                    if not self._may_define(relatives, name):
                        self.write("uncovered", class_, key, PLAIN)
            if not self._dirty:
                return
            self._settle()

    def _may_define(self, classes: Iterable[ast.ClassDef], name: str) -> bool:
        """Whether the project gives objects of the classes an attribute of that name, as far as it is known by now."""
        return ("anywhere", self.modules[0].tree, name) in self._heap or any(
            name in self._attributes.get(each, ()) or name in names.bound_names(each) for each in classes
        )

    def _open(self) -> None:
        """Says what stays open: parameters that nothing here fills, and choices that nothing here overwrites."""
        for location in [each for each in self._readers if each[0] == "choice" and each not in self._heap]:
            self.leave_choice(str(location[2]))
        here = "this file" if len(self.modules) == 1 else "the project"
        for unit in self._units.values():
            node = unit.node
            if (
                isinstance(node, ast.Module)
                or node in self._filled
                or ((self._callers[node] or node in self._handed) and node not in self._escaped)
            ):
                continue
            name = "a lambda" if isinstance(node, ast.Lambda) else f"{node.name}()"
            if name == "__init__()" and unit.owner is not None:
                name = f"class {unit.owner.name}"
            how = f"which code outside {here} calls" if node in self._escaped else f"which nothing in {here} calls"
            for parameter in signature(node).named[1 if unit.binds_self else 0 :]:
                reason = f"'{parameter.arg}' is a parameter of {name}, {how}"
                self.write("parameter", node, parameter.arg, unknown(reason))
            for star in signature(node).stars:
                self.put(star, UNKNOWN_KEY, unknown(f"'{star.arg}' is a parameter of {name}, {how}"))


_NO_NAMES = Environment()
_DEEPEST = 6
"""Units that are interpreted one within the other: Python's stack is finite."""
_CHOSEN_SORTS = frozenset({Sort.LITERAL, Sort.PLAIN, Sort.CHOICE, Sort.CONTAINER})
"""What a user may write into a file, or choose otherwise."""
_UNKNOWN = Value(Sort.PLAIN)
"""Of a container: a key that is not known."""


@lru_cache(maxsize=4096, typed=True)
def _key(key: object) -> Value:
    """The value that a key of a container is."""
    return _UNKNOWN if key is UNKNOWN_KEY else Value(Sort.LITERAL, repr(key))


@kept
def _methods(class_: ast.AST) -> Mapping[str, FunctionNode]:
    """The functions in a class's own body; of those of one name, the last, and of a property what reads it."""
    functions = [each for each in children(class_) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {each.name: each for each in functions if not names.decorators(each) & {"setter", "deleter"}}


def _filled_by_owner(callee: Value) -> int:
    """How many of the first parameters of a function or method its object fills, or its class."""
    if callee.sort is not Sort.METHOD or callee.site is None:
        return 0
    kinds = names.decorators(callee.site)
    # Called on the class itself, `Base.method(self, x)`, the object is the first argument.
    unbound = callee.of is not None and callee.of.sort is Sort.CLASS and "classmethod" not in kinds
    return 0 if unbound or "staticmethod" in kinds else 1


def _seen_as(owner: Value, values: Values) -> Values:
    """What a method of the object hands out: batches of ``self`` are the object's."""
    this = replace(owner, site=None)
    return frozenset(
        replace(each, of=owner) if each.of == this and each.sort is Sort.BATCH else each for each in values
    )


def class_of(value: Value) -> ast.ClassDef | None:
    """The project's class that the value is, or an object of."""
    class_ = value.of.site if value.sort is Sort.INSTANCE and value.of is not None else value.site
    return class_ if isinstance(class_, ast.ClassDef) and value.sort in {Sort.INSTANCE, Sort.CLASS} else None


def _called_through_base(callee: Value) -> ast.ClassDef | None:
    """The project's class of the object that ``super().__call__`` of a library calls."""
    is_call = callee.sort is Sort.METHOD and callee.name == "__call__" and callee.site is None
    is_of_object = callee.of is not None and callee.of.sort is Sort.INSTANCE
    return class_of(callee.of) if is_call and is_of_object and callee.of is not None else None


def _with_parents(name: str) -> Iterator[str]:
    """A dotted name and those of the packages around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


_NAMES_ATTRIBUTE = {"setattr": 1, "add_module": 0, "register_module": 0, "register_buffer": 0, "register_parameter": 0}
"""Calls that write an attribute → the position of its name."""


def _written_attributes(module: Module) -> Iterator[str]:
    """The names of the attributes that the module writes, in whatever object."""
    for node in module.nodes(ast.Attribute):
        if isinstance(node.ctx, ast.Store) and not isinstance(module.parent(node), ast.AugAssign):
            yield node.attr
    for class_ in module.nodes(ast.ClassDef):
        yield from names.bound_names(class_)
    for call in module.nodes(ast.Call):
        called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        position = _NAMES_ATTRIBUTE.get(called)
        if position is not None and len(call.args) > position:
            name = call.args[position]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value
