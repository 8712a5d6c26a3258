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
            statement = module.parent(bound[0])
            is_plain = isinstance(statement, ast.Assign) and statement.targets == bound
            return statement.value if is_plain and isinstance(statement, ast.Assign) else None
        if bound or (scope is not None and name.id in signature(scope).names):
            return None
    return None
