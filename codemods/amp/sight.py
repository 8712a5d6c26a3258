"""Where what stands beside the scaler is seen: in its function, in its class, in what runs after it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.names import bound_names
from codemods.dataflow.placement import dominates
from codemods.dataflow.source import is_main_guard, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codemods.amp.scaler_scope import Home
    from codemods.dataflow.source import Callee
    from codemods.facts.reach import Reach
    from codemods.facts.script import Script

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Sight:
    """Says of places whether what is bound at a home is bound there."""

    def __init__(self, script: Script, reach: Reach) -> None:
        self._script = script
        self._module = script.module
        self._reach = reach
        self._after: dict[Callee, bool] = {}

    def is_seen(self, home: Home | None, place: ast.stmt) -> bool:
        """Whether what the header at the home binds is bound at the place."""
        module = self._module
        if home is None:
            return False
        function = module.function(place)
        if home.owner is not None:
            return isinstance(function, _FUNCTIONS) and self._script.flow.owner(function) is home.owner
        is_global = {module.function(each) for each in home.anchors} == {None}
        if is_global and function is not None:
            return self._runs_after(home.anchors, function) and not self._is_imported_alone(home.anchors, function)
        return any(dominates(module, each, place) for each in home.anchors)

    def _is_imported_alone(self, anchors: Sequence[ast.stmt], function: Callee) -> bool:
        """Whether another file may import the function, and call it, though nothing below the guard has run."""
        module = self._module

        def is_guarded(node: ast.AST) -> bool:
            return any(is_main_guard(each) for each in module.ancestors(node))

        if not any(map(is_guarded, anchors)):
            return False
        own_names = bound_names(function)
        read = {each.id for each in walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        bindings: dict[str, list[bool]] = {}
        for name in module.nodes(ast.Name):
            if isinstance(name.ctx, ast.Store) and module.function(name) is None and name.id in read - own_names:
                bindings.setdefault(name.id, []).append(is_guarded(name))
        # A function that reads what is bound under the guard alone is no use to others.
        return not any(all(each) for each in bindings.values())

    def _runs_after(self, anchors: Sequence[ast.stmt], function: Callee) -> bool:
        """Whether every run of the function starts once the header is there, as far as the module's calls say."""
        if function not in self._after:
            module, flow = self._module, self._script.flow
            runs = [
                module.statement(call)
                for call in module.nodes(ast.Call)
                if module.function(call) is None and function in self._reach.functions([call])
            ]
            is_after = all(any(dominates(module, each, run) for each in anchors) for run in runs)
            self._after[function] = is_after and bool(runs) and not flow.escapes(function)
        return self._after[function]
