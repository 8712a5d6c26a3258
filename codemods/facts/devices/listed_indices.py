"""Which indices does a model count in Python in each pass, so that each use copies them to where the tensor is?

``rows = torch.tensor([i for i in range(n) for j in range(i)])`` and ``x[:, rows, columns]``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.source import walk
from codemods.dataflow.values import library_names
from codemods.facts.devices.fillings import may_be_there, runs_often, why_item
from codemods.facts.reaching import reaching
from codemods.library.fills import is_legacy, is_of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.facts.script import Script

_RANGE = "builtins.range"


@dataclass(frozen=True, eq=False)
class ListedIndex:
    """What makes a tensor of numbers that Python counts, under a name that is an index."""

    call: ast.Call
    tensor: ast.expr
    """What is indexed: ``x``."""
    use: ast.Name
    """Where it is an index first."""


def listed_indices(script: Script) -> Iterator[ListedIndex]:
    """Those that the module makes again and again, in the order of the text."""
    module = script.module
    found: dict[ast.expr, ListedIndex] = {}
    for node in module.nodes(ast.Subscript) if script.may_use_cuda else ():
        scope = module.function(node) or module.tree
        for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            given = reaching(scope).given(part) if isinstance(part, ast.Name) else None
            for made in given or ():
                if isinstance(part, ast.Name) and isinstance(made, ast.Call) and _is_listed(script, made):
                    found.setdefault(made, ListedIndex(made, node.value, part))
    for each in found.values():
        is_site = script.may_run(module, each.call) and runs_often(script, module, each.call)
        if is_site and may_be_there(script, each.tensor) and why_item(script, module, each.call) is None:
            yield each


def _is_listed(script: Script, made: ast.Call) -> bool:
    """``torch.tensor([i for i in range(n) for j in range(i)])``, on the host."""
    match made:
        case ast.Call(args=[ast.ListComp() as given], keywords=[] | [ast.keyword("dtype")]):
            names = library_names(script.flow.values(made.func))
            is_tensor = bool(names) and all(is_of_numbers(each) or is_legacy(each) for each in names)
            return is_tensor and all(_counts(script, each) for each in given.generators) and _is_counted(given)
    return False


def _counts(script: Script, part: ast.comprehension) -> bool:
    return isinstance(part.iter, ast.Call) and library_names(script.flow.values(part.iter.func)) == {_RANGE}


def _is_counted(given: ast.ListComp) -> bool:
    """Whether its elements are numbers of what is counted alone."""
    counted = {each.id for part in given.generators for each in walk(part.target) if isinstance(each, ast.Name)}
    parts = list(walk(given.elt))
    is_plain = all(isinstance(each, (ast.Name, ast.Constant, ast.BinOp, ast.operator, ast.Load)) for each in parts)
    return is_plain and {each.id for each in parts if isinstance(each, ast.Name)} <= counted
