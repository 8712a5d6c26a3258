"""What the only statement that binds a name gives it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow


def binding(flow: Flow, name: ast.Name) -> ast.expr | None:
    """What the only statement that binds a name in its function or module gives it."""
    module = next((each for each in flow.modules if each.holds(name)), None)
    if module is None:
        return None
    function = module.function(name)
    for scope in (function, None) if function is not None else (None,):
        bound = [
            each
            for each in module.nodes(ast.Name)
            if each.id == name.id and not isinstance(each.ctx, ast.Load) and module.function(each) is scope
        ]
        if len(bound) == 1:
            return _given(module.statement(bound[0]), bound[0])
        if bound or (scope is not None and name.id in signature(scope).names):
            return None
    return None


def _given(statement: ast.stmt, name: ast.Name) -> ast.expr | None:
    """What an assignment with one target gives the name: ``x = 1``, ``x, y = 1, 2``."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,), value = statement.targets, statement.value
    if target is name:
        return value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return None
    is_starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    pairs = zip(target.elts, value.elts, strict=True)
    return None if is_starred else next((given for each, given in pairs if each is name), None)
