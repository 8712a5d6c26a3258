"""What looks like a batch or a part of one: what a loop names, what next() returns, a field of a dictionary."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import is_name, walk

if TYPE_CHECKING:
    from codemods.dataflow.source import Module


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_value_of_dictionary(module: Module, node: ast.expr) -> bool:
    """``batch["x"]``, ``x`` of ``batch.items()`` or ``batch.values()``."""
    if isinstance(node, ast.Subscript):
        return is_field(module, node)
    for above in module.ancestors(node):
        for loop in above.generators if isinstance(above, _COMPREHENSIONS) else [above]:
            if isinstance(loop, (ast.For, ast.comprehension)) and isinstance(loop.iter, ast.Call):
                last = loop.target.elts[-1] if isinstance(loop.target, ast.Tuple) else loop.target
                method = getattr(loop.iter.func, "attr", "")
                if ast.dump(last).replace("Store()", "Load()") == ast.dump(node) and method in {"items", "values"}:
                    return True
    return False


def is_field(module: Module, item: ast.Subscript) -> bool:
    """Whether it is an item of a dictionary, which is only bound anew: ``batch["x"]``, ``batch[key]`` of its keys."""
    if isinstance(item.slice, ast.Constant):
        return isinstance(item.slice.value, str)
    if not isinstance(item.slice, ast.Name):
        return False
    for above in module.ancestors(item):
        if isinstance(above, (ast.For, ast.AsyncFor)) and _binds_key(above.target, item.slice.id):
            keys = above.iter
            while isinstance(keys, ast.Call) and (keys.args or isinstance(keys.func, ast.Attribute)):
                keys = keys.args[0] if keys.args else keys.func.value  # type: ignore[attr-defined]
            return ast.dump(keys) == ast.dump(item.value).replace("Store()", "Load()")
    return False


def _binds_key(target: ast.expr, name: str) -> bool:
    """``for name in batch``, ``for name, x in batch.items()``."""
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return is_name(first, name)


def is_element(module: Module, moved: ast.expr) -> bool:
    """Whether what is moved is named by a loop around it, or by ``next()``, or is a part or a view of that."""
    root = moved
    while True:
        if _is_next(root):
            return True
        if isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        elif isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
            root = root.func.value
        else:
            return isinstance(root, ast.Name) and _is_target(module, root)


def _is_target(module: Module, name: ast.Name) -> bool:
    """Whether a loop around the name binds it, or ``name, … = next(…)`` in its function does."""
    for above in module.ancestors(name):
        targets: list[ast.expr] = [above.target] if isinstance(above, (ast.For, ast.AsyncFor)) else []
        if isinstance(above, _COMPREHENSIONS):
            targets = [each.target for each in above.generators]
        if any(binds(target, name.id) for target in targets):
            return True
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
    function = module.function(name)
    return any(
        _is_next(each.value)
        and module.function(each) is function
        and any(binds(target, name.id) for target in each.targets)
        for each in module.nodes(ast.Assign)
    )


def _is_next(node: ast.expr) -> bool:
    """``next(batches)``, ``batches.next()``."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    is_method = isinstance(function, ast.Attribute) and function.attr in {"next", "__next__"}
    return is_method or (isinstance(function, ast.Name) and function.id == "next")


def binds(target: ast.expr, name: str) -> bool:
    """Whether what is assigned to the target gives the name a value."""
    return any(is_name(each, name) for each in walk(target))
