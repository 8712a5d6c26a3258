"""Which arrays of one number does a loop make of what a device computes: ``loss.detach().cpu().numpy()``?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from codemods.facts.devices.readings import Reading, is_copy_to_host, is_on_device
from codemods.facts.numbers import is_without_dimensions
from codemods.facts.precision.floats import is_differentiated

if TYPE_CHECKING:
    from codemods.dataflow.flow import Flow
    from codemods.dataflow.source import Module


class ArrayOfOne(Reading):
    """What makes an array without dimensions of a tensor, which waits for the device as ``item()`` does."""


def array_of_one(flow: Flow, module: Module, node: ast.AST) -> ArrayOfOne | None:
    """The array that a node is; None of all else, be it of a tensor that is on the host."""
    match node:
        case ast.Call(ast.Attribute(tensor, "numpy"), [], []):
            pass
        case _:
            return None
    is_copied = False
    while True:
        match tensor:
            case ast.Call(ast.Attribute(inner, "detach"), [], []) | ast.Attribute(inner, "data"):
                tensor = inner
            case ast.Call(ast.Attribute(inner)) if is_copy_to_host(flow, tensor):
                tensor, is_copied = inner, True
            case _:
                break
    is_one = is_differentiated(module, tensor) or is_without_dimensions(flow, module, tensor)
    # Without a copy it is surely on the host, or fails.
    is_read = is_copied and is_one and is_on_device(flow, module, tensor)
    return ArrayOfOne(module, node, tensor, cuts=False) if is_read else None
