"""Where a script asks for the spaces of gym's environments: what is observed, and what may be done."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from codemods.dataflow.imports import imported_packages
from codemods.dataflow.source import walk
from codemods.facts.cost.definitions import origin
from codemods.library.spaces import LARGER, PACKAGES, SPACES

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow


class Spaces:
    """Says which expressions are spaces, or ask for one."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow

    @cached_property
    def are_used(self) -> bool:
        """Whether a module of the project imports gym, and none a package whose environments may be larger."""
        packages = set[str]().union(*map(imported_packages, self._flow.modules))
        return bool(packages & PACKAGES) and not packages & LARGER

    @cached_property
    def of_the_project(self) -> frozenset[str]:
        """The attributes that the project gives spaces of its own: ``self.observation_space = spaces.Box(...)``."""
        found = {
            target.attr
            for module in self._flow.modules
            for target in module.nodes(ast.Attribute)
            if target.attr in SPACES and isinstance(target.ctx, ast.Store)
            if not self._passes_on(module.statement(target))
        }
        return frozenset(found | {f"single_{each}" for each in found})

    def _passes_on(self, statement: ast.stmt) -> bool:
        """Whether the statement only gives a space another place: ``self.action_space = env.action_space``.

        ``self.action_space = action_space`` does, as a vector of environments is given that of one of them, where the
        project makes no spaces.
        """
        value = statement.value if isinstance(statement, ast.Assign) else None
        is_handed = isinstance(value, ast.Name) and value.id in SPACES and not self._makes_spaces
        return is_handed or (isinstance(value, ast.Attribute) and value.attr in SPACES)

    @cached_property
    def _makes_spaces(self) -> bool:
        """Whether a module of the project names ``gym.spaces``."""
        modules = self._flow.modules
        return any(
            "spaces" in f"{getattr(each, 'module', None)}.{alias.name}".split(".")
            for module in modules
            for each in module.nodes(ast.Import, ast.ImportFrom)
            for alias in each.names
        ) or any(each.attr == "spaces" for module in modules for each in module.nodes(ast.Attribute))

    def are_asked_for(self, node: ast.expr) -> bool:
        """Whether an expression holds a space, or the size of one."""
        attributes = [each for each in walk(node) if isinstance(each, ast.Attribute)]
        return any(each.attr in SPACES or self.is_one(each.value) for each in attributes)

    def is_one(self, node: ast.expr) -> bool:
        """Whether the expression is a space of an environment, or a name that is given one somewhere else."""
        bound = origin(self._flow, node) if self.are_used and isinstance(node, ast.Name) else node
        return self.are_used and isinstance(bound, ast.Attribute) and bound.attr in SPACES
