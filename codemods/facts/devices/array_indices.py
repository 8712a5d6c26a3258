"""Which arrays of NumPy's are an index of tensors that may be on a device, so that each use copies them there?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.facts.data.arrays import Arrays
from codemods.facts.devices.fillings import may_be_there, runs_often, why_item

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee
    from codemods.facts.script import Script


@dataclass(frozen=True, eq=False)
class ArrayIndex:
    """``order`` of ``x[order]``, by whatever name it goes in its function."""

    name: ast.Name
    """Where it is an index first."""
    tensor: ast.expr
    """What is indexed there: ``x``."""
    uses: int
    """How many times the function names it as such an index."""


def array_indices(script: Script) -> Iterator[ArrayIndex]:
    """The arrays by which the module indexes tensors again and again, each once for its function."""
    module, arrays = script.module, Arrays(script.flow)
    found: dict[tuple[Callee | None, str], list[tuple[ast.Name, ast.expr]]] = {}
    for node in module.nodes(ast.Subscript) if script.may_use_cuda else ():
        if not may_be_there(script, node.value):
            continue
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            if isinstance(part, ast.Name) and arrays.array(module, part) is not None:
                found.setdefault((module.function(node), part.id), []).append((part, node.value))
    for uses in found.values():
        name, tensor = uses[0]
        is_item = why_item(script, module, name) is not None
        if not is_item and script.may_run(module, name) and runs_often(script, module, name):
            yield ArrayIndex(name, tensor, len(uses))
