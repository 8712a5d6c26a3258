"""A unit: the own code of a module, function or lambda, which is interpreted as a whole."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codemods.dataflow import names

if TYPE_CHECKING:
    from codemods.dataflow.environments import Environment
    from codemods.dataflow.source import Callee, Module


@dataclass(eq=False)
class Unit:
    """The own code of a module, function or lambda, without that of the functions in it."""

    node: ast.Module | Callee
    module: Module
    outer: Unit | None
    owner: ast.ClassDef | None = None
    """The class of which it is a method."""
    scope: names.Scope = field(init=False)
    shared: frozenset[str] = field(init=False)
    """Names that code of several units binds (``global``, ``nonlocal``): joined, not followed."""
    index: int = 0
    """Its place in the order of interpretation."""
    loops: dict[ast.stmt, Environment] = field(default_factory=dict)
    """What may be bound where a pass through a loop starts, as far as it was seen."""

    def __post_init__(self) -> None:
        self.scope = names.scope_of(self.node)
        self.shared = self.scope.global_ | self.scope.nonlocal_ | self._bound_elsewhere()

    def _bound_elsewhere(self) -> frozenset[str]:
        """The names of the unit that functions in it declare ``global`` or ``nonlocal``."""
        found: set[str] = set()
        if isinstance(self.node, ast.Module):
            found.update(name for each in self.module.nodes(ast.Global) for name in each.names)
        else:
            inner = (each for each in self.module.nodes(ast.Nonlocal) if self.node in self.module.ancestors(each))
            found.update(name for each in inner for name in each.names)
        return frozenset(found)

    @property
    def decorators(self) -> frozenset[str]:
        """The last part of the name of each decorator: ``functools.cached_property`` → ``cached_property``."""
        return names.decorators(self.node)

    @property
    def binds_self(self) -> bool:
        """Whether its first parameter is the object, or the class, whose method it is."""
        return self.owner is not None and "staticmethod" not in self.decorators
