"""The modules of the project: which load which, and what an import of one binds."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.heap import Heap
from codemods.dataflow.namespaces import Namespaces
from codemods.dataflow.source import is_main_guard, last_name, lasting
from codemods.dataflow.values import NOTHING, Class, Function, Values, external, joined, library_names, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.source import Module

_BY_NAME = frozenset({"import_module", "__import__"})
_LOOKING_UP = ("eval", "globals")
_EVAL, _GLOBALS = (f"builtins.{each}" for each in _LOOKING_UP)
_RUNNERS = frozenset({"pytest", "unittest"})
_AMONG_TESTS = re.compile(r"(^|[/\\])tests?[/\\](.*[/\\])?test_[^/\\]*\.py$")


class Imports(Heap):
    """What the modules import, of each other and of libraries."""

    def __init__(self, modules: Sequence[Module]) -> None:
        super().__init__(modules)
        self._namespaces = Namespaces(modules)
        self._by_name = self._namespaces.modules
        self._packages = frozenset(each for name in self._by_name for each in _with_parents(name))
        """The names of the modules, and of the directories they are in, which may be imported, too."""
        self._stars = {module: tuple(dict.fromkeys(self._star_imports(module))) for module in modules}

    # Which modules load which.

    def together(self, module: Module, scripts: Sequence[Module]) -> tuple[Module, ...]:
        """The modules that may run in one process with this one: of each script that imports it, all that it imports.

        Unit tests try out what other scripts are for: what they import besides says nothing of these.

        Args:
            module: The module.
            scripts: The modules that are run.
        """
        importing = [each for each in scripts if module in self._imported_by(each)]
        programs = [each for each in importing if each is module or not is_test_file(each)] or importing
        found = set().union(*map(self._imported_by, programs)) or self._imported_by(module)
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
        """The modules of the project that a module loads, under its main guard if it runs."""
        for node in module.nodes(ast.Import, ast.ImportFrom):
            if runs or not any(is_main_guard(each) for each in module.ancestors(node)):
                yield from self.loaded(module, node)
        yield from self.loaded_by_name(module)

    def loaded(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[Module]:
        """The modules of the project that an import statement of the module loads, packages around them too."""
        yield from (self._by_name[each] for each in self.imported_names(module, node) if each in self._by_name)

    def loaded_by_name(self, module: Module) -> Iterator[Module]:
        """The modules of the project that the module may load by a name that it computes.

        Those that it names, by options that users choose from, and those of packages that it names.
        """
        if any(computed_imports(module)):
            named = (*module.local.values(), *([module.name] if module.is_package else []))
            starts = tuple(f"{each}." for each in named)
            yield from (each for name, each in self._by_name.items() if name in named or name.startswith(starts))

    def calls_computed_names(self, module: Module) -> bool:
        """Whether it calls what a name stands for that it computes: ``eval(args.model)(…)``, ``globals()[name](…)``."""
        for call in module.nodes(ast.Call) if any(f"{each}(" in module.text for each in _LOOKING_UP) else ():
            match call.func:
                case ast.Call(function, [name, *_]) if library_names(self.values(function)) == {_EVAL}:
                    pass
                case ast.Subscript(ast.Call(function, []), name) if library_names(self.values(function)) == {_GLOBALS}:
                    pass
                case _:
                    continue
            if not isinstance(name, ast.Constant):
                return True
        return False

    def imported_names(self, module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """The dotted names of what an import statement may load, packages around them too."""
        source = names.source(node, module.package) if isinstance(node, ast.ImportFrom) else ""
        targets = [f"{source}.{each.name}" if source else each.name for each in node.names]
        for target in (*targets, source):
            yield from _with_parents(module.resolved(target))

    # What an import binds.

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
        found = frozenset(each for each in own if isinstance(each, (Class, Function)))
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

    def from_star(self, module: Module, name: str) -> Values | None:
        """What a name is that a star import of a module of the project binds in this one; None where none does."""
        sources = self._namespaces.starred(module, name)
        return joined(*[self.imported(f"{each}.{name}") for each in sources]) if sources else None

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


def computed_imports(module: Module) -> Iterator[ast.Call]:
    """Where the module imports another one by a name that is computed: ``import_module(f"models.{name}")``."""
    for call in module.nodes(ast.Call) if any(each in module.text for each in _BY_NAME) else ():
        is_written = bool(call.args) and isinstance(call.args[0], ast.Constant)
        if last_name(call.func) in _BY_NAME and not is_written:
            yield call


def _with_parents(name: str) -> Iterator[str]:
    """A dotted name and those of the packages around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def imported_packages(module: Module) -> set[str]:
    """The first parts of the names of what a module imports, but for its neighbours: ``torch`` of ``torch.nn``."""
    found = {each.name.partition(".")[0] for node in module.nodes(ast.Import) for each in node.names}
    return found | {(node.module or "").partition(".")[0] for node in module.nodes(ast.ImportFrom) if not node.level}


@lasting
def is_test_file(module: Module) -> bool:
    """Whether a test runner collects the module: it imports one and has tests, or lies where tests do."""
    imported = imported_packages(module)
    has_tests = any(each.name.startswith("test") for each in module.nodes(ast.FunctionDef))
    return has_tests and (not imported.isdisjoint(_RUNNERS) or _AMONG_TESTS.search(module.path) is not None)
