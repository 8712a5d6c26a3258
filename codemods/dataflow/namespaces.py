"""Which names does a module of the project offer to those that import it?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow import names
from codemods.dataflow.source import lasting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codemods.dataflow.source import Module


class Namespaces:
    """The modules of a project, and the names in them, as far as import statements say."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules: Mapping[str, Module] = {module.name: module for module in modules}

    @lasting
    def bound(self, module: Module) -> frozenset[str]:
        """The names that the module's own code binds, those of its star imports and of submodules too."""
        return self._bound(module, frozenset())

    def exported(self, module: Module) -> frozenset[str]:
        """The names that ``from module import *`` binds."""
        return self._exported(module, frozenset())

    def starred(self, module: Module, name: str) -> Sequence[str]:
        """The modules of the project from which a star import of the module binds the name."""
        sources = dict.fromkeys(names.star_imports(module))
        return [each for each in sources if each in self.modules and name in self.exported(self.modules[each])]

    def hides_submodule(self, package: str, name: str) -> bool:
        """Whether the name of a submodule stands for a thing in it: ``from .resnet import resnet``, in the package."""
        module = self.modules.get(package)
        return module is not None and any(
            isinstance(each, ast.ImportFrom)
            and module.resolved(names.source(each, module.package)) == f"{package}.{name}"
            and self._binds(each, module, name)
            for each in module.tree.body
        )

    def _binds(self, statement: ast.ImportFrom, module: Module, name: str) -> bool:
        if statement.names[0].name == "*":
            return name in self._taken(module.resolved(names.source(statement, module.package)), frozenset())
        return any((each.asname or each.name) == name for each in statement.names)

    def _bound(self, module: Module, around: frozenset[Module]) -> frozenset[str]:
        found = names.bound_names(module.tree) | self._submodules(module)
        return found.union(*[self._taken(each, around | {module}) for each in names.star_imports(module)])

    def _taken(self, source: str, around: frozenset[Module]) -> frozenset[str]:
        """The names that a star import of a module binds in modules that are imported by one another."""
        module = self.modules.get(source)
        return frozenset() if module is None or module in around else self._exported(module, around)

    def _exported(self, module: Module, around: frozenset[Module]) -> frozenset[str]:
        listed = _listed(module)
        if listed is not None:
            return listed
        bound = self._bound(module, around) if around else self.bound(module)
        return frozenset(each for each in bound if not each.startswith("_"))

    def _submodules(self, package: Module) -> frozenset[str]:
        """The modules directly below a package that it imports itself, which makes them attributes of it."""
        start = f"{package.name}."
        imports = package.tree.body if package.is_package else []
        sources = (
            package.resolved(names.source(each, package.package))
            for each in imports
            if isinstance(each, ast.ImportFrom)
        )
        below = (each.removeprefix(start).partition(".")[0] for each in sources if each.startswith(start))
        return frozenset(each for each in below if start + each in self.modules)


def _listed(module: Module) -> frozenset[str] | None:
    """What ``__all__`` lists; None where there is none, or it is not written out in one statement."""
    uses = [each for each in module.nodes(ast.Name) if each.id == "__all__"]
    if len(uses) != 1:
        return None
    match module.parent(uses[0]):
        case ast.Assign([ast.Name()], ast.List(elements) | ast.Tuple(elements)):
            texts = [each.value for each in elements if isinstance(each, ast.Constant)]
            listed = [each for each in texts if isinstance(each, str)]
            return frozenset(listed) if len(listed) == len(elements) else None
    return None
