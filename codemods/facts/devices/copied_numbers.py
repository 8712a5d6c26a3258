"""Which lists of numbers does a script make a tensor of, and copy to a device, again and again?"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.names import words
from codemods.dataflow.values import library_names
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.fillings import calls_of_chain, is_forward, runs_often, why_item
from codemods.facts.devices.identities import identity
from codemods.facts.devices.number_fills import number_fill
from codemods.library.fills import is_legacy, is_of_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Module
    from codemods.facts.script import Script

_OF_ARRAYS = words("torch.from_numpy torch.as_tensor")
_ARRAY = "numpy.array"
_FEW = 2
"""One number can be filled in on the device."""


@dataclass(frozen=True, eq=False)
class CopiedNumbers:
    """``torch.tensor([0.1, 0.2]).to(device)``: the numbers are written there, and so the same each time."""

    module: Module
    call: ast.Call
    """The copy, or what makes the tensor where it is given a device."""
    is_in_forward: bool
    """Whether a model makes it in each forward pass."""


def copied_numbers(script: Script) -> Iterator[CopiedNumbers]:
    """The lists of numbers that the module copies to what may be a GPU, in a loop or for each batch."""
    if not script.may_use_cuda:
        return
    module = script.module
    copies = [
        each.call for each in script.transfers if each.module is module and each.device.kind is not DeviceKind.CPU
    ]
    made = [each for each in module.nodes(ast.Call) if _is_given_device(script, each)]
    for call in (*copies, *made):
        steps = tuple(calls_of_chain(script, call, with_numbers=True))
        maker = steps[-1] if steps else None
        if maker is None or not _is_of_written_numbers(script, maker) or (call in made and call is not maker):
            continue
        if why_item(script, module, call) is None and script.may_run(module, call) and runs_often(script, module, call):
            function = module.function(call)
            yield CopiedNumbers(module, call, function is not None and is_forward(script, function))


def _is_given_device(script: Script, call: ast.Call) -> bool:
    """``torch.tensor([0.1, 0.2], device=device)``."""
    given = next((each.value for each in call.keywords if each.arg == "device"), None)
    return given is not None and device(script.flow, given).kind is not DeviceKind.CPU


def _is_of_written_numbers(script: Script, maker: ast.Call) -> bool:
    """Whether it makes a tensor of a list of numbers that cannot be filled in where it goes."""
    names = library_names(script.flow.values(maker.func))
    name = next(iter(names)) if len(names) == 1 else ""
    given = maker.args[0] if len(maker.args) == 1 else None
    if name in _OF_ARRAYS:
        while isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "astype":
            given = given.func.value
        is_array = isinstance(given, ast.Call) and library_names(script.flow.values(given.func)) == {_ARRAY}
        given = given.args[0] if is_array and given.args else given  # type: ignore[union-attr]
        if identity(script, maker) is not None:
            return False
    elif not (is_of_numbers(name) or is_legacy(name)) or number_fill(script, name, maker) is not None:
        return False
    return isinstance(given, (ast.List, ast.Tuple)) and _count(given) >= _FEW


def _count(node: ast.expr) -> int:
    """How many numbers are written in a list; none where anything else is."""
    match node:
        case ast.List(items) | ast.Tuple(items):
            counts = [_count(each) for each in items]
            return sum(counts) if all(counts) else 0
        case ast.UnaryOp(_, operand):
            return _count(operand)
        case ast.BinOp(left, _, right):
            return min(_count(left), _count(right), 1)
    return int(isinstance(node, ast.Constant) and isinstance(node.value, (int, float)))
