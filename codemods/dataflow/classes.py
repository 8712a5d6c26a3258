"""The classes of the project: what they derive from, and which methods and attributes they have."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.heap import Heap
from codemods.dataflow.source import children, kept
from codemods.dataflow.values import NOTHING, Class, External, Unknown, Value, Values, class_of, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from codemods.dataflow.source import FunctionNode, Module
    from codemods.dataflow.units import Unit


@dataclass(eq=False)
class _Lineage:
    """A class and its bases in the project, as far as they are known by now."""

    classes: tuple[ast.ClassDef, ...]
    """From near to far."""
    is_derived: bool
    """Whether it is known what the bases of each of them are."""
    readers: set[Unit] = field(default_factory=set)
    """The units that asked."""


class Classes(Heap):
    """What is known of classes, as far as their bases are."""

    def __init__(self, modules: Sequence[Module]) -> None:
        super().__init__(modules)
        self._lineages: dict[ast.ClassDef, _Lineage] = {}
        """Of the classes that were asked for since a base became known last."""
        self._known_bases: dict[ast.ClassDef, tuple[ast.ClassDef | str, ...]] = {}
        self._known_methods: dict[tuple[ast.ClassDef, str], FunctionNode | None] = {}

    def derive(self, class_: ast.ClassDef, base: ast.expr, values: Values) -> None:
        """Notes what a base of a class is."""
        known = self._heap.get(("base", class_, base))
        self.write("base", class_, base, values)
        if self._heap.get(("base", class_, base)) is not known:
            self._lineages.clear()
        for value in values:
            if isinstance(value, Class) and value.site is not None:
                self.write("subclass", value.site, "", frozenset({Class(class_.name, class_)}))

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
                for value in values if len(values) == 1 else sorted(values, key=lambda each: (each.order, each.name)):
                    if isinstance(value, Class) and isinstance(value.site, ast.ClassDef):
                        todo.append(value.site)
                    elif isinstance(value, (External, Unknown)):
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

    def _is_derived(self, class_: ast.ClassDef) -> bool:
        """Whether it is known what the bases of the class are, and theirs."""
        return self._lineage(class_).is_derived

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

    def _has_method(self, value: Value, name: str) -> bool:
        class_ = class_of(value)
        return class_ is not None and self.method(class_, name) is not None

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


@kept
def _methods(class_: ast.AST) -> Mapping[str, FunctionNode]:
    """The functions in a class's own body; of those of one name, the last, and of a property what reads it."""
    functions = [each for each in children(class_) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {each.name: each for each in functions if not names.decorators(each) & {"setter", "deleter"}}
