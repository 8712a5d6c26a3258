"""Which helpers copy to a device, in each call, what a constructor made on the host: the tables of a diffusion?

``extract(self.alphas, t)``, of ``torch.from_numpy(table).to(t.device)[t]``.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.dataflow.signatures import signature
from codemods.dataflow.source import FUNCTIONS
from codemods.dataflow.values import HostTensor, Made, SomeTensor, library_names
from codemods.facts.data.arrays import Arrays
from codemods.facts.devices.constant_copies import made_by
from codemods.facts.devices.devices import DeviceKind, device
from codemods.facts.devices.fillings import runs_often, why_item
from codemods.facts.loops import module_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codemods.dataflow.source import Callee, Module
    from codemods.facts.script import Script

_TENSORS = frozenset({"torch.from_numpy", "torch.as_tensor", "torch.tensor"})
_GIVEN = frozenset({"torch.as_tensor", "torch.tensor"})
"""What is given a device."""


@dataclass(frozen=True, eq=False)
class HelperCopy:
    """A copy of a parameter to a device, which is given an attribute that only a constructor sets."""

    call: ast.Call
    name: str
    """The parameter."""
    attribute: ast.expr
    """What it is given: ``self.alphas``."""
    home: Module
    made: ast.stmt
    """The statement of the constructor, and where it stands."""


def helper_copies(script: Script) -> Iterator[HelperCopy]:
    """The copies of the module that run again and again, in the order of the text."""
    if not script.may_use_cuda:
        return
    module = script.module
    copies = {
        each.call for each in script.transfers if each.module is module and each.device.kind is not DeviceKind.CPU
    }
    for call in module.nodes(ast.Call):
        name = _copied(script, call, is_transfer=call in copies)
        function = module.function(call)
        if name is None or not isinstance(function, FUNCTIONS) or not _is_parameter(function, name):
            continue
        if why_item(script, module, call) is not None or not script.may_run(module, call):
            continue
        found = next(_made_once(script, function, name), None) if runs_often(script, module, call) else None
        if found is not None:
            yield HelperCopy(call, name, *found)


def _copied(script: Script, call: ast.Call, *, is_transfer: bool) -> str | None:
    """The name of what the call copies: ``table`` of ``torch.from_numpy(table).float().to(device)``."""
    node: ast.expr = call
    if is_transfer and isinstance(call.func, ast.Attribute):
        node = call.func.value
    else:
        given = next((each.value for each in call.keywords if each.arg == "device"), None)
        if given is None or device(script.flow, given).kind is DeviceKind.CPU:
            return None
        if not library_names(script.flow.values(call.func)) & _GIVEN:
            return None
    while isinstance(node, ast.Call):
        if library_names(script.flow.values(node.func)) & _TENSORS:
            node = node.args[0] if node.args else node.func
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return None
    return node.id if isinstance(node, ast.Name) else None


def _is_parameter(function: Callee, name: str) -> bool:
    """Whether it is a parameter that is given nothing else in the function."""
    is_named = any(each.arg == name for each in signature(function).named)
    names = (each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id == name)
    return is_named and all(isinstance(each.ctx, ast.Load) for each in names)


def _made_once(script: Script, function: Callee, name: str) -> Iterator[tuple[ast.expr, Module, ast.stmt]]:
    """The attributes that callers give it, with where a constructor made them; nothing but constructors may."""
    flow, arrays = script.flow, Arrays(script.flow)
    for call in flow.callers(function):
        given, module = flow.bind(function, call).get(name), module_of(flow, call)
        caller = module.function(call)
        class_ = flow.owner(caller) if caller is not None else None
        family = flow.family(class_) if class_ is not None else ()
        constructors = [found for each in family if (found := flow.method(each, "__init__")) is not None]
        if caller in constructors or not isinstance(given, ast.Attribute):
            continue
        is_own = isinstance(given.value, ast.Name) and given.value.id == "self"
        if is_own and (arrays.array(module, given) is not None or _may_be_on_host(script, given)):
            made = [(module_of(flow, each), each) for each in made_by(script, constructors, given.attr)]
            made.sort(key=lambda pair: pair[0].function(pair[1]) not in constructors[:1])  # of the class itself first
            yield from ((given, home, each) for home, each in made[:1])


def _may_be_on_host(script: Script, node: ast.expr) -> bool:
    """Whether it is an array that NumPy returned, or a tensor that nothing is seen to move."""
    values = script.flow.values(node)
    return bool(values) and all(
        isinstance(each, (HostTensor, SomeTensor)) or (isinstance(each, Made) and each.name.startswith("numpy."))
        for each in values
    )
