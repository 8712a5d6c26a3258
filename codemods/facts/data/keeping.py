"""Does the script keep the batches of a loader: in a list, in a dictionary, in a comprehension?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import Batch, Container
from codemods.facts.reason import HERE, Reason, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module
    from codemods.facts.data.loaders import Loader
    from codemods.facts.script import Script


def why_kept(script: Script, loader: Loader) -> Reason | None:
    """Where its batches are kept, and workers would hold a file open for each of their tensors."""
    flow = script.flow
    loops = [each.node for each in loader.passes]
    for module in script.modules:
        for node in module.nodes(ast.Call, ast.Assign, ast.AugAssign, ast.ListComp):
            for kept, where in _keeping(node, loops):
                is_new = where is not None and _is_new_each_time(flow, module, where, loops)
                if not is_new and _holds_batches(flow, kept, loader):
                    text = f"its batches are kept, and each tensor from a worker holds a file open ({HERE})"
                    return Reason("batches-kept", text, (at(module, module.statement(node)),))
    return None


def _keeping(node: ast.AST, loops: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What is put where: ``kept.append(x)``, ``kept[i] = x``, ``kept += [x]``, ``list(loader)``."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"append", "extend"}:
            yield from ((each, node.func.value) for each in node.args)
        elif node in loops and isinstance(node.func, ast.Name) and node.func.id in {"list", "tuple"}:
            yield node, None
    elif isinstance(node, ast.Assign):
        yield from ((node.value, each.value) for each in node.targets if isinstance(each, ast.Subscript))
    elif isinstance(node, ast.AugAssign):
        yield node.value, node.target
    elif isinstance(node, ast.ListComp) and node in loops:
        yield node.elt, None


def _is_new_each_time(flow: Flow, module: Module, container: ast.expr, loops: Sequence[ast.AST]) -> bool:
    """Whether the container is a batch itself, or made in the pass of the loop in which something is put into it."""
    around = [each for each in module.ancestors(container) if each in loops]
    values = flow.values(container)
    return all(
        isinstance(each, Batch) or (isinstance(each, Container) and any(_holds(loop, each.site) for loop in around))
        for each in values
    ) and bool(values)


def _holds(loop: ast.AST, site: ast.AST) -> bool:
    return any(each is site for each in walk(loop))


def _holds_batches(flow: Flow, node: ast.expr, loader: Loader) -> bool:
    """Whether the node is a batch of the loader, a part of one, or a list of such."""
    values = flow.values(node)
    items = (each for value in values if isinstance(value, Container) for each in flow.items(value))
    return any(isinstance(each, Batch) and each.of == loader.value for each in (*values, *items))
