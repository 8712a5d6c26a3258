"""Whether a project may compute complex numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.dataflow.source import lasting
from codemods.dataflow.values import library_names
from codemods.library.complexes import FUNCTIONS, NAMES, PACKAGES

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow


@lasting
def may_be_computed(flow: Flow) -> bool:
    """Whether any module of the project names what computes complex numbers, or asks for them.

    Signals and images that are read are real: who reads complex ones names them somewhere.
    """
    return any(
        _names_complex(flow, node)
        for module in flow.modules
        for node in module.nodes(ast.Constant, ast.keyword, ast.alias, ast.Attribute, ast.Name)
    )


def _names_complex(flow: Flow, node: ast.AST) -> bool:
    match node:
        case ast.Constant(value):
            return isinstance(value, complex) or (isinstance(value, str) and value in NAMES)
        case ast.keyword(name) | ast.alias(name):
            return name in NAMES
        case ast.Attribute(attr=name) | ast.Name(id=name):
            found = library_names(flow.values(node))
            return name in NAMES or any(each in FUNCTIONS or each.startswith(PACKAGES) for each in found)
    return False
