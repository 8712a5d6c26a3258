"""The functions of the project: which code a call runs, and what it gives to which parameter."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.classes import Classes
from codemods.dataflow.collected import collected
from codemods.dataflow.imports import Imports
from codemods.dataflow.signatures import signature
from codemods.dataflow.units import Unit
from codemods.dataflow.values import (
    NO_ARGUMENTS,
    NONE,
    NOTHING,
    UNKNOWN_KEY,
    Arguments,
    Choice,
    Class,
    Container,
    Function,
    Instance,
    Method,
    Value,
    Values,
    class_of,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from codemods.dataflow.signatures import Binding, Signature
    from codemods.dataflow.source import Callee, FunctionNode, Module

CALLEES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Calls(Classes, Imports):
    """Which functions there are, and who calls them with what."""

    def __init__(self, modules: Sequence[Module]) -> None:
        super().__init__(modules)
        self._units: dict[ast.AST, Unit] = {}
        self._callers: defaultdict[Callee, list[ast.Call]] = defaultdict(list)
        self._escaped: set[Callee] = set()
        self._begun: set[Unit] = set()
        """The units that were interpreted once, or are being."""
        self._depth = 0
        """How many units are being interpreted, each at a call in the one before."""
        self._filled: set[Callee] = set()
        """The functions whose parameters a decorator fills."""
        self._applied: list[Value] = []
        """The ``functools.partial`` objects that are being called."""
        self._handed: set[Callee] = set()
        """The functions that decorators call with what they decorate."""
        self._collected = collected(modules)

    # What the interpretation of a call asks for.

    def _interpret(self, unit: Unit) -> None:
        """Interprets a unit once, maybe in the middle of another one."""
        raise NotImplementedError

    # What is known of functions.

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

    def owner(self, function: Callee) -> ast.ClassDef | None:
        """The class of which the function is a method; None of one whose definition is never reached."""
        return self._units[function].owner if function in self._units else None

    def returned(self, function: Callee) -> Values:
        """What the project's function may return."""
        return self.read("return", function)

    def run_by(self, callee: Value) -> Callee | None:
        """The project's function that a call of the value runs first: of an object its ``__call__``, or ``forward``."""
        if isinstance(callee, Instance):
            return self.method(callee.of.site, "__call__") or self.method(callee.of.site, "forward")
        if isinstance(callee, (Function, Method)) and isinstance(callee.site, CALLEES):
            return callee.site
        class_ = called_through_base(callee)
        return self.method(class_, "forward") if class_ is not None else None

    def called(self, call: ast.Call) -> Sequence[Callee]:
        """The project's functions that a call runs first, one for each value that is called, as far as it has one."""
        functions = (self.run_by(each) for each in self.values(call.func))
        return [each for each in functions if each is not None]

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
        if isinstance(callee, (Function, Method)) and callee.site is function:
            return filled_by_owner(callee)
        class_ = callee.site if isinstance(callee, Class) else None
        makes = isinstance(class_, ast.ClassDef) and self.method(class_, "__init__") is function
        return 1 if makes or self.run_by(callee) is function else None

    def taking(self, callees: Values, call: ast.Call) -> Values:
        """Those of several values that may be called there: a call that Python refuses is of none that runs."""
        found = frozenset(each for each in callees if self._may_take(each, call)) if len(callees) > 1 else callees
        return found if found - {NONE} else callees

    def _may_take(self, callee: Value, call: ast.Call) -> bool:
        site, taken = callee.site, None
        if isinstance(callee, Class) and isinstance(site, ast.ClassDef):
            is_plain = not site.decorator_list and self._is_made_by_init(site)
            method = self.method(site, "__init__") if is_plain else None
            taken = signature(method).bound() if method is not None and not method.decorator_list else None
        elif isinstance(callee, Function) and isinstance(site, ast.FunctionDef) and not site.decorator_list:
            taken = signature(site)
        return taken is None or taken.may_take(call)

    def _is_made_by_init(self, class_: ast.ClassDef) -> bool:
        """Whether a call of the class gives its arguments to ``__init__``: an ``Enum`` looks up a member by them."""
        bases = [each for each in self.bases(class_) if not isinstance(each, ast.ClassDef)]
        own = [class_, *self.project_bases(class_)]
        return (
            all(each.startswith(_CALLED_PLAINLY) for each in bases)
            and not any(each.keywords for each in own)
            and self.method(class_, "__new__") is None
        )

    # Functions are met, called and handed out.

    def add_unit(self, function: Callee, outer: Unit, owner: ast.ClassDef | None = None) -> None:
        """Makes the code of a function that was met known to the fixpoint."""
        if function not in self._units:
            self._add(Unit(function, outer.module, outer, owner))

    def _add(self, unit: Unit) -> None:
        unit.index = len(self._units)
        self._units[unit.node] = unit
        self._dirty.add(unit)

    def escape(self, values: Values) -> None:
        """Notes that code that cannot be seen may call these functions."""
        self._escaped.update(
            each.site for each in values if isinstance(each.site, CALLEES) and not isinstance(each, Container)
        )

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

    def fill_all(self, node: ast.AST) -> None:
        """Notes that the user chooses which function of the module is called, and with what: ``fire.Fire()``."""
        module = next(each for each in self.modules if each.holds(node))
        for function in module.tree.body:
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.fill(frozenset({Function(function.name, function)}))

    def fill(self, functions: Values) -> None:
        """Notes that the user chooses what functions, and classes, are called with when the script is started."""
        for value in functions:
            if isinstance(value, Class) and isinstance(value.site, ast.ClassDef):
                method = self.method(value.site, "__init__")
                if method is not None:
                    self._fill(method, skip=1)
            elif isinstance(value, Function) and isinstance(value.site, CALLEES):
                self._fill(value.site)

    def _fill(self, function: Callee, skip: int = 0) -> None:
        self._filled.add(function)
        for parameter in signature(function).named[skip:]:
            self.write("parameter", function, parameter.arg, frozenset({Choice(parameter.arg)}))

    def _is_tried_out(self, function: Callee) -> bool:
        """Whether code that only a test runner runs calls, by now, a function of the program."""
        caller, called = self._unit, self._units.get(function)
        is_test = caller is not None and caller.module in self._collected
        return is_test and called is not None and called.module not in self._collected


_CALLED_PLAINLY = ("torch.", "torchvision.", "builtins.object", "abc.ABC")
"""Bases of classes whose calls are those of ``type``."""
_DEEPEST = 6
"""Units that are interpreted one within the other: Python's stack is finite."""


def filled_by_owner(callee: Value) -> int:
    """How many of the first parameters of a function or method its object fills, or its class."""
    if not isinstance(callee, Method) or callee.site is None:
        return 0
    kinds = names.decorators(callee.site)
    # Called on the class itself, `Base.method(self, x)`, the object is the first argument.
    unbound = isinstance(callee.of, Class) and "classmethod" not in kinds
    return 0 if unbound or "staticmethod" in kinds else 1


def called_through_base(callee: Value) -> ast.ClassDef | None:
    """The project's class of the object that ``super().__call__`` of a library calls."""
    if not isinstance(callee, Method) or callee.name != "__call__" or callee.site is not None:
        return None
    return callee.of.of.site if isinstance(callee.of, Instance) else None
