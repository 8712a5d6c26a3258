"""What a loader's worker processes are sent and what they run: its data set, transforms and functions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names, words
from codemods.dataflow.signatures import arguments_of
from codemods.dataflow.source import FUNCTIONS, is_name, kept, lasting, walk
from codemods.dataflow.values import (
    NOTHING,
    Class,
    Container,
    External,
    Instance,
    Made,
    Method,
    Partial,
    Value,
    without_none,
)
from codemods.library.layers import may_draw
from codemods.library.operators import Draws, operator
from codemods.library.packages import Trait, has
from codemods.library.seeds import Generator, seeded_by
from codemods.library.transforms import TRANSFORMS, transform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Callee, Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.reason import Place

# The arguments of a loader that are sent to its workers; samplers stay behind.
_SENT = ("dataset", "collate_fn", "worker_init_fn")
# The methods of a data set, transform or function object that a worker calls.
_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__", "__call__", "forward")
# Functions of cheap packages that are not.
_READS = frozenset(
    {"builtins.open", "numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "numpy.fromfile", "numpy.memmap", "torch.load"}
    | {"os.listdir", "os.scandir"}
)
_READING_METHODS = frozenset({"read_bytes", "read_text"})

# In libraries whose functions are not listed, what is called so may draw.
_MAY_DRAW = re.compile(r"rand|shuffle|noise|augment|masking|sample|uuid|secrets", re.IGNORECASE)
_PLAIN_BASES = frozenset(
    {"torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "builtins.object", "abc.ABC", "typing.Generic"}
)
"""They use nothing of what the objects of a class of the project hold."""
_IMPLICIT = words("__del__ __getattr__ __getattribute__ __getstate__ __reduce__ __reduce_ex__ __setstate__")
"""Methods that workers run without a call."""

OF_WORKERS = Generator.PYTHON | Generator.NUMPY | Generator.TORCH
"""What a worker has a state of its own of."""


@dataclass(frozen=True, eq=False)
class WorkerCode:
    """The objects that are sent to a loader's worker processes, and the project's functions that run there."""

    flow: Flow
    loader: Loader
    only: Value | None = None
    """The data set that alone is of interest, of all that the loader is given."""

    @cached_property
    def _walked(self) -> tuple[dict[Value, None], dict[Callee, None]]:
        return self._walk(self._sent_with)

    def _walk(self, along: Callable[[Value], Iterable[Value]]) -> tuple[dict[Value, None], dict[Callee, None]]:
        """The objects that workers are sent, with what goes along with each, and the functions that run there."""
        objects: dict[Value, None] = {}
        functions: dict[Callee, None] = {}
        sent = [argument.values for name, argument in self.loader.arguments.items() if name in _SENT]
        given = (*self.loader.dataset.parts, *(each for values in sent for each in without_none(values)))
        todo = list(given if self.only is None else (self.only,))
        while todo:
            value = todo.pop()
            if value not in objects:
                objects[value] = None
                todo.extend(along(value))
                for function in self._entries(value):
                    todo.extend(self._called(function, functions))
        return objects, functions

    def at(self, node: ast.AST) -> Place:
        """Where a node of the project stands."""
        return self.loader.at(node)

    @property
    def objects(self) -> tuple[Value, ...]:
        """What is sent to the workers or called there, as far as it is known."""
        return tuple(self._walked[0])

    @property
    def functions(self) -> tuple[Callee, ...]:
        """The project's functions that run in the workers."""
        return tuple(self._walked[1])

    def _sent_with(self, value: Value) -> Iterator[Value]:
        """What goes along with an object: its attributes, items or arguments."""
        class_ = _class(value)
        if class_ is not None:
            for each in without_none(frozenset().union(*self.flow.attributes(class_).values())):
                is_method = isinstance(each.site, FUNCTIONS) and self.flow.owner(each.site) is not None
                if not is_method:
                    yield each
        elif isinstance(value, Container):
            yield from without_none(self.flow.items(value))
        elif isinstance(value, Method) and value.site is not None:
            yield value.of
        elif (
            isinstance(value, (Made, Partial))
            and isinstance(value.site, ast.Call)
            and not has(value.name, Trait.FORGETFUL)
        ):
            for argument in arguments_of(value.site):
                yield from without_none(self.flow.values(argument))
            for values in self.flow.attributes(value.site).values():  # `data.transform = …`, after it was made
                yield from without_none(values)

    @cached_property
    def idle(self) -> frozenset[Value]:
        """What is sent, and lies there: only attributes hold it that no code in the workers reads.

        ``self.root = Path(root)``, from which ``__init__`` makes the list of files that ``__getitem__`` reads.
        """
        return frozenset(self.objects) - self._walk(self._used_with)[0].keys()

    def _used_with(self, value: Value) -> Iterator[Value]:
        """What code in the workers may use of what goes along with an object."""
        class_ = _class(value)
        if class_ is None or self._may_be_used_whole(class_):
            yield from self._sent_with(value)
            return
        for name, values in self.flow.attributes(class_).items():
            if name in self._attributes_named:
                yield from without_none(values)

    def _may_be_used_whole(self, class_: ast.ClassDef) -> bool:
        """Whether code that is not followed may use what objects of the class hold: a library's, or a property's."""
        bases = self.flow.bases(class_)
        if class_ in self._handed_on or any(isinstance(each, str) and each not in _PLAIN_BASES for each in bases):
            return True
        kin = [class_, *(each for each in bases if isinstance(each, ast.ClassDef))]
        methods = [each for definition in kin for each in definition.body if isinstance(each, FUNCTIONS)]
        return any(
            each.name in _IMPLICIT or (each.name in self._attributes_named and each not in self.functions)
            for each in methods
        )

    @cached_property
    def _attributes_named(self) -> frozenset[str]:
        """The names of the attributes that are read, written or deleted in the workers, of whatever."""
        return frozenset(
            each.attr for function in self.functions for each in walk(function) if isinstance(each, ast.Attribute)
        )

    @cached_property
    def _handed_on(self) -> frozenset[ast.ClassDef]:
        """The classes of objects with which the workers do more than to read an attribute or an item, or to call it."""
        found = set()
        for function in self.functions:
            module = self.flow.module_of(function)
            for node in walk(function):
                if isinstance(node, (ast.Name, ast.Attribute)) and not _is_looked_into(module.parent(node), node):
                    found |= {class_ for each in self.flow.values(node) if (class_ := _class(each)) is not None}
        return frozenset(found)

    def _entries(self, value: Value) -> Iterator[Callee]:
        """The project's functions through which workers use an object."""
        class_ = _class(value)
        if class_ is not None:
            methods = (self.flow.method(class_, name) for name in _ENTRIES)
            yield from (each for each in methods if each is not None)
        elif isinstance(value.site, FUNCTIONS):
            yield value.site

    def _called(self, function: Callee, functions: dict[Callee, None]) -> Iterator[Value]:
        """Notes the function and those of the project that it calls; yields the objects that they call."""
        if function in functions:
            return
        functions[function] = None
        for call in calls(function):
            for callee in self.flow.values(call.func):
                if isinstance(callee, (Instance, Made)):
                    yield callee
                elif isinstance(callee, Class) and isinstance(callee.site, ast.ClassDef):
                    made = self.flow.method(callee.site, "__init__")
                    if made is not None:
                        yield from self._called(made, functions)
                elif isinstance(callee.site, FUNCTIONS):
                    yield from self._called(callee.site, functions)

    @cached_property
    def classes(self) -> tuple[ast.ClassDef, ...]:
        """The project's classes whose objects are sent, with their bases in the project."""
        found: dict[ast.ClassDef, None] = {}
        for class_ in filter(None, map(_class, self.objects)):
            bases = (each for each in self.flow.bases(class_) if isinstance(each, ast.ClassDef))
            found.update(dict.fromkeys((class_, *bases)))
        return tuple(found)

    def runs(self, definition: ast.AST) -> bool:
        """Whether workers run a function of the project, or are sent objects of a class."""
        return definition in self.functions or definition in self.classes

    @cached_property
    def library_names(self) -> tuple[str, ...]:
        """The names of the libraries' functions that workers call, and of the objects whose methods they call."""
        return tuple(name for function in self.functions for call in calls(function) for name in self._library(call))

    def _library(self, call: ast.Call) -> Iterator[str]:
        for callee in self.flow.values(call.func):
            owner = callee.of if isinstance(callee, Method) else callee
            if isinstance(owner, (External, Made)):
                yield owner.name

    @cached_property
    def _methods(self) -> frozenset[str]:
        """The names of the methods that are called in the workers, of whatever."""
        found = (call.func for function in self.functions for call in calls(function))
        return frozenset(each.attr for each in found if isinstance(each, ast.Attribute))

    @cached_property
    def attributes_read(self) -> frozenset[str]:
        """The names of the attributes that are read in the workers, of whatever."""
        nodes = (each for function in self.functions for each in walk(function) if isinstance(each, ast.Attribute))
        return frozenset(each.attr for each in nodes if isinstance(each.ctx, ast.Load))

    @cached_property
    def does_work(self) -> bool:
        """Whether an item is read from a file, decoded or transformed, rather than indexed in memory."""
        transforms = any(isinstance(each, Made) and each.name.startswith(TRANSFORMS) for each in self.objects)
        reads = any(isinstance(each, Made) and has(each.name, Trait.FILE) for each in self.objects)
        reads = reads or any(name in _READS or name.startswith("pandas.read_") for name in self.library_names)
        return (
            transforms
            or reads
            or not all(has(each, Trait.CHEAP) for each in self.library_names)
            or bool(self._methods & _READING_METHODS)
        )

    @cached_property
    def draws(self) -> bool:
        """Whether reading an item draws random numbers, or may."""
        by_object = any(isinstance(each, Made) and may_draw_items(each.name) for each in self.objects)
        by_method = any(row.draws is Draws.YES for row in map(operator, self._methods) if row is not None)
        return by_object or by_method or any(map(may_draw_items, self.library_names))

    @property
    def is_sharded(self) -> bool:
        """Whether an iterable data set asks which worker it runs in."""
        return "torch.utils.data.get_worker_info" in self.library_names

    @cached_property
    def names_read(self) -> dict[tuple[Module, str], ast.Name]:
        """The names of the modules that the functions in them read, and where each is first read."""
        found: dict[tuple[Module, str], ast.Name] = {}
        for module, node in self._all_names_read:
            found.setdefault((module, node.id), node)
        return found

    @cached_property
    def _all_names_read(self) -> tuple[tuple[Module, ast.Name], ...]:
        found: list[tuple[Module, ast.Name]] = []
        for function in self.functions:
            module = self.flow.module_of(function)
            scopes = (function, *(each for each in module.ancestors(function) if isinstance(each, FUNCTIONS)))
            local = frozenset().union(*map(bound_names, scopes))
            names = (each for each in walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
            found += [
                (module, each) for each in names if each.id not in local and not is_of_comprehension(module, each)
            ]
        return tuple(found)

    def reads(self, module: Module, path: str) -> bool:
        """Whether the functions read a name of the module, or an attribute of one: ``opt`` or ``opt.root``.

        An attribute may be read in another module, where the same thing has another name: ``config.opt.root``.
        """
        name, _, attribute = path.partition(".")
        same = self.flow.read_module_name(module, name) if attribute else NOTHING
        for home, node in self._all_names_read:
            above = home.parent(node)
            is_read = not attribute or not isinstance(above, ast.Attribute) or above.attr == attribute
            is_same = node.id == name if home is module else not same.isdisjoint(self.flow.values(node))
            if is_same and is_read:
                return True
        return False


@kept
def calls(function: ast.AST) -> tuple[ast.Call, ...]:
    """The calls in a function."""
    return tuple(each for each in walk(function) if isinstance(each, ast.Call))


def _class(value: Value) -> ast.ClassDef | None:
    """The project's class that the value is an object of."""
    site = value.of.site if isinstance(value, Instance) and value.of is not None else None
    return site if isinstance(site, ast.ClassDef) else None


def _is_looked_into(above: ast.AST | None, node: ast.expr) -> bool:
    """``x`` of ``x.size``, ``x[0]``, ``x(image)``, ``x is None``."""
    if isinstance(above, ast.Compare):
        return all(isinstance(each, (ast.Is, ast.IsNot)) for each in above.ops)
    if isinstance(above, ast.Call):
        return above.func is node
    return isinstance(above, (ast.Attribute, ast.Subscript)) and above.value is node


def is_of_comprehension(module: Module, name: ast.Name) -> bool:
    """Whether a comprehension around the name binds it: ``x`` of ``[x for x in batch]``."""
    return any(
        is_name(part, name.id)
        for above in module.ancestors(name)
        if isinstance(above, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        for generator in above.generators
        if name not in walk(above.generators[0].iter)
        for part in walk(generator.target)
    )


def _package(name: str) -> str:
    return name.partition(".")[0]


def may_draw_items(name: str) -> bool:
    """Whether the library's function, or an object of its class, draws random numbers when it is called, or may.

    One that seeds them counts, too: a worker does not seed those of the script.
    """
    last = name.rpartition(".")[2]
    if seeded_by(name) & OF_WORKERS:
        return True
    if name.startswith("torchvision."):
        known = transform(last)
        return "Random" in name or last == "get_params" or may_draw(name) or (known is not None and known.draws)
    if name.startswith("torch."):
        return may_draw(name)
    return name.startswith(("random.", "numpy.random.", *TRANSFORMS)) or _MAY_DRAW.search(name) is not None


@lasting  # two rules ask, for each module of a project
def worker_code(flow: Flow, loader: Loader) -> WorkerCode:
    """What runs in a loader's workers."""
    return WorkerCode(flow, loader)
