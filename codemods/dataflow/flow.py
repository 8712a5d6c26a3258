"""Where a value comes from and goes to, over all functions, classes and modules of the script.

An abstract interpretation to a fixpoint. Attributes, items of containers, parameters and returns are joined over all
places that write them. A *unit* (a module's or a function's own code, see ``units``) is interpreted where it
is called first, and again whenever something that it read has grown, in rounds whose order is that of the text: one
script has one set of facts.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.calls import CALLEES, Calls, called_through_base, filled_by_owner
from codemods.dataflow.environments import Environment
from codemods.dataflow.interpretation import Interpretation
from codemods.dataflow.signatures import signature
from codemods.dataflow.source import lasting
from codemods.dataflow.units import Unit
from codemods.dataflow.values import (
    ANY,
    CONFIGURATION,
    NONE,
    NOTHING,
    PLAIN,
    UNKNOWN_KEY,
    Arguments,
    Batch,
    Choice,
    Class,
    Container,
    External,
    Function,
    Instance,
    Literal,
    Made,
    Method,
    Partial,
    Plain,
    Super,
    Unknown,
    Value,
    Values,
    class_of,
    combined,
    instance,
    is_configuration,
    joined,
    keys_of,
    owner_of,
    path,
    unknown,
    without_none,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.libraries import Semantics
    from codemods.dataflow.source import Module


class Flow(Calls):
    """The values of every expression of some modules, once they no longer grow."""

    def __init__(self, modules: Sequence[Module], semantics: Semantics) -> None:
        super().__init__(modules)
        self._semantics = semantics
        self._written = frozenset(name for module in modules for name in _written_attributes(module))
        self._before: dict[ast.stmt, Environment] = {}
        # What the entry imports is defined before it is used.
        for module in reversed(self.modules):
            self._add(Unit(module.tree, module, None))
        self._settle()
        self._uncover()
        self._open()
        self._settle()
        self._uncover()
        self._close()

    # What is known, once settled; while the interpretation runs, reading it here is a reason to run again.

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

    def called_names(self, module: Module) -> Collection[str]:
        """The qualified names of the library's functions, classes and objects that the module may call."""
        return self._calls_by_name(module).keys()

    @lasting
    def _calls_by_name(self, module: Module) -> Mapping[str, Sequence[ast.Call]]:
        """The calls of a module, by the names of the library's things that they may call."""
        found: defaultdict[str, list[ast.Call]] = defaultdict(list)
        for call in module.nodes(ast.Call):
            for name in {each.name for each in self.values(call.func) if isinstance(each, (External, Made))}:
                found[name].append(call)
        return found

    def before(self, statement: ast.stmt) -> Mapping[str, Values]:
        """The local names of the statement's unit as they are when it starts; one that is not there is not bound."""
        return self._before.get(statement, _NO_NAMES)

    def read_module_name(self, module: Module, name: str) -> Values:
        """What a module's own name may be, over all places that bind it."""
        return self.read("name", module.tree, name)

    # For the interpretation and the semantics, while they run.

    def note_before(self, statement: ast.stmt, env: Environment) -> None:
        """Notes the local names with which a statement starts."""
        self._before[statement] = env

    def super_(self) -> Values:
        """What ``super()`` is in the method that is being interpreted."""
        unit = self._unit
        while unit is not None:
            if unit.owner is not None:
                return frozenset({Super(unit.owner, instance(unit.owner))})
            unit = unit.outer
        return PLAIN

    # What can be done with a value.

    def attribute(self, owner: Value, name: str) -> Values:
        """What an attribute of the value is."""
        class_ = class_of(owner)
        if isinstance(owner, Unknown):
            found: Values = frozenset({owner})
        elif class_ is not None:
            found = self._member(owner, class_, name)
        elif isinstance(owner, Choice) and name in self._written:
            found = self.read("choice", self.modules[0].tree, path(owner, name))
        elif isinstance(owner, External) and owner.name in self._packages and name != "__dict__":
            found = self.imported(f"{owner.name}.{name}")
        elif isinstance(owner, Super):
            found = self._inherited(owner.site, owner.of, name)
        else:
            found = self._semantics.attribute(self, owner, name)
        if isinstance(owner, (Made, Function, Container)) and owner.site is not None:
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
        self.write("choice", self.modules[0].tree, name, frozenset({Choice(name)}))

    def set_attribute(self, owner: Value, name: str, values: Values) -> Values:
        """Joins values into an attribute of the value; ``ANY`` stands for a name that is not known.

        Returns:
            What the attribute is then: what a script writes into a configuration is a default, unless it is an object.
        """
        place = class_of(owner) or owner.site
        if is_configuration(owner):
            objects = (each for each in values if not isinstance(each, _CHOSEN_SORTS))
            values = frozenset({*objects, Choice(path(owner, name))})
        if isinstance(owner, Choice):
            self.write("choice", self.modules[0].tree, path(owner, name), values)
        elif place is not None:
            self.write_attribute(place, name, values)
        elif isinstance(owner, Unknown):
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
        found = NOTHING if method is None else frozenset({Method(name, method, owner)})
        own = self.project_bases(class_)
        # An object whose making is seen is of no subclass.
        is_exact = owner.site is not None
        for relative in own if is_exact else self.family(class_):
            for value in self.read("attribute", relative, name):
                if not isinstance(value, Function) or value.site not in relative.body:
                    found = joined(found, frozenset({value}))
                elif relative not in own:
                    found = joined(found, frozenset({Method(name, value.site, owner)}))
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
        return frozenset({Method(name, method, this)})

    def item(self, owner: Value, key: Values, node: ast.Subscript) -> Values:
        """What ``owner[key]`` is."""
        if isinstance(owner, Unknown):
            return frozenset({owner})
        if isinstance(owner, (Literal, Plain)):
            return NOTHING if owner == NONE else PLAIN
        if isinstance(owner, Instance) and self._has_method(owner, "__getitem__"):
            return self._call_method(owner, "__getitem__", None, Arguments((key,)))
        if not isinstance(owner, Container):
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
        if isinstance(value, Container):
            return joined(self._key_values(value)) if value.name == "dict" else self.items(value)
        if isinstance(value, Instance) and self._has_method(value, "__iter__"):
            # Often __iter__ returns the object itself, which has a __next__.
            iterators = self._call_method(value, "__iter__")
            own = [self._call_method(each, "__next__") for each in iterators if isinstance(each, Instance)]
            others = frozenset(each for each in iterators if not isinstance(each, Instance))
            return _seen_as(value, joined(*own, self.elements(others, node)))
        if isinstance(value, (Unknown, Choice)):
            return frozenset({value})
        if isinstance(value, (Literal, Plain)):
            # `for x in None` never runs: `def train(loader=None)` is given another one.
            return NOTHING if value == NONE else PLAIN
        return self._semantics.iterate(self, value, node)

    def entered(self, values: Values) -> Values:
        """What ``with value as name`` binds."""
        found = NOTHING
        for value in values:
            if isinstance(value, Instance) and self._has_method(value, "__enter__"):
                found = joined(found, self._call_method(value, "__enter__"))
            elif isinstance(value, Container) and value.name == "iterator" and isinstance(value.site, CALLEES):
                # A generator, which a decorator has made a context manager.
                found = joined(found, self.items(value))
            else:
                found = joined(found, self._semantics.entered(self, value))
        return found

    def combined(self, values: Values) -> Values:
        """What an operation on the values yields."""
        return combined(frozenset(self._semantics.operand(self, each) for each in values))

    def operation(self, node: ast.BinOp | ast.AugAssign, left: Values, right: Values) -> Values:
        """What an operation on the values yields, other than on containers."""
        made = self._semantics.operation(self, node, left, right)
        return made if made is not None else self.combined(joined(left, right))

    # Calls.

    def apply(self, values: Values, node: ast.Call, arguments: Arguments) -> Values:
        """What calling any of the values returns; None cannot be called, and what goes on was something else."""
        return joined(*[self._apply(each, node, arguments) for each in without_none(values)])

    def _apply(self, callee: Value, node: ast.Call, arguments: Arguments) -> Values:
        if isinstance(callee, Unknown):
            self.escape(arguments.all())
            return frozenset({callee})
        if isinstance(callee, Partial):
            return self._apply_partial(callee, node, arguments)
        if isinstance(callee, Function) and isinstance(callee.site, CALLEES):
            return self._call_function(callee.site, node, arguments)
        if isinstance(callee, Method) and isinstance(callee.site, CALLEES):
            return self._call_function(callee.site, node, arguments, filled_by_owner(callee))
        if isinstance(callee, Class) and isinstance(callee.site, ast.ClassDef):
            return self._construct(callee.site, node, arguments)
        if isinstance(callee, Instance):
            for name in ("__call__", "forward"):
                if self._has_method(callee, name):
                    return self._call_method(callee, name, node, arguments)
        this = owner_of(callee) if called_through_base(callee) is not None else None
        if this is not None and self._has_method(this, "forward"):
            return self._call_method(this, "forward", node, arguments)
        return self._semantics.call(self, callee, node, arguments)

    def partial(self, functions: Values, node: ast.Call, arguments: Arguments) -> Values:
        """What ``functools.partial(function, …)`` returns: its arguments are its items."""
        self.write("partial", node, "", functions)
        for key, values in (*enumerate(arguments.positional), *arguments.keywords.items()):
            self.put(node, key, values)
        return frozenset({Partial(node)})

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

    def decorate(self, thing: Value, decorators: Values) -> None:
        """Notes what decorators do: a library's may fill a function's parameters, the project's may register it."""
        if any(self._semantics.fills_parameters(each) for each in decorators):
            self.fill(frozenset({thing}))
        for each in decorators:
            function = each.site
            skip = filled_by_owner(each)
            # What hands out another function calls the one that it is given: that is followed as if it stood alone.
            if (
                isinstance(each, (Function, Method))
                and isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
                and names.hands_back(function, skip)
            ):
                self._handed.add(function)
                self._call_function(function, None, Arguments((frozenset({thing}),)), skip)

    # The fixpoint.

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
        is_by_name = any(map(self.calls_computed_names, self.modules))
        unseen = f"which nothing in {here} calls{' by its own name' if is_by_name else ''}"
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
            how = f"which code outside {here} calls" if node in self._escaped else unseen
            for parameter in signature(node).named[1 if unit.binds_self else 0 :]:
                reason = f"'{parameter.arg}' is a parameter of {name}, {how}"
                self.write("parameter", node, parameter.arg, unknown(reason))
            for star in signature(node).stars:
                self.put(star, UNKNOWN_KEY, unknown(f"'{star.arg}' is a parameter of {name}, {how}"))


_NO_NAMES = Environment()
_CHOSEN_SORTS = (Literal, Plain, Choice, Container)
"""What a user may write into a file, or choose otherwise."""


def _seen_as(owner: Instance, values: Values) -> Values:
    """What a method of the object hands out: batches of ``self`` are the object's."""
    this = Instance(owner.name, None, owner.of)
    return frozenset(Batch(of=owner) if isinstance(each, Batch) and each.of == this else each for each in values)


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
